# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pathlib
import re

import pytest
from ansible_collections.mlnode.tuning.plugins.modules import node_job
from ansible_collections.mlnode.tuning.tests.unit import job_machine
from ansible_collections.mlnode.tuning.tests.unit.job_machine import declare, process
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from ansible_collections.mlnode.tuning.tests.unit.plugins.modules.running import Make, Runner


@pytest.fixture
def node(machine: Machine) -> Machine:
    job_machine.furnish(machine)
    declare(machine, limits={"memlock": "unlimited"})
    process(machine, 20, "python", "/dev/nvidia0")
    return machine


@pytest.fixture
def look(running: Make, node: Machine) -> Runner:
    return running(node_job)


@pytest.mark.parametrize("check", [False, True])
def test_it_reports_and_changes_nothing(node: Machine, look: Runner, check: bool) -> None:
    before = node.tree()
    done = look.ok(check=check)
    assert not done.changed
    assert node.tree() == before
    assert node.writes == []
    assert done.result["failures"][0].startswith("high: session 3 (pid 20): job_limit fail: memlock 8388608")
    (place,) = done.result["places"]
    assert place["processes"][0]["devices"] == ["/dev/nvidia0"]
    assert done.result["unseen"] == []


def test_it_fails_if_asked(look: Runner) -> None:
    msg = look.msg(fail_on="fail")
    assert msg.startswith("node_job: 1 of ")
    assert "\nhigh: session 3 (pid 20): job_limit fail" in msg


def test_processes_that_are_not_there_are_unknown(look: Runner) -> None:
    assert "pid 99: job_asked unknown: no such process here" in look.msg(pid=[99], fail_on="unknown")
    look.ok(pid=[99], fail_on="fail")


def test_a_faulty_option_is_an_error(look: Runner) -> None:
    assert look.msg(pid=[0]) == "node_job: pid: expected the number of a process, got 0"
    assert "not a number" in look.msg(pid=["x"]) or "cannot be converted to an int" in look.msg(pid=["x"])


def test_the_guide_names_every_check() -> None:
    root = pathlib.Path(node_job.__file__).parents[2]
    sources = (root / "plugins/module_utils/_mlnode/checks/jobs").glob("*.py")
    names = {name for path in sources for name in re.findall(r'"(job_[a-z_]+)"', path.read_text("utf-8"))}
    rows = re.findall(r"^\| `(job_\w+)` \|", (root / "docs/guide/jobs.md").read_text("utf-8"), re.MULTILINE)
    assert "job_asked" in names
    assert sorted(rows) == sorted(names)
