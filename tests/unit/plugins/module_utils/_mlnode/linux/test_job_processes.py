# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import errno
import pathlib
from collections.abc import Sequence

import pytest
from ansible_collections.mlnode.tuning.tests.unit import job_machine
from ansible_collections.mlnode.tuning.tests.unit.job_machine import CONTAINER, UID, process
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from mlnode.host.system import Finished
from mlnode.linux import job_processes
from mlnode.linux.cgroup_names import Job
from mlnode.linux.job_processes import Choice
from mlnode.model.errors import DeclarationError, HostError, UnansweredError

SLURM = "/system.slice/slurmstepd.scope/job_4711/step_0"


@pytest.fixture
def node(tmp_path: pathlib.Path) -> Machine:
    return job_machine.node(str(tmp_path / "node"))


def pids(seen: job_processes.Seen) -> list[int]:
    return [process.pid for process in seen.processes]


def test_a_process_with_a_device_is_one_of_a_job(node: Machine) -> None:
    process(node, 20, "python", "/dev/nvidia1", "/dev/nvidia0", "/dev/null", user=1000)
    process(node, 21, "sshd", "/dev/null")
    process(node, 22, "nvidia-smi", "/dev/nvidia0")
    process(
        node, 23, "vllm", "/dev/infiniband/uverbs0", namespaces={"net": 77}, cgroup=f"/docker/{CONTAINER}"
    )
    seen = job_processes.with_devices(node)
    assert pids(seen) == [20, 23]
    assert not seen.unseen
    first, second = seen.processes
    assert first.devices == ("/dev/nvidia0", "/dev/nvidia1")
    assert first.ids == (1000, 1000, (1000,))
    assert (first.job, first.started) == (Job("session", "3"), "4242")
    assert second.namespace("net") == "net:[77]"
    assert second.job == Job("container", CONTAINER, CONTAINER, "docker")


def test_a_process_without_a_device_costs_only_its_open_files(
    node: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    process(node, 21, "sshd", "/dev/null")
    process(node, 22, "nvidia-smi", "/dev/nvidia0")
    node.unreadable = {"/proc/22/fd": errno.EACCES}
    paths: list[str] = []
    read = Machine.read_bytes
    monkeypatch.setattr(Machine, "read_bytes", lambda host, path: paths.append(path) or read(host, path))
    assert job_processes.with_devices(node) == ((), (), {}), "and a service is none, even if it is not seen"
    assert [path for path in paths if not path.startswith("/proc/self/")] == [
        f"/proc/22/{name}" for name in ("comm", "cgroup", "status")
    ]
    process(node, 23, "python", "/dev/nvidia0")
    node.unreadable = {"/proc/23/fd": errno.EACCES}
    assert len(job_processes.with_devices(node).unseen) == 1


def test_a_process_that_ends_meanwhile_is_skipped(node: Machine) -> None:
    process(node, 20, "python", "/dev/nvidia0")
    for number in (errno.ENOENT, errno.ESRCH):
        node.unreadable = {"/proc/20/status": number}
        assert job_processes.with_devices(node) == ((), (), {})


def test_a_zombie_is_no_job(node: Machine) -> None:
    process(node, 20, "python")
    node.remove("/proc/20/ns/net")
    assert not job_processes.chosen(node, Choice((20,))).processes


def test_a_process_that_cannot_be_read_is_reported(node: Machine) -> None:
    process(node, 20, "python", "/dev/nvidia0")
    node.unreadable = {"/proc/20/status": errno.EACCES}
    seen = job_processes.with_devices(node)
    assert not seen.processes
    assert seen.unseen[0].startswith("1 process that cannot be looked into: EACCES (")
    assert len(seen.unseen) == 1


def test_processes_are_chosen_by_their_groups(node: Machine) -> None:
    process(node, 20, "python", cgroup=f"{SLURM}/user/task_0")
    process(node, 21, "slurmstepd", cgroup=f"{SLURM}/slurm")
    process(node, 19, "slurmstepd", cgroup=f"{SLURM}/user/task_1", user=1000)  # calls itself so
    process(node, 22, "bash", cgroup=f"/docker/{CONTAINER}")
    process(node, 23, "vllm", cgroup=f"/kubepods/pod{UID}/{CONTAINER}")
    process(node, 24, "other", cgroup="/system.slice/vllm.service")
    process(node, 25, "other", cgroup="/system.slice/vllm.service.d")
    for choice, expected in (
        (Choice(slurm_jobs=("4711",)), [19, 20]),
        (Choice(containers=(CONTAINER[:6],)), [22, 23]),
        (Choice(pods=(UID,)), [23]),
        (Choice(cgroups=("/system.slice/vllm.service",)), [24]),
        (Choice(cgroups=("/system.slice/",)), [19, 20, 24, 25]),
        (Choice(pids=(22,), pods=(UID,)), [22, 23]),
        (Choice(pids=(24, 22)), [24, 22]),
    ):
        seen = job_processes.chosen(node, choice)
        assert (pids(seen), seen.unseen) == (expected, ()), choice
        assert {*seen.met} == {
            (field, str(word)) for field, words in choice._asdict().items() for word in words
        }
    short = job_processes.chosen(node, Choice(containers=(CONTAINER[:3],)))
    assert not short.processes, "it may be the name of another container"


def test_containers_with_names_alone_are_chosen_by_them(node: Machine) -> None:
    process(node, 20, "python", cgroup="/lxc.payload.train/system.slice/x.service")
    process(node, 21, "python", cgroup="/lxc.payload.train-2/system.slice/x.service")
    assert pids(job_processes.chosen(node, Choice(containers=("train",)))) == [20]


def test_a_group_is_one_of_any_hierarchy(node: Machine) -> None:
    process(node, 20, "python")
    rows = "4:cpu:/mine/below\n1:name=systemd:/user.slice/user-0.slice/session-3.scope\n0::/\n"
    node.put("/proc/20/cgroup", rows)
    assert pids(job_processes.chosen(node, Choice(cgroups=("/mine/",)))) == [20]
    assert job_processes.chosen(node, Choice(cgroups=("/min",))).processes == ()


def test_a_choice_without_a_process_is_not_met(node: Machine) -> None:
    process(node, 20, "python", "/dev/nvidia0")
    choice = Choice((20, 99), ("/x",), ("ab",), ("4711",), (UID,))
    assert job_processes.chosen(node, choice).met == {("pids", "20"): [20]}
    assert job_processes.chosen(node, Choice((99,))).met == {}


def test_a_chosen_process_that_cannot_be_read_is_reported(node: Machine) -> None:
    process(node, 20, "python")
    node.unreadable = {"/proc/20/status": errno.EACCES}
    seen = job_processes.chosen(node, Choice((20,)))
    assert (seen.processes, seen.met) == ((), {("pids", "20"): [20]})
    assert seen.unseen[0].startswith("cannot read /proc/20/status: EACCES")


# -- Slurm without control groups ----------------------------------------------------------


def task(node: Machine, title: str = "slurmstepd: [4711.0]", **of_daemon: object) -> Job:
    daemon = {"cmdline": title, "cgroup": "/system.slice/slurmd.service", **of_daemon}
    process(node, 50, "slurmstepd", **daemon)  # type: ignore[arg-type]  # any field
    process(node, 51, "bash", parent=50, user=1000, cgroup="/system.slice/slurmd.service")
    process(node, 52, "python", "/dev/nvidia0", parent=51, user=1000, cgroup="/system.slice/slurmd.service")
    return job_processes.with_devices(node).processes[0].job


def test_a_daemon_of_root_above_a_process_has_its_job(node: Machine) -> None:
    assert task(node) == Job("slurm", "4711")
    assert pids(job_processes.chosen(node, Choice(slurm_jobs=("4711",)))) == [50, 51, 52][1:]


@pytest.mark.parametrize(
    "of_daemon", [{"user": 1000}, {"namespaces": {"pid": 99}}, {"title": "slurmstepd: x"}], ids=str
)
def test_no_user_and_no_container_can_be_that_daemon(node: Machine, of_daemon: dict[str, object]) -> None:
    assert task(node, **of_daemon) == Job("unit", "slurmd.service")  # type: ignore[arg-type]  # any field


def test_a_container_has_no_job_by_its_parents(node: Machine) -> None:
    process(node, 50, "slurmstepd", cmdline="slurmstepd: [4711.0]")
    process(node, 51, "x", "/dev/nvidia0", parent=50, cgroup=f"/docker/{CONTAINER}")
    assert job_processes.with_devices(node).processes[0].job.kind == "container"


def test_a_circle_of_parents_ends(node: Machine) -> None:
    process(node, 51, "x", parent=52)
    process(node, 52, "x", "/dev/nvidia0", parent=51)
    assert job_processes.with_devices(node).processes[0].job.kind == "session"


SLUID = "/system.slice/slurmstepd.scope/sEKNKTV3WPV50{}/step_0"


def of_sluids(node: Machine, **of_daemon: object) -> list[Job]:
    """Jobs of two processes that init has adopted, each in a job of its own. of_daemon: of the first one."""
    for job, more in enumerate((of_daemon, {})):
        daemon = {"cmdline": f"slurmstepd: [471{job}.0]", "cgroup": f"{SLUID.format(job)}/slurm", **more}
        process(node, 50 + job, "slurmstepd", **daemon)  # type: ignore[arg-type]  # any field
        task = f"{SLUID.format(job)}/user/task_0"
        process(node, 60 + job, "python", "/dev/nvidia0", user=1000, cgroup=task)
    node.forget()
    return [process.job for process in job_processes.with_devices(node).processes]


def test_the_daemon_in_the_groups_of_a_sluid_has_its_job(node: Machine) -> None:
    """As Slurm 26.05 has it without CgroupJobIdPaths."""
    assert of_sluids(node) == [Job("slurm", "4710"), Job("slurm", "4711")]
    assert pids(job_processes.chosen(node, Choice(slurm_jobs=("4711",)))) == [61]


@pytest.mark.parametrize("of_daemon", [{"user": 1000}, {"namespaces": {"pid": 9}}, {"cmdline": "x"}], ids=str)
def test_a_sluid_without_a_daemon_is_a_job_of_its_own(node: Machine, of_daemon: dict[str, object]) -> None:
    assert of_sluids(node, **of_daemon) == [Job("slurm", "sEKNKTV3WPV500"), Job("slurm", "4711")]
    assert job_processes.chosen(node, Choice(slurm_jobs=("4710",))).met == {}


# -- names ---------------------------------------------------------------------------------


def test_pods_have_names_in_the_folders_of_their_logs(node: Machine) -> None:
    node.put(f"/var/log/pods/ml_trainer-0_{UID}/c/0.log", "")
    node.put("/var/log/pods/ml_other_0f/c/0.log", "")
    for word in ("trainer-0", "ml/trainer-0"):
        assert job_processes.pod_uids(node, word) == [UID]
    assert job_processes.pod_uids(node, UID) == [UID]
    assert job_processes.pod_uids(node, "x/trainer-0") == ["x/trainer-0"]


class Runtimes(Machine):
    answers: dict[str, Finished]
    silent: set[str]

    def run(self, command: Sequence[str], seconds: float = 60) -> Finished:
        program = command[0]
        if program in self.silent:
            raise UnansweredError("run", program, None, "no answer in 1 s")
        if program not in self.answers:
            raise HostError("run", program, errno.ENOENT)
        return self.answers[program]


def test_a_runtime_knows_its_containers_by_name(tmp_path: pathlib.Path) -> None:
    node = Runtimes(str(tmp_path))
    node.silent = set()
    node.answers = {"podman": Finished(0, f"{CONTAINER}\n", ""), "docker": Finished(1, "", "no such object")}
    assert job_processes.container_ids(node, "trainer", 1) == [CONTAINER, "trainer"]  # maybe of LXC
    node.answers["podman"] = Finished(125, "", "no such container")
    assert job_processes.container_ids(node, "trainer", 1) == ["trainer"]
    assert job_processes.container_ids(node, "3f2c", 1) == ["3f2c"]
    node.answers["podman"] = Finished(0, f"{CONTAINER}\n", "")
    assert job_processes.container_ids(node, "cafe", 1) == [CONTAINER]
    node.answers["podman"] = Finished(125, "", "no such container")
    node.silent = {"docker"}
    with pytest.raises(HostError, match="no answer"):
        job_processes.container_ids(node, "trainer", 1)
    node.answers["podman"] = Finished(0, f"{CONTAINER}\n", "")
    assert job_processes.container_ids(node, "trainer", 1) == [CONTAINER, "trainer"]  # maybe of LXC
    node.silent = set()
    node.answers = {"podman": Finished(0, "\x1b[2J rubbish\n", "")}
    assert job_processes.container_ids(node, "trainer", 1) == ["trainer"]


@pytest.mark.parametrize("word", ["", "-x", "a b", "--format", "../x", "a" * 200])
def test_a_word_that_is_no_name_is_refused(node: Machine, word: str) -> None:
    with pytest.raises(DeclarationError, match="container: expected a name or an id"):
        job_processes.container_ids(node, word, 1)
