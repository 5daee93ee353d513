# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The audit of a machine: what costs speed or may be broken, whether or not anything is declared."""

from __future__ import annotations

from typing import Callable, Collection, Iterable, Tuple

from ..host import Host
from ..setting import Severity
from ..topology import read
from ..topology.model import Topology
from . import audit_cpu, audit_devices, audit_kernel, audit_services
from .audit_model import Finding
from .model import Verdict

MOUNTS = read.MOUNTS

Area = Tuple[Tuple[str, ...], Callable[[Host, Topology], Iterable[Finding]]]

AREAS: tuple[Area, ...] = (
    (audit_kernel.NAMES, audit_kernel.checks),
    (audit_cpu.NAMES, audit_cpu.checks),
    (audit_devices.NAMES, audit_devices.checks),
    (audit_services.NAMES, audit_services.checks),
)
NAMES: tuple[str, ...] = tuple(name for names, _checks in AREAS for name in names)

_VERDICTS = (Verdict.FAIL, Verdict.WARN, Verdict.UNKNOWN, Verdict.SKIP, Verdict.PASS)
_SEVERITIES = (Severity.HIGH, Severity.MEDIUM, Severity.LOW)


def findings(host: Host, leave_out: Collection[str] = ()) -> list[Finding]:
    """All of them, what matters most first. Reads only."""
    topology = read.of(host)
    found = [
        finding
        for names, checks in AREAS
        if not {*names} <= {*leave_out}
        for finding in checks(host, topology)
        if finding.name not in leave_out
    ]
    return sorted(found, key=_rank)


def _rank(finding: Finding) -> tuple[bool, int, int]:
    """Bad findings first, and of these the most severe."""
    severity = _SEVERITIES.index(finding.severity)
    verdict = _VERDICTS.index(finding.verdict)
    bad = finding.verdict in (Verdict.FAIL, Verdict.WARN)
    return (not bad, severity if bad else 0, verdict)
