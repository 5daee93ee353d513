# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import errno
import pathlib
import sys

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from mlnode.checks.model import Check, Verdict
from mlnode.checks.preflight import sockets

SOCKSTAT, TABLE, TABLE6 = "/proc/net/sockstat", "/proc/net/tcp", "/proc/net/tcp6"
RANGE, RESERVED = "/proc/sys/net/ipv4/ip_local_port_range", "/proc/sys/net/ipv4/ip_local_reserved_ports"

#: Ports 32768 to 33767
FIRST, PORTS = 32768, 1000

#: As the kernel prints 10.0.0.1, 10.0.0.9 and fd00::9
OWN, STORE = (int.from_bytes(address, sys.byteorder) for address in (b"\n\0\0\1", b"\n\0\0\t"))
STORE6 = "".join(
    f"{int.from_bytes(word, sys.byteorder):08X}"
    for word in (b"\xfd\0\0\0", b"\0" * 4, b"\0" * 4, b"\0\0\0\t")
)


@pytest.fixture
def node(tmp_path: pathlib.Path) -> Machine:
    machine = Machine(str(tmp_path / "node"))
    counted(machine, 20, 0)
    machine.put(RANGE, f"{FIRST}\t{FIRST + PORTS - 1}\n")
    return machine


def counted(machine: Machine, used: int, waiting: int, of_ipv6: int = 0) -> None:
    machine.put(
        SOCKSTAT,
        f"sockets: used 186\nTCP: inuse {used} orphan 0 tw {waiting} alloc 27 mem 5\nUDP: inuse 2 mem 0\n",
    )
    machine.put("/proc/net/sockstat6", f"TCP6: inuse {of_ipv6}\nUDP6: inuse 1\n")


def row(at: int, own_port: int, other: str, port: int, state: str = "06", own: str = f"{OWN:08X}") -> str:
    queues = "00000000:00000000 03:000016C8 00000000     0        0 0 3 00000000215827c4"
    return f"{at:4}: {own}:{own_port:04X} {other}:{port:04X} {state} {queues}\n"


def table(machine: Machine, path: str, rows: list[str]) -> None:
    machine.put(path, f"  sl  local_address rem_address   st tx_queue rx_queue tr\n{''.join(rows)}")


def look(machine: Machine) -> dict[str, Check]:
    return {check.name: check for check in sockets.checks(machine)}


@cases.table
def test_sockets_in_time_wait(node: Machine, waiting: int, verdict: Verdict) -> None:
    counted(node, 20, waiting)
    check = look(node)["time_wait"]
    assert (check.verdict, check.found) == (verdict, str(waiting))
    assert ("tcp_tw_reuse" in check.advice) == (verdict != Verdict.PASS)


def test_with_few_sockets_no_table_is_read(node: Machine) -> None:
    node.unreadable[TABLE] = errno.EACCES
    check = look(node)["local_ports"]
    assert (check.verdict, check.found) == (Verdict.PASS, "20 sockets in all")


@pytest.mark.parametrize(("taken", "verdict"), [(499, Verdict.PASS), (500, Verdict.WARN)])
def test_half_of_the_ports_to_one_destination(node: Machine, taken: int, verdict: Verdict) -> None:
    counted(node, 20, taken + 100)
    rows = [row(at, FIRST + at, f"{STORE:08X}", 443) for at in range(taken)]
    # Another port there, another destination, a port outside of the range, and one that listens
    rows += [row(at, FIRST + at, f"{STORE:08X}", 80) for at in range(50)]
    rows += [row(at, 22, f"{STORE:08X}", 443) for at in range(50)]
    rows.append(row(0, FIRST, "00000000", 0, "0A"))
    table(node, TABLE, rows)
    check = look(node)["local_ports"]
    assert (check.verdict, check.found) == (verdict, f"{taken} to 10.0.0.9 port 443")
    assert check.expected == "under 500 of 1000 ports to one destination"
    assert ("ip_local_port_range" in check.advice) == (verdict == Verdict.WARN)


def test_connections_that_are_open_take_ports_too_and_reserved_ones_are_none(node: Machine) -> None:
    node.put(RESERVED, "29500,32768-32967,33760-40000\n")  # 208 of the range
    counted(node, 200, 200)
    states = ("01", "06", "08")
    table(node, TABLE, [row(at, FIRST + 200 + at, f"{STORE:08X}", 443, states[at % 3]) for at in range(396)])
    check = look(node)["local_ports"]
    assert (check.verdict, check.expected) == (
        Verdict.WARN,
        "under 396 of 792 ports to one destination",
    )


def test_ipv6(node: Machine) -> None:
    counted(node, 0, 0, of_ipv6=600)
    table(node, TABLE, [])
    table(node, TABLE6, [row(at, FIRST + at, STORE6, 443, "01", "0" * 32) for at in range(600)])
    check = look(node)["local_ports"]
    assert (check.verdict, check.found) == (Verdict.WARN, "600 to fd00::9 port 443")


@cases.table
def test_what_cannot_be_read_is_unknown(
    node: Machine, path: str, text: str | None, unknown: set[str]
) -> None:
    counted(node, 800, 0)
    if text is None:
        node.unreadable[path] = errno.EACCES
    if (path == SOCKSTAT and text is not None) or (path == RANGE and text is not None):
        node.put(path, text)
    found = look(node)
    assert {name for name, check in found.items() if check.verdict is Verdict.UNKNOWN} == unknown
