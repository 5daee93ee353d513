# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module with short commands on this machine."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.plugins.modules import timed_command
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from ansible_collections.mlnode.tuning.tests.unit.plugins.modules.running import Make, Runner


@pytest.fixture
def module(running: Make) -> Runner:
    return running(timed_command)


def test_a_warm_up_is_not_in_the_result(module: Runner, tmp_path: pathlib.Path) -> None:
    script = f"echo x >> {tmp_path}/ran; wc -l < {tmp_path}/ran"

    done = module(command=["sh", "-c", script], warmups=2, runs=2, allow=["busy"])

    assert (done.rc, done.changed) == (0, True)
    assert [run["stdout"].strip() for run in done.result["runs"]] == ["3", "4"]
    assert [run["rc"] for run in done.result["runs"]] == [0, 0]


#: Options → the message, and the number of the runs in the result
WRONG: list[tuple[dict[str, Any], str, int]] = [
    ({"command": ["sh", "-c", "echo 1; exit 3"], "runs": 5}, "run 1: it ended with exit status 3: 1", 1),
    ({"command": ["sh", "-c", "exit 3"], "warmups": 2}, "warm-up 1: it ended with exit status 3", 0),
]


@pytest.mark.parametrize(("options", "words", "runs"), WRONG)
def test_the_first_failure_ends_it(module: Runner, options: dict[str, Any], words: str, runs: int) -> None:
    done = module(**options, allow=["busy"])

    assert done.rc == 1
    assert words in done.result["msg"]
    assert len(done.result["runs"]) == runs


@pytest.mark.parametrize(
    ("script", "words"),
    [
        # As torchrun and mpirun do at SIGTERM
        ("trap 'exit 1' TERM; sleep 60 & wait", "run 1: no end within 1 s"),
        ("trap 'exit 0' TERM; sleep 60 & wait", "run 1: no end within 1 s"),
        ("trap 'exit 1' TERM; yes & wait", "run 1: it printed more than 1048576 bytes"),
        ("kill -9 $$", "run 1: it was ended by signal 9"),
    ],
)
def test_the_exit_status_of_a_run_that_was_ended_is_no_result(
    module: Runner, script: str, words: str
) -> None:
    done = module(command=["sh", "-c", script], any_status=True, seconds=1, allow=["busy"])

    assert (done.rc, done.result["msg"]) == (1, words)


def test_an_exit_status_may_be_a_result(module: Runner) -> None:
    done = module(command=["sh", "-c", "exit 3"], any_status=True, runs=2, allow=["busy"])

    assert [run["rc"] for run in done.result["runs"]] == [3, 3]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"command": ["no-such-program"]}, "no-such-program"),
        ({"command": []}, "command: is required"),
        ({"command": ["true"], "runs": 0}, "runs: must be"),
        ({"command": ["true"], "seconds": 0}, "seconds: must be"),
    ],
)
def test_what_cannot_be_run_is_said_in_check_mode(
    module: Runner, options: dict[str, Any], words: str
) -> None:
    done = module(**options, allow=["busy"], check=True)

    assert done.rc == 1
    assert words in done.result["msg"]


def test_check_mode_runs_nothing(module: Runner, tmp_path: pathlib.Path) -> None:
    done = module(command=["touch", f"{tmp_path}/ran"], allow=["busy"], check=True)

    assert (done.rc, done.changed, done.result["runs"]) == (0, False, [])
    assert not (tmp_path / "ran").exists()


def test_a_node_with_a_job_is_left_alone(module: Runner, machine: Machine, tmp_path: pathlib.Path) -> None:
    machine.put("/proc/4711/comm", "python3\n")
    machine.link("/proc/4711/fd/3", "/dev/nvidia0")

    done = module(command=["touch", f"{tmp_path}/ran"])

    assert done.rc == 1
    assert "allow: [busy]" in done.result["msg"]
    assert not (tmp_path / "ran").exists()
