# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import errno

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.plugins.module_utils._mlnode.topology.trees import (
    NODE,
    Tree,
)
from mlnode.topology import numa
from mlnode.topology.model import Node
from mlnode.topology.sysfs import Reader


def test_nodes_with_cpus_memory_and_distances(tree: Tree) -> None:
    tree.nodes("0-3", "4-7", memory=1024, far=21)
    reader = Reader(tree.host)

    assert numa.read(reader, ()) == (
        Node(0, (0, 1, 2, 3), 1024, (10, 21)),
        Node(1, (4, 5, 6, 7), 1024, (21, 10)),
    )
    assert reader.problems == []


@pytest.mark.parametrize("online", [None, "0-1\n\0"])
def test_nodes_are_found_without_their_list_or_with_the_end_of_a_string(
    tree: Tree, online: str | None
) -> None:
    """As in captures that lack the file, and as older kernels print it."""
    tree.nodes("0-3", "4-7")
    (tree.root / f"{NODE}/online".lstrip("/")).unlink()
    if online is not None:
        tree.put(f"{NODE}/online", online)
    reader = Reader(tree.host)

    assert [node.number for node in numa.read(reader, ())] == [0, 1]
    assert reader.problems == []


@cases.table
def test_the_cpus_of_a_node_without_their_list_are_those_of_its_mask(
    tree: Tree, mask: str | None, cpus: tuple[int, ...], problems: list[str]
) -> None:
    tree.nodes("0-3", "4-7")
    (tree.root / f"{NODE}/node1/cpulist".lstrip("/")).unlink()
    if mask is not None:
        tree.put(f"{NODE}/node1/cpumap", mask)
    reader = Reader(tree.host)

    assert numa.read(reader, ())[1].cpus == cpus
    assert [problem.what for problem in reader.problems] == problems


def test_a_kernel_without_numa_is_one_node_and_that_is_told(tree: Tree) -> None:
    tree.put("/proc/meminfo", "MemTotal:        2048 kB\nMemFree:   1 kB")
    reader = Reader(tree.host)

    assert numa.read(reader, (0, 1)) == (Node(0, (0, 1), 2048, (10,)),)
    assert [problem.what for problem in reader.problems] == [f"{NODE}/online does not exist"]


def test_where_the_cpus_are_not_known_there_is_no_node(tree: Tree) -> None:
    reader = Reader(tree.host)

    assert numa.read(reader, ()) == ()
    assert [problem.what for problem in reader.problems] == [f"{NODE}/online does not exist"]


def test_an_offline_cpu_that_a_kernel_leaves_in_the_list_of_its_node_is_not_one_of_its_cpus(
    tree: Tree,
) -> None:
    tree.nodes("0-3", "4-7")
    reader = Reader(tree.host)

    assert [node.cpus for node in numa.read(reader, (0, 2, 3))] == [(0, 2, 3), ()]
    assert reader.problems == []


@cases.table
def test_a_damaged_file_of_a_node_is_told_and_the_rest_is_kept(
    tree: Tree, file: str, text: str, words: str
) -> None:
    tree.nodes("0-3")
    tree.put(f"{NODE}/node0/{file}", text)
    reader = Reader(tree.host)

    [node] = numa.read(reader, ())

    assert [problem.path for problem in reader.problems] == [f"{NODE}/node0/{file}"]
    assert words in reader.problems[0].what
    kept = {"cpulist": node.cpus, "meminfo": node.memory_kbytes, "distance": node.distances}
    assert [name for name, value in kept.items() if not value] == [file]


@pytest.mark.parametrize("file", ["cpulist", "meminfo", "distance"])
def test_a_file_of_a_node_that_cannot_be_read_is_told(tree: Tree, file: str) -> None:
    tree.nodes("0-3")
    path = f"{NODE}/node0/{file}"
    reader = Reader(tree.refusing({path: errno.EIO}))

    numa.read(reader, ())

    [problem] = reader.problems
    assert problem.path == path
    assert "EIO" in problem.what


def test_a_node_of_memory_alone_is_served_by_the_nearest_with_cpus() -> None:
    nodes = (
        Node(0, (0,), 1, (10, 40, 120, 80)),
        Node(1, (1,), 1, (40, 10, 80, 120)),
        Node(2, (), 1, (120, 80, 10, 120)),
        Node(3, (), 1, (80, 120, 120, 10)),
    )

    assert numa.with_cpus(nodes) == nodes[:2]
    assert [numa.home(nodes, number) for number in range(4)] == [nodes[0], nodes[1], nodes[1], nodes[0]]
    assert numa.home(nodes, None) is None
    assert [numa.home(nodes[1:], number) for number in (None, 0, 3)] == [nodes[1]] * 3


def test_memory_comes_from_the_nearest_node_that_has_some() -> None:
    nodes = (
        Node(0, (0,), 0, (10, 16, 32, 80)),
        Node(1, (1,), None, (16, 10, 32, 80)),
        Node(2, (2,), 1, (32, 32, 10, 80)),
        Node(3, (), 1, (80, 80, 80, 10)),
    )

    # Not known is not none.
    assert [numa.with_memory(nodes, number) for number in range(4)] == [nodes[1], *nodes[1:]]
    assert numa.with_memory((Node(0, (0,), 0, ()), Node(1, (1,), 1, ())), 0) is None


def test_the_distance_of_two_nodes_is_known_where_the_firmware_says_all() -> None:
    nodes = (Node(0, (0,), 1, (10, 16)), Node(4, (1,), 1, (16,)))

    assert (numa.apart(nodes, 0, 4), numa.apart(nodes, 4, 0)) == (16, None)
    assert (numa.apart(nodes, None, 0), numa.apart(nodes, 0, 7)) == (None, None)


def test_nobody_is_near_a_node_that_says_no_distances_or_is_not_there() -> None:
    silent = (Node(0, (0,), 1, (10, 20)), Node(1, (), 1, ()))

    silent += (Node(2, (2,), 1, (20, 10)),)
    assert numa.home(silent, 1) is None
    assert numa.home(silent, 7) is None
    assert numa.home((Node(0, (), 1, (10,)),), 0) is None
