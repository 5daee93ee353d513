# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import errno
import time
from types import SimpleNamespace

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases, control_groups
from ansible_collections.mlnode.tuning.tests.unit.control_groups import folder
from ansible_collections.mlnode.tuning.tests.unit.job_machine import process
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from mlnode.checks.jobs import readings
from mlnode.checks.model import Verdict
from mlnode.host.host import Host

from .looking import FIRST, SCOPE, SECOND, look, named

STAT = "usage_usec 9\nnr_periods {}\nnr_throttled {}\nthrottled_usec 0"


def throttle(machine: Machine, monkeypatch: pytest.MonkeyPatch, counts: dict[str, int]) -> None:
    """Raise counters between the readings: path of a group → its nr_throttled at the second one."""
    before = readings._after

    def after(host: Host, first: readings._Before) -> object:
        for path, count in counts.items():
            control_groups.group(machine, path, {"cpu.stat": STAT.format(99, count)})
        return before(host, first)

    monkeypatch.setattr(readings, "_after", after)


# -- the quota -----------------------------------------------------------------------------


@cases.table
def test_a_quota(
    trainer: Machine, monkeypatch: pytest.MonkeyPatch, quotas: dict[str, str], before: dict[str, int],
    after: dict[str, int], verdict: str, value: str, found: str,
) -> None:  # fmt: skip
    process(trainer, 20, "python", "/dev/nvidia0", cgroup=SCOPE)
    for path, text in quotas.items():
        control_groups.group(trainer, path.replace("SCOPE", SCOPE), {"cpu.max": text})
    for path, count in before.items():
        control_groups.group(trainer, path.replace("SCOPE", SCOPE), {"cpu.stat": STAT.format(99, count)})
    throttle(trainer, monkeypatch, {path.replace("SCOPE", SCOPE): count for path, count in after.items()})
    jobs = look(trainer)
    check = named(jobs, "job_cpu_quota")
    assert (str(check.verdict), check.found) == (verdict, found)
    assert jobs.places[0].values["cpu quota"] == value
    assert bool(check.advice) is bool(before or after)


@pytest.mark.parametrize(
    ("path", "advice"), [(SCOPE, "docker update --cpus=N"), ("/system.slice", "CPUQuota= of system.slice")]
)
def test_the_remedy_is_for_the_group_that_throttles(
    trainer: Machine, monkeypatch: pytest.MonkeyPatch, path: str, advice: str
) -> None:
    process(trainer, 20, "python", "/dev/nvidia0", cgroup=SCOPE)
    control_groups.group(trainer, path, {"cpu.max": "200000 100000"})
    throttle(trainer, monkeypatch, {path: 3})
    check = named(look(trainer), "job_cpu_quota")
    assert check.verdict is Verdict.FAIL
    assert check.source == f"{folder(path)}/cpu.stat"
    assert advice in check.advice


def test_a_quota_that_cannot_be_read_is_unknown(trainer: Machine) -> None:
    process(trainer, 20, "python", "/dev/nvidia0", cgroup=SCOPE)
    trainer.unreadable[f"{folder('/system.slice')}/cpu.max"] = errno.EACCES
    jobs = look(trainer)
    assert named(jobs, "job_cpu_quota").verdict is Verdict.UNKNOWN
    assert "EACCES" in jobs.places[0].unknown["cpu quota"]
    assert "cpu quota" not in jobs.places[0].values


@pytest.mark.parametrize(("threads", "verdict"), [(4, Verdict.UNKNOWN), (5, Verdict.SKIP)])
@pytest.mark.parametrize("is_hidden", [False, True])
def test_cpus_below_a_quota_that_is_not_known_are_not_enough(
    trainer: Machine, is_hidden: bool, threads: int, verdict: Verdict
) -> None:
    if is_hidden:
        control_groups.hide(trainer)
    process(
        trainer, 20, "python", "/dev/nvidia0", cgroup=SCOPE, cpus="0-3",
        environment=[f"OMP_NUM_THREADS={threads}"],
    )  # fmt: skip
    trainer.unreadable = {} if is_hidden else {f"{folder('/system.slice')}/cpu.max": errno.EACCES}
    assert named(look(trainer), "job_cpu_count").verdict is verdict


@pytest.mark.parametrize(
    ("threads", "cpus", "found"),
    [
        (4, ("0-3", "0-3"), "4 CPUs for 2 ranks, OMP_NUM_THREADS 4: fewer than threads"),
        (2, ("0-3", "0-3"), "4 CPUs for 2 ranks, OMP_NUM_THREADS 2"),
        (4, ("0-3", "4-7"), "4 CPUs, OMP_NUM_THREADS 4"),
    ],
)
def test_tasks_of_a_job_share_cpus(trainer: Machine, threads: int, cpus: tuple[str, str], found: str) -> None:
    for rank, own in enumerate(cpus):
        process(
            trainer, 20 + rank, "python", f"/dev/nvidia{rank}", cpus=own,
            cgroup=f"/system.slice/slurmstepd.scope/job_5/step_0/user/task_{rank}",
            environment=[f"OMP_NUM_THREADS={threads}", f"LOCAL_RANK={rank}"],
        )  # fmt: skip
    assert {check.found for check in look(trainer).checks if check.name == "job_cpu_count"} == {found}


def test_a_counter_that_cannot_be_read_is_unknown(trainer: Machine) -> None:
    process(trainer, 20, "python", "/dev/nvidia0", cgroup=SCOPE)
    control_groups.group(trainer, SCOPE, {"cpu.max": "200000 100000"})
    trainer.unreadable[f"{folder(SCOPE)}/cpu.stat"] = errno.EACCES
    assert named(look(trainer), "job_cpu_quota").verdict is Verdict.UNKNOWN


def test_no_quota_in_a_container_may_be_hidden(trainer: Machine) -> None:
    control_groups.hide(trainer)
    process(trainer, 20, "python", "/dev/nvidia0", cgroup=SCOPE)
    jobs = look(trainer)
    assert named(jobs, "job_cpu_quota").verdict is Verdict.UNKNOWN
    assert {"cpu quota", "memory limit"} <= {*jobs.places[0].unknown}


@pytest.mark.parametrize("period", [100000, 20000])
def test_the_pause_is_as_long_as_the_period(trainer: Machine, period: int) -> None:
    process(trainer, 20, "python", "/dev/nvidia0", cgroup=SCOPE)
    control_groups.group(trainer, SCOPE, {"cpu.max": f"{period} {period}"})
    look(trainer)
    assert readings.seconds(trainer) == pytest.approx(period * 1.1 / 1e6)


@pytest.mark.parametrize(("live", "seconds"), [(True, 4.2), (False, 0.0)])
def test_the_time_between_the_readings_is_the_real_one(
    trainer: Machine, monkeypatch: pytest.MonkeyPatch, live: bool, seconds: float
) -> None:
    """Other looks of a busy node take longer than the pause."""
    monkeypatch.setattr(Machine, "live", live)
    for now in (1000.0, 1004.2):
        monkeypatch.setattr(readings, "time", SimpleNamespace(monotonic=lambda now=now: now))
        readings.begin(trainer, [])
    readings.rise(trainer, "/sys/fs/cgroup/cpu.stat", "nr_throttled")
    assert readings.passed(trainer) == pytest.approx(seconds)


def test_without_a_limit_there_is_no_pause(trainer: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    process(trainer, 20, "python", "/dev/nvidia0", cgroup=SCOPE)
    monkeypatch.setattr(time, "sleep", None)
    monkeypatch.setattr(Machine, "live", True)
    readings.begin(trainer, ())
    assert readings.rise(trainer, f"{folder(SCOPE)}/cpu.stat", "nr_throttled") is None
    assert readings.seconds(trainer) == 0


# -- number and node -----------------------------------------------------------------------


@cases.table
def test_their_number(
    trainer: Machine, ranks: list[list[str]], cpus: str, quota: str, verdict: str, found: str
) -> None:
    control_groups.group(trainer, SCOPE, {"cpu.max": quota})
    for pid, environment in enumerate(ranks, 20):
        process(
            trainer, pid, "python", "/dev/nvidia0", cgroup=SCOPE, cpus=cpus, root=20, environment=environment
        )
    check = named(look(trainer), "job_cpu_count")
    assert (str(check.verdict), check.found) == (verdict, found)


@cases.table
def test_their_node(trainer: Machine, gpus: list[int], cpus: str, verdict: str, found: str) -> None:
    process(trainer, 20, "python", *(f"/dev/nvidia{gpu}" for gpu in gpus), cgroup=SCOPE, cpus=cpus)
    jobs = look(trainer)
    check = named(jobs, "job_cpu_node")
    assert (str(check.verdict), check.found) == (
        verdict, found.replace("FIRST", FIRST).replace("SECOND", SECOND)
    )  # fmt: skip
    assert ("launcher" in check.advice) is (verdict == "warn")


@cases.table
def test_the_remedy_is_for_the_one_that_bound_it(
    trainer: Machine, cpuset: str, value: str | None, advice: str
) -> None:
    process(trainer, 20, "python", "/dev/nvidia1", cgroup=SCOPE, cpus="0-1")
    control_groups.group(trainer, SCOPE, {"cpuset.cpus.effective": cpuset})
    jobs = look(trainer)
    check = named(jobs, "job_cpu_node")
    assert check.verdict is Verdict.WARN
    assert advice in check.advice
    assert jobs.places[0].values.get("cpuset cpus") == value
    assert ("cpuset cpus" in jobs.places[0].unknown) is (value is None)


def test_a_process_of_the_root_is_bound_by_its_launcher(trainer: Machine) -> None:
    process(trainer, 20, "python", "/dev/nvidia1", cgroup="/", cpus="0-1")
    jobs = look(trainer)
    assert jobs.places[0].values["cpuset cpus"] == "8"
    assert named(jobs, "job_cpu_node").advice.startswith("its launcher binds it")


def test_values_are_numbers_and_no_lists(trainer: Machine) -> None:
    process(trainer, 20, "python", "/dev/nvidia0", cgroup=SCOPE, cpus="0-1,4")
    (process_,) = look(trainer).places[0].processes
    assert (process_.values["cpus"], process_.values["cpu numa nodes"]) == ("3", "2")


def test_the_node_of_a_job_without_a_gpu_is_its_nics(trainer: Machine) -> None:
    trainer.link("/sys/class/infiniband_verbs/uverbs1", "/sys/devices/verbs/0000:94:00.0/uverbs1")
    trainer.put("/sys/devices/verbs/0000:94:00.0/uverbs1/ibdev", "mlx5_1\n")
    process(trainer, 20, "ib_write_bw", "/dev/infiniband/uverbs1", cgroup=SCOPE, cpus="0-1")
    check = named(look(trainer), "job_cpu_node")
    assert (check.verdict, check.expected) == (Verdict.WARN, "on node 1 of NIC rail1")


def test_a_device_in_software_has_the_node_of_its_nic(trainer: Machine) -> None:
    trainer.link("/sys/class/infiniband/rxe0", "/sys/devices/virtual/infiniband/rxe0")
    for name, text in {"parent": "rail1", "ports/1/link_layer": "Ethernet"}.items():
        trainer.put(f"/sys/devices/virtual/infiniband/rxe0/{name}", f"{text}\n")
    trainer.link("/sys/class/infiniband_verbs/uverbs8", "/sys/devices/virtual/infiniband_verbs/uverbs8")
    for name, text in {"ibdev": "rxe0", "dev": "231:200"}.items():
        trainer.put(f"/sys/devices/virtual/infiniband_verbs/uverbs8/{name}", f"{text}\n")
    process(trainer, 20, "python", "/dev/infiniband/uverbs8", cgroup=SCOPE, cpus="0-1")
    check = named(look(trainer), "job_cpu_node")
    assert (check.verdict, check.expected) == (Verdict.WARN, "on node 1 of NIC rail1")


def test_ranks_with_the_same_finding_are_one_check(trainer: Machine) -> None:
    for pid in (20, 21):
        process(trainer, pid, "python", "/dev/nvidia0", cgroup=SCOPE, cpus="4-5")
    assert named(look(trainer), "job_cpu_node").target.endswith("(pid 20 and 1 more)")


@pytest.mark.parametrize("number", [errno.ENOENT, errno.ESRCH])
def test_a_process_that_has_ended_is_skipped(
    trainer: Machine, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    process(trainer, 20, "python", "/dev/nvidia0", cgroup=SCOPE)
    begin = readings.begin

    def end(host: Host, processes: object) -> None:
        begin(host, processes)  # type: ignore[arg-type]  # handed on
        for file in ("cgroup", "stat", "status"):
            trainer.unreadable[f"/proc/20/{file}"] = number

    monkeypatch.setattr(readings, "begin", end)
    names = {check.name for check in look(trainer).checks}
    assert not {name for name in names if name.startswith(("job_cpu", "job_memory", "job_thp"))}


@pytest.mark.parametrize(("cpus", "nodes"), [("", "0"), ("0-7", ""), ("x", "0"), ("0-7", "3-1")])
def test_a_status_that_is_not_understood_is_unknown(trainer: Machine, cpus: str, nodes: str) -> None:
    process(trainer, 20, "python", "/dev/nvidia0", cgroup=SCOPE, cpus=cpus, nodes=nodes)
    jobs = look(trainer)
    assert named(jobs, "job_cpu_count").verdict is Verdict.UNKNOWN
    assert named(jobs, "job_memory_node").verdict is Verdict.UNKNOWN
    assert "cpus" not in jobs.places[0].processes[0].values


# -- interrupts ----------------------------------------------------------------------------


@cases.table
def test_interrupts_of_its_nic(
    trainer: Machine, cpus: str, arrive: list[str], verdict: str, found: str
) -> None:
    for number, text in enumerate(arrive):
        trainer.put(f"/proc/irq/{101 + 0x10 + number}/effective_affinity_list", f"{text}\n")
    process(trainer, 20, "python", "/dev/nvidia0", cgroup=SCOPE, cpus=cpus)
    check = named(look(trainer), "job_cpu_interrupts")
    assert (str(check.verdict), check.found) == (verdict, found)
