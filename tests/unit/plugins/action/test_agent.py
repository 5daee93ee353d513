# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The agent is installed by itself, and by one that is sent where there is none; it reverts itself."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.plugins.action import agent
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from ansible_collections.mlnode.tuning.tests.unit.plugins.action.asked import (
    MISSING,
    OTHER,
    Done,
    Node,
    answer,
    done,
    modules_run,
)
from mlnode.agent import call
from mlnode.agent.install import COMMAND

PATH = {"path": COMMAND, "diff": [], "warnings": []}
BACK: dict[str, Any] = {"reverted": [], "reboot_required": False, "diff": [], "warnings": []}


def node(monkeypatch: pytest.MonkeyPatch, module: str, *answers: Done, **arguments: Any) -> Node:
    return Node(monkeypatch, agent, *answers, module=module, **arguments)


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    return modules_run(monkeypatch, agent)


def test_an_installed_agent_is_asked_and_nothing_is_sent(
    monkeypatch: pytest.MonkeyPatch, ran: list[dict[str, Any]]
) -> None:
    asked = node(monkeypatch, "agent", answer(**PATH), reload=False)

    result = asked.run()

    assert (result["changed"], result["path"]) == (False, COMMAND)
    [question] = asked.questions
    assert (question["call"], asked.ways, ran) == ("install", ["installed"], [])
    assert question["options"] == {
        "interpreter": "/usr/bin/env python3",
        "reload": False,
        "check": False,
        "diff": False,
    }


@pytest.mark.parametrize("first", [MISSING, OTHER], ids=["missing", "another"])
def test_where_there_is_none_of_these_sources_it_is_sent(
    monkeypatch: pytest.MonkeyPatch, ran: list[dict[str, Any]], first: Done
) -> None:
    asked = node(monkeypatch, "agent", first, answer(changed=True, **PATH), interpreter="/opt/python3")
    assert asked.run()["changed"] is True
    assert (asked.ways, ran) == (["installed", "sent"], [])
    assert asked.commands[1].startswith("/opt/python3 ")


def test_a_revert_by_a_node_without_agent_is_that_of_the_module(
    monkeypatch: pytest.MonkeyPatch, ran: list[dict[str, Any]]
) -> None:
    """It is done with the Python that Ansible has found there, which a sent agent would not know."""
    asked = node(monkeypatch, "node_revert", MISSING)
    assert asked.run()["msg"] == "of the module"
    assert (asked.ways, len(ran)) == (["installed"], 1)


def test_a_revert_is_asked_of_the_installed_agent(
    monkeypatch: pytest.MonkeyPatch, ran: list[dict[str, Any]]
) -> None:
    asked = node(monkeypatch, "node_revert", answer(**BACK, stays=["a"]), without_origin=True)
    assert asked.run()["stays"] == ["a"]
    [question] = asked.questions
    assert (question["call"], ran) == ("revert", [])
    assert question["options"] == {"without_origin": True, "check": False, "diff": False}


def test_a_revert_that_is_cut_off_is_not_begun_again(
    monkeypatch: pytest.MonkeyPatch, ran: list[dict[str, Any]]
) -> None:
    asked = node(monkeypatch, "node_revert", done(f"{call.BEGUN}\n", rc=255))
    result = asked.run()
    assert result["failed"] is True
    assert "It had begun, so it was not asked again" in result["msg"]
    assert ran == []


@cases.table
def test_a_wrong_option_is_named_before_a_node_is_asked(
    monkeypatch: pytest.MonkeyPatch, module: str, arguments: dict[str, Any], words: str
) -> None:
    asked = node(monkeypatch, module, **arguments)
    result = asked.run()
    assert result["failed"] is True
    assert result["msg"].startswith(f"{module}: ")
    assert words in result["msg"]
    assert asked.commands == []


def test_the_agent_answers_as_the_module_does(machine: Machine) -> None:
    """What is installed is put back, up to the agent itself."""
    before = machine.tree()
    install = {"interpreter": "/usr/bin/env python3", "reload": True, "check": False, "diff": True}
    found = call.CALLS["install"](machine, install)
    assert (found["changed"], found["path"]) == (True, COMMAND)
    json.dumps(found)

    options = {"without_origin": False, "check": True, "diff": True}
    predicted = call.CALLS["revert"](machine, options)
    assert machine.exists(COMMAND)
    assert call.CALLS["revert"](machine, {**options, "check": False}) == predicted
    assert machine.tree() == before

    machine.superuser = False
    refused = call.CALLS["install"](machine, install)
    assert refused["msg"] == f"agent: cannot install {COMMAND}: root is needed"
