# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import errno
import pathlib

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.limits_machine import LimitsMachine
from mlnode.linux import daemons


@pytest.fixture
def machine(tmp_path: pathlib.Path) -> LimitsMachine:
    return LimitsMachine.node(str(tmp_path / "node"))


def test_sessions_and_the_processes_of_users_are_none_of_them(machine: LimitsMachine) -> None:
    machine.process(70, "sshd")
    machine.process(71, "sshd", parent=70)
    machine.process(72, "sshd", user=1000)
    machine.process(73, "sshd-session", parent=70)
    machine.process(80, "slurmd")
    seen = daemons.running(machine, {"sshd", "slurmd"})
    assert [one.pid for one in seen.named("sshd")] == [70]
    assert [one.limits for one in seen.named("slurmd")] == ["/proc/80/limits"]
    assert seen.named("dockerd") == []
    assert (seen.hidden, seen.none) == ("", False)


def test_what_is_hidden_is_told(machine: LimitsMachine) -> None:
    machine.unreadable["/proc/1/status"] = errno.EACCES
    seen = daemons.running(machine, {"sshd"})
    assert seen.hidden.startswith("cannot read /proc/1/status: EACCES")


@cases.table
def test_a_process_that_says_nothing(machine: LimitsMachine, text: str) -> None:
    machine.put("/proc/70/status", text)
    assert daemons.running(machine, {"sshd"}).daemons == ()


@cases.table
def test_whose_service_a_process_is(machine: LimitsMachine, groups: str, init: str, found: bool) -> None:
    machine.put("/proc/50/cgroup", f"{groups}\n")
    machine.put("/proc/1/cgroup", f"{init}\n")
    assert daemons.belongs(machine, 50, ("docker.service",)) is found


def test_groups_that_nobody_may_read(machine: LimitsMachine) -> None:
    assert daemons.belongs(machine, 50, ("docker.service",))
    machine.put("/proc/50/cgroup", "0::/elsewhere\n")
    machine.unreadable["/proc/50/cgroup"] = errno.EACCES
    assert daemons.belongs(machine, 50, ("docker.service",))


def test_a_row_is_found_by_its_whole_name_and_unit(machine: LimitsMachine) -> None:
    machine.process(70, "sshd", memlock="64:unlimited")
    text = machine.read("/proc/70/limits")
    assert daemons.limit(text, "Max locked memory", "bytes") == ("64", "unlimited")
    assert daemons.limit(text, "Max locked memory", "files") is None
    assert daemons.limit(text, "Max locked", "bytes") is None
    assert daemons.limit(text, "locked memory", "bytes") is None
