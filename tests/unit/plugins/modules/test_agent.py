# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from ansible_collections.mlnode.tuning.plugins.modules import agent as agent_module
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from ansible_collections.mlnode.tuning.tests.unit.plugins.modules.running import Make, Runner
from mlnode.agent.install import COMMAND, UNIT_FILE
from mlnode.engine.units import NIC_PATH_UNIT


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


@pytest.mark.parametrize("systemd", [False, True])
def test_a_running_systemd_has_to_be_told_of_a_new_unit(
    machine: Machine, agent: Runner, systemd: bool
) -> None:
    if systemd:
        machine.put("/run/systemd/system/.keep", "")

    agent.ok()

    assert machine.reloads == int(systemd)
    assert machine.active == ({NIC_PATH_UNIT} if systemd else set())


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
