# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import pathlib
import shlex
import subprocess
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from ansible.errors import AnsibleError
from ansible_collections.mlnode.tuning.plugins.action import node_drift
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode import drift
from ansible_collections.mlnode.tuning.plugins.modules import node_drift as module

AGENT = {"size": 3, "sha256": "abc"}
DIGESTS = {"training_node": {"thp": "0123456789abcdef"}}


def answered(stdout: str, rc: int = 0, stderr: str = "") -> dict[str, Any]:
    return {"rc": rc, "stdout": stdout, "stderr": stderr}


def answer(**fields: Any) -> dict[str, Any]:
    return answered(drift.MARK + json.dumps({"answer": {"changed": False, **fields}}) + "\n")


FINE = answer(compliant=True)


class Node:
    """A node whose agent says this, and what the plugin asks of it, of the inventory, and of the module."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, said: dict[str, Any] | None = None, **arguments: Any
    ) -> None:
        self.roles: list[list[str]] = []
        self.questions: list[dict[str, Any]] = []
        self.commands: list[str] = []
        self.modules: list[dict[str, Any]] = []
        self.sent: list[tuple[str, Any]] = []
        self._said = FINE if said is None else said
        monkeypatch.setattr(node_drift.inventory_says, "expected", self._expected)
        monkeypatch.setattr(node_drift.agent_source, "said", lambda: AGENT)
        monkeypatch.setattr(node_drift.agent_source, "archive", lambda: b"the agent")
        monkeypatch.setattr(node_drift.ActionBase, "run", lambda self, tmp, task_vars: {})
        self.plugin = object.__new__(node_drift.ActionModule)
        self.plugin._task = SimpleNamespace(args=arguments, async_val=0, check_mode=False)
        self.plugin._templar = None
        shell = SimpleNamespace(join_path=lambda *parts: "/".join(parts), tmpdir=None)
        self.piped = True
        self.plugin._connection = SimpleNamespace(_shell=shell)
        self.plugin._is_pipelining_enabled = lambda _style: self.piped
        self.plugin._low_level_execute_command = self._command
        self.plugin._execute_module = self._module
        self.plugin._make_tmp_path = lambda: "/tmp/own"
        self.plugin._transfer_data = lambda path, data: self.sent.append((path, data))
        self.plugin._fixup_perms2 = lambda paths, execute: self.sent.append((paths, execute))

    def run(self) -> dict[str, Any]:
        found: dict[str, Any] = self.plugin.run(task_vars={"a": 1})
        return found

    def _expected(self, roles: list[str], *_others: Any) -> dict[str, Any]:
        self.roles.append(roles)
        return DIGESTS

    def _command(self, command: str, in_data: bytes | None = None) -> dict[str, Any]:
        self.commands.append(command)
        self.questions.append(json.loads(in_data) if in_data else None)
        return self._said

    def _module(self, module_name: str, module_args: dict[str, Any], **_more: Any) -> dict[str, Any]:
        assert module_name == "mlnode.tuning.node_drift"
        self.modules.append(module_args)
        return {"changed": False, "compliant": False}


def test_without_roles_the_inventory_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(monkeypatch, fail_at="high")

    assert node.run() == {"changed": False, "compliant": True}

    assert (node.roles, node.modules) == ([], [])
    [question] = node.questions
    options = question.pop("options")
    assert question == AGENT
    assert {name: options[name] for name in ("fail_at", "ignore", "expected", "errors")} == {
        "fail_at": "high",
        "ignore": [],
        "expected": {},
        "errors": [],
    }


def test_roles_become_what_is_expected(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(monkeypatch, roles=["training_node"], fail_at="low")
    node.run()

    assert node.roles == [["training_node"]]
    assert node.questions[0]["options"]["expected"] == DIGESTS


def test_no_role_at_all_compares_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(monkeypatch, roles=[], fail_at="low")
    node.run()

    assert node.roles == []
    assert node.questions[0]["options"]["expected"] == {}


@pytest.mark.parametrize("roles", ["training_node", {"training_node": 1}, 1])
def test_roles_are_a_list(monkeypatch: pytest.MonkeyPatch, roles: Any) -> None:
    with pytest.raises(AnsibleError, match="roles: give a list of names"):
        Node(monkeypatch, roles=roles).run()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"fail_at": "worst"}, "value of fail_at must be one of"),
        ({"surprise": 1}, "surprise"),
        ({"ignore": [{"key": "vm.*"}]}, "missing required arguments: reason, until"),
    ],
)
def test_options_are_checked_before_a_node_is_asked(
    monkeypatch: pytest.MonkeyPatch, arguments: dict[str, Any], words: str
) -> None:
    node = Node(monkeypatch, **arguments)

    with pytest.raises(AnsibleError, match=words):
        node.run()
    assert node.commands == []


def test_a_greeting_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(monkeypatch, answered("Welcome to {gpu001}!\n" + FINE["stdout"]))

    assert node.run()["compliant"] is True
    assert node.modules == []


# -- a node with another agent, or none -------------------------------------------------------------------

THERE = "/usr/local/bin/mlnode"
USAGE = "usage: mlnode\nmlnode: no such command"


@pytest.mark.parametrize(
    ("said", "wrong"),
    [
        (answered(f"{drift.MARK}{{}}\n"), ""),
        (
            answered(f'{drift.MARK}{{"other": true}}\r\n'),
            f"{THERE} is another than the one of this collection: site.yml installs it anew",
        ),
        (
            answered("", 2, USAGE),
            f"{THERE} does not answer (exit status 2: mlnode: no such command): site.yml installs it anew",
        ),
        (
            answered(f'{drift.MARK}{{"answer": {{', 137),
            f"{THERE} does not answer (exit status 137: it says nothing): site.yml installs it anew",
        ),
    ],
    ids=["none", "another", "older", "killed"],
)
def test_a_node_without_the_right_agent_is_sent_it(
    monkeypatch: pytest.MonkeyPatch, said: dict[str, Any], wrong: str
) -> None:
    node = Node(monkeypatch, said, fail_at="low", roles=["training_node"], agent={"path": "/tmp/evil"})

    assert node.run() == {"changed": False, "compliant": False}

    assert node.sent == [("/tmp/own/mlnode", b"the agent"), (("/tmp/own", "/tmp/own/mlnode"), False)]
    [module] = node.modules
    assert module["agent"] == {"path": "/tmp/own/mlnode", "instead": wrong}
    assert (module["fail_at"], module["expected"]) == ("low", DIGESTS)


@pytest.mark.parametrize("there", [False, True])
def test_the_command_is_one_of_a_shell(tmp_path: pathlib.Path, there: bool) -> None:
    agent = tmp_path / "mlnode"
    if there:
        agent.write_text('#!/bin/sh\nread line\necho "$1 $2: $line"\n')
        agent.chmod(0o755)
    commands = [node_drift._command(), node_drift._command('it\'s "asked"')]

    for command, asked in zip(commands, ("drift : asked\n", 'drift it\'s "asked": asked\n')):
        words = ["sh", "-c", f"{command.replace(THERE, str(agent))} && sleep 0"]
        done = subprocess.run(words, input="asked\n", capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (0, asked if there else f"{drift.MARK}{{}}\n")


def test_without_pipelining_the_question_is_on_the_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(monkeypatch, fail_at="high")
    node.piped = False

    assert node.run()["compliant"] is True

    asked = shlex.split(node.commands[0])
    question = json.loads(asked[asked.index("drift") + 1].rstrip(";"))
    assert question["options"]["fail_at"] == "high"
    assert node.questions == [None]


def test_a_strategy_that_wants_nobody_to_ask_has_an_input(monkeypatch: pytest.MonkeyPatch) -> None:
    def mitogen(_style: str) -> bool:
        raise AssertionError("_is_pipelining_enabled() should never be called.")

    node = Node(monkeypatch)
    node.plugin._is_pipelining_enabled = mitogen

    assert node.run()["compliant"] is True
    assert len(node.questions) == 1


def test_a_node_tells_what_it_is_asked_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ansible adds hosts for whatever result says so."""
    evil = {"add_host": {"host_name": "x"}, "ansible_facts": {"a": 1}, "_ansible_delegated_vars": {}}
    node = Node(monkeypatch, answer(compliant=True, **evil))

    assert node.run() == {"changed": False, "compliant": True}


def test_every_documented_field_may_be_told() -> None:
    assert {*yaml.safe_load(module.RETURN), "changed", "failed", "msg"} == node_drift.FIELDS
    assert node_drift.MARK == drift.MARK
