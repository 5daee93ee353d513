# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What looks at a node, as a module and through the agent: the same answer."""

from __future__ import annotations

import importlib
from typing import Any

import pytest
import yaml
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from ansible_collections.mlnode.tuning.tests.unit.plugins.modules.running import MODULES, Make
from mlnode.agent import call, inspections

MODULE_PACKAGE = "ansible_collections.mlnode.tuning.plugins.modules"

#: Module by its name → arguments
GIVEN = {module.__name__.rpartition(".")[2]: arguments for module, arguments in MODULES.items()}


def asked(machine: Machine, module: str, check: bool = True, **given: Any) -> dict[str, Any]:
    return call.CALLS["look"](machine, {"module": module, "given": given, "check": check})


@pytest.mark.parametrize("name", inspections.MODULES)
def test_the_agent_answers_as_the_module(running: Make, machine: Machine, name: str) -> None:
    module = importlib.import_module(f"{MODULE_PACKAGE}.{name}")
    ran = running(module)(check=True, **GIVEN[name])
    # Timed, and warnings are kept apart there.
    told = {
        field: value for field, value in ran.result.items() if field not in ("seconds", "clock", "warnings")
    }

    answer = asked(machine, name, **GIVEN[name])
    assert len(answer.pop("warnings", [])) == len(ran.warnings)
    for timed in ("seconds", "clock"):
        answer.pop(timed, None)
    assert answer == told


@pytest.mark.parametrize("name", inspections.MODULES)
def test_the_options_are_those_that_are_documented(name: str) -> None:
    module = importlib.import_module(f"{MODULE_PACKAGE}.{name}")
    documented = {*(yaml.safe_load(module.DOCUMENTATION).get("options") or {})}
    look: Any = importlib.import_module(f"mlnode.{inspections.MODULES[name]}")

    assert {*look.OPTIONS} - {"fail_on"} == documented


@pytest.mark.parametrize(
    ("module", "given", "words"),
    [
        ("node_preflight", {"mtu": "large"}, "node_preflight.mtu: must be a whole number, got 'large'"),
        (
            "campaign",
            {"state": "begun", "id": "a", "start": "nan"},
            "campaign.start: must be a number, got 'nan'",
        ),
        ("campaign", {"state": "begun", "id": "a", "start": 10**400}, "campaign.start: must be a number"),
        (
            "rdma_check",
            {"fail_on": "always"},
            "rdma_check.fail_on: must be one of fail, unknown, warn, never",
        ),
        ("path_mtu", {}, "path_mtu.peers: is required"),
        ("campaign", {"state": "started", "id": "a", "fail_on": "never"}, "campaign.fail_on: unknown"),
        ("campaign", {"state": "started", "id": "a", "slots": [{"round": 1}]}, "is required"),
    ],
)
def test_bad_options_are_named(machine: Machine, module: str, given: dict[str, Any], words: str) -> None:
    answer = asked(machine, module, **given)

    assert (answer["failed"], answer["changed"]) == (True, False)
    assert words in answer["msg"]


def test_another_module_is_refused(machine: Machine) -> None:
    with pytest.raises(ValueError, match="module is 'thp'"):
        asked(machine, "thp")
