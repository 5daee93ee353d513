# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import pathlib

import pytest
from ansible_collections.mlnode.tuning.plugins.modules import gpu_persistence
from ansible_collections.mlnode.tuning.tests.unit.gpu_machine import GpuMachine
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from ansible_collections.mlnode.tuning.tests.unit.plugins.modules.running import Make, Runner, put_in_place

DECLARATION = "/etc/mlnode/declared.d/training.json"


@pytest.fixture
def machine(tmp_path: pathlib.Path) -> GpuMachine:
    return GpuMachine.of(str(tmp_path / "node"), 8)


@pytest.fixture
def persistence(running: Make) -> Runner:
    return running(gpu_persistence)


def test_check_mode_predicts_what_the_run_then_does(machine: GpuMachine, persistence: Runner) -> None:
    machine.modes["0000:1b:00.0"] = "Enabled"
    before = machine.tree()
    predicted = persistence.ok(check=True, name="training", persistence=True)
    assert machine.tree() == before
    assert not any("-pm" in asked for asked in machine.asked)

    done = persistence.ok(name="training", persistence=True)

    assert predicted.result["diff"] == done.result["diff"]
    assert done.diff["runtime"] == ("gpu.persistence = off\n", "gpu.persistence = on\n")
    assert done.settings["gpu.persistence"]["runtime"] == "on"
    assert json.loads(machine.read(DECLARATION))["kinds"] == {"gpu": {"persistence": True}}
    assert not persistence.ok(name="training", persistence=True).changed


def test_false_is_something_and_unset_is_nothing(machine: GpuMachine, persistence: Runner) -> None:
    machine.modes = dict.fromkeys(machine.modes, "Enabled")
    assert persistence.ok(name="training").settings == {}
    done = persistence.ok(name="training", persistence=False)
    assert done.settings["gpu.persistence"]["want"] == "off"
    assert {*machine.modes.values()} == {"Disabled"}


@pytest.mark.parametrize("on_unsupported", ["fail", "warn", "ignore"])
def test_a_node_without_gpus(
    tmp_path: pathlib.Path, persistence: Runner, monkeypatch: pytest.MonkeyPatch, on_unsupported: str
) -> None:
    put_in_place(Machine.debian(str(tmp_path / "bare")), monkeypatch)
    done = persistence(persistence=True, on_unsupported=on_unsupported)
    words = "there is no GPU of NVIDIA here"
    if on_unsupported == "fail":
        assert words in done.result["msg"]
    else:
        assert done.settings["gpu.persistence"]["status"] == "unsupported"
        assert any(words in warning for warning in done.warnings) is (on_unsupported == "warn")
