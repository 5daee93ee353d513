# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pathlib

import pytest
import yaml
from ansible_collections.mlnode.tuning.plugins.modules import limits as limits_module
from ansible_collections.mlnode.tuning.tests.unit.limits_machine import LimitsMachine
from ansible_collections.mlnode.tuning.tests.unit.plugins.modules.running import Make, Runner
from mlnode.agent import registry
from mlnode.knobs.limits.parse import LIMITS, SERVICE_NAMES

FILE = "zz-mlnode-training.conf"
PAM, MANAGER = f"/etc/security/limits.d/{FILE}", f"/etc/systemd/system.conf.d/{FILE}"


@pytest.fixture
def machine(tmp_path: pathlib.Path) -> LimitsMachine:
    found = LimitsMachine.node(str(tmp_path / "node"))
    found.unit("slurmd")
    found.process(50, "slurmd")
    return found


@pytest.fixture
def limits(running: Make) -> Runner:
    return running(limits_module)


def test_nothing_waits_where_nothing_runs(machine: LimitsMachine, limits: Runner) -> None:
    machine.remove("/proc/50/status")
    for check in (True, False):
        assert limits.ok(check=check, nofile=1048576).result["reboot_required"] is False


def test_the_options_are_those_of_the_library() -> None:
    options = registry.options("limits")
    assert [*options] == [*LIMITS, "domains", "services", "defaults"]
    for name in SERVICE_NAMES:
        assert f"V({name})" in options["services"].text


def test_the_documented_sample_is_what_is_returned(limits: Runner) -> None:
    done = limits.ok(memlock="unlimited")
    [sample] = yaml.safe_load(limits_module.RETURN)["settings"]["sample"]
    assert sample.items() <= done.settings["limits.services.memlock"].items()
