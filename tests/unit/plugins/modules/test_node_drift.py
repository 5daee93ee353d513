# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from ansible_collections.mlnode.tuning.plugins.modules import node_drift, sysctl_ml, thp
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from ansible_collections.mlnode.tuning.tests.unit.plugins.modules.running import Make, Runner

SWAPPINESS = "/proc/sys/vm/swappiness"


@pytest.fixture
def drift(running: Make, machine: Machine) -> Runner:
    machine.enable_agent()
    running(thp).ok(name="training", enabled="madvise")
    running(sysctl_ml).ok(name="training", settings={"vm.swappiness": 1, "kernel.no_such_knob": 1})
    return running(node_drift)


@pytest.mark.parametrize("check", [False, True])
def test_a_node_as_declared_is_compliant(machine: Machine, drift: Runner, check: bool) -> None:
    before = machine.tree()

    done = drift.ok(check)

    assert not done.changed
    assert done.result["compliant"] is True
    assert (done.result["drift"], done.result["errors"]) == ([], [])
    assert done.result["summary"] == {"ok": 2, "unsupported": 1}
    assert [*done.settings] == ["thp.enabled", "vm.swappiness", "kernel.no_such_knob"]
    assert machine.tree() == before


@pytest.mark.parametrize("check", [False, True])
def test_drift_is_told_and_neither_mended_nor_a_failure(machine: Machine, drift: Runner, check: bool) -> None:
    machine.put(SWAPPINESS, "60\n")
    before = machine.tree()

    done = drift.ok(check)

    assert not done.changed
    assert done.result["compliant"] is False
    assert done.result["drift"] == [
        "vm.swappiness: drifted, want 1, runtime 60, boot 1 (high): runtime is 60"
    ]
    assert done.settings["vm.swappiness"]["declared_by"] == ["training"]
    assert machine.tree() == before


def test_a_node_that_declares_nothing_is_not_compliant(machine: Machine, running: Make) -> None:
    done = running(node_drift).ok()

    assert done.result["compliant"] is False
    assert done.result["errors"] == [
        "nothing is declared on this node: /etc/mlnode/declared.d holds no declaration"
    ]
    assert (done.result["settings"], done.result["summary"], done.result["drift"]) == ([], {}, [])


def test_a_damaged_declaration_is_an_error_beside_what_the_others_say(
    machine: Machine, drift: Runner
) -> None:
    machine.put("/etc/mlnode/declared.d/broken.json", "{")

    done = drift.ok()

    assert done.result["compliant"] is False
    [error] = done.result["errors"]
    assert error.startswith("/etc/mlnode/declared.d/broken.json is damaged")
    assert done.result["summary"] == {"ok": 2, "unsupported": 1}
