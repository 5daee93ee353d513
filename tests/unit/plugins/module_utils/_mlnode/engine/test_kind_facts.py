# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import errno

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.machine import RELEASE, Machine
from mlnode.engine.kind import Facts
from mlnode.model.errors import HostError


def test_memory_is_read_from_meminfo(machine: Machine) -> None:
    facts = Facts(machine)
    assert facts.memory_kbytes() == 65536000
    assert facts.memory_bytes() == 65536000 * 1024
    assert facts.memory_kbytes("Hugepagesize") == 2048


def test_a_row_that_is_not_there_is_an_error_and_no_zero(machine: Machine) -> None:
    with pytest.raises(HostError, match=r"Hugetlb in /proc/meminfo: no such row"):
        Facts(machine).memory_kbytes("Hugetlb")


def test_a_row_in_another_unit_is_not_taken_for_kilobytes(machine: Machine) -> None:
    machine.put("/proc/meminfo", "MemTotal:  12 MB\nHugePages_Total:  5\n")
    for name in ("MemTotal", "HugePages_Total"):
        with pytest.raises(HostError):
            Facts(machine).memory_kbytes(name)


def test_each_fact_is_read_once(machine: Machine) -> None:
    facts = Facts(machine)
    before = (facts.memory_kbytes(), facts.fastest_link_bit_per_s(), facts.command_line("ro"))
    machine.put("/proc/meminfo", "MemTotal: 1 kB\n")
    machine.put("/proc/cmdline", "ro=1\n")
    machine.put("/sys/class/net/eth0/speed", "1\n")
    assert (facts.memory_kbytes(), facts.fastest_link_bit_per_s(), facts.command_line("ro")) == before


def test_the_fastest_physical_link_that_is_up_counts(machine: Machine) -> None:
    for name, state, speed, device in (
        ("eth1", "up", "400000", True),
        ("eth2", "down", "800000", True),  # no cable
        ("bond0", "up", "1600000", False),  # the sum of its members
        ("veth1", "up", "10000000", False),
        ("wlan0", "up", "-1", True),  # the driver knows no speed
        ("ens3", "up", "Unknown!", True),
    ):
        machine.put(f"/sys/class/net/{name}/operstate", f"{state}\n")
        machine.put(f"/sys/class/net/{name}/speed", f"{speed}\n")
        if device:
            machine.put(f"/sys/class/net/{name}/device/vendor", "0x15b3\n")
    assert Facts(machine).fastest_link_bit_per_s() == 400_000_000_000


def test_a_link_whose_speed_cannot_be_read_counts_as_none(machine: Machine) -> None:
    # virtio answers EINVAL (sysfs-class-net)
    machine.unreadable["/sys/class/net/eth0/speed"] = errno.EINVAL
    assert Facts(machine).fastest_link_bit_per_s() == 0


def test_a_machine_without_network_has_no_rate(tmp_path: object) -> None:
    assert Facts(Machine(str(tmp_path))).fastest_link_bit_per_s() == 0


def test_kernel_release(machine: Machine) -> None:
    assert Facts(machine).kernel_release() == RELEASE
    machine.remove("/proc/sys/kernel/osrelease")
    machine.forget()
    assert Facts(machine).kernel_release() == ""


@cases.table
def test_values_before_two_dashes_are_the_kernels(machine: Machine, line: str, expected: list[str]) -> None:
    machine.put("/proc/cmdline", f"{line}\n")
    assert Facts(machine).command_line("transparent_hugepage") == expected
