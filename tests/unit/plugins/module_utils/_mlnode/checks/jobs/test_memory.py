# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import errno
import os

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases, control_groups
from ansible_collections.mlnode.tuning.tests.unit.control_groups import OLD, folder
from ansible_collections.mlnode.tuning.tests.unit.job_machine import process
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from mlnode.checks.jobs import readings
from mlnode.checks.model import Verdict
from mlnode.host.host import Host

from .looking import SCOPE, look, named

GIB = 1 << 30
POOL = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"


def job(machine: Machine, *, thp: str = "1", nodes: str = "0-1", gpu: int = 0) -> None:
    process(machine, 20, "python", f"/dev/nvidia{gpu}", cgroup=SCOPE, thp=thp, nodes=nodes)


def old(machine: Machine) -> None:
    """Version 1 for all controllers that a limit may have."""
    control_groups.mount(machine, *OLD)
    for controllers in OLD:
        control_groups.old_group(machine, controllers, SCOPE)
    rows = [f"{number}:{controllers}:{SCOPE}\n" for number, controllers in enumerate(OLD, 2)]
    machine.put("/proc/20/cgroup", "".join([*rows, f"0::{SCOPE}\n"]))


def events(high: int = 0, oom_kill: int = 0) -> str:
    return f"low 0\nhigh {high}\nmax 0\noom 0\noom_kill {oom_kill}"


def use(machine: Machine, path: str, gib: float, inactive: float = 0) -> None:
    """Memory in use in a group, with this part in files that were used once."""
    files = {
        "memory.current": str(int(gib * GIB)),
        "memory.stat": f"anon 1\ninactive_file {int(inactive * GIB)}",
    }
    control_groups.group(machine, path, files)


# -- limits --------------------------------------------------------------------------------


@cases.table
def test_a_limit(
    trainer: Machine,
    limits: dict[str, str],
    used: dict[str, list[float]],
    verdict: str,
    value: str,
    found: str,
) -> None:
    job(trainer)
    for path, text in limits.items():
        control_groups.group(trainer, path.replace("SCOPE", SCOPE), {"memory.max": text})
    for path, numbers in used.items():
        use(trainer, path.replace("SCOPE", SCOPE), *numbers)
    jobs = look(trainer)
    check = named(jobs, "job_memory_limit")
    assert (str(check.verdict), check.found) == (verdict, found)
    assert jobs.places[0].values["memory limit"] == value
    assert bool(check.advice) is (verdict == "warn")


def test_a_limit_of_version_1(trainer: Machine) -> None:
    job(trainer)
    old(trainer)
    files = {
        "memory.limit_in_bytes": str(GIB),
        "memory.usage_in_bytes": str(GIB),
        "memory.stat": f"inactive_file 0\ntotal_inactive_file {GIB // 20}",
    }
    control_groups.old_group(trainer, "memory", SCOPE, files)
    jobs = look(trainer)
    check = named(jobs, "job_memory_limit")
    assert (check.verdict, check.found) == (Verdict.WARN, "972.8 MiB in use of 1 GiB by its own group")
    assert jobs.places[0].values["memory high"] == "max", "nothing throttles in version 1"
    assert [check.verdict for check in jobs.checks if check.name == "job_memory_high"] == []


@pytest.mark.parametrize("name", ["memory.max", "memory.current", "memory.stat"])
def test_a_limit_that_cannot_be_read_is_unknown(trainer: Machine, name: str) -> None:
    job(trainer)
    control_groups.group(trainer, SCOPE, {"memory.max": str(GIB)})
    trainer.unreadable[f"{folder(SCOPE)}/{name}"] = errno.EACCES
    jobs = look(trainer)
    assert named(jobs, "job_memory_limit").verdict is Verdict.UNKNOWN
    assert named(jobs, "job_memory_kills").verdict is Verdict.PASS, "the others still count"
    assert ("memory limit" in jobs.places[0].unknown) is (name == "memory.max")


def test_a_node_without_the_controller_limits_nothing(trainer: Machine) -> None:
    """cgroup_disable=memory"""
    job(trainer)
    trainer.put("/sys/fs/cgroup/cgroup.controllers", "cpuset cpu io pids\n")
    jobs = look(trainer)
    assert named(jobs, "job_memory_limit").found == "no limit"
    assert jobs.places[0].values["memory limit"] == "max"
    assert named(jobs, "job_thp").verdict is Verdict.PASS


# -- memory.high ---------------------------------------------------------------------------


@cases.table
def test_memory_high(
    trainer: Machine, monkeypatch: pytest.MonkeyPatch, before: int, after: int, used: float, verdict: str,
    found: str,
) -> None:  # fmt: skip
    job(trainer)
    control_groups.group(trainer, SCOPE, {"memory.high": str(GIB), "memory.events.local": events(before)})
    use(trainer, SCOPE, used)
    original = readings._after

    def later(host: Host, first: readings._Before) -> object:
        control_groups.group(trainer, SCOPE, {"memory.events.local": events(after)})
        return original(host, first)

    monkeypatch.setattr(readings, "_after", later)
    jobs = look(trainer)
    check = named(jobs, "job_memory_high")
    assert (str(check.verdict), check.found) == (verdict, found)
    assert jobs.places[0].values["memory high"] == str(GIB)


def test_events_of_old_kernels_include_the_groups_below(trainer: Machine) -> None:
    job(trainer)
    control_groups.group(trainer, SCOPE, {"memory.high": str(GIB), "memory.events": events(4)})
    os.remove(f"{trainer.root}{folder(SCOPE)}/memory.events.local")
    check = named(look(trainer), "job_memory_high")
    assert check.source == f"{folder(SCOPE)}/memory.events"
    assert "exceeded 4 times, and not now" in check.found


def test_kills_of_the_own_group(trainer: Machine) -> None:
    job(trainer)
    control_groups.group(trainer, "/system.slice", {"memory.events": events(oom_kill=5)})
    assert named(look(trainer), "job_memory_kills").verdict is Verdict.PASS, "maybe other services"
    control_groups.group(trainer, SCOPE, {"memory.events": events(oom_kill=2)})
    check = named(look(trainer), "job_memory_kills")
    assert check.verdict is Verdict.WARN
    assert check.found == "2 processes killed for lack of memory since its start"
    assert "docker update --memory=SIZE" in check.advice


# -- swap ----------------------------------------------------------------------------------


def test_swap_in_use(trainer: Machine) -> None:
    job(trainer)
    control_groups.group(trainer, SCOPE, {"memory.swap.current": str(GIB), "memory.swap.max": str(2 * GIB)})
    assert named(look(trainer), "job_memory_swap").verdict is Verdict.SKIP, "no swap on the node"
    trainer.put("/proc/swaps", "Filename\tType\n/dev/vda2 partition 8388604 0 -2\n")
    jobs = look(trainer)
    check = named(jobs, "job_memory_swap")
    assert check.verdict is Verdict.WARN
    assert check.found == "1 GiB of its own group in swap; a limit of 2 GiB by its own group"
    assert jobs.places[0].values["memory swap limit"] == str(2 * GIB)


@cases.table
def test_swappiness_of_version_1(
    trainer: Machine, node: str, own: str, forced: str, verdict: str, advice: str
) -> None:
    job(trainer)
    old(trainer)
    trainer.put("/proc/sys/vm/swappiness", f"{node}\n")
    trainer.put("/proc/sys/vm/force_cgroup_v2_swappiness", f"{forced}\n")
    control_groups.old_group(trainer, "memory", SCOPE, {"memory.swappiness": own})
    check = named(look(trainer), "job_memory_swap")
    assert (str(check.verdict), check.advice) == (verdict, advice)


# -- nodes and huge pages ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gpu", "nodes", "verdict"), [(0, "0", "pass"), (0, "0-1", "pass"), (1, "0", "warn"), (9, "0", "skip")]
)
def test_the_node_of_its_memory(trainer: Machine, gpu: int, nodes: str, verdict: str) -> None:
    job(trainer, nodes=nodes, gpu=gpu)
    jobs = look(trainer)
    check = named(jobs, "job_memory_node")
    assert str(check.verdict) == verdict
    assert ("--cpuset-mems=1" in check.advice) is (verdict == "warn")
    assert jobs.places[0].processes[0].values["memory numa nodes"] == str(len(nodes.split("-")))


@cases.table
def test_transparent_huge_pages(
    trainer: Machine, mode: str, field: str, verdict: str, value: str | None
) -> None:
    trainer.put("/sys/kernel/mm/transparent_hugepage/enabled", f"{mode}\n")
    job(trainer, thp=field)
    jobs = look(trainer)
    assert str(named(jobs, "job_thp").verdict) == verdict
    assert jobs.places[0].processes[0].values.get("thp") == value


@cases.table
def test_huge_pages_of_a_pool(
    trainer: Machine, limit: str, reserved: str, refused: int, verdict: str, value: str, found: str
) -> None:
    job(trainer)
    trainer.put(POOL, "1024\n")
    files = {
        "hugetlb.2MB.max": limit,
        "hugetlb.2MB.rsvd.max": reserved,
        "hugetlb.2MB.events.local": f"max {refused}",
    }
    control_groups.group(trainer, SCOPE, files)
    jobs = look(trainer)
    check = named(jobs, "job_hugetlb")
    assert (str(check.verdict), check.found) == (verdict, found)
    assert jobs.places[0].values["hugetlb 2MB limit"] == value


def test_huge_pages_of_version_1(trainer: Machine) -> None:
    job(trainer)
    old(trainer)
    trainer.put(POOL, "1024\n")
    files = {"hugetlb.2MB.limit_in_bytes": "0", "hugetlb.2MB.failcnt": "3"}
    control_groups.old_group(trainer, "hugetlb", SCOPE, files)
    check = named(look(trainer), "job_hugetlb")
    assert check.verdict is Verdict.WARN
    assert check.found.endswith("3 requests were refused")


def test_a_pod_asks_for_huge_pages(trainer: Machine) -> None:
    uid = "5f0e1d2c_0001_4a4b_8c8d_0123456789ab"
    group = f"/kubepods.slice/kubepods-pod{uid}.slice/cri-containerd-{'ab' * 32}.scope"
    process(trainer, 20, "python", "/dev/nvidia0", cgroup=group)
    trainer.put(POOL, "1024\n")
    control_groups.group(trainer, group, {"hugetlb.2MB.max": "0"})
    check = named(look(trainer), "job_hugetlb")
    assert check.verdict is Verdict.SKIP
    assert "hugepages-2Mi" in check.advice


def test_an_unreadable_pool_is_unknown(trainer: Machine) -> None:
    job(trainer)
    trainer.put(POOL, "1024\n")
    trainer.unreadable[f"{folder(SCOPE)}/hugetlb.2MB.max"] = errno.EACCES
    jobs = look(trainer)
    assert named(jobs, "job_hugetlb").verdict is Verdict.UNKNOWN
    assert "hugetlb 2MB limit" in jobs.places[0].unknown


def test_processes_in_different_groups_of_version_1_are_different_places(trainer: Machine) -> None:
    """Slurm has a group of memory for each task, and one of CPUs for the step."""
    for pid, task in ((20, "a"), (21, "b")):
        process(trainer, pid, "python", "/dev/nvidia0", cgroup=SCOPE, root=20)
        control_groups.mount(trainer, "memory")
        path = f"{SCOPE}/{task}"
        control_groups.old_group(trainer, "memory", path, {"memory.limit_in_bytes": str(pid * GIB)})
        trainer.put(f"/proc/{pid}/cgroup", f"4:memory:{path}\n0::{SCOPE}\n")
    places = look(trainer).places
    assert [place.values["memory limit"] for place in places] == [str(20 * GIB), str(21 * GIB)]
