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


@cases.table
def test_files_of_a_linked_node(
    linked: GpuMachine, files: dict[str, str], name: str, target: str, verdict: str, found: str
) -> None:
    for path, text in files.items():
        linked.put(path, f"{text}\n")
    check = one(linked, name, target)
    assert (str(check.verdict), check.found[: len(found)]) == (verdict, found)
    assert check.severity is Severity.MEDIUM


@cases.table
def test_losses_of_a_nic_are_a_share_of_its_packets(
    linked: GpuMachine, numbers: dict[str, int], verdict: Verdict
) -> None:
    counted(linked, **numbers)
    check = one(linked, "nic_drops", "eth5")
    assert check.verdict == verdict
    assert ("nic_drops", "lo") not in look(linked)
