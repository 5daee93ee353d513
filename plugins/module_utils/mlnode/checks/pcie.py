# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""PCIe of NICs and GPUs: links, payloads, place, redirection, the IOMMU.

Only root can read all of configuration space; for other users those checks are unknown. What can be
declared, and the defaults with their reasons: pcie_values.py.
"""

from __future__ import annotations

from typing import Any, Mapping

from ..host import Host
from ..topology.model import Topology
from . import pcie_acs, pcie_iommu, pcie_link, pcie_place, pcie_subjects, pcie_tuning
from .model import Check

#: Every name a check of this file can have
NAMES = (
    pcie_link.NAME,
    *pcie_tuning.NAMES,
    *pcie_place.NAMES,
    pcie_acs.NAME,
    pcie_iommu.NAME,
)


def checks(host: Host, topology: Topology, expect: Mapping[str, Any]) -> list[Check]:
    """Raises DeclarationError for a declared value that cannot be."""
    subjects = pcie_subjects.of(topology, expect)
    return [
        *pcie_link.checks(host, subjects),
        *pcie_tuning.checks(host, subjects),
        *pcie_place.checks(host, subjects),
        *pcie_acs.checks(host, subjects),
        *pcie_iommu.checks(host, subjects),
    ]
