# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import errno
import os
import shutil

from ansible_collections.mlnode.tuning.tests.unit.gpu_machine import GpuMachine
from mlnode.checks.model import Verdict

from .looking import NODES, one

POOL = "/sys/kernel/mm/hugepages/hugepages-2048kB"


# -- huge pages ----------------------------------------------------------------------------


def pool(node: GpuMachine, free: int) -> None:
    node.put(f"{POOL}/nr_hugepages", "1024\n")
    node.put(f"{POOL}/free_hugepages", f"{free}\n")
    node.put(f"{NODES}/node1/hugepages/hugepages-2048kB/nr_hugepages", "1024\n")


def test_a_pool_is_told_with_who_has_it(node: GpuMachine) -> None:
    pool(node, 512)
    node.put("/proc/mounts", "proc /proc proc rw 0 0\nhugetlbfs /dev/hugepages hugetlbfs rw 0 0\n")
    node.put("/proc/70/status", "Name:\tspdk_tgt\nUid:\t0\t0\t0\t0\nHugetlbPages:\t 1048576 kB\n")
    node.put("/proc/71/status", "Name:\tsh\nHugetlbPages:\t       0 kB\n")
    check = one(node, "hugepages")
    assert check.verdict is Verdict.SKIP
    assert check.found == (
        "1024 pages of 2048 kB, 2 GiB, 512 in use (on node 1: 1024); mapped by spdk_tgt (SPDK) 1 GiB; "
        "hugetlbfs at /dev/hugepages"
    )


def test_a_pool_of_which_nothing_is_mapped_may_be_waited_for(node: GpuMachine) -> None:
    pool(node, 1024)
    found = one(node, "hugepages").found
    assert "0 in use" in found
    assert "hugetlbfs is not mounted" in found
    assert found.endswith("made for DPDK, SPDK, WEKA and libfabric, which may not run yet")
    node.add("0000:99:00.0", "0x1d0f", driver="efa")
    assert "libfabric (this node has EFA devices)" in one(node, "hugepages").found


def test_a_pool_that_cannot_be_read(node: GpuMachine) -> None:
    pool(node, 1)
    node.unreadable[f"{POOL}/free_hugepages"] = errno.EIO
    assert one(node, "hugepages").verdict is Verdict.UNKNOWN


def test_pools_without_their_folder_are_unknown(node: GpuMachine) -> None:
    """As in captures that lack it."""
    shutil.rmtree(node.root + os.path.dirname(POOL))
    node.put("/proc/meminfo", "MemTotal: 1048576 kB\n")
    assert one(node, "hugepages").verdict is Verdict.SKIP
    node.put("/proc/meminfo", "MemTotal: 1048576 kB\nHugePages_Total: 4\nHugepagesize: 2048 kB\n")
    check = one(node, "hugepages")
    assert (check.verdict, check.found.partition("but there is ")[2]) == (
        Verdict.UNKNOWN,
        "Hugepagesize of /proc/meminfo",
    )
    node.put(f"{NODES}/node1/hugepages/hugepages-2048kB/nr_hugepages", "4\n")
    assert one(node, "hugepages").found.endswith(f"but there is {NODES}/node1/hugepages")


# -- what is left --------------------------------------------------------------------------


def test_free_memory_of_each_node(node: GpuMachine) -> None:
    for number, free in ((0, 1 << 19), (1, 1 << 18)):
        node.put(
            f"{NODES}/node{number}/meminfo",
            f"Node {number} MemTotal:       {1 << 20} kB\nNode {number} MemFree:        {free} kB\n"
            f"Node {number} FilePages:      {1 << 17} kB\nNode {number} Active(anon):  5 kB\n",
        )
    check = one(node, "free_memory")
    assert check.verdict is Verdict.SKIP
    assert check.found == (
        "node 0: 0.5 of 1.0 GiB free, 0.1 GiB file cache; node 1: 0.2 of 1.0 GiB free, 0.1 GiB file cache"
    )
    node.unreadable[f"{NODES}/node1/meminfo"] = errno.EIO
    assert one(node, "free_memory").verdict is Verdict.UNKNOWN


def test_free_memory_of_a_kernel_without_numa(node: GpuMachine) -> None:
    shutil.rmtree(node.real(NODES))
    node.put("/proc/meminfo", f"MemTotal: {1 << 21} kB\nMemFree: {1 << 20} kB\nCached: {1 << 19} kB\n")
    assert one(node, "free_memory").found == "node 0: 1.0 of 2.0 GiB free, 0.5 GiB file cache"
