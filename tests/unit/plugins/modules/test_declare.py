# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from ansible_collections.mlnode.tuning.plugins.action import declare as action
from ansible_collections.mlnode.tuning.plugins.modules import declare
from ansible_collections.mlnode.tuning.plugins.plugin_utils import options_of
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from ansible_collections.mlnode.tuning.tests.unit.plugins.modules.running import Make
from mlnode.agent.registry import KINDS


def test_without_its_action_plugin_it_does_nothing(machine: Machine, running: Make) -> None:
    before = machine.tree()

    assert "this needs its action plugin" in running(declare).msg(thp={"enabled": "madvise"})
    assert machine.tree() == before


def test_every_area_is_an_option() -> None:
    assert {*KINDS} <= {*action._SPEC}
    assert {*action._SPEC} - {*KINDS} == {*options_of.module("declare")}


@pytest.mark.parametrize("given", [{"thp": "madvise"}, {"layers": ["disk"]}, {"fabric_type": "ethernet"}])
def test_options_are_checked(running: Make, given: dict[str, object]) -> None:
    assert "this needs its action plugin" not in running(declare).msg(**given)
