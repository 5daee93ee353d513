# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Paths, and what all tests of the audit do."""

from __future__ import annotations

from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from mlnode.checks.audit import run as audit
from mlnode.checks.model import Check
from mlnode.host.host import Host

CPU, NODES, EDAC = "/sys/devices/system/cpu", "/sys/devices/system/node", "/sys/devices/system/edac/mc"
CLOCK = "/sys/devices/system/clocksource/clocksource0/current_clocksource"
ECC_OK = "Enabled, 0, 0"
LIMITS = "Limit           Soft Limit   Hard Limit   Units\nMax open files  {} {} files\n"
SNMP = (
    "Tcp: RtoAlgorithm OutSegs RetransSegs\nTcp: 1 1000000 {sent_again}\n"
    "Udp: InDatagrams NoPorts InErrors RcvbufErrors\nUdp: 1000000 5 7 {overflows}\n"
)
NETSTAT = "TcpExt: SyncookiesSent ListenOverflows ListenDrops\nTcpExt: 0 {} 0\nIpExt: InNoRoutes\nIpExt: 0\n"


def memory(machine: Machine, number: int, kbytes: int) -> None:
    machine.put(f"{NODES}/node{number}/meminfo", f"Node {number} MemTotal:       {kbytes} kB\n")


def look(host: Host) -> dict[tuple[str, str], Check]:
    host.forget()
    return {(check.name, check.target): check for check in audit.all_checks(host)}


def one(host: Host, name: str, target: str = "node") -> Check:
    return look(host)[name, target]
