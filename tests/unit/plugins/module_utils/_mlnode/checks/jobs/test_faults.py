# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Values of a job when a file is unreadable or missing. jobs.yml calls a value that is neither known nor
unknown `not set`, and a job with an unknown value unknown."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator

import pytest
from ansible_collections.mlnode.tuning.tests.unit import control_groups
from ansible_collections.mlnode.tuning.tests.unit.job_machine import declare, process
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from mlnode.checks.jobs import gather
from mlnode.checks.jobs.run import Jobs
from mlnode.checks.model import BAD, Verdict
from mlnode.linux.inside import Storage
from mlnode.model.errors import HostError

from .looking import FIRST, OWN_NET, SCOPE, look, named, see
from .test_devices import uverbs
from .test_memory import GIB, POOL, events, old, use

#: As plugin_utils/jobs/model.py has them
_SOURCES = {
    "environment": ("env ", "nccl ", "world size"),
    "nccl files": ("nccl ",),
    "hugetlb limit": ("hugetlb ",),
}
_NETNS = "/sys/module/ib_core/parameters/netns_mode"
_SOMAXCONN = "/proc/sys/net/core/somaxconn"
_INFORMATION = f"/proc/driver/nvidia/gpus/{FIRST}/information"


@pytest.fixture
def node(trainer: Machine, monkeypatch: pytest.MonkeyPatch) -> Machine:
    see(monkeypatch, {"nvidia0": "195:0", "infiniband/uverbs0": "231:192"})
    variables = ["RANK=0", "WORLD_SIZE=8", "LOCAL_RANK=0", "NCCL_IB_HCA=mlx5", "OMP_NUM_THREADS=2"]
    process(
        trainer, 20, "python", "/dev/nvidia0", "/dev/infiniband/uverbs0", cgroup=SCOPE, environment=variables,
        files={"/etc/nccl.conf": "NCCL_ALGO=Ring\n"},
    )  # fmt: skip
    trainer.put(POOL, "10\n")
    trainer.put(_NETNS, "Y\n")
    trainer.put(_SOMAXCONN, "4096\n")
    declare(trainer, sysctl={"settings": {"net.core.somaxconn": 4096}})
    return trainer


def known(jobs: Jobs) -> set[str]:
    (place,) = jobs.places
    return {*place.values, *(name for process in place.processes for name in process.values)}


def unknown(jobs: Jobs) -> set[str]:
    (place,) = jobs.places
    return {*place.unknown, *(name for process in place.processes for name in process.unknown)}


def doubts(jobs: Jobs) -> set[str]:
    return {check.name for check in jobs.checks if check.verdict is Verdict.UNKNOWN}


def _files(machine: Machine) -> Iterator[str]:
    """Files of the process, of its control groups, and of devices."""
    for top in ("proc/20", "sys/fs/cgroup", "sys/module", "sys/kernel", "proc/driver", "proc/sys/net"):
        for folder, _folders, names in os.walk(f"{machine.root}/{top}"):
            if "/fd" not in folder:
                yield from (f"{folder}/{name}"[len(machine.root) :] for name in names)
    yield from ("/proc/swaps", "/proc/self/mountinfo", "/proc/20/fd")


def test_no_value_disappears_by_an_unreadable_file(node: Machine) -> None:
    healthy = look(node)
    assert not unknown(healthy)
    assert not doubts(healthy)
    names, looks, faults = known(healthy), 0, []
    for path in sorted(_files(node)):
        node.unreadable[path] = errno.EACCES
        jobs = look(node)
        del node.unreadable[path]
        if jobs.places:
            looks += 1
            lost = unknown(jobs)
            covered = tuple(start for source in _SOURCES.keys() & lost for start in _SOURCES[source])
            missing = {name for name in names - known(jobs) - lost if not name.startswith(covered)}
            if missing or (lost and not doubts(jobs)):
                faults.append((path, missing, lost))
    assert not faults
    assert looks > len(names)


@pytest.fixture
def faulty(node: Machine, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A job with a fault of each kind that this node can have."""
    for number, address in enumerate(("0000:14:00.0", "0000:94:00.0")):
        uverbs(node, number, f"mlx5_{number}", address)
    see(monkeypatch, {"nvidia0": "195:0", "infiniband/uverbs1": "231:193"})
    monkeypatch.setattr(gather, "Storage", lambda *_given: Storage("tmpfs", 64 << 20, 1 << 20))
    variables = ["HOME=/root", "RANK=0", "WORLD_SIZE=16", "LOCAL_WORLD_SIZE=8", "NCCL_BUFSIZE=1"]
    process(
        node, 20, "python", "/dev/nvidia0", cgroup=SCOPE, environment=variables, cpus="1,5", nodes="1",
        thp="0", files={"/etc/nccl.conf": "NCCL_IB_TIMEOUT=5\n"},
    )  # fmt: skip
    limits = {"memory.max": str(GIB), "memory.high": str(GIB), "cpu.max": "200000 100000"}
    pages = {"hugetlb.2MB.max": "2097152", "hugetlb.2MB.events.local": "max 3"}
    killed = {"memory.events": events(oom_kill=2), "memory.swap.current": str(GIB)}
    control_groups.group(node, SCOPE, {**limits, **pages, **killed})
    use(node, SCOPE, 0.95)
    node.put("/proc/swaps", "Filename\tType\n/dev/vda2 partition 8388604 0 -2\n")
    node.put(_SOMAXCONN, "128\n")
    for number in range(2):
        node.put(f"/proc/irq/{101 + 0x10 + number}/effective_affinity_list", f"{number}\n")
    declare(
        node, sysctl={"settings": {"net.core.somaxconn": 4096}}, limits={"memlock": "unlimited"},
        nccl={"variables": {"NCCL_IB_TIMEOUT": 22}},
    )  # fmt: skip
    return node


#: What stands for these checks if the look ends before them
_BEFORE = {
    "job_memory_high": "job_memory_limit",
    "job_memory_kills": "job_memory_limit",
    "job_memory_swap": "job_memory_limit",
    "job_cpu_interrupts": "job_cpu_node",
}


def test_no_fault_is_hidden_by_an_unreadable_file(faulty: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    paths: set[str] = set()
    stored = Machine.stored
    monkeypatch.setattr(Machine, "stored", lambda host, path: paths.add(path) or stored(host, path))
    bad = {check.name for check in look(faulty).checks if check.verdict in BAD}
    assert len(bad) == 15, bad
    hidden = []
    for path in sorted(paths):
        faulty.unreadable = {path: errno.EIO}
        try:
            jobs = look(faulty)
        except HostError:
            continue
        left = {check.name for check in jobs.checks if check.verdict in BAD}
        lost = {name for name in bad - left if _BEFORE.get(name) not in left}
        hidden += [(path, lost)] if lost and jobs.places else []
    assert not hidden
    assert len(paths) > 100


def test_version_1_limits_nothing_by_memory_high(node: Machine) -> None:
    old(node)
    assert not unknown(look(node))


@pytest.mark.parametrize("controller", ["hugetlb", "cpuset", "memory", "cpu"])
def test_a_controller_that_the_kernel_does_not_offer_limits_nothing(node: Machine, controller: str) -> None:
    others = [name for name in control_groups.CONTROLLERS if name != controller]
    node.put("/sys/fs/cgroup/cgroup.controllers", f"{' '.join(others)}\n")
    jobs = look(node)
    assert not unknown(jobs)
    assert not doubts(jobs)


@pytest.mark.parametrize("path", [_NETNS, _SOMAXCONN])
def test_a_missing_file_is_known(node: Machine, path: str) -> None:
    os.unlink(f"{node.root}{path}")
    jobs = look(node)
    assert not unknown(jobs)
    assert not doubts(jobs)


def test_an_older_kernel_shares_rdma_devices(node: Machine) -> None:
    process(node, 20, "python", "/dev/nvidia0", cgroup=SCOPE, namespaces=OWN_NET)
    os.unlink(f"{node.root}{_NETNS}")
    jobs = look(node)
    assert jobs.places[0].values["rdma namespaces"] == "shared"


def test_groups_above_that_are_hidden_may_limit(node: Machine) -> None:
    node.put("/proc/swaps", "Filename\tType\n/dev/vda2 partition 8388604 0 -2\n")
    files = {"memory.max": "1073741824", "cpu.max": "200000 100000", "hugetlb.2MB.max": "2097152"}
    control_groups.group(node, SCOPE, files)
    control_groups.hide(node)
    jobs = look(node)
    limits = {"cpu quota", "memory limit", "memory high", "memory swap limit", "hugetlb 2MB limit"}
    assert unknown(jobs) == limits
    checks = {"job_cpu_quota", "job_memory_limit", "job_memory_high", "job_memory_swap", "job_hugetlb"}
    assert doubts(jobs) == {*checks, "job_cpu_count"}


def test_an_unread_environment_is_not_an_empty_one(node: Machine) -> None:
    node.unreadable["/proc/20/environ"] = errno.EACCES
    jobs = look(node)
    assert doubts(jobs) == {"job_nccl_values", "job_cpu_count"}
    assert "nccl NCCL_ALGO" not in known(jobs), "the environment may override the file"


def test_an_unread_file_of_nccl_may_set_any_variable(node: Machine) -> None:
    node.put("/roots/20/etc/nccl.conf", "x" * 70000)
    jobs = look(node)
    assert unknown(jobs) == {"nccl files"}
    assert "nccl NCCL_IB_HCA" in known(jobs), "the environment comes first"
    assert doubts(jobs) == {"job_nccl_files", "job_nccl_values"}


def test_checks_without_a_gpu_s_number_are_still_made(node: Machine) -> None:
    node.unreadable[_INFORMATION] = errno.EACCES
    jobs = look(node)
    assert named(jobs, "job_hugetlb").verdict is Verdict.PASS
    assert named(jobs, "job_thp").verdict is Verdict.PASS
    assert {"thp", "cpus", "cpu numa nodes"} <= known(jobs)


def test_cpus_of_no_numa_node_are_unknown(node: Machine) -> None:
    process(node, 20, "python", "/dev/nvidia0", cgroup=SCOPE, cpus="100-103")
    jobs = look(node)
    assert unknown(jobs) == {"cpu numa nodes"}
    assert doubts(jobs) == {"job_cpu_node"}


def test_huge_pages_of_an_older_kernel_are_unknown(node: Machine) -> None:
    process(node, 20, "python", "/dev/nvidia0", cgroup=SCOPE, thp="")
    jobs = look(node)
    assert unknown(jobs) == {"thp"}
    assert doubts(jobs) == {"job_thp"}
