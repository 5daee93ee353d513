# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Facts about each parameter of the command line: the reason for a value and the cost of a deviation."""

from __future__ import annotations

from ...engine.kind import Info
from ...model.setting import Severity

_SOURCE = "kernel-parameters.txt"
_HUGE = "transhuge.rst"
_IDLE = "waking from a deep idle state costs tens to hundreds of microseconds; the value is a state's index"
_APART = "CPUs that serve requests are kept free of the scheduler, the tick, RCU and interrupts"

#: Parameter → severity, reason, source
_REASONS: dict[str, tuple[Severity, str, str]] = {
    "transparent_hugepage": (Severity.MEDIUM, "under always any process may stall in compaction", _HUGE),
    "numa_balancing": (Severity.MEDIUM, "page migration stalls ranks that are pinned already", _SOURCE),
    "iommu": (Severity.MEDIUM, "pt spares the devices of the host the translation of each DMA", _SOURCE),
    "intel_iommu": (Severity.LOW, "the IOMMU that iommu=pt and peer-to-peer DMA depend on", _SOURCE),
    "amd_iommu": (Severity.LOW, "the IOMMU that iommu=pt and peer-to-peer DMA depend on", _SOURCE),
    "pci": (Severity.MEDIUM, "words for PCI: realloc=off keeps the windows of GPU memory in place", _SOURCE),
    "isolcpus": (Severity.MEDIUM, _APART, _SOURCE),
    "nohz_full": (Severity.MEDIUM, _APART, "timers/no_hz.rst"),
    "rcu_nocbs": (Severity.MEDIUM, _APART, _SOURCE),
    "irqaffinity": (Severity.MEDIUM, _APART, _SOURCE),
    "intel_idle.max_cstate": (Severity.MEDIUM, _IDLE, "admin-guide/pm/intel_idle.rst"),
    "processor.max_cstate": (Severity.MEDIUM, f"{_IDLE}, of the driver acpi_idle", _SOURCE),
    "mitigations": (Severity.HIGH, "switched off, the machine is open to known attacks on its CPUs", _SOURCE),
}  # fmt: skip


def info(name: str) -> Info | None:
    """Facts about a parameter; None if only the declaring user knows it."""
    known = _REASONS.get(name)
    return Info(*known) if known else None
