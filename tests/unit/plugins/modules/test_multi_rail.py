# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import errno
import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.knobs.rail import parse as rail_parse
from ansible_collections.mlnode.tuning.plugins.modules import multi_rail
from ansible_collections.mlnode.tuning.tests.unit.faults import in_memory
from ansible_collections.mlnode.tuning.tests.unit.plugins.module_utils._mlnode.knobs.rail.node import (
    RAILS,
    RailNode,
)
from ansible_collections.mlnode.tuning.tests.unit.plugins.modules.running import Make, Runner
from ansible_collections.mlnode.tuning.tests.unit.rail_machine import CONF

DECLARATION = "/etc/mlnode/declared.d/fabric.json"
FULL: dict[str, Any] = {"name": "fabric", "rules": [RAILS]}


@pytest.fixture(name="machine")
def _machine() -> Iterator[RailNode]:
    for folder in in_memory():
        yield RailNode.made(folder / "node")


@pytest.fixture(name="module")
def _module(running: Make) -> Runner:
    return running(multi_rail)


def test_check_mode_predicts_what_the_run_then_does(machine: RailNode, module: Runner) -> None:
    before = machine.tree()
    predicted = module.ok(check=True, **FULL)
    assert machine.tree() == before

    done = module.ok(**FULL)

    assert predicted.result["diff"] == done.result["diff"]
    want = {key: setting["want"] for key, setting in predicted.settings.items()}
    assert want == {key: setting["runtime"] for key, setting in done.settings.items()}
    assert {setting["status"] for setting in done.settings.values()} == {"changed"}
    again = module.ok(**FULL)
    assert (again.changed, again.result["diff"], again.warnings) == (False, [], [])


def test_what_is_kept_is_what_was_declared(machine: RailNode, module: Runner) -> None:
    module.ok(**FULL)
    kept = json.loads(machine.now(DECLARATION))["kinds"]["rail"]
    assert kept == {"rules": [RAILS]}


def test_no_rules_are_no_declaration(machine: RailNode, module: Runner) -> None:
    module.ok(**FULL)
    module.ok(name="fabric", rules=[], allow=["management"])
    assert not machine.exists(DECLARATION)


def test_the_management_path_is_refused(machine: RailNode, module: Runner) -> None:
    rules = [{"name": "x", "nics": {"names": ["eth4"]}, "rp_filter": 1}]
    path = f"{CONF}/eth4/rp_filter"
    message = module.msg(rules=rules)
    assert message.startswith("default: refused: rail.x.rp_filter: eth4: ")
    assert machine.now(path) == "0"
    module.ok(rules=rules, allow=["management"])
    assert machine.now(path) == "1"


def test_a_failure_undoes_all(machine: RailNode, module: Runner) -> None:
    path = f"{CONF}/eth3/rp_filter"
    machine.fails[path] = errno.EPERM
    assert path in module.msg(**FULL)
    assert machine.now(f"{CONF}/eth2/arp_ignore") == "0"
    assert not machine.exists(DECLARATION)


@pytest.mark.parametrize("example", yaml.safe_load(multi_rail.EXAMPLES), ids=lambda task: task["name"])
def test_every_example_is_a_declaration(example: dict[str, Any]) -> None:
    spec = {name: value for name, value in example["mlnode.tuning.multi_rail"].items() if name != "name"}
    assert rail_parse.parse(json.loads(json.dumps(spec)))
