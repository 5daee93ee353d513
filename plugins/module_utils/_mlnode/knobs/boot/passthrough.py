# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The parameter iommu as `auto`: the host's own devices use DMA without translation if this helps.

With translation, each packet from a NIC to a GPU's memory passes the root complex and costs an entry of the
IOMMU's cache. iommu=pt keeps the IOMMU on, with translation for the devices of guests. It does not switch an
IOMMU on: AMD's is on by default, Intel's with intel_iommu=on or if the kernel is built so.
"""

from __future__ import annotations

import re

from ...engine.kind import Facts
from ...host.host import Host
from ...model import values
from ...model.record import NamedTuple
from ...topology.model import Topology

AUTO = "auto"
#: The one parameter that takes it; mitigations=auto and others are the kernel's own words
PARAMETER = "iommu"

#: Machines whose host decides
_GUESTS = ("virtual machine", "container")

_X86, _ARM = "iommu=pt", "iommu.passthrough=1"
#: Since then an identity domain and address spaces of processes (PASID) can be used together:
#: "iommu/arm-smmu-v3: Allow IDENTITY/BLOCKED to be set while PASID is used". On older kernels a GPU that
#: shares page tables with CUDA programs (ATS, Grace) would lose PASID.
_ARM_SINCE = (6, 11)

#: drivers/iommu/amd/init.c: iommu_snp_enable() gives up SNP if the default is passthrough
_SNP = "/sys/module/kvm_amd/parameters/sev_snp"


def names(parameter: str) -> tuple[str, ...]:
    """The possible names of a setting's parameter."""
    return (parameter, _ARM.partition("=")[0]) if parameter == PARAMETER else (parameter,)


class Choice(NamedTuple):
    """The word for a machine, or why it gets none. needless: this machine does not need the word."""

    word: str = ""
    reason: str = ""
    needless: bool = False


def words(host: Host, machine: Topology, facts: Facts) -> Choice:
    """The word for this machine, or why it gets none."""
    kind = machine.machine.kind
    if kind in _GUESTS:
        return Choice(reason=f"this is a {kind}: its host decides", needless=True)
    if kind != "bare metal":
        return Choice(reason="the kind of this machine is unknown, and with it whether a host decides")
    cards = [device for device in machine.rdma if device.address is not None]
    if not machine.gpus or not cards:
        lacking = "GPU" if cards else "RDMA device on PCIe"
        reason = f"no {lacking} is here, so no traffic between a GPU and a NIC is translated"
        return Choice(reason=reason, needless=True)
    if host.value(_SNP).text == "Y":
        return Choice(reason=f"{_SNP} is Y: guests of SEV-SNP need the translation")
    if not re.search(r"^CPU implementer\s*:", host.value("/proc/cpuinfo").text or "", re.MULTILINE):
        return Choice(_X86)
    version = values.kernel_version(facts.kernel_release())
    if version is None or version < _ARM_SINCE:
        return Choice(
            reason=f"kernel {facts.kernel_release() or 'of unknown version'}: before 6.11 arm-smmu-v3 "
            "without translation breaks CUDA on GPUs that share page tables with programs; instead of "
            "auto, declare iommu.passthrough: 1 if this kernel has the change"
        )
    return Choice(_ARM)
