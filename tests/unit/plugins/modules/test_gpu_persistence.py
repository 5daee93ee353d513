# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pathlib

import pytest
from ansible_collections.mlnode.tuning.plugins.modules import gpu_persistence
from ansible_collections.mlnode.tuning.tests.unit.gpu_machine import GpuMachine
from ansible_collections.mlnode.tuning.tests.unit.plugins.modules.running import Make, Runner

DECLARATION = "/etc/mlnode/declared.d/training.json"


@pytest.fixture
def machine(tmp_path: pathlib.Path) -> GpuMachine:
    return GpuMachine.of(str(tmp_path / "node"), 8)


@pytest.fixture
def persistence(running: Make) -> Runner:
    return running(gpu_persistence)


def test_false_is_something_and_unset_is_nothing(machine: GpuMachine, persistence: Runner) -> None:
    machine.modes = dict.fromkeys(machine.modes, "Enabled")
    assert persistence.ok(name="training").settings == {}
    done = persistence.ok(name="training", persistence=False)
    assert done.settings["gpu.persistence"]["want"] == "off"
    assert {*machine.modes.values()} == {"Disabled"}
