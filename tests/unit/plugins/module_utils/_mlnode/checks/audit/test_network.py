# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.gpu_machine import GpuMachine
from mlnode.checks.model import Verdict
from mlnode.model.setting import Severity

from .looking import look, one

RMEM, WMEM = "/proc/sys/net/ipv4/tcp_rmem", "/proc/sys/net/ipv4/tcp_wmem"
HEADER = (
    "Inter-|   Receive                                                |  Transmit\n face |bytes packets ...\n"
)
MIB = 1 << 20


@pytest.fixture
def linked(node: GpuMachine) -> GpuMachine:
    """With an Ethernet NIC of 100 Gb/s, and 512 GiB of memory."""
    folder = "/sys/devices/pci0000:40/0000:41:00.0"
    for name, text in {
        "class": "0x020000", "vendor": "0x15b3", "device": "0x101d", "net/eth5/speed": "100000",
        "net/eth5/operstate": "up", "net/eth5/address": "00:11:22:33:44:55", "net/eth5/mtu": "1500",
        "net/eth5/type": "1",
    }.items():  # fmt: skip
        node.put(f"{folder}/{name}", f"{text}\n")
    node.link("/sys/bus/pci/devices/0000:41:00.0", "../../../devices/pci0000:40/0000:41:00.0")
    node.link("/sys/class/net/eth5", "../../devices/pci0000:40/0000:41:00.0/net/eth5")
    node.link(f"{folder}/net/eth5/device", "../..")
    node.put("/proc/meminfo", f"MemTotal:       {512 << 20} kB\n")
    node.put(RMEM, f"4096\t131072\t{16 * MIB}\n")
    node.put(WMEM, f"4096\t16384\t{16 * MIB}\n")
    counted(node)
    return node


def counted(
    machine: GpuMachine,
    received: int = 999900,
    errors: int = 0,
    full: int = 0,
    drops: int = 0,
    missed: int = 0,
    frame: int = 0,
    sent: int = 100000,
    not_sent: int = 0,
) -> None:
    row = f"  eth5: 5 {received} {errors} {drops} {full} {frame} 0 0 5 {sent} 0 {not_sent} 0 0 0 0\n"
    machine.put("/sys/class/net/eth5/statistics/rx_missed_errors", f"{missed}\n")
    machine.put("/proc/net/dev", f"{HEADER}    lo: 1 1 0 0 0 0 0 0 1 1 0 0 0 0 0 0\n{row}")


# -- buffers -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("receive", "send", "verdict"),
    [(16, 16, Verdict.PASS), (6, 16, Verdict.WARN), (16, 4, Verdict.WARN), (128, 128, Verdict.PASS)],
)
def test_buffers_are_judged_by_the_link(
    linked: GpuMachine, receive: int, send: int, verdict: Verdict
) -> None:
    linked.put(RMEM, f"4096 131072 {receive * MIB}\n")
    linked.put(WMEM, f"4096 16384 {send * MIB}\n")
    check = one(linked, "socket_buffers")
    assert (check.verdict, check.severity) == (verdict, Severity.MEDIUM)


def test_buffers_are_told_with_the_round_trip_that_they_are_for(linked: GpuMachine) -> None:
    assert one(linked, "socket_buffers").found == (
        "tcp_rmem 16 MiB, tcp_wmem 16 MiB: one flow fills 100 Gb/s up to a round trip of 335 us; "
        "64 MiB would do so up to 1342 us"
    )


def test_without_a_rate_buffers_are_not_judged(linked: GpuMachine) -> None:
    for name in ("eth0", "eth5"):
        linked.put(f"/sys/class/net/{name}/speed", "-1\n")
    linked.put(RMEM, f"4096 131072 {MIB}\n")
    assert one(linked, "socket_buffers").verdict is Verdict.SKIP
    linked.put(RMEM, "many\n")
    assert one(linked, "socket_buffers").verdict is Verdict.UNKNOWN


# -- interfaces ----------------------------------------------------------------------------


@cases.table
def test_losses_of_a_nic_are_a_share_of_its_packets(
    linked: GpuMachine, numbers: dict[str, int], verdict: Verdict
) -> None:
    counted(linked, **numbers)
    check = one(linked, "nic_drops", "eth5")
    assert check.verdict == verdict
    assert ("nic_drops", "lo") not in look(linked)


def test_a_nic_that_has_carried_little_is_not_judged(linked: GpuMachine) -> None:
    linked.put("/proc/net/dev", f"{HEADER}eth5:5 50 40 0 0 0 0 0 5 10 0 0 0 0 0 0\n")
    check = one(linked, "nic_drops", "eth5")
    assert check.verdict is Verdict.SKIP
    assert check.found == (
        "received 50: 40 errors, 0 without room, 0 not wanted; sent 10: 0 errors, 0 dropped; too few to judge"
    )
    linked.put("/proc/net/dev", f"{HEADER}eth5: 5 50\n")
    assert one(linked, "nic_drops", "eth5").verdict is Verdict.UNKNOWN


# -- sockets -------------------------------------------------------------------------------
