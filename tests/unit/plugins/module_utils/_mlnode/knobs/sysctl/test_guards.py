# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases, door
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from mlnode.engine.kind import Context, Facts
from mlnode.knobs.sysctl.kind import kind as sysctl
from mlnode.knobs.sysctl.schema import GUARDS
from mlnode.model.errors import HostError

#: 65536000 kB of memory, 40000000 kB of them free, in all; 5000000 kB are free on node 1
FIVE_PERCENT = 3276800
HALF_OF_FREE = 9765  # pages of 2048 kB in half of 40000000 kB
HALF_OF_NODE = 1220  # the same of 5000000 kB
POOL = "/sys/kernel/mm/hugepages/hugepages-2048kB"
SHARE = "/sys/devices/system/node/node1/hugepages/hugepages-1048576kB"

#: As the kernel prints it: what programs hold is not free, what the page cache holds is
NODE_MEMORY = """\
Node 1 MemTotal:       30000000 kB
Node 1 MemFree:         1000000 kB
Node 1 Active:         17000000 kB
Node 1 Inactive:        8500000 kB
Node 1 Active(anon):   15000000 kB
Node 1 Inactive(anon):  7000000 kB
Node 1 Active(file):    2000000 kB
Node 1 Inactive(file):  1500000 kB
Node 1 Slab:             900000 kB
Node 1 SReclaimable:     500000 kB
Node 1 SUnreclaim:       400000 kB
"""


@pytest.fixture
def node(machine: Machine) -> Machine:
    """A machine with every key that a guard knows."""
    for key in ("modules_disabled", "kexec_load_disabled", "unprivileged_bpf_disabled", "yama/ptrace_scope"):
        machine.put(f"/proc/sys/kernel/{key}", "0\n")
    machine.put("/proc/sys/kernel/max_rcu_stall_to_panic", "0\n")
    for key in ("bset", "inheritable"):
        machine.put(f"/proc/sys/kernel/usermodehelper/{key}", "4294967295\t511\n")
    machine.put("/proc/sys/vm/nr_hugepages", "100\n")
    for size in ("2048kB", "1048576kB"):
        machine.put(f"/sys/devices/system/node/node1/hugepages/hugepages-{size}/nr_hugepages", "0\n")
    machine.put("/sys/devices/system/node/node1/meminfo", NODE_MEMORY)
    return machine


def refusal(machine: Machine, key: str, value: Any, *allow: str) -> str:
    facts = Facts(machine)
    context = Context(machine, facts, allow=allow)
    (found,) = sysctl.read(door.parse("sysctl", {"settings": {key: value}}, facts), context)
    return found.refusal


DANGEROUS = [
    ("vm.overcommit_memory", 2, "overcommit", "keep root from logging in"),
    ("vm.min_free_kbytes", FIVE_PERCENT + 1, "min_free",
     f"{FIVE_PERCENT + 1} kB is over 5 % of memory ({FIVE_PERCENT} kB)"),
    ("vm.min_free_kbytes", {"at_least": FIVE_PERCENT + 1}, "min_free", "over 5 % of memory"),
    ("vm.nr_hugepages", 100 + HALF_OF_FREE + 1, "hugepages",
     f"{HALF_OF_FREE + 1} more pages are {(HALF_OF_FREE + 1) * 2048} kB, over half of the 40000000 kB"),
    ("vm.nr_hugepages@node1", HALF_OF_NODE + 1, "hugepages", "over half of the 5000000 kB that are free"),
    ("vm.nr_hugepages@node1/1048576kB", 3, "hugepages", "3 more pages are 3145728 kB"),
    ("kernel.modules_disabled", 1, "one_way", "does not take 1 back before the next boot"),
    ("kernel.kexec_load_disabled", 1, "one_way", "does not take 1 back"),
    ("kernel.unprivileged_bpf_disabled", 1, "one_way", "does not take 1 back"),
    ("kernel.yama.ptrace_scope", 3, "one_way", "does not take 3 back"),
    ("kernel.max_rcu_stall_to_panic", 5, "one_way", "does not take 5 back"),
    ("kernel.usermodehelper.bset", "4294967295 5", "one_way", "does not take 4294967295 5 back"),
    ("kernel.usermodehelper.inheritable", "0 0", "one_way", "does not take 0 0 back"),
]  # fmt: skip


@pytest.mark.parametrize(("key", "value", "guard", "words"), DANGEROUS)
def test_a_dangerous_change_is_refused_and_says_how_to_allow_it(
    node: Machine, key: str, value: Any, guard: str, words: str
) -> None:
    reason = refusal(node, key, value)
    assert words in reason
    assert reason.endswith(f"to do it all the same: allow: [{guard}]")


@pytest.mark.parametrize(("key", "value", "guard", "words"), DANGEROUS)
def test_the_guard_is_switched_off_by_its_own_name_alone(
    node: Machine, key: str, value: Any, guard: str, words: str
) -> None:
    assert refusal(node, key, value, guard) == ""
    assert words in refusal(node, key, value, *(other for other in GUARDS if other != guard))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("vm.overcommit_memory", 1),
        ("vm.min_free_kbytes", FIVE_PERCENT),
        ("vm.min_free_kbytes", 1024),
        ("vm.min_free_kbytes", "auto"),
        ("vm.nr_hugepages", 100 + HALF_OF_FREE),
        ("vm.nr_hugepages", 0),
        ("vm.nr_hugepages@node1", HALF_OF_NODE),
        ("vm.nr_hugepages@node1/1048576kB", 2),
        ("kernel.unprivileged_bpf_disabled", 2),  # 2 can be taken back
        ("kernel.yama.ptrace_scope", 2),
        ("vm.swappiness", 2),
        # No number: nothing to compare, and the kernel will say so itself
        ("vm.min_free_kbytes", "much"),
        ("vm.nr_hugepages", "many"),
    ],
)
def test_a_harmless_change_is_not_refused(node: Machine, key: str, value: Any) -> None:
    assert refusal(node, key, value) == ""


@pytest.mark.parametrize(
    ("path", "key", "value"),
    [
        ("vm/overcommit_memory", "vm.overcommit_memory", 2),
        ("vm/min_free_kbytes", "vm.min_free_kbytes", FIVE_PERCENT * 2),
        ("vm/nr_hugepages", "vm.nr_hugepages", 30000),
        ("kernel/modules_disabled", "kernel.modules_disabled", 1),
    ],
)
def test_what_is_there_already_is_no_change(node: Machine, path: str, key: str, value: int) -> None:
    node.put(f"/proc/sys/{path}", f"{value}\n")
    assert refusal(node, key, value) == ""


def test_a_node_that_does_not_tell_its_free_memory_counts_as_full(node: Machine) -> None:
    node.put("/sys/devices/system/node/node1/meminfo", "Node 1 MemTotal: 5000000 kB\n")
    assert "over half of the 0 kB that are free" in refusal(node, "vm.nr_hugepages@node1", 1)
    node.remove("/sys/devices/system/node/node1/meminfo")
    with pytest.raises(HostError, match=r"node1/meminfo"):
        refusal(node, "vm.nr_hugepages@node1", 1)


def test_the_page_cache_counts_as_free(node: Machine) -> None:
    node.put("/proc/meminfo", "MemFree: 1000 kB\nMemAvailable: 40000000 kB\nHugepagesize: 2048 kB\n")
    assert refusal(node, "vm.nr_hugepages", 100 + HALF_OF_FREE) == ""
    node.put("/proc/meminfo", "MemFree: 40000000 kB\nMemAvailable: 1000 kB\nHugepagesize: 2048 kB\n")
    assert "over half of the 1000 kB that are free" in refusal(node, "vm.nr_hugepages", 101)


def pool(machine: Machine, folder: str, total: int, free: int, reserved: int) -> None:
    machine.put(f"{folder}/nr_hugepages", f"{total}\n")
    machine.put(f"{folder}/free_hugepages", f"{free}\n")
    machine.put(f"{folder}/resv_hugepages", f"{reserved}\n")


@pytest.mark.parametrize(
    ("key", "folder"), [("vm.nr_hugepages", POOL), ("vm.nr_hugepages@node1/1048576kB", SHARE)]
)
@cases.table
def test_a_pool_is_not_shrunk_below_what_programs_live_on(
    node: Machine, key: str, folder: str, free: int, reserved: int, least: int
) -> None:
    pool(node, folder, 100, free, reserved)
    assert refusal(node, key, least) == ""
    if least:
        reason = refusal(node, key, least - 1)
        assert (
            f"{least} pages of the pool are in use or reserved, and only {least - 1} would be left" in reason
        )
        assert reason.endswith("to do it all the same: allow: [hugepages]")
        assert refusal(node, key, least - 1, "hugepages") == ""
        assert "in use or reserved" in refusal(
            node, key, 0, *(name for name in GUARDS if name != "hugepages")
        )


def test_the_pool_of_the_total_is_that_of_the_default_size(node: Machine) -> None:
    pool(node, POOL, 100, 100, 0)
    pool(node, "/sys/kernel/mm/hugepages/hugepages-1048576kB", 100, 0, 0)
    assert refusal(node, "vm.nr_hugepages", 0) == ""
    text = "MemTotal: 65536000 kB\nMemAvailable: 40000000 kB\nHugepagesize: 1048576 kB\n"
    node.put("/proc/meminfo", text)
    assert "100 pages of the pool are in use" in refusal(node, "vm.nr_hugepages", 0)


def test_a_share_without_a_count_of_reservations_counts_its_use(node: Machine) -> None:
    """The folders of a NUMA node have no resv_hugepages."""
    node.put(f"{SHARE}/nr_hugepages", "100\n")
    node.put(f"{SHARE}/free_hugepages", "70\n")
    assert refusal(node, "vm.nr_hugepages@node1/1048576kB", 30) == ""
    assert "30 pages" in refusal(node, "vm.nr_hugepages@node1/1048576kB", 29)
