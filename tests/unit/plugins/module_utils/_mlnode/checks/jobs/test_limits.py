# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Limits of jobs, against the declared ones."""

from __future__ import annotations

import errno
import pathlib
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import job_machine
from ansible_collections.mlnode.tuning.tests.unit.job_machine import CONTAINER, declare, process
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine

from .test_run import SLURM, look, of


@pytest.fixture
def node(tmp_path: pathlib.Path) -> Machine:
    return job_machine.node(str(tmp_path / "node"))


def test_limits_by_the_way_a_job_was_started(node: Machine) -> None:
    declare(node, limits={"nofile": {"login": 2048, "systemd": 4096, "services": 8192, "slurmd": 16384}})
    groups = {
        20: "/user.slice/user-0.slice/session-3.scope",
        21: "/system.slice/vllm.service",
        22: f"/system.slice/docker-{CONTAINER}.scope",
        23: SLURM.format(0),
        24: f"/machine.slice/libpod-{CONTAINER}.scope",
        25: f"/system.slice/vllm.service/libpod-payload-{'5a' * 32}",
        26: f"/user.slice/user-1.slice/user@1.service/app.slice/x.service/libpod-payload-{'6a' * 32}",
        27: "/system.slice/run-r1.scope",
        28: "/lxc.payload.train/x.service",
    }
    for pid, group in groups.items():
        process(node, pid, "python", "/dev/nvidia0", cgroup=group, user=1000)
    expected = {target: want for target, _verdict, want, _found in of(look(node), "job_limit")}
    assert expected == {
        "session 3 (pid 20)": ">= 2048",
        "unit vllm.service (pid 21)": ">= 4096",
        "container 3f2c3f2c3f2c (pid 22)": ">= 8192",
        "Slurm job 4711 (pid 23)": ">= 16384",
        "container 3f2c3f2c3f2c (pid 24)": ">= 2048",
        "container 5a5a5a5a5a5a (pid 25)": ">= 4096",
        "container 6a6a6a6a6a6a (pid 26)": ">= 2048",
        "unit run-r1.scope (pid 27)": ">= 2048",
        "container train (pid 28)": ">= 4096",
    }


@pytest.mark.parametrize(
    ("declared", "nofile", "verdict"),
    [
        ("1024:2048", "1024                 2048                ", "pass"),
        ("1024:2048", "1024                 1048576             ", "pass"),
        ("1024:2048", "1024                 2047                ", "fail"),
        ("1024:2048", "1023                 2048                ", "fail"),
        ({"exactly": "1024:2048"}, "1024                 2049                ", "fail"),
        ({"exactly": "1024:2048"}, "1024                 2048                ", "pass"),
    ],
)
def test_a_limit_is_a_minimum_unless_it_is_exact(
    node: Machine, declared: Any, nofile: str, verdict: str
) -> None:
    declare(node, limits={"nofile": declared})
    process(node, 20, "python", "/dev/nvidia0", nofile=nofile)
    ((_target, found, _expected, _found),) = of(look(node), "job_limit")
    assert found == verdict


@pytest.mark.parametrize(
    ("declared", "nofile", "advice"),
    [
        (65536, "1024 1048576 ", "65536:1048576"),
        (65536, "1024 4096 ", "65536:65536"),
        ("1024:524288", "2048 4096 ", "2048:524288"),
        ({"exactly": 65536}, "1024 1048576 ", "65536:65536"),
    ],
)
def test_a_remedy_lowers_no_limit_unless_it_is_exact(
    node: Machine, declared: Any, nofile: str, advice: str
) -> None:
    declare(node, limits={"nofile": {"services": declared}})
    process(node, 20, "python", "/dev/nvidia0", cgroup=f"/docker/{CONTAINER}", nofile=nofile)
    (check,) = (check for check in look(node).checks if check.name == "job_limit")
    assert f"docker run --ulimit nofile={advice};" in check.advice


def test_ranks_of_a_job_with_the_same_limit_are_one_check(node: Machine) -> None:
    declare(node, limits={"memlock": "unlimited"})
    for rank in range(4):
        memlock = (
            "unlimited            unlimited           "
            if rank == 2
            else "8388608              8388608             "
        )
        process(node, 20 + rank, "python", "/dev/nvidia0", cgroup=SLURM.format(rank), memlock=memlock)
    jobs = look(node)
    assert of(jobs, "job_limit") == [
        ("Slurm job 4711 (pid 20 and 2 more)", "fail", "unlimited", "memlock 8388608"),
        ("Slurm job 4711 (pid 22)", "pass", "unlimited", "memlock unlimited"),
    ]
    assert "PropagateResourceLimitsExcept=MEMLOCK" in jobs.checks[0].advice
    assert len(jobs.places) == 4


@pytest.mark.parametrize("memlock", ["infinity infinity", "-1 -1", "unlimited", "8 MiB", "0x10 unlimited"])
def test_a_limit_in_other_words_is_unknown(node: Machine, memlock: str) -> None:
    declare(node, limits={"memlock": "unlimited"})
    process(node, 20, "python", "/dev/nvidia0", memlock=f"{memlock} ")
    ((_target, verdict, _expected, _found),) = of(look(node), "job_limit")
    assert verdict == "unknown"


@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO, errno.ENOENT, errno.ESRCH])
def test_a_limit_that_cannot_be_read_is_unknown(node: Machine, number: int) -> None:
    """The process still runs, whatever the error."""
    declare(node, limits={"memlock": "unlimited"})
    process(node, 20, "python", "/dev/nvidia0")
    node.unreadable = {"/proc/20/limits": number}
    ((_target, verdict, _expected, found),) = of(look(node), "job_limit")
    assert verdict == "unknown"
    assert found.startswith("memlock: cannot read /proc/20/limits")
