# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import errno

import pytest
from ansible_collections.mlnode.tuning.tests.unit.plugins.module_utils._mlnode.topology.trees import (
    NODE,
    Tree,
)
from mlnode.topology import numa
from mlnode.topology.model import Node
from mlnode.topology.reader import Reader


def test_nodes_with_cpus_memory_and_distances(tree: Tree) -> None:
    tree.nodes("0-3", "4-7", memory=1024, far=21)
    reader = Reader(tree.host)

    assert numa.read(reader) == (Node(0, (0, 1, 2, 3), 1024, (10, 21)), Node(1, (4, 5, 6, 7), 1024, (21, 10)))
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

    assert [node.number for node in numa.read(reader)] == [0, 1]
    assert reader.problems == []


def test_a_kernel_without_numa_is_told(tree: Tree) -> None:
    reader = Reader(tree.host)

    assert numa.read(reader) == ()
    assert [problem.what for problem in reader.problems] == [f"{NODE}/online does not exist"]


@pytest.mark.parametrize(
    "file, text, words",
    [
        ("meminfo", "Node 0 MemFree: 1 kB", "has no row MemTotal"),
        ("meminfo", "Node 0 MemTotal: lots kB", "has no row MemTotal"),
        ("distance", "10 far", "'10 far' is not a list of distances"),
        ("distance", "10 ٣", "is not a list of distances"),
        ("cpulist", "0-", "is not a list of CPUs"),
    ],
)
def test_a_damaged_file_of_a_node_is_told_and_the_rest_is_kept(
    tree: Tree, file: str, text: str, words: str
) -> None:
    tree.nodes("0-3")
    tree.put(f"{NODE}/node0/{file}", text)
    reader = Reader(tree.host)

    [node] = numa.read(reader)

    assert [problem.path for problem in reader.problems] == [f"{NODE}/node0/{file}"]
    assert words in reader.problems[0].what
    kept = {"cpulist": node.cpus, "meminfo": node.memory_kbytes, "distance": node.distances}
    assert [name for name, value in kept.items() if not value] == [file]


@pytest.mark.parametrize("file", ["cpulist", "meminfo", "distance"])
def test_a_file_of_a_node_that_cannot_be_read_is_told(tree: Tree, file: str) -> None:
    tree.nodes("0-3")
    path = f"{NODE}/node0/{file}"
    reader = Reader(tree.refusing({path: errno.EIO}))

    numa.read(reader)

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
    assert [numa.nearest_with_cpus(nodes, number) for number in range(4)] == [
        nodes[0],
        nodes[1],
        nodes[1],
        nodes[0],
    ]


def test_nobody_is_near_a_node_that_says_no_distances_or_is_not_there() -> None:
    silent = (Node(0, (0,), 1, (10, 20)), Node(1, (), 1, ()))

    assert numa.nearest_with_cpus(silent, 1) is None
    assert numa.nearest_with_cpus(silent, 7) is None
    assert numa.nearest_with_cpus((Node(0, (), 1, (10,)),), 0) is None
