# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine as Tree
from mlnode.knobs.boot import isolation as boot_isolation
from mlnode.model import cpulist
from mlnode.topology.model import Cpu, Cpus, Machine, Node, Topology


def machine(nodes: list[str], threads: list[str] | None = None, online: str = "") -> Topology:
    """A machine with these CPUs on its nodes; threads: the cores that have several."""
    everything = tuple(cpu for node in nodes for cpu in cpulist.parse(node))
    groups = {cpu: cpulist.parse(group) for group in threads or [] for cpu in cpulist.parse(group)}
    cpus = tuple(Cpu(cpu, True, siblings=groups.get(cpu, (cpu,))) for cpu in sorted(everything))
    seen = cpulist.parse(online) if online else tuple(sorted(everything))
    known = Cpus(all=cpus, present=tuple(sorted(everything)), online=seen)
    found = tuple(Node(number, cpulist.parse(node)) for number, node in enumerate(nodes))
    return Topology(Machine("bare metal"), known, found)


@cases.table
def test_lists_of_cpus_are_compared_by_what_they_mean(left: list[str], right: list[str], equal: bool) -> None:
    assert (boot_isolation.alike(left, right)) is equal


def test_what_takes_cpus_away() -> None:
    words = [
        "isolcpus=managed_irq,domain,2",
        "nohz-full=4-5",
        "rcu_nocbs=7",
        "irqaffinity=0",
        "a=9",
        "isolcpus=3",
    ]
    assert boot_isolation.taken(words) == (2, 3, 4, 5)


def test_the_rest_is_everything_that_is_there_and_not_named() -> None:
    known = machine(["0-3", "4-7"], online="0-3,5-7").cpus
    assert boot_isolation.rest((2, 3, 6, 7), known) == (0, 1, 4, 5)


@cases.table
def test_cpus_that_the_machine_does_not_have_are_named(cpus: str, words: str) -> None:
    assert boot_isolation.missing(cpulist.parse(cpus), machine(["0-3", "4-7"]).cpus) == words


@cases.table
def test_each_node_keeps_two_cpus_and_the_machine_cpu_0(
    nodes: list[str], cpus: str, words: list[str]
) -> None:
    found = boot_isolation.too_few_left(cpulist.parse(cpus), machine(nodes))
    assert bool(found) is bool(words)
    for word in words:
        assert word in found


def test_a_kernel_without_numa_is_one_node() -> None:
    known = Topology(Machine("virtual machine"), machine(["0-3"]).cpus)
    assert "this machine would keep 1 of its CPUs 0-3" in boot_isolation.too_few_left((1, 2, 3), known)
    assert boot_isolation.too_few_left((2, 3), known) == ""


@cases.table
def test_a_core_that_is_half_isolated_is_told(cpus: str, words: str) -> None:
    known = machine(["0-7"], threads=["0,4", "1,5", "2,6", "3,7"]).cpus
    found = boot_isolation.split_cores(cpulist.parse(cpus), known)
    assert found.startswith(words)
    assert bool(found) is bool(words)


# -- what the kernel was built with --------------------------------------------------------

RELEASE = "6.12.0"
CONFIG = f"/boot/config-{RELEASE}"


@cases.table
def test_the_kernels_own_configuration_is_asked(tmp_path: Any, key: str, config: str, lacks: bool) -> None:
    tree = Tree(str(tmp_path))
    tree.put(CONFIG, config)
    found = boot_isolation.lacking(key, tree, RELEASE)
    assert bool(found) is lacks
    if lacks:
        option = boot_isolation.PARAMETERS[key]
        assert found == f"this kernel is built without {option}, as {CONFIG} says: it ignores {key}="


def test_the_kernel_shows_nohz_full_only_where_it_knows_it(tmp_path: Any) -> None:
    tree = Tree(str(tmp_path))
    tree.put("/sys/devices/system/cpu/present", "0-3\n")
    assert "as /sys/devices/system/cpu/nohz_full does not exist" in boot_isolation.lacking(
        "nohz_full", tree, ""
    )
    assert boot_isolation.lacking("isolcpus", tree, "") == ""
    tree.put("/sys/devices/system/cpu/nohz_full", "\n")
    assert boot_isolation.lacking("nohz_full", tree, "") == ""


def test_where_nobody_says_nothing_is_claimed(tmp_path: Any) -> None:
    tree = Tree(str(tmp_path))
    for key in boot_isolation.PARAMETERS:
        assert boot_isolation.lacking(key, tree, RELEASE) == ""
