# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Answers that no sound agent gives."""

from __future__ import annotations

import copy
import json
from collections import Counter
from typing import Any

import pytest
from ansible import constants
from ansible_collections.mlnode.tuning.plugins.action import declare, node_drift
from ansible_collections.mlnode.tuning.plugins.plugin_utils import agent_answer
from ansible_collections.mlnode.tuning.plugins.plugin_utils.answer_forms import LINE, MOST
from ansible_collections.mlnode.tuning.plugins.plugin_utils.fleet_report import model
from ansible_collections.mlnode.tuning.tests.unit import questions
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from ansible_collections.mlnode.tuning.tests.unit.plugins.action.asked import MARK, Node, done
from hypothesis import given, strategies
from mlnode.agent import call, node, node_report

SETTING: dict[str, Any] = {
    **dict.fromkeys(("kind", "key", "path", "declared", "reason", "severity", "status"), "ok"),
    **dict.fromkeys(("want", "runtime", "boot", "boot_source", "origin"), None),
}
AREA: dict[str, Any] = {"changed": True, "settings": [SETTING], "reboot_required": False}
PAIR = dict.fromkeys(("before_header", "after_header", "before", "after"), "x\n")

ANSWER: dict[str, dict[str, Any]] = {
    "declare": {
        "changed": True,
        "areas": {"nic": {**AREA, "commands": ["ethtool"]}},
        "settings": [{**SETTING}],
        "diff": [PAIR],
        "warnings": ["w"],
        **{name: ["w"] for name in ("unsupported", "unsupported_overrides")},
        "reboot_required": False,
        "confirm": {},
        "failed": False,
        "msg": "",
        "risks": "",
        "not_in_force": [],
    },
    "drift": {
        "changed": False,
        "compliant": False,
        "verdict": "v",
        **{name: ["one"] for name in ("drift", "failures", "ignored", "errors", "unsupported_overrides")},
        "exceptions": [{"key": "k", "reason": "r", "until": "u", "state": "used"}],
        "digests": {"node": {"thp": "98f13708210194c4"}},
        "summary": {"ok": 1},
        "settings": [{**SETTING, "declared_by": ["node"], "ignored": "i"}],
    },
}

OPTIONS = questions.declare({}, fail_at="low", interpreter="/usr/bin/python3")

#: For every type of JSON, a value that is of no other
OTHERS: list[Any] = [None, True, 7, 1.5, "\x1b", [[]], {"\x1b": {}}]


def places(value: Any, way: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The way to every value in a document."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [way, *(place for name, item in items for place in places(item, (*way, name)))]


def put(document: Any, way: tuple[Any, ...], value: Any) -> Any:
    if not way:
        return value
    found = copy.deepcopy(document)
    inner = found
    for name in way[:-1]:
        inner = inner[name]
    inner[way[-1]] = value
    return found


def kind(value: Any) -> type:
    return float if isinstance(value, (int, float)) and not isinstance(value, bool) else type(value)


@pytest.mark.parametrize("name", ANSWER)
def test_what_an_agent_says_is_taken_as_it_is(name: str) -> None:
    assert agent_answer.checked(name, ANSWER[name]) == ANSWER[name]
    assert {*ANSWER[name]} | {"failed", "msg"} == {*agent_answer.ANSWERS[name]}


def test_what_a_node_really_says_is_understood(machine: Machine) -> None:
    areas = {"thp": {"enabled": "madvise"}, "sysctl": {"settings": {"vm.swappiness": 1}}}
    for check in (True, False):
        found = call.CALLS["declare"](
            machine, {**OPTIONS, "areas": areas, "selected": [*areas], "check": check}
        )
        answer = json.loads(json.dumps(found))
        assert agent_answer.checked("declare", answer) == answer
        assert answer["diff"]
    found = call.CALLS["drift"](machine, {"fail_at": "low", "ignore": [], "declarations": {}})
    drift = json.loads(json.dumps(found))
    assert agent_answer.checked("drift", drift) == drift


def test_equal_texts_of_an_answer_are_one_object() -> None:
    """The controller keeps the answers of all nodes, and pickle brings it an object once."""
    read = agent_answer.read(json.dumps(ANSWER["drift"]))
    [setting] = agent_answer.checked("drift", read)["settings"]
    equal = [value for value in setting.values() if value == "ok"]
    assert len(equal) == 7
    assert len({id(value) for value in equal}) == 1


@pytest.mark.parametrize("name", ANSWER)
def test_a_value_of_another_type_is_named(name: str) -> None:
    """At every place, of every other type; null is a value of its own."""
    tried = 0
    for way in places(ANSWER[name]):
        value = ANSWER[name]
        for part in way:
            value = value[part]
        for other in OTHERS:
            if kind(other) is kind(value) or (value is None and isinstance(other, str)):
                continue
            with pytest.raises(ValueError, match=r" must be |is missing") as caught:
                agent_answer.checked(name, put(ANSWER[name], way, other))
            field = ".".join(part for part in way if isinstance(part, str)) or "it"
            assert str(caught.value).partition("[")[0].startswith(field.partition(".")[0])
            assert str(caught.value).isprintable()
            tried += 1
    assert tried > 100


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("declare", {"areas": {"web": AREA}}, "a name in areas must be a text like "),
        ("declare", {"areas": {"nic": {"changed": True}}}, "areas.nic.settings is missing"),
        ("declare", {"confirm": {"id": "x; reboot"}}, "confirm.id must be a text like [0-9a-f]{1,32}, got"),
        ("declare", {"confirm": {"id": "1", "seconds": "1"}}, "confirm.seconds must be a number, got '1'"),
        ("declare", {"changed": 1}, "changed must be true or false, got 1"),
        ("drift", {"summary": {"ok": -1}}, "summary.ok must be a number, got -1"),
        ("drift", {"settings": [{**SETTING, "status": "\x1b[2J"}]}, "settings[0].status must be a text"),
    ],
)  # fmt: skip
def test_a_value_of_another_form_is_named(name: str, change: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011  # the words are compared below
        agent_answer.checked(name, {**ANSWER[name], **change})

    assert str(caught.value).startswith(words)


def test_texts_are_cut_and_cannot_command_a_terminal() -> None:
    hostile = {
        "warnings": ["\x1b]0;title\x07", "w" * (LINE + 1)],
        "diff": [{**PAIR, "after": "a\tb\n\x1b[2J" + "x" * constants.MAX_FILE_SIZE_FOR_DIFF}],
    }

    found = agent_answer.checked("declare", {**ANSWER["declare"], **hostile})

    assert found["warnings"] == ["\\x1b]0;title\\x07", "w" * LINE + "... (cut)"]
    assert found["diff"][0]["after"].startswith("a\tb\n\\x1b[2J")
    assert len(found["diff"][0]["after"]) < constants.MAX_FILE_SIZE_FOR_DIFF + 50


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"answer": {"changed": 1}}', "the agent's answer is not understood: changed must be true or false"),
        ('{"answer": []}', "the agent's answer is not understood: changed is missing"),
        ('{"answer": "yes"}', "the agent's answer is not understood: it must be a dictionary, got 'yes'"),
        ('{"answer": ' + "[" * 100_000, "nested too deeply"),
        ('{"answer": {"changed": ' + "9" * 5000 + "}}", "a number of 5000 digits"),
        ('{"answer": {"changed": NaN}}', "NaN is not a number of JSON"),
        ('{"answer": {"changed": true, "changed": false}}', "the name 'changed' is there twice"),
        ('{"answer": "' + "x" * MOST + '"}', f"at most {MOST} are allowed"),
    ],
    ids=["type", "a list", "a text", "deep", "wide", "no number", "twice", "endless"],
)
@pytest.mark.parametrize("action", [declare, node_drift])
def test_what_is_not_understood_is_a_failure_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, action: Any, text: str, words: str
) -> None:
    answers = [done(f"{MARK}{text}\n")]
    asked = Node(monkeypatch, action, *answers * 2)

    found = asked.plugin.run(task_vars={})

    assert found["failed"]
    assert words in found["msg"]
    assert len(found["msg"]) < 1000


def test_a_run_reports_as_many_settings_as_the_node_counts(machine: Machine) -> None:
    """The fleet report of site.yml and `mlnode status` have one basis, with the rows about the agent."""
    areas = {"thp": {"enabled": "madvise"}, "sysctl": {"settings": {"vm.swappiness": 1, "vm.no_such": 1}}}
    given = {
        **OPTIONS,
        "areas": areas,
        "selected": [*areas],
        "check": False,
        "interpreter": "/usr/bin/python3",
    }
    call.CALLS["declare"](machine, given)  # installs the agent
    machine.forget()
    answer = agent_answer.checked("declare", json.loads(json.dumps(call.CALLS["declare"](machine, given))))
    machine.forget()

    counted = node_report.node(node.survey(machine))

    reported = {(one.kind, one.key) for one in model.findings(answer, "declare")}
    assert reported == {(one["kind"], one["key"]) for one in counted["settings"]}
    assert ("agent", "agent.boot") in reported
    assert Counter(one.status for one in model.findings(answer, "declare")) == counted["summary"]


#: Python's of a byte that is no UTF-8 (PEP 383)
BYTES = strategies.characters(categories=["Cs"], min_codepoint=0xDC80, max_codepoint=0xDCFF)


@given(strategies.text(strategies.characters() | BYTES), strategies.booleans())
def test_what_a_module_prints_commands_no_terminal(text: str, spelled: bool) -> None:
    printed = agent_answer.quiet(json.dumps({"warnings": [text]}, ensure_ascii=spelled))

    [found] = json.loads(printed)["warnings"]
    assert "".join(map(spelling, text)) == found


def spelling(sign: str) -> str:
    kept = sign.isprintable() or sign in "\n\t" or "\ud800" <= sign <= "\udfff"
    return sign if kept else ascii(sign)[1:-1]


def test_a_terminal_ends_lines_in_its_own_way() -> None:
    assert agent_answer.quiet('{"a": "\\r"}\r\n') == '{"a": "\\\\r"}\n'
