# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The audit of a machine: what costs speed or may be broken, whether or not anything is declared."""

from __future__ import annotations

from typing import Any, Callable, Collection, Iterable, Mapping, Tuple

from ...host.host import Host
from ...model import schema
from ...model.schema import Option, Table
from ...model.setting import Severity
from ...topology import read
from ...topology.model import Topology
from .. import end
from ..model import Verdict
from . import (
    cpu,
    crash,
    devices,
    facts,
    interrupts,
    kernel,
    memory,
    nccl,
    network,
    nic_messages,
    pcie_messages,
    ranks,
    services,
    storage,
)
from .model import DEVIATIONS, AuditCheck

MOUNTS = read.MOUNTS

OPTIONS: Table = {"skip": Option("list", elements="str", default=[]), **end.fail_on("never")}

Area = Tuple[Tuple[str, ...], Callable[[Host, Topology], Iterable[AuditCheck]]]

AREAS: tuple[Area, ...] = (
    (kernel.NAMES, kernel.checks),
    (facts.NAMES, facts.checks),
    (cpu.NAMES, cpu.checks),
    (memory.NAMES, memory.checks),
    (crash.NAMES, crash.checks),
    (devices.NAMES, devices.checks),
    (pcie_messages.NAMES, pcie_messages.checks),
    (ranks.NAMES, ranks.checks),
    (network.NAMES, network.checks),
    (nccl.NAMES, nccl.checks),
    (interrupts.NAMES, interrupts.checks),
    (nic_messages.NAMES, nic_messages.checks),
    (storage.NAMES, storage.checks),
    (services.NAMES, services.checks),
)
NAMES: tuple[str, ...] = tuple(name for names, _checks in AREAS for name in names)

_VERDICTS = (*DEVIATIONS, Verdict.UNKNOWN, Verdict.SKIP, Verdict.PASS)
_SEVERITIES = (Severity.HIGH, Severity.MEDIUM, Severity.LOW)


def answer(host: Host, given: Mapping[str, Any], dry: bool) -> dict[str, Any]:
    """Result of the module node_audit. Nothing is written in any case. Raises DeclarationError."""
    del dry
    schema.refuse_others("skip", given["skip"], "check", NAMES)
    return end.result("node_audit", all_checks(host, given["skip"]), given["fail_on"])


def all_checks(host: Host, leave_out: Collection[str] = ()) -> list[AuditCheck]:
    """All findings, the most important first. Reads only."""
    topology = read.of(host)
    checks = [
        check
        for names, look in AREAS
        if not {*names} <= {*leave_out}
        for check in look(host, topology)
        if check.name not in leave_out
    ]
    return sorted(checks, key=_rank)


def _rank(check: AuditCheck) -> tuple[bool, int, int]:
    """Sort key: unexpected findings first, the most severe of them before the others."""
    severity = _SEVERITIES.index(check.severity)
    verdict = _VERDICTS.index(check.verdict)
    bad = check.verdict in DEVIATIONS
    return (not bad, severity if bad else 0, verdict)
