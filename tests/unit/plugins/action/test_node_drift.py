# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest
import yaml
from ansible_collections.mlnode.tuning.plugins.action import node_drift
from ansible_collections.mlnode.tuning.plugins.modules import node_drift as module
from ansible_collections.mlnode.tuning.plugins.plugin_utils import agent_answer, agent_call
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from ansible_collections.mlnode.tuning.tests.unit.plugins.action.asked import (
    AGENT,
    KEPT,
    MISSING,
    NO_PYTHON,
    OTHER,
    Done,
    Node,
    answer,
    done,
)
from mlnode.agent import call, registry
from mlnode.agent import install as agent
from mlnode.engine import declared

FINE = answer(compliant=True)
THP = {"enabled": "madvise"}


def test_without_declarations_the_node_is_compared_with_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(monkeypatch, node_drift, FINE, fail_at="high")

    assert node.run(inventory_hostname="gpu001") == {"changed": False, "compliant": True}

    [question] = node.questions
    assert question == {
        **AGENT,
        "call": "drift",
        "options": {"fail_at": "high", "ignore": [], "declarations": {}, "host": "gpu001"},
    }


def test_declarations_are_what_the_action_declare_would_hand_over(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {
        "node": {"profile": "training", "thp": {"defrag": None}, "nic": None, "irq": {}},
        "fabric": {},
        "mine": {"thp": THP},
        "gone": None,
    }
    node = Node(monkeypatch, node_drift, FINE, declarations=given)
    node.run()

    found = node.questions[0]["options"]["declarations"]
    assert found["node"]["thp"] == THP
    assert found["node"]["irq"]["rules"] == {"nics": {"strategy": "spread"}}
    assert "nic" not in found["node"]
    assert (found["fabric"], found["mine"], found["gone"]) == ({}, {"thp": THP}, {})


def test_variables_are_those_that_the_role_declares(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"node": {"profile": "training", "variables": "node"}, "fabric": {}}
    node = Node(monkeypatch, node_drift, FINE, declarations=given)
    node.run(node_sysctl={"vm.swappiness": 7}, node_nic=None, fabric_thp=THP)

    found = node.questions[0]["options"]["declarations"]
    assert found["node"]["sysctl"]["settings"]["vm.swappiness"] == 7
    assert "nic" not in found["node"]
    assert found["fabric"] == {}


def test_the_agent_takes_what_it_is_asked(monkeypatch: pytest.MonkeyPatch, machine: Machine) -> None:
    node = Node(monkeypatch, node_drift, FINE, declarations={"mine": {"thp": THP}})
    node.run()

    found = call.CALLS["drift"](machine, node.questions[0]["options"])

    assert (
        "mine is not declared on the node as the inventory says (missing there: thp): run site.yml"
        in (found["errors"])
    )
    assert {*found} <= {*agent_answer.ANSWERS["drift"]}


@pytest.mark.parametrize(
    ("run", "skip", "own", "selected"),
    [
        (["sysctl", "thp"], ["thp"], ["always"], ["sysctl"]),
        (["all"], [], ["always"], None),
        # Chosen by its own tag, or for all that has none
        (["mine"], [], ["mine"], None),
        (["untagged"], [], [], None),
        (["mine"], ["thp"], ["always", "mine"], [area for area in registry.KINDS if area != "thp"]),
    ],
)
def test_tags_choose_areas_in_the_call(
    monkeypatch: pytest.MonkeyPatch,
    run: list[str],
    skip: list[str],
    own: list[str],
    selected: list[str] | None,
) -> None:
    node = Node(monkeypatch, node_drift, FINE)
    node.task.tags = own
    node.run(ansible_run_tags=run, ansible_skip_tags=skip)

    assert node.questions[0]["options"].get("selected") == selected


def test_tags_of_nothing_here_skip_it_without_a_remote_call(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Node(monkeypatch, node_drift).run(ansible_run_tags=["web"])["skipped"]


def test_only_the_chosen_areas_are_compared(monkeypatch: pytest.MonkeyPatch, machine: Machine) -> None:
    given = {"mine": {"thp": THP, "sysctl": {"settings": {"vm.swappiness": 1}}}}
    node = Node(monkeypatch, node_drift, FINE, declarations=given)
    node.run(ansible_run_tags=["thp"])

    found = call.CALLS["drift"](machine, node.questions[0]["options"])

    assert found["verdict"].startswith("not as declared; nothing in thp; ")
    assert "(missing there: thp): run site.yml" in found["verdict"]


@cases.table
def test_wrong_options_fail_without_a_remote_call(
    monkeypatch: pytest.MonkeyPatch, arguments: dict[str, Any], words: str
) -> None:
    found = Node(monkeypatch, node_drift, **arguments).run()

    assert found["failed"]
    assert words in found["msg"]


@pytest.mark.parametrize("name", ["node_sysctll", "training_node_sysctl"])
@pytest.mark.parametrize("prefix", ["node", "../node", ""])
def test_a_misspelt_variable_of_a_role_is_named_as_by_the_role_itself(
    monkeypatch: pytest.MonkeyPatch, prefix: str, name: str
) -> None:
    given = {"node": {"profile": "training", "variables": prefix}, "fabric": {}}
    answers = [] if prefix == "node" else [FINE]
    found = Node(monkeypatch, node_drift, *answers, declarations=given).run(**{name: {}}, node_exporter={})

    words = f"node_drift: {name}: unknown variable; did you mean node_sysctl?"
    assert found.get("msg") == (words if prefix == "node" else None)


def test_an_area_that_holds_no_options_is_named_by_the_node(
    monkeypatch: pytest.MonkeyPatch, machine: Machine
) -> None:
    node = Node(monkeypatch, node_drift, FINE, declarations={"node": {"variables": "node"}})
    node.run(node_thp="always")

    found = call.CALLS["drift"](machine, node.questions[0]["options"])

    assert found["failed"]
    assert "thp" in found["msg"]
    assert "'always'" in found["msg"]


@pytest.mark.parametrize(
    ("first", "wrong"),
    [
        (MISSING, ""),
        (OTHER, f"{agent_call.AGENT} is not the agent of this collection: run site.yml"),
        (done("", 2, "usage"), "the agent does not answer (exit status 2: usage)"),
    ],
)
@pytest.mark.parametrize("piped", [True, False])
def test_an_agent_that_is_sent_knows_why(
    monkeypatch: pytest.MonkeyPatch, machine: Machine, first: Done, wrong: str, piped: bool
) -> None:
    node = Node(monkeypatch, node_drift, first, FINE, piped=piped)

    assert node.run()["compliant"] is True
    assert node.ways == ["installed", "sent"]
    options = node.questions[1]["options"]
    assert options.get("instead", "") == wrong
    errors = call.CALLS["drift"](machine, options)["errors"]
    assert (wrong in errors) is bool(wrong)


def test_a_node_without_python_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Node(monkeypatch, node_drift, MISSING, NO_PYTHON).run()

    assert found["failed"]
    assert found["msg"].startswith("node_drift: the agent does not answer")
    assert "node_interpreter" in found["msg"]
    assert "failures" not in found, "playbooks/drift.yml takes it for looked at"


def test_every_documented_field_may_be_told() -> None:
    documented = {*yaml.safe_load(module.RETURN), "changed", "failed", "msg"}
    assert documented == {*agent_answer.ANSWERS["drift"]}


def test_a_controller_and_a_node_have_the_same_words() -> None:
    assert (agent_call.MARK, agent_call.BEGUN) == (call.MARK, call.BEGUN)
    assert agent_call.AGENT == agent.COMMAND
    assert agent_call.FOLDER == declared.FOLDER


# -- a node of which nothing is declared -----------------------------------------------------------

NONE = {"node": {}, "fabric": {}}


def test_a_node_without_all_that_should_have_nothing_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(monkeypatch, node_drift, MISSING, declarations=NONE)

    found = node.run()

    assert (found["compliant"], found["failures"], found["errors"]) == (True, [], [])
    assert node.ways == ["installed"]
    assert {*found} | {"failed", "msg"} == {*agent_answer.ANSWERS["drift"]}


@pytest.mark.parametrize(
    ("first", "expected"), [(KEPT, NONE), (MISSING, {"node": {"thp": THP}, "fabric": {}}), (MISSING, {})]
)
def test_any_other_node_is_looked_at(
    monkeypatch: pytest.MonkeyPatch, first: Done, expected: dict[str, Any]
) -> None:
    node = Node(monkeypatch, node_drift, first, FINE, declarations=expected)

    assert node.run()["compliant"] is True
    assert node.ways == ["installed", "sent"]
