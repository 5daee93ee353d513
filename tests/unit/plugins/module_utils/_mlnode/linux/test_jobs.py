# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import errno
import os
import pathlib
import subprocess
import sys
from collections.abc import Sequence

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mlnode.host.host import Host
from mlnode.linux import jobs
from mlnode.model.errors import HostError


class Busy(Machine):
    """A machine on which folders can be closed to us, and links too."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.closed: dict[str, int] = {}

    def names(self, path: str) -> list[str]:
        if path in self.closed:
            raise HostError("list", path, self.closed[path])
        return super().names(path)

    def link_target(self, path: str) -> str:
        if path in self.closed:
            raise HostError("read link", path, self.closed[path])
        return super().link_target(path)


@pytest.fixture
def node(tmp_path: pathlib.Path) -> Busy:
    node = Busy(str(tmp_path / "node"))
    run(node, 1, "systemd", "/dev/null")
    return node


SYSTEM = "/system.slice/a.service"


def run(
    node: Machine,
    pid: int,
    comm: str,
    *files: str,
    cmdline: str = "",
    users: Sequence[int] = (0, 0, 0, 0),
    cgroup: str = SYSTEM,
) -> None:
    """users: real, effective, saved, of the file system."""
    node.put(f"/proc/{pid}/comm", f"{comm[:15]}\n")
    node.put(f"/proc/{pid}/status", "Uid:\t" + "\t".join(map(str, users)) + "\n")
    node.put(f"/proc/{pid}/cgroup", f"0::{cgroup}\n")
    node.put(f"/proc/{pid}/cmdline", cmdline)
    os.makedirs(f"{node.root}/proc/{pid}/fd", exist_ok=True)
    for number, target in enumerate(files):
        node.link(f"/proc/{pid}/fd/{number}", target)


def test_an_idle_node_runs_nothing(node: Busy) -> None:
    run(node, 900, "sshd", "socket:[1234]", "/dev/null", "pipe:[7]", "anon_inode:[eventpoll]")
    node.put("/proc/self/comm", "python3\n")
    node.put("/proc/net/route", "")
    assert jobs.running(node) == []


def test_a_tree_without_processes_has_none(tmp_path: pathlib.Path) -> None:
    assert jobs.running(Machine.debian(str(tmp_path / "node"))) == []


@cases.table
def test_who_holds_a_device_is_named(node: Busy, path: str) -> None:
    run(node, 812, "python3", "/dev/null", path, path)
    assert jobs.running(node) == [f"pid 812 (python3) holds {path}"]


def test_a_device_whose_node_was_removed_is_held_all_the_same(node: Busy) -> None:
    run(node, 812, "python3", "/dev/nvidia0 (deleted)")
    assert jobs.running(node) == ["pid 812 (python3) holds /dev/nvidia0"]


@pytest.mark.parametrize(
    ("state", "threads", "found"),
    [("Z", (812, 813), True), ("Z", (812,), False), ("S", (812, 813), False)],
)
def test_a_process_without_its_main_thread_may_hold_a_device(
    node: Busy, state: str, threads: tuple[int, ...], found: bool
) -> None:
    """An ended thread has given up its files (kernel/exit.c: exit_files); its siblings still have them."""
    run(node, 812, "a) Z b")
    node.put("/proc/812/stat", f"812 (a) Z b) {state} 1 1\n")
    for thread in threads:
        os.makedirs(f"{node.root}/proc/812/task/{thread}")
    unseen = ["1 process that cannot be looked into: its main thread has ended, and others still run"]
    assert jobs.running(node) == (unseen if found else [])


def test_a_device_below_the_own_root_folder_is_held(node: Busy) -> None:
    run(node, 812, "python3", "/srv/image/dev/nvidia0")
    node.link("/proc/812/root", "/srv/image")
    assert jobs.running(node) == ["pid 812 (python3) holds /dev/nvidia0"]
    node.remove("/proc/812/root")
    node.link("/proc/812/root", "/")
    assert jobs.running(node) == []


@cases.table
def test_what_monitors_and_consoles_hold_is_no_job(node: Busy, path: str) -> None:
    run(node, 812, "python3", path)
    assert jobs.running(node) == []


def test_several_devices_are_one_finding(node: Busy) -> None:
    run(node, 812, "python3", *(f"/dev/nvidia{number}" for number in (10, 2, 7)))
    assert jobs.running(node) == ["pid 812 (python3) holds /dev/nvidia2 and 2 more"]


@cases.table
def test_services_that_always_hold_devices_are_no_jobs(node: Busy, name: str) -> None:
    run(node, 812, name, "/dev/nvidia0", "/dev/infiniband/uverbs0")
    assert jobs.running(node) == []


#: Groups of a job's processes, and of programs that a user starts
CONTAINER = "3f2c" * 16
UID = "5f0e1d2c-0001-4a4b-8c8d-0123456789ab"
POD = f"/kubepods.slice/kubepods-pod{UID.replace('-', '_')}.slice/cri-containerd-{CONTAINER}.scope"
#: Group and user ids of a job that calls itself like a service
PRETENDERS = {
    "a user's session": ("/user.slice/user-1000.slice/session-3.scope", (1000,) * 4),
    "root's job in Slurm": ("/system.slice/slurmstepd.scope/job_4711/step_0/user/task_0", (0,) * 4),
    "a user's task without groups": ("/system.slice/slurmd.service", (1000,) * 4),
    "a service of a user": ("/user.slice/user-1000.slice/user@1000.service/app.slice/a.service", (1000,) * 4),
    "a service that runs a user's program": (SYSTEM, (1000,) * 4),
    "a program that has given up root in part": (SYSTEM, (0, 1000, 0, 0)),
    "root in a container": (f"/system.slice/docker-{CONTAINER}.scope", (0,) * 4),
    "root in a pod": (POD, (0,) * 4),
    "root in a user's container": (SYSTEM, (100000,) * 4),
}


#: The daemon of a step is in the group of its job.
_OWN = ("slurmstepd", "root's job in Slurm")


@pytest.mark.parametrize(
    ("name", "case"),
    [
        (name, case)
        for name in ("nv-hostengine", "dcgm-exporter", "rdcd", "ibacm", "slurmstepd")
        for case in PRETENDERS
        if (name, case) != _OWN
    ],
)
def test_a_job_that_calls_itself_like_a_service_is_a_job(node: Busy, name: str, case: str) -> None:
    cgroup, users = PRETENDERS[case]
    run(node, 812, name, "/dev/nvidia0", cmdline="x\0infinity\0", users=users, cgroup=cgroup)
    assert jobs.running(node) != []
    assert [holder.pid for holder in jobs.holders(node).found] == [812]


@pytest.mark.parametrize(
    ("user", "cgroup"),
    [
        (0, SYSTEM),
        (0, "/"),
        (0, "/user.slice/user-0.slice/session-3.scope"),
        (998, "/system.slice/nvidia-persistenced.service"),
        (120, "/user.slice/user-120.slice/session-c1.scope"),
    ],
)
def test_a_service_of_a_system_account_is_none(node: Busy, user: int, cgroup: str) -> None:
    run(node, 812, "nvidia-persistenced", "/dev/nvidia0", users=(user,) * 4, cgroup=cgroup)
    assert jobs.running(node) == []


@pytest.mark.parametrize("namespace", jobs._SYSTEM_PODS)
def test_a_service_in_a_system_pod_is_no_job(node: Busy, namespace: str) -> None:
    run(node, 812, "dcgm-exporter", "/dev/nvidia0", cgroup=POD)
    for other in ("team-a", f"x{namespace}"):
        node.put(f"{jobs.POD_LOGS}/{other}_job_{UID}/.keep", "")
    node.put(f"{jobs.POD_LOGS}/{namespace}_other_5f0e1d2c-0001-4a4b-8c8d-0123456789ff/.keep", "")
    assert jobs.running(node) == ["pid 812 (dcgm-exporter) holds /dev/nvidia0"]
    node.put(f"{jobs.POD_LOGS}/{namespace}_exporter_{UID}/.keep", "")
    assert jobs.running(node) == []
    run(node, 813, "python3", "/dev/nvidia0", cgroup=POD)
    assert jobs.running(node) == ["pid 813 (python3) holds /dev/nvidia0"]


@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO])
@pytest.mark.parametrize("file", ["cgroup", "status"])
def test_a_service_whose_account_cannot_be_read_may_be_a_job(node: Busy, file: str, number: int) -> None:
    run(node, 812, "nv-hostengine", "/dev/nvidia0")
    node.unreadable[f"/proc/812/{file}"] = number
    (found,) = jobs.running(node)
    assert found.startswith("1 process that cannot be looked into")


def test_pods_that_cannot_be_listed_leave_it_open(node: Busy) -> None:
    run(node, 812, "dcgm-exporter", "/dev/nvidia0", cgroup=POD)
    node.closed[jobs.POD_LOGS] = errno.EACCES
    (found,) = jobs.running(node)
    assert found.startswith("1 process that cannot be looked into")


@pytest.mark.parametrize("text", ["", "\udcff\n", "0::", "0" * 70000])
def test_a_group_that_is_not_understood_may_be_a_jobs(node: Busy, text: str) -> None:
    run(node, 812, "nv-hostengine", "/dev/nvidia0")
    node.put("/proc/812/cgroup", text.encode("utf-8", "surrogateescape"))
    assert jobs.running(node) != []
    node.remove("/proc/812/cgroup")  # a kernel without groups
    assert jobs.running(node) == []


@pytest.mark.parametrize(
    "text", ["", "Uid:\n", "Uid:\tx\tx\tx\tx\n", "Uid:\t\u0663\n", "Uid:\t0\t0", f"Uid:\t{'0' * 70000}\n"]
)
def test_an_account_that_is_not_understood_may_be_a_persons(node: Busy, text: str) -> None:
    run(node, 812, "nv-hostengine", "/dev/nvidia0")
    node.put("/proc/812/status", text)
    assert jobs.running(node) == ["pid 812 (nv-hostengine) holds /dev/nvidia0"]


def test_names_of_services_are_as_long_as_the_kernel_keeps_them() -> None:
    assert all(len(name) <= 15 for name in jobs._SERVICES)


def test_jobs_of_slurm_are_named_once_and_first(node: Busy) -> None:
    for pid, title in enumerate(
        ["[4711.extern]", "[4711.batch]", "[4711.0]", "[99.interactive]", "[5]"], 700
    ):
        run(node, pid, "slurmstepd", cmdline=f"slurmstepd: {title}\0")
    run(node, 20, "ib_write_bw", "/dev/infiniband/uverbs0")
    assert jobs.running(node) == [
        "Slurm job 5",
        "Slurm job 99",
        "Slurm job 4711",
        "pid 20 (ib_write_bw) holds /dev/infiniband/uverbs0",
    ]


def test_the_step_that_only_keeps_the_control_group_is_no_job(node: Busy) -> None:
    run(node, 700, "slurmstepd", cmdline="/usr/sbin/slurmstepd\0infinity\0")
    run(node, 701, "slurmd", cmdline="/usr/sbin/slurmd\0--systemd\0")
    assert jobs.running(node) == []


@cases.table
def test_a_step_that_does_not_say_its_job_is_one(node: Busy, cmdline: str) -> None:
    run(node, 700, "slurmstepd", cmdline=cmdline)
    assert jobs.running(node) == ["pid 700 (slurmstepd) runs a Slurm job"]


def test_a_long_list_is_cut_but_not_what_nobody_could_see(node: Busy) -> None:
    for pid in range(100, 112):
        run(node, pid, "python3", "/dev/nvidia0")
    node.closed["/proc/1/fd"] = errno.EACCES
    found = jobs.running(node)
    assert found[:8] == [f"pid {pid} (python3) holds /dev/nvidia0" for pid in range(100, 108)]
    assert found[8] == "4 more"
    assert len(found) == 10
    assert found[9].startswith("1 process that cannot be looked into: EACCES")


def test_eight_are_not_cut(node: Busy) -> None:
    for pid in range(100, 108):
        run(node, pid, "python3", "/dev/nvidia0")
    assert len(jobs.running(node)) == 8
    assert "more" not in " ".join(jobs.running(node))


@pytest.mark.parametrize("number", [errno.ESRCH, errno.ENOENT])
def test_processes_that_end_meanwhile_are_no_error(node: Busy, number: int) -> None:
    run(node, 10, "python3", "/dev/nvidia0", "/dev/nvidia1")
    run(node, 20, "python3", "/dev/nvidia0")
    run(node, 30, "python3", "/dev/nvidia0")
    run(node, 40, "slurmstepd")
    node.closed["/proc/10/fd/0"] = number
    node.closed["/proc/20/fd"] = number
    node.unreadable["/proc/30/comm"] = number
    node.unreadable["/proc/40/cmdline"] = number
    assert jobs.running(node) == ["pid 10 (python3) holds /dev/nvidia1"]


def test_what_cannot_be_read_is_never_nothing(node: Busy) -> None:
    for pid in (10, 20, 30):
        run(node, pid, "python3", "/dev/nvidia0")
    node.closed["/proc/10/fd"] = errno.EACCES
    node.closed["/proc/20/fd/0"] = errno.EACCES
    node.unreadable["/proc/30/comm"] = errno.EPERM
    (found,) = jobs.running(node)
    assert found.startswith("3 processes that cannot be looked into: EACCES")


def test_processes_that_are_hidden_from_us_are_told(node: Busy) -> None:
    run(node, 812, "python3")
    os.rename(f"{node.root}/proc/1", f"{node.root}/proc/x")
    assert jobs.running(node) == []  # root sees all there are
    node.superuser = False
    assert jobs.running(node) == ["processes of others, which only root sees here"]


def test_no_processes_to_be_read_is_an_error(node: Busy) -> None:
    node.closed["/proc"] = errno.EACCES
    with pytest.raises(HostError):
        jobs.running(node)


def test_a_name_cannot_forge_the_message(node: Busy) -> None:
    run(node, 812, "a\nb\x1b[31m\u202e", "/dev/nvidia0")
    assert jobs.running(node) == ["pid 812 (a\\nb\\x1b[31m\\u202e) holds /dev/nvidia0"]


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(comm=st.binary(max_size=15), cmdline=st.binary(max_size=60))
def test_no_process_is_too_odd(node: Busy, comm: bytes, cmdline: bytes) -> None:
    if not node.exists("/proc/812"):
        run(node, 812, "", "/dev/kfd")
    for name, content in (("comm", comm), ("cmdline", b"slurmstepd: [" + cmdline)):
        pathlib.Path(f"{node.root}/proc/812/{name}").write_bytes(content)
    for line in jobs.running(node):
        assert line.isprintable()


def test_a_real_process_is_looked_into(tmp_path: pathlib.Path) -> None:
    # The links of /proc are not like others: this is the kernel's own, without a device that counts.
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        try:
            assert jobs._held(Host(), child.pid) == set()
            assert jobs._holder(Host(), child.pid, "python3").devices == ()
        finally:
            child.communicate(b"\n")
    with pytest.raises(HostError) as caught:
        Host().read(f"/proc/{child.pid}/comm")
    assert jobs.is_gone(caught.value)


def started(node: Machine, pid: int, ticks: int, comm: str = "a) R (b") -> None:
    node.put(f"/proc/{pid}/stat", f"{pid} ({comm}) S {' '.join(['1'] * 18)} {ticks} 1 1\n")


def test_the_job_that_computes_for_the_longest(node: Busy) -> None:
    assert jobs.since(node) is None
    run(node, 900, "python", "/dev/nvidia0")
    started(node, 900, 50000)
    run(node, 901, "python", "/dev/infiniband/uverbs3")
    started(node, 901, 40050)
    run(node, 902, "sshd", "/dev/null")
    started(node, 902, 100)
    assert jobs.since(node) == 400.5


def test_a_job_of_slurm_has_a_start(node: Busy) -> None:
    run(node, 900, "slurmstepd", cmdline="slurmstepd: [4711.0]")
    started(node, 900, 1200)
    assert jobs.since(node) == 12


def test_a_process_that_cannot_be_looked_into_may_compute(node: Busy) -> None:
    run(node, 900, "python", "/dev/nvidia0")
    started(node, 900, 700)
    node.closed["/proc/900/fd"] = errno.EACCES
    assert jobs.since(node) == 7


def test_a_process_that_ends_meanwhile_has_no_start(node: Busy) -> None:
    run(node, 900, "python", "/dev/nvidia0")
    assert jobs.since(node) is None


def test_the_start_of_a_process_is_in_the_units_of_the_uptime() -> None:
    """The kernel's own numbers: this process, looked at as if it held a device."""
    with open("/proc/uptime", encoding="ascii") as stream:
        uptime = float(stream.read().split()[0])
    fields = pathlib.Path(f"/proc/{os.getpid()}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    assert os.sysconf("SC_CLK_TCK") == jobs._TICKS
    assert 0 < int(fields[jobs._START]) / jobs._TICKS <= uptime
