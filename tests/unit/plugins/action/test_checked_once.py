# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How often a declared setting is checked, parsed and evaluated, and made into JSON or read from it, between
the task of a play and its result."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.plugins.action import declare, node_drift
from ansible_collections.mlnode.tuning.plugins.plugin_utils import agent_call
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from ansible_collections.mlnode.tuning.tests.unit.nodes import install
from ansible_collections.mlnode.tuning.tests.unit.plugins.action.asked import AGENT, MISSING, Done, Node
from ansible_collections.mlnode.tuning.tests.unit.work import calls_of
from mlnode.agent import call, output
from mlnode.agent.call import MARK
from mlnode.agent.registry import KINDS
from mlnode.engine import declared, origin, plan
from mlnode.model import schema

SWAPPINESS = "/proc/sys/vm/swappiness"
SYSCTL = {"settings": {"vm.swappiness": 10}}

COUNTED = {"checks": schema.checked, "parses": KINDS["sysctl"].parse, "evaluations": plan.evaluate}


@pytest.fixture
def task(monkeypatch: pytest.MonkeyPatch, machine: Machine) -> Callable[..., dict[str, Any]]:
    """Run an action for a node whose agent answers as the installed one of a real node does."""
    install(machine)
    lacks: list[bool] = []
    monkeypatch.setattr(call, "_digest", lambda _size: AGENT["sha256"])

    def command(command: str, in_data: bytes = b"", sudoable: bool = True) -> Done:
        del sudoable
        if lacks and agent_call.AGENT in command:
            return MISSING
        if lacks:  # it is sent along
            length, _line, rest = in_data.partition(b"\n")
            in_data = rest[int(length) :]
        # Each question is a process of its own on a node.
        declared._known.clear()
        origin._known.clear()
        reply = output.as_json(call.answer(machine, in_data))
        return {"rc": 0, "stdout": f"{MARK}{reply}\n", "stderr": ""}

    def run(action: Any, without_agent: bool = False, **arguments: Any) -> dict[str, Any]:
        lacks[:] = [without_agent] if without_agent else []
        node = Node(monkeypatch, action, **arguments)
        node.plugin._low_level_execute_command = command
        return node.run()

    return run


def test_a_first_run_checks_once_and_looks_before_and_after(
    task: Callable[..., dict[str, Any]], machine: Machine
) -> None:
    assert calls_of(lambda: task(declare, sysctl=SYSCTL), COUNTED) == {
        "checks": 1,
        "parses": 2,
        "evaluations": 2,
    }
    assert machine.now(SWAPPINESS) == "10"


def test_a_second_run_knows_the_declaration_that_it_finds(task: Callable[..., dict[str, Any]]) -> None:
    task(declare, sysctl=SYSCTL)
    assert calls_of(lambda: task(declare, sysctl=SYSCTL), COUNTED) == {
        "checks": 1,
        "parses": 1,
        "evaluations": 1,
    }


def test_a_drift_checks_the_inventory_and_the_file_and_looks_once(
    task: Callable[..., dict[str, Any]], machine: Machine
) -> None:
    task(declare, sysctl=SYSCTL)
    machine.put(SWAPPINESS, "60\n")
    found: dict[str, Any] = {}
    asked = {"node": {"sysctl": SYSCTL}}
    times = calls_of(lambda: found.update(task(node_drift, declarations=asked)), COUNTED)
    assert times == {"checks": 2, "parses": 1, "evaluations": 1}
    assert [line for line in found["drift"] if line.startswith("vm.swappiness: drifted")]


def _crossings(monkeypatch: pytest.MonkeyPatch, word: str) -> list[str]:
    """The files that make a text of JSON with this word, or read one, from now on, in their order."""
    found: list[str] = []
    dumps, loads = json.dumps, json.loads

    def note(text: str | bytes, sign: str) -> None:
        if word in str(text):
            found.append(f"{sign} {sys._getframe(2).f_globals['__name__'].rpartition('.')[2]}")

    def write(value: Any, **options: Any) -> str:
        text = dumps(value, **options)
        note(text, "written by")
        return text

    def read(text: str | bytes, **options: Any) -> Any:
        note(text, "read by")
        return loads(text, **options)

    monkeypatch.setattr(json, "dumps", write)
    monkeypatch.setattr(json, "loads", read)
    return found


@pytest.mark.parametrize("without_agent", [False, True])
def test_a_first_run_reads_no_json_that_it_has_written(
    task: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch, without_agent: bool
) -> None:
    """The question and the answer cross the wire; the node keeps the declaration, what was before, and what
    it has done."""
    found = _crossings(monkeypatch, "vm.swappiness")
    task(declare, without_agent, sysctl=SYSCTL)
    assert found == [
        "written by agent_call",
        "read by strict_json",
        *("written by declared", "written by origin", "written by history"),
        "written by output",
        "read by strict_json",
    ]
