# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import os
import re

import pytest
from ansible_collections.mlnode.tuning.plugins.modules import agent as agent_module
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from ansible_collections.mlnode.tuning.tests.unit.plugins.modules.running import Make, Runner
from mlnode.agent.install import COMMAND, UNIT, UNIT_FILE
from mlnode.engine.kind import AGENT_LINK
from mlnode.engine.units import LINKS, NIC_PATH_UNIT, TEXTS


@pytest.fixture
def agent(running: Make) -> Runner:
    return running(agent_module)


def test_check_mode_predicts_what_the_run_then_does(machine: Machine, agent: Runner) -> None:
    before = machine.tree()
    predicted = agent.ok(check=True)
    assert machine.tree() == before

    done = agent.ok()

    assert predicted.result == done.result
    assert done.changed
    assert done.result["path"] == COMMAND


def test_command_unit_and_link_are_installed_and_shown(machine: Machine, agent: Runner) -> None:
    diff = agent.ok().diff

    assert [*diff] == [COMMAND, *TEXTS, *LINKS]
    # Nobody reads an archive in a diff.
    assert re.match(r"\d+ bytes, sha256 [0-9a-f]{64}\n\Z", diff[COMMAND][1])
    assert diff[UNIT_FILE] == ("", UNIT)
    assert diff[AGENT_LINK] == ("", f"link to {UNIT_FILE}\n")
    assert os.stat(machine.root + COMMAND).st_mode & 0o7777 == 0o755
    assert machine.link_target(AGENT_LINK) == UNIT_FILE


def test_a_second_run_changes_nothing(machine: Machine, agent: Runner) -> None:
    agent.ok()
    tree = machine.tree()

    again = agent.ok()

    assert not again.changed
    assert again.result["diff"] == []
    assert machine.tree() == tree


@pytest.mark.parametrize("systemd", [False, True])
def test_a_running_systemd_has_to_be_told_of_a_new_unit(
    machine: Machine, agent: Runner, systemd: bool
) -> None:
    if systemd:
        machine.put("/run/systemd/system/.keep", "")

    agent.ok()

    assert machine.reloads == int(systemd)
    assert machine.active == ({NIC_PATH_UNIT} if systemd else set())


def test_a_new_command_alone_needs_no_reload(machine: Machine, agent: Runner) -> None:
    machine.put("/run/systemd/system/.keep", "")
    agent.ok()

    done = agent.ok(interpreter="/usr/bin/python3.8")

    assert done.changed
    assert [*done.diff] == [COMMAND]
    assert machine.reloads == 1, "for the unit, at the first run"
    assert machine.read_bytes(COMMAND).startswith(b"#!/usr/bin/python3.8 -IS\n")


@pytest.mark.parametrize("path", [COMMAND, UNIT_FILE])
def test_a_changed_file_is_renewed(machine: Machine, agent: Runner, path: str) -> None:
    agent.ok()
    tree = machine.tree()
    machine.put(path, "edited\n", mode=0o600)

    done = agent.ok()

    assert [*done.diff] == [path]
    assert done.diff[path][0] == "edited\n"
    assert machine.tree() == tree


def test_without_root_nothing_is_installed(machine: Machine, agent: Runner) -> None:
    machine.superuser = False
    before = machine.tree()

    assert agent.msg() == f"agent: cannot install {COMMAND}: root is needed"
    assert machine.tree() == before


@pytest.mark.parametrize("check", [False, True])
def test_what_others_put_beside_its_units_is_a_warning_and_stays(
    machine: Machine, agent: Runner, check: bool
) -> None:
    agent.ok()
    path = f"{UNIT_FILE}.d/theirs.conf"
    machine.put(path, "[Unit]\nConditionHost=other\n")
    machine.remove(UNIT_FILE)
    machine.link(UNIT_FILE, "/dev/null")

    done = agent.ok(check)

    assert machine.content(path) is not None
    assert list(done.diff) == [UNIT_FILE], "a mask of its own unit is mended"
    if not check:
        [words] = done.warnings
        assert words.startswith(f"{path}:2 sets ConditionHost=other: take that line out")
