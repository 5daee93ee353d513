# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Modules that look at a node, where the agent is there."""

from __future__ import annotations

import time
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.plugins.action import node_preflight
from ansible_collections.mlnode.tuning.tests.unit.plugins.action.asked import (
    MISSING,
    Done,
    Node,
    answer,
    done,
    modules_run,
)

CHECK = {
    "name": "rate", "target": "mlx5_0/1", "verdict": "pass", "expected": "400", "found": "400",
    "source": "/sys", "advice": "",
}  # fmt: skip


SPEED = {"value": 9.5, "tool": "mbw", "reason": ""}


def node(monkeypatch: pytest.MonkeyPatch, module: str, *answers: Done, **arguments: Any) -> Node:
    return Node(monkeypatch, node_preflight, *answers, module=module, **arguments)


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    return modules_run(monkeypatch, node_preflight)


def test_the_agent_looks_in_the_place_of_the_module(
    monkeypatch: pytest.MonkeyPatch, ran: list[dict[str, Any]]
) -> None:
    reply = answer(
        checks=[{**CHECK, "found": "\x1b[2J"}], failures=[], summary={"pass": 1}, ansible_facts={"a": 1}
    )
    asked = node(monkeypatch, "rdma_check", reply, skip="mtu,state", fail_on="never")
    asked.task.check_mode = True

    checks = [{**CHECK, "found": "\\x1b[2J"}]
    assert asked.run() == {"changed": False, "checks": checks, "failures": [], "summary": {"pass": 1}}
    assert ran == []
    [question] = asked.questions
    given = {"skip": ["mtu", "state"], "fail_on": "never", "baseline": "keep", "expect": {}}
    assert (question["call"], question["options"]) == (
        "look",
        {"module": "rdma_check", "given": given, "check": True},
    )


@pytest.mark.parametrize(
    ("module", "fields"),
    [
        ("node_preflight", {"seconds": 0.9, "failures": ["a line"], "warnings": ["a line"]}),
        ("ib_subnet", {"subnet": {"switches": 4}}),
        ("campaign", {"ends": 1.5e9, "interfaces": ["eth0"]}),
        ("campaign", {"done": True, "answer": '{"slots":[{"gbits":1.5}]}', "problem": ""}),
        ("memory_bandwidth", {"nodes": [{"node": 0, "copied": SPEED, "read": {**SPEED, "value": None}}]}),
        ("node_topology", {"topology": {"nics": [{"name": "eth0", "node": None}]}}),
        (
            "node_audit",
            {"checks": [{**CHECK, "severity": "low", "reason": "it costs", "reference": "a page"}]},
        ),
    ],
)
def test_nothing_that_a_module_returns_is_lost(
    monkeypatch: pytest.MonkeyPatch, module: str, fields: dict[str, Any]
) -> None:
    required = {"campaign": {"state": "collected", "id": "spring"}}
    asked = node(monkeypatch, module, answer(**fields), **required.get(module, {}))

    found = asked.run()
    if module == "campaign":
        assert (found.pop("took") >= 0, found.pop("shift")) == (True, 0.0)
    assert found == {"changed": False, **fields}


def test_the_clock_of_a_node_is_compared_where_the_answer_arrives(monkeypatch: pytest.MonkeyPatch) -> None:
    begin = time.time()
    early = answer(checks=[CHECK], failures=[], summary={"pass": 1}, clock=[begin - 900, begin - 900])

    found = node(monkeypatch, "node_preflight", early).run()
    accepted = node(monkeypatch, "node_preflight", early, fail_on="never").run()

    assert found["failed"]
    assert "node: clock_offset fail: 900" in found["msg"]
    assert "failed" not in accepted
    assert [check["name"] for check in accepted["checks"]] == ["rate", "clock_offset"]


def test_a_question_begins_when_the_module_is_sent_and_not_before(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([100.0, 160.0, 161.0])
    monkeypatch.setattr(node_preflight.time, "time", lambda: next(times))
    modules_run(monkeypatch, node_preflight)
    monkeypatch.setattr(
        node_preflight.ActionModule, "_execute_module", lambda self, **words: {"clock": [160.4, 160.6]}
    )

    found = node(monkeypatch, "campaign", MISSING, state="collected", id="spring").run()

    assert (found["shift"], found["took"]) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("state", "check", "runs"), [("started", False, 0), ("started", True, 1), ("collected", False, 1)]
)
def test_a_campaign_that_has_begun_is_not_begun_again(
    monkeypatch: pytest.MonkeyPatch, ran: list[dict[str, Any]], state: str, check: bool, runs: int
) -> None:
    asked = node(monkeypatch, "campaign", done("mlnode: begun\n", 137), state=state, id="spring")
    asked.task.check_mode = check

    assert ("so it was not asked again" in asked.run().get("msg", "")) == (runs == 0)
    assert len(ran) == runs


@pytest.mark.parametrize("wrong", [{"mtu": "large"}, {"no_such_option": 1}, {"peers": {"a": 1}}])
def test_what_is_wrong_is_said_by_the_module(
    monkeypatch: pytest.MonkeyPatch, ran: list[dict[str, Any]], wrong: dict[str, Any]
) -> None:
    node(monkeypatch, "node_preflight", **wrong).run()

    assert len(ran) == 1


def test_an_answer_of_another_form_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = node(monkeypatch, "node_audit", answer(checks=[{"name": "rate"}]))

    result = asked.run()
    assert result["failed"]
    assert result["msg"] == "node_audit: the agent's answer is not understood: checks[0].target is missing"
