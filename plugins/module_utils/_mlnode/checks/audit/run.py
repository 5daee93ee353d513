# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The audit of a machine: conditions that cost speed, and faults, with or without a declaration."""

from __future__ import annotations

from typing import Any, Collection, Mapping

from ...host.host import Host
from ...model import schema
from ...model.schema import Option, Table
from ...model.setting import Severity
from ...topology import hardware
from .. import module_result
from ..model import DEVIATIONS, Check, Verdict
from . import (
    containers,
    cpu,
    crash,
    devices,
    facts,
    interrupts,
    isolation,
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
from .model import Looks, checks

MOUNTS = hardware.MOUNTS

OPTIONS: Table = {"skip": Option("list", elements="str", default=[]), **module_result.fail_on("never")}

_AREAS = (
    kernel, facts, cpu, isolation, memory, crash, devices, pcie_messages, ranks,
    network, nccl, interrupts, nic_messages, storage, services, containers,
)  # fmt: skip
_LOOKS: Looks = tuple(look for area in _AREAS for look in area.LOOKS)
NAMES: tuple[str, ...] = tuple(topic.name for topics, _look in _LOOKS for topic in topics)

_VERDICTS = (*DEVIATIONS, Verdict.UNKNOWN, Verdict.SKIP, Verdict.PASS)
_SEVERITIES = (Severity.HIGH, Severity.MEDIUM, Severity.LOW, None)


def answer(host: Host, given: Mapping[str, Any], dry: bool) -> dict[str, Any]:
    """Result of the module node_audit. Never writes. Raises DeclarationError."""
    del dry
    schema.refuse_others("skip", given["skip"], "check", NAMES)
    return module_result.result("node_audit", all_checks(host, given["skip"]), given["fail_on"])


def all_checks(host: Host, leave_out: Collection[str] = ()) -> list[Check]:
    """All findings, the most important first. Reads only."""
    return sorted(checks(_LOOKS, host, hardware.topology(host), leave_out), key=_rank)


def _rank(check: Check) -> tuple[bool, int, int]:
    """Sort key: deviations first, by severity, then the others."""
    severity = _SEVERITIES.index(check.severity)
    verdict = _VERDICTS.index(check.verdict)
    bad = check.verdict in DEVIATIONS
    return (not bad, severity if bad else 0, verdict)
