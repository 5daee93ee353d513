# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.knobs.qos import parse as qos_parse
from ansible_collections.mlnode.tuning.plugins.modules import roce_qos
from ansible_collections.mlnode.tuning.tests.unit.faults import in_memory
from ansible_collections.mlnode.tuning.tests.unit.plugins.module_utils._mlnode.knobs.qos.node import (
    ROCE,
    QosNode,
)
from ansible_collections.mlnode.tuning.tests.unit.plugins.modules.running import Make, Runner

DECLARATION = "/etc/mlnode/declared.d/fabric.json"
FULL: dict[str, Any] = {"rules": [ROCE]}


@pytest.fixture(name="machine")
def _machine() -> Iterator[QosNode]:
    for folder in in_memory():
        yield QosNode.made(folder / "node")


@pytest.fixture(name="module")
def _module(running: Make) -> Runner:
    return running(roce_qos)


def changes(machine: QosNode) -> list[list[str]]:
    return [call for call in machine.bridge.calls if "show" not in call]


def test_check_mode_predicts_what_the_run_then_does(machine: QosNode, module: Runner) -> None:
    before = machine.tree()
    predicted = module.ok(check=True, name="fabric", **FULL)
    assert machine.tree() == before
    assert changes(machine) == []

    done = module.ok(name="fabric", **FULL)

    assert predicted.result["diff"] == done.result["diff"]
    want = {key: setting["want"] for key, setting in predicted.settings.items()}
    assert want == {key: setting["runtime"] for key, setting in done.settings.items()}
    assert {setting["status"] for setting in done.settings.values()} == {"changed"}
    again = module.ok(name="fabric", **FULL)
    assert (again.changed, again.result["diff"], again.warnings) == (False, [], [])


def test_what_to_do_elsewhere_is_told_though_nothing_changes(machine: QosNode, module: Runner) -> None:
    module.ok(name="fabric", **FULL)
    told = module.ok(name="fabric", **FULL).result
    assert "PFC on priority 3 and on no other, on every port between two nodes" in told["switch"]
    assert "dcb pfc set dev eth3 prio-pfc all:off 3:on" in told["commands"]


def test_what_is_kept_is_what_was_declared(machine: QosNode, module: Runner) -> None:
    module.ok(name="fabric", **FULL)
    kept = json.loads(machine.now(DECLARATION))["kinds"]["qos"]
    assert kept == {"rules": [ROCE]}


def test_an_empty_list_of_priorities_is_kept(machine: QosNode, module: Runner) -> None:
    machine.bridge.pfc = {3}
    module.ok(name="fabric", rules=[{"name": "none", "nics": {"names": ["eth2"]}, "pfc": []}])
    assert machine.bridge.pfc == set()
    assert json.loads(machine.now(DECLARATION))["kinds"]["qos"]["rules"][0]["pfc"] == []


def test_no_rules_are_no_declaration(machine: QosNode, module: Runner) -> None:
    module.ok(name="fabric", **FULL)
    module.ok(name="fabric", rules=[], allow=["busy"])
    assert not machine.exists(DECLARATION)


def test_pfc_for_several_priorities_is_refused(machine: QosNode, module: Runner) -> None:
    rules = [{**ROCE, "pfc": [3, 4]}]
    before = {*machine.bridge.pfc}
    message = module.msg(name="fabric", rules=rules)
    assert message.startswith("fabric: refused: ")
    assert "qos.roce.pfc: PFC on priorities 3,4" in message
    assert "qos.roce.dscp: eth2: goes together with qos.roce.pfc, which is refused" in message
    assert machine.bridge.pfc == before
    assert changes(machine) == []
    module.ok(name="fabric", rules=rules, allow=["pfc_priorities"])
    assert machine.bridge.pfc == {3, 4}


def test_a_contradiction_is_an_error(machine: QosNode, module: Runner) -> None:
    message = module.msg(rules=[{**ROCE, "global_pause": True}])
    assert "PFC and global pause exclude each other" in message
    assert changes(machine) == []


def test_a_failure_names_the_nic_and_undoes_all(machine: QosNode, module: Runner) -> None:
    machine.bridges["eth3"].refuses["pfc"] = "Attribute write: Invalid argument"
    message = module.msg(name="fabric", **FULL)
    assert "dcb pfc set dev eth3 prio-pfc all:off 3:on: Attribute write: Invalid argument" in message
    assert machine.bridge.pfc == set()
    assert not machine.exists(DECLARATION)


def test_what_is_not_there_warns(machine: QosNode, module: Runner) -> None:
    done = module.ok(rules=[{"name": "x", "nics": {"names": ["eth4"]}, "pfc": [3]}])
    assert "has no priority flow control" in done.warnings[0]
    assert done.settings["qos.x.pfc"]["status"] == "unsupported"


@pytest.mark.parametrize("example", yaml.safe_load(roce_qos.EXAMPLES), ids=lambda task: task["name"])
def test_every_example_is_a_declaration(example: dict[str, Any]) -> None:
    spec = example.get("mlnode.tuning.roce_qos")
    if spec is not None:
        assert qos_parse.parse(json.loads(json.dumps(spec)))
