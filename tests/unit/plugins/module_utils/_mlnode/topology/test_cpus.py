# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import errno

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.plugins.module_utils._mlnode.topology.trees import CPU, Tree
from mlnode.host.host import Host
from mlnode.topology import cpus, numa
from mlnode.topology.model import Cpu, Cpus
from mlnode.topology.sysfs import Reader

CPUSET = "/sys/fs/cgroup/cpuset.cpus.effective"
CPUSET_V1 = "/sys/fs/cgroup/cpuset/cpuset.effective_cpus"


def read(host: Host, in_container: bool = False) -> tuple[Cpus, list[str]]:
    reader = Reader(host)
    online = cpus.online(reader)
    found = cpus.read(reader, online, numa.read(reader, online), in_container)
    return found, [problem.what for problem in reader.problems]


def test_sockets_cores_and_threads(tree: Tree) -> None:
    tree.cpus("0,4 1,5 2,6 3,7", packages=2)
    tree.nodes("0-1,4-5", "2-3,6-7")

    found, problems = read(tree.host)

    assert problems == []
    assert (found.packages, found.cores, found.smt, found.hybrid) == (2, 4, 2, False)
    assert found.threads == ((0, 4), (1, 5), (2, 6), (3, 7))
    assert found.all[6] == Cpu(6, online=True, package=1, core=2, node=1, siblings=(2, 6))
    assert found.online == found.present == found.allowed == found.housekeeping == tuple(range(8))
    assert (found.offline, found.isolated, found.nohz_full) == ((), (), ())


def test_cores_are_counted_by_their_threads_as_their_numbers_repeat(tree: Tree) -> None:
    tree.cpus("0 1 2 3", packages=2)
    tree.nodes("0-3")
    for cpu in range(4):
        tree.put(f"{CPU}/cpu{cpu}/topology/core_id", cpu % 2)

    assert read(tree.host)[0].cores == 4


def test_an_offline_cpu_is_named_and_nothing_else_is_known_of_it(tree: Tree) -> None:
    tree.cpus("0,4 1,5 2,6 3,7", online="0-2,4-5", possible="0-15", offline="3,6-15")
    tree.nodes("0-2,4-5")

    found, problems = read(tree.host)

    assert problems == []
    # 8-15 could be plugged in; they are not there.
    assert found.offline == (3, 6, 7)
    assert found.all[3] == Cpu(3, online=False)
    assert found.all[2].siblings == (2,)
    assert (found.cores, found.smt) == (3, 2)
    assert found.possible == tuple(range(16))


def test_isolated_and_tickless_cpus_are_not_for_ordinary_threads(tree: Tree) -> None:
    tree.cpus("0 1 2 3 4 5", isolated="2-3", nohz_full="3-4")
    tree.nodes("0-5")

    found, problems = read(tree.host)

    assert problems == []
    assert (found.isolated, found.nohz_full, found.housekeeping) == ((2, 3), (3, 4), (0, 1, 5))


def test_an_empty_list_of_rhel_7_is_empty(tree: Tree) -> None:
    tree.cpus("0 1", nohz_full="\0")
    tree.nodes("0-1")

    found, problems = read(tree.host)

    assert problems == []
    assert (found.nohz_full, found.housekeeping) == ((), (0, 1))


def test_a_kernel_that_says_nothing_of_cores_is_told_once(tree: Tree) -> None:
    for name in ("online", "possible", "present"):
        tree.put(f"{CPU}/{name}", "0-63")
    tree.nodes("0-63")

    found, problems = read(tree.host)

    assert (found.packages, found.cores, found.smt) == (0, 0, 0)
    assert problems == [
        f"{CPU}/cpu0/topology/thread_siblings_list: the kernel does not say which core CPU 0-63 belongs to"
    ]


def without_lists(tree: Tree) -> None:
    for cpu in range(4):
        tree.put(f"{CPU}/cpu{cpu}/topology/core_id", cpu)
    for cpu, text in ((1, "1"), (3, "0")):
        tree.put(f"{CPU}/cpu{cpu}/online", text)


def test_without_their_lists_the_cpus_are_those_that_have_a_folder(tree: Tree) -> None:
    """As in captures that lack the files."""
    without_lists(tree)
    tree.put(f"{CPU}/cpufreq/boost", "1")

    found, _problems = read(tree.host)

    assert (found.present, found.online, found.offline) == ((0, 1, 2, 3), (0, 1, 2), (3,))


def test_a_folder_that_does_not_say_whether_its_cpu_is_online_leaves_all_unknown(tree: Tree) -> None:
    without_lists(tree)
    file = f"{CPU}/cpu3/online"

    found, problems = read(tree.refusing({file: errno.EACCES}))

    assert (found.present, found.online) == ((0, 1, 2, 3), ())
    assert any(file in problem and "EACCES" in problem for problem in problems)


@pytest.mark.parametrize("text", ["rubbish", "1", ""])
def test_siblings_without_the_cpu_itself_are_no_answer(tree: Tree, text: str) -> None:
    tree.cpus("0 1")
    tree.nodes("0-1")
    tree.put(f"{CPU}/cpu0/topology/thread_siblings_list", text)

    found, problems = read(tree.host)

    assert found.all[0].siblings == ()
    assert found.cores == 1
    assert len(problems) == 1


def test_a_negative_number_is_the_kernels_word_for_unknown(tree: Tree) -> None:
    tree.cpus("0 1")
    tree.nodes("0-1")
    tree.put(f"{CPU}/cpu1/topology/physical_package_id", "-1")
    tree.put(f"{CPU}/cpu1/topology/core_id", "-1")

    found, _problems = read(tree.host)

    assert (found.all[1].package, found.all[1].core) == (None, None)
    assert found.packages == 1


def test_a_machine_that_cannot_be_read_has_no_cpus_and_says_so(tree: Tree) -> None:
    found, problems = read(tree.refusing({f"{CPU}/online": errno.EACCES}))

    assert found.online == found.all == ()
    assert any(f"{CPU}/online" in problem and "EACCES" in problem for problem in problems)


@pytest.mark.parametrize("small", ["cpu_atom", "cpu_lowpower"])
def test_a_hybrid_x86_machine_tells_its_cores_by_their_counters(tree: Tree, small: str) -> None:
    tree.cpus("0,1 2 3")
    tree.nodes("0-3")
    tree.put("/sys/devices/cpu_core/cpus", "0-1")
    tree.put(f"/sys/devices/{small}/cpus", "2-3")

    found, _problems = read(tree.host)

    assert found.hybrid
    assert [cpu.kind for cpu in found.all] == ["performance", "performance", "efficiency", "efficiency"]


def test_one_kind_of_counter_is_no_hybrid_machine(tree: Tree) -> None:
    tree.cpus("0 1")
    tree.nodes("0-1")
    tree.put("/sys/devices/cpu_core/cpus", "0-1")

    assert not read(tree.host)[0].hybrid


@cases.table
def test_arm64_tells_its_cores_by_their_capacity(
    tree: Tree, capacities: tuple[int, ...], kinds: list[str]
) -> None:
    tree.cpus("0 1 2 3")
    tree.nodes("0-3")
    for cpu, capacity in enumerate(capacities):
        tree.put(f"{CPU}/cpu{cpu}/cpu_capacity", capacity)

    assert [cpu.kind for cpu in read(tree.host)[0].all] == kinds


def test_a_capacity_that_is_no_number_is_left_out_and_told(tree: Tree) -> None:
    tree.cpus("0 1")
    tree.nodes("0-1")
    tree.put(f"{CPU}/cpu0/cpu_capacity", "1024")
    tree.put(f"{CPU}/cpu1/cpu_capacity", "much")

    found, problems = read(tree.host)

    assert not found.hybrid
    assert problems == [f"{CPU}/cpu1/cpu_capacity: 'much' is not a number"]


@pytest.mark.parametrize("path", [CPUSET, CPUSET_V1])
def test_a_container_has_only_what_its_cgroup_allows(tree: Tree, path: str) -> None:
    tree.cpus("0,4 1,5 2,6 3,7", isolated="5")
    tree.nodes("0-7")
    tree.put(path, "1,5-6,99")

    found, problems = read(tree.host, in_container=True)

    assert problems == []
    assert found.allowed == (1, 5, 6)
    assert found.housekeeping == (1, 6)
    # Outside of a container it is the root of the tree, and says nothing of this process.
    assert read(tree.host)[0].allowed == found.online


def test_a_container_whose_cgroup_cannot_be_seen_is_told(tree: Tree) -> None:
    tree.cpus("0 1")
    tree.nodes("0-1")

    found, problems = read(tree.host, in_container=True)

    assert found.allowed == (0, 1)
    assert problems == [f"{CPUSET} does not exist, so the CPUs that this container may use are unknown"]
