# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Processes on two NUMA nodes: CPUs 0-1 and the first GPU on node 0, CPUs 2-3 and the second on node 1."""

from __future__ import annotations

import errno
import os

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.gpu_machine import GpuMachine
from mlnode.checks.audit import ranks
from mlnode.checks.audit.model import checks
from mlnode.checks.model import Check, Verdict
from mlnode.host.host import Host
from mlnode.linux import ranks as rank_files
from mlnode.topology import hardware

from .looking import NODES

FIRST, SECOND = "0000:1b:00.0", "0000:1c:00.0"
GIB = 1 << 30


@pytest.fixture
def node(node: GpuMachine) -> GpuMachine:
    node.put(f"/sys/devices/pci0000:1c/{SECOND}/numa_node", "1\n")
    for minor, address in enumerate((FIRST, SECOND)):
        node.put(
            f"/proc/driver/nvidia/gpus/{address}/information", f"Model: \t X\nDevice Minor: \t {minor}\n"
        )
    return node


def rank(
    node: GpuMachine, pid: int, cpus: str, *devices: str, nodes: str = "0-1", maps: str = "", last: int = 0
) -> None:
    node.put(f"/proc/{pid}/comm", "python3\n")
    node.put(
        f"/proc/{pid}/status",
        f"Name:\tpython3\nCpus_allowed:\tf\nCpus_allowed_list:\t{cpus}\nMems_allowed_list:\t{nodes}\n",
    )
    node.put(f"/proc/{pid}/stat", f"{pid} (a) b (c) S {' '.join(['0'] * 35)} {last} 0 0\n")
    node.put(f"/proc/{pid}/numa_maps", maps)
    for number, device in enumerate(devices):
        node.link(f"/proc/{pid}/fd/{number}", device)


def anon(node: int, gib: float) -> str:
    pages = int(gib * GIB) >> 12
    return f"7f0000000000 default anon={pages} dirty={pages} N{node}={pages} kernelpagesize_kB=4\n"


def look(node: Host) -> dict[tuple[str, str], Check]:
    node.forget()
    return {(check.name, check.target): check for check in checks(ranks.LOOKS, node, hardware.topology(node))}


# -- CPUs ----------------------------------------------------------------------------------


@cases.table
def test_cpus_of_a_rank(node: GpuMachine, cpus: str, verdict: Verdict, found: str) -> None:
    rank(node, 70, cpus, "/dev/null", "/dev/nvidiactl", "/dev/nvidia0", last=3)
    check = look(node)["rank_cpus", f"GPU {FIRST}"]
    assert (check.verdict, check.found) == (verdict, found)
    assert bool(check.expected) == (verdict in (Verdict.PASS, Verdict.WARN))
    assert check.expected in ("", "on node 0, CPUs 0-1")
    assert bool(check.advice) is (verdict == Verdict.WARN)


def test_the_worst_rank_of_a_gpu_is_named(node: GpuMachine) -> None:
    for pid in range(70, 76):
        rank(node, pid, "0-1", "/dev/nvidia0")
    rank(node, 80, "2", "/dev/nvidia0")
    check = look(node)["rank_cpus", f"GPU {FIRST}"]
    assert (check.verdict, check.found) == (
        Verdict.WARN,
        "pid 80 (python3): CPU 2 of node 1; of 7 processes",
    )


def test_cuda_opens_all_gpus_and_nvidia_smi_knows_which_is_meant(node: GpuMachine) -> None:
    rank(node, 70, "2-3", "/dev/nvidia0", "/dev/nvidia1")
    both = f"GPUs {FIRST}, {SECOND}"
    assert look(node)["rank_cpus", both].verdict is Verdict.SKIP
    assert look(node)["rank_cpus", both].found.endswith("GPUs of the nodes 0, 1, so none is right")
    node.apps = f"70, 0000{FIRST.upper()}\n"
    assert look(node)["rank_cpus", f"GPU {FIRST}"].verdict is Verdict.WARN
    node.apps = f"70, 0000{SECOND.upper()}\n[N/A], nonsense\n"
    assert look(node)["rank_cpus", f"GPU {SECOND}"].verdict is Verdict.PASS
    node.installed = False
    assert look(node)["rank_cpus", both].verdict is Verdict.SKIP


@cases.table
def test_gpus_by_their_files_in_sysfs(node: GpuMachine, device: str, link: str, target: str) -> None:
    node.link(*link.split())
    rank(node, 70, "0-1", "/dev/kfd", device)
    assert look(node)["rank_cpus", f"GPU {target}"].verdict in (Verdict.PASS, Verdict.WARN)


def test_a_gpu_that_is_not_known_is_unknown(node: GpuMachine) -> None:
    rank(node, 70, "0-1", "/dev/kfd")
    check = look(node)["rank_cpus", "GPU"]
    assert (check.verdict, check.found) == (Verdict.UNKNOWN, "pid 70 (python3): its GPU is not known")
    rank(node, 71, "0-1", "/dev/nvidia1")
    node.put(f"/sys/devices/pci0000:1c/{SECOND}/numa_node", "-1\n")
    check = look(node)["rank_memory", f"GPU {SECOND}"]
    assert check.verdict is Verdict.UNKNOWN
    assert check.found.endswith("the firmware names no NUMA node for its GPU")


# -- memory --------------------------------------------------------------------------------


@cases.table
def test_memory_of_a_rank(node: GpuMachine, maps: str, verdict: Verdict, found: str) -> None:
    rank(node, 70, "0-1", "/dev/nvidia0", maps=maps)
    check = look(node)["rank_memory", f"GPU {FIRST}"]
    assert (check.verdict, check.found) == (verdict, f"pid 70 (python3): {found}")


def test_pages_without_their_size_are_unknown(node: GpuMachine) -> None:
    """As old kernels print them: pages of 4 KiB, of 2 MiB or of 64 KiB."""
    rank(node, 70, "0-1", "/dev/nvidia0", maps="7f0000000000 default anon=512 dirty=512 N1=512\n")
    check = look(node)["rank_memory", f"GPU {FIRST}"]
    assert check.verdict is Verdict.UNKNOWN
    assert "it has no kernelpagesize_kB" in check.found


def test_memory_that_may_only_be_elsewhere(node: GpuMachine) -> None:
    rank(node, 70, "0-1", "/dev/nvidia0", nodes="1", maps=anon(0, 1))
    check = look(node)["rank_memory", f"GPU {FIRST}"]
    assert (check.verdict, check.found) == (
        Verdict.WARN,
        "pid 70 (python3): its memory may be on node 1 only",
    )


def test_a_long_map_is_read_in_part(node: GpuMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rank_files, "MOST_BYTES", 200)
    rank(node, 70, "0-1", "/dev/nvidia0", maps=anon(0, 1) * 9)
    check = look(node)["rank_memory", f"GPU {FIRST}"]
    assert (check.verdict, check.found) == (Verdict.UNKNOWN, "pid 70 (python3): not read as a whole")
    rank(node, 71, "0-1", "/dev/nvidia1", maps=anon(0, 1) * 9)
    assert look(node)["rank_memory", f"GPU {SECOND}"].verdict is Verdict.WARN, "as far as it was read"
    monkeypatch.setattr(ranks, "_SECONDS", 0.0)
    check = look(node)["rank_memory", f"GPU {FIRST}"]
    assert (check.verdict, "not read, as others took" in check.found) == (Verdict.UNKNOWN, True)


def test_the_pages_of_this_process_are_the_kernels_own() -> None:
    block = bytearray(os.urandom(1 << 20) * 64)
    pages = rank_files.pages(Host(), os.getpid(), 30)
    assert pages.whole
    assert sum(pages.on.values()) >= len(block)


# -- what cannot be seen -------------------------------------------------------------------


@pytest.mark.parametrize("file", ["numa_maps", "status"])
def test_files_that_cannot_be_read_are_unknown(node: GpuMachine, file: str) -> None:
    rank(node, 70, "0-1", "/dev/nvidia0", maps=anon(0, 1))
    node.unreadable[f"/proc/70/{file}"] = errno.EACCES
    found = look(node)
    where = f"GPU {FIRST}" if file == "numa_maps" else "node"
    assert found["rank_memory", where].verdict is Verdict.UNKNOWN
    assert "EACCES" in found["rank_memory", where].found
    assert [check for check in found.values() if check.verdict is Verdict.PASS] == (
        [found["rank_cpus", where]] if file == "numa_maps" else []
    )


def test_processes_of_others_are_unknown(node: GpuMachine) -> None:
    rank(node, 70, "0-1", "/dev/nvidia0")
    node.unreadable["/proc/70/fd"] = errno.EACCES
    for name in ("rank_cpus", "rank_memory"):
        check = look(node)[name, "node"]
        assert check.verdict is Verdict.UNKNOWN
        assert check.found.startswith("1 process that cannot be looked into: ")


@pytest.mark.parametrize("number", [errno.ESRCH, errno.ENOENT])
def test_a_process_that_has_ended_is_passed_over(node: GpuMachine, number: int) -> None:
    rank(node, 70, "0-1", "/dev/nvidia0", maps=anon(1, 9))
    node.unreadable["/proc/70/numa_maps"] = number
    assert look(node)["rank_memory", f"GPU {FIRST}"].verdict is Verdict.SKIP
    node.unreadable["/proc/70/status"] = number
    assert {check.verdict for check in look(node).values()} == {Verdict.SKIP}


@pytest.mark.parametrize("status", ["", "Cpus_allowed_list:\tx\n", "Cpus_allowed_list:\t0-1\n"])
def test_a_status_that_is_not_understood_is_unknown(node: GpuMachine, status: str) -> None:
    rank(node, 70, "0-1", "/dev/nvidia0")
    node.put("/proc/70/status", status)
    assert look(node)["rank_cpus", "node"].verdict is Verdict.UNKNOWN


def test_services_are_no_ranks(node: GpuMachine) -> None:
    rank(node, 70, "2-3", "/dev/nvidia0")
    node.put("/proc/70/comm", "nv-hostengine\n")
    node.put("/proc/70/status", f"{node.text('/proc/70/status')}Uid:\t0\t0\t0\t0\n")
    assert look(node)["rank_cpus", "node"].found == "no process holds a GPU"


def test_there_may_be_nothing_to_look_at(node: GpuMachine) -> None:
    rank(node, 70, "0-1", "/dev/nvidia0")
    node.put(f"{NODES}/online", "0\n")
    assert {check.verdict for check in look(node).values()} == {Verdict.SKIP}


@cases.table
def test_gpus_by_files_with_their_address(node: GpuMachine, device: str, file: str, text: str) -> None:
    node.put(file, f"{text}\n")
    rank(node, 70, "0-1", device)
    assert look(node)["rank_cpus", f"GPU {SECOND}"].verdict is Verdict.WARN
    node.put(file, "")
    assert look(node)["rank_cpus", "GPU"].verdict is Verdict.UNKNOWN


# -- whole devices that a process drives by itself -----------------------------------------

GROUP = "/sys/kernel/iommu_groups/7/devices"


def test_an_accelerator_without_a_driver_of_the_kernel_has_a_rank(node: GpuMachine) -> None:
    """As libtpu, which opens the group of the IOMMU."""
    node.put(f"{GROUP}/{SECOND}/x", "")
    rank(node, 70, "0-1", "/dev/vfio/vfio", "/dev/vfio/7")
    assert look(node)["rank_cpus", f"GPU {SECOND}"].verdict is Verdict.WARN


def test_a_process_with_a_nic_of_its_own_is_no_rank(node: GpuMachine) -> None:
    nic = "/sys/bus/pci/devices/0000:3b:00.0"
    node.put(f"{GROUP}/0000:3b:00.0/x", "")
    rank(node, 70, "0-1", "/dev/vfio/7")
    for vendor, kind in (("0x15b3\n", "0x020000\n"), ("", "")):
        node.put(f"{nic}/vendor", vendor)
        node.put(f"{nic}/class", kind)
        assert [check.verdict for check in look(node).values()] == [Verdict.SKIP] * 2


def test_a_process_with_a_zip_engine_of_its_own_is_no_rank(node: GpuMachine) -> None:
    """Of a Kunpeng processor, with vendor and class of an Ascend."""
    node.put(f"{GROUP}/0000:75:00.0/x", "")
    rank(node, 70, "0-1", "/dev/vfio/7")
    for name, text in (("vendor", "0x19e5"), ("class", "0x120000"), ("device", "0xa250")):
        node.put(f"/sys/bus/pci/devices/0000:75:00.0/{name}", f"{text}\n")
    assert [check.verdict for check in look(node).values()] == [Verdict.SKIP] * 2
    node.put("/sys/bus/pci/devices/0000:75:00.0/device", "0xd802\n")
    assert [check.verdict for check in look(node).values()] != [Verdict.SKIP] * 2


@pytest.mark.parametrize("content", ["0x1ae0 more", "Google", "\N{GREEK SMALL LETTER PI}", "0x" * 9999])
def test_an_owned_device_that_is_not_understood_is_unknown(node: GpuMachine, content: str) -> None:
    node.put(f"{GROUP}/0000:3b:00.0/x", "")
    node.put("/sys/bus/pci/devices/0000:3b:00.0/vendor", content)
    rank(node, 70, "0-1", "/dev/vfio/7")
    assert {check.verdict for check in look(node).values()} == {Verdict.UNKNOWN}


@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO])
@pytest.mark.parametrize(
    ("device", "path"),
    [
        ("/dev/vfio/7", "/sys/bus/pci/devices/0000:3b:00.0/class"),
        ("/dev/rngd/npu0pe1", "/sys/class/rngd_mgmt/rngd!npu0mgmt/busname"),
        ("/dev/hl0", "/sys/class/habanalabs/hl0/pci_addr"),
    ],
)
def test_an_unreadable_place_of_an_accelerator_is_unknown(
    node: GpuMachine, device: str, path: str, number: int
) -> None:
    node.put(f"{GROUP}/0000:3b:00.0/x", "")
    node.put(path, FIRST)
    node.unreadable[path] = number
    rank(node, 70, "0-1", device)
    checks = look(node).values()
    assert {check.verdict for check in checks} == {Verdict.UNKNOWN}
    assert any(path in check.found for check in checks)
