# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""CPUs and memory of jobs in control groups of this kernel, of the version that this machine mounts."""

from __future__ import annotations

import contextlib
import os
import pathlib
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from mlnode.checks.jobs import run
from mlnode.checks.jobs.run import Jobs
from mlnode.checks.model import Check
from mlnode.host import mountinfo
from mlnode.host.host import Host
from mlnode.linux import cgroup_files
from mlnode.model.errors import HostError

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(os.geteuid() != 0, reason="makes control groups"),
]

NAME = f"mlnode-test-{os.getpid()}"
MIB = 1 << 20
#: A tenth of a CPU, in periods of 50 ms
QUOTA, PERIOD = 5000, 50000


class Groups:
    """A group and one below it, in the hierarchy of a controller."""

    def __init__(self, controller: str) -> None:
        host = Host()
        mounts = [*mountinfo.parse(host.text(mountinfo.TABLE))]
        old = [mount for mount in mounts if mount.kind == "cgroup" and controller in mount.options]
        new = [mount for mount in mounts if mount.kind == "cgroup2"]
        self.version = 1 if old else 2
        if not (old or new):
            pytest.skip("no control groups are mounted here")
        self.top = pathlib.Path((old or new)[0].point)
        self.upper = self.top / NAME
        self.lower = self.upper / "task"
        self.controller = controller

    def make(self) -> None:
        self.upper.mkdir()
        if self.version == 2:
            for folder in (self.top, self.upper):
                try:
                    (folder / "cgroup.subtree_control").write_text(f"+{self.controller}")
                except OSError as error:
                    self.remove()
                    pytest.skip(f"{folder} cannot hand down {self.controller} here: {error}")
        self.lower.mkdir()

    def remove(self) -> None:
        for folder in (self.lower, self.upper):
            for _attempt in range(100):  # a group stays busy until its ended processes are gone
                with contextlib.suppress(FileNotFoundError):
                    try:
                        folder.rmdir()
                    except OSError:
                        time.sleep(0.02)
                        continue
                break

    def set(self, folder: pathlib.Path, old: str, new: str, value: str) -> None:
        """Write a value into the file of this version."""
        (folder / (old if self.version == 1 else new)).write_text(value)


@contextlib.contextmanager
def groups(controller: str) -> Iterator[Groups]:
    made = Groups(controller)
    made.make()
    try:
        yield made
    finally:
        made.remove()


@contextlib.contextmanager
def job(program: str, group: pathlib.Path | None = None, **environment: str) -> Iterator[int]:
    """A process of Python that says `ready`, in a group."""
    words = [sys.executable, "-c", program]
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True, env={**os.environ, **environment},
        preexec_fn=group and (lambda: join(group)),
    ) as child:  # fmt: skip
        try:
            assert child.stdout
            assert child.stdout.readline() == "ready\n"
            yield child.pid
        finally:
            child.kill()


def join(group: pathlib.Path) -> None:
    (group / "cgroup.procs").write_text("0")


BUSY = "print('ready', flush=True)\nwhile True: pass"
IDLE = "print('ready', flush=True)\ninput()"


def look(pid: int) -> Jobs:
    return run.look(Host(mounts=run.MOUNTS), {"pid": [pid]})


def named(jobs: Jobs, name: str) -> Check:
    (check,) = (check for check in jobs.checks if check.name == name)
    return check


def test_a_quota_of_a_group_above_throttles() -> None:
    with groups("cpu") as made:
        if made.version == 1:
            (made.upper / "cpu.cfs_period_us").write_text(str(PERIOD))
        made.set(made.upper, "cpu.cfs_quota_us", "cpu.max", str(QUOTA))
        if made.version == 2:
            (made.upper / "cpu.max").write_text(f"{QUOTA} {PERIOD}")
        with job(BUSY, made.lower) as pid:
            check = named(look(pid), "job_cpu_quota")
        assert str(check.verdict) == "fail", check.found
        assert check.found.startswith(f"0.1 CPUs by /{NAME}: throttled in ")
        with job(IDLE, made.lower) as pid:
            jobs = look(pid)
            for _attempt in range(10):  # its start was throttled, too
                if str(named(jobs, "job_cpu_quota").verdict) != "fail":
                    break
                jobs = look(pid)
            assert str(named(jobs, "job_cpu_quota").verdict) == "skip", "throttled, and not now"
            assert jobs.places[0].values["cpu quota"] == "0.1"
            made.set(made.upper, "cpu.cfs_quota_us", "cpu.max", "-1" if made.version == 1 else "max")
            check = named(look(pid), "job_cpu_quota")
            assert (str(check.verdict), check.found) == ("pass", "no quota")


def test_memory_near_its_limit() -> None:
    with groups("memory") as made:
        made.set(made.upper, "memory.limit_in_bytes", "memory.max", str(64 * MIB))
        with job(f"block = bytearray(b'x') * ({60 * MIB} - (10 << 20))\n{IDLE}", made.lower) as pid:
            first = named(look(pid), "job_memory_limit")
            assert f"of 64 MiB by /{NAME}" in first.found
            used = int(
                (made.upper / ("memory.usage_in_bytes", "memory.current")[made.version - 1]).read_text()
            )
            # As much as it takes for nine tenths of the limit.
            made.set(made.upper, "memory.limit_in_bytes", "memory.max", str(int(used * 1.05)))
            check = named(look(pid), "job_memory_limit")
            assert str(check.verdict) == "warn", check.found
            made.set(made.upper, "memory.limit_in_bytes", "memory.max", str(used * 3))
            check = named(look(pid), "job_memory_limit")
            assert str(check.verdict) == "pass", check.found


def test_memory_above_memory_high() -> None:
    try:
        version = cgroup_files.line(Host(), os.getpid(), "memory").version
    except HostError as error:
        pytest.skip(str(error))
    if version == 1:
        pytest.skip("control groups of version 1 have no memory.high")
    with groups("memory") as made:
        (made.lower / "memory.high").write_text(str(32 * MIB))
        grow = (
            "print('ready', flush=True)\nblocks = []\nwhile True: blocks.append(bytearray(b'x') * (1 << 16))"
        )
        with job(grow, made.lower) as pid:
            time.sleep(0.5)
            check = named(look(pid), "job_memory_high")
            assert str(check.verdict) in ("fail", "warn"), check.found


#: include/uapi/linux/prctl.h: PR_SET_THP_DISABLE
NO_THP = f"import ctypes\nassert ctypes.CDLL(None).prctl(41, 1, 0, 0, 0) == 0\n{IDLE}"


def test_transparent_huge_pages_are_disabled_by_prctl() -> None:
    with job(NO_THP) as pid, job(IDLE) as other:
        jobs, others = look(pid), look(other)
    assert jobs.places[0].processes[0].values["thp"] == "disabled"
    assert others.places[0].processes[0].values["thp"] == "allowed"
    assert str(named(jobs, "job_thp").verdict) in ("warn", "skip")
    assert str(named(others, "job_thp").verdict) in ("pass", "skip")


def test_cpus_for_the_threads() -> None:
    number = min(os.sched_getaffinity(0))
    bound = f"import os; os.sched_setaffinity(0, [{number}])\n{IDLE}"
    with job(bound, OMP_NUM_THREADS="4") as pid:
        check = named(look(pid), "job_cpu_count")
    assert (str(check.verdict), check.found) == ("skip", "1 CPU, OMP_NUM_THREADS 4: fewer than threads")


def test_device_files_of_the_own_dev() -> None:
    """In a mount namespace with a /dev of its own; the file of another device has the name of a GPU."""
    script = (
        "mount -t tmpfs none /dev && mkdir /dev/infiniband && mknod /dev/nvidia0 c 1 3 "
        "&& mknod /dev/infiniband/uverbs0 c 231 192 && ln -s nvidia0 /dev/nvidia1 && touch /dev/nvidia2 "
        "&& mkfifo /dev/nvidia3 && echo ready; read _line"
    )
    with subprocess.Popen(
        ["unshare", "--mount", "sh", "-c", script], stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True
    ) as child:
        try:
            assert child.stdout
            assert child.stdout.readline() == "ready\n"
            place = look(child.pid).places[0]
        finally:
            child.kill()
    assert isinstance(place.devices, dict)
    assert place.devices["/dev/infiniband/uverbs0"] == "231:192"
    nvidia = {path for path in place.devices if path.startswith("/dev/nvidia")}
    assert nvidia == {"/dev/nvidia0", "/dev/nvidia1"}
