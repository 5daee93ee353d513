# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""PCIe of NICs and GPUs: links, payloads, place, redirection, the IOMMU.

Only root can read the whole configuration space; for other users those checks are unknown. Keys and defaults
with their reasons: pcie_values.py.
"""

from __future__ import annotations

from typing import Iterator

from ...host.host import Host
from ...topology.model import Topology
from ..expect import Expectations
from ..model import Check
from . import acs, iommu, link, place, tuning
from . import subjects as pcie_subjects

#: Names of all checks in this folder
NAMES = (link.NAME, *tuning.NAMES, *place.NAMES, acs.NAME, iommu.NAME)


def checks(host: Host, topology: Topology, expect: Expectations) -> Iterator[Check]:
    """Yield findings one by one: an error in one part keeps earlier findings."""
    subjects = pcie_subjects.subjects(topology, expect)
    for part in (link, tuning, place, acs, iommu):
        yield from part.checks(host, subjects)
