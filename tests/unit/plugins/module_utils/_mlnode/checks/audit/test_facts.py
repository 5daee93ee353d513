# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import errno
import pathlib

from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.gpu_machine import GpuMachine
from mlnode.checks.model import Verdict
from mlnode.model.setting import Severity

from .looking import one

MEMINFO, CMDLINE, RELEASE = "/proc/meminfo", "/proc/cmdline", "/proc/sys/kernel/osrelease"
PREEMPT, POOLS = "/sys/kernel/debug/sched/preempt", "/sys/kernel/mm/hugepages"


# -- scratch memory of kexec handover ------------------------------------------------------


def cma(node: GpuMachine, total: int, free: int) -> None:
    node.put(MEMINFO, f"MemTotal:  9999999 kB\nCmaTotal:  {total} kB\nCmaFree:  {free} kB\n")


def test_more_free_memory_of_cma_than_there_is_belongs_to_the_next_kernel(node: GpuMachine) -> None:
    """Numbers of a GB10 with Linux 7.0: NVIDIA, NV-Kernels pull request 591."""
    cma(node, 0, 10171187)
    assert one(node, "kexec_handover").verdict is Verdict.SKIP  # without RDMA
    node.put("/sys/class/infiniband/mlx5_0/node_type", "1: CA\n")
    check = one(node, "kexec_handover")
    assert (check.verdict, check.severity) == (Verdict.FAIL, Severity.HIGH)
    assert check.found == "9.70 GiB at least: CmaFree 10171187 kB, CmaTotal 0 kB"
    assert "kho=off" in check.advice


def test_cma_without_scratch_memory(node: GpuMachine) -> None:
    node.put(MEMINFO, "MemTotal:  9999999 kB\n")
    check = one(node, "kexec_handover")
    assert (check.verdict, check.found) == (
        Verdict.SKIP, "this kernel has no CMA, which the scratch memory would be a part of",
    )  # fmt: skip
    cma(node, 65536, 1024)
    node.unreadable[MEMINFO] = errno.EIO
    assert one(node, "kexec_handover").verdict is Verdict.UNKNOWN


@cases.table
def test_used_memory_may_hide_scratch_memory(
    node: GpuMachine, release: str, words: str, verdict: str, found: str
) -> None:
    node.put(RELEASE, f"{release}\n")
    node.put(CMDLINE, f"ro {words}\n")
    cma(node, 65536, 1024)
    check = one(node, "kexec_handover")
    assert (str(check.verdict), check.found) == (verdict, f"{found} kB, CmaTotal 65536 kB")


# -- the command line ----------------------------------------------------------------------


@cases.table
def test_sizes_that_a_kernel_with_large_pages_drops(
    node: GpuMachine, words: str, verdict: str, found: str
) -> None:
    """64 KiB pages on arm64: 2 MiB, 512 MiB and 16 GiB (arch/arm64/hugetlbpage.rst)."""
    node.remove(f"{POOLS}/hugepages-1048576kB/nr_hugepages")
    for size in (524288, 16777216):
        node.put(f"{POOLS}/hugepages-{size}kB/nr_hugepages", "0\n")
    pathlib.Path(node.real(f"{POOLS}/hugepages-1048576kB")).rmdir()
    node.put(CMDLINE, f"ro {words}\n")
    check = one(node, "hugepage_sizes")
    assert (str(check.verdict), check.found) == (verdict, found)


# -- names and files -----------------------------------------------------------------------


def test_names_that_the_scheduler_has_no_more_are_unknown_and_not_wrong(node: GpuMachine) -> None:
    assert one(node, "scheduler_names").found == "no file sets a name that this kernel does not have"
    node.put("/etc/sysctl.d/50-old.conf", "kernel.sched_min_granularity_ns = 10000000\n")
    check = one(node, "scheduler_names")
    assert check.verdict is Verdict.SKIP
    assert check.found == (
        "unknown to this kernel: kernel.sched_min_granularity_ns (/etc/sysctl.d/50-old.conf:1)"
    )
    node.put("/proc/sys/kernel/sched_min_granularity_ns", "3000000\n")
    assert "unknown" not in one(node, "scheduler_names").found


def test_settings_of_a_napi_instance_are_not_in_sysfs(node: GpuMachine) -> None:
    node.put(RELEASE, "6.12.1\n")
    assert one(node, "napi_settings").found.startswith("one value for each interface")
    folder = "/sys/devices/pci0000:40/0000:41:00.0"
    for name, text in {
        "class": "0x020000", "vendor": "0x15b3", "device": "0x101d", "net/eth5/operstate": "up",
        "net/eth5/type": "1", "net/eth5/gro_flush_timeout": "20000", "net/eth5/napi_defer_hard_irqs": "0",
    }.items():  # fmt: skip
        node.put(f"{folder}/{name}", f"{text}\n")
    node.link("/sys/bus/pci/devices/0000:41:00.0", "../../../devices/pci0000:40/0000:41:00.0")
    node.link("/sys/class/net/eth5", "../../devices/pci0000:40/0000:41:00.0/net/eth5")
    node.link(f"{folder}/net/eth5/device", "../..")
    node.put(RELEASE, "6.13.0\n")
    check = one(node, "napi_settings")
    assert check.verdict is Verdict.SKIP
    assert check.found.startswith("as sysfs shows: eth5 gro_flush_timeout 20000; of each NAPI instance")
