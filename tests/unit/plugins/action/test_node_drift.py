# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from ansible.errors import AnsibleError
from ansible_collections.mlnode.tuning.plugins.action import node_drift

AGENT = {"size": 3, "sha256": "abc"}
DIGESTS = {"training_node": {"thp": "0123456789abcdef"}}


def run(monkeypatch: pytest.MonkeyPatch, **arguments: Any) -> tuple[dict[str, Any], list[Any]]:
    """What the plugin answers, and what it asked for: of the inventory, and of the module."""
    asked: list[Any] = []

    def expected(roles: list[str], *_others: Any) -> dict[str, Any]:
        asked.append(roles)
        return DIGESTS

    def execute(module_name: str, module_args: dict[str, Any], **_more: Any) -> dict[str, Any]:
        asked.append((module_name, module_args))
        return {"changed": False, "compliant": True}

    monkeypatch.setattr(node_drift.inventory_says, "expected", expected)
    plugin = object.__new__(node_drift.ActionModule)
    task = SimpleNamespace(args=arguments, async_val=0, check_mode=False)
    plugin._task = task
    plugin._templar = plugin._loader = None
    plugin._execute_module = execute
    monkeypatch.setattr(node_drift.agent_source, "said", lambda: AGENT)
    monkeypatch.setattr(node_drift.ActionBase, "run", lambda self, tmp, task_vars: {})
    return plugin.run(task_vars={"a": 1}), asked


def test_without_roles_the_inventory_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    result, asked = run(monkeypatch, fail_at="high")

    assert asked == [("mlnode.tuning.node_drift", {"fail_at": "high", "agent": AGENT})]
    assert result["compliant"] is True


def test_roles_become_what_is_expected(monkeypatch: pytest.MonkeyPatch) -> None:
    _result, asked = run(monkeypatch, roles=["training_node"], fail_at="low")

    assert asked == [
        ["training_node"],
        ("mlnode.tuning.node_drift", {"fail_at": "low", "expected": DIGESTS, "agent": AGENT}),
    ]


def test_no_role_at_all_compares_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    _result, asked = run(monkeypatch, roles=[], fail_at="low")

    assert asked == [("mlnode.tuning.node_drift", {"fail_at": "low", "agent": AGENT})]


@pytest.mark.parametrize("roles", ["training_node", {"training_node": 1}, 1])
def test_roles_are_a_list(monkeypatch: pytest.MonkeyPatch, roles: Any) -> None:
    with pytest.raises(AnsibleError, match="roles: give a list of names"):
        run(monkeypatch, roles=roles)


# -- a node with another agent, or none -------------------------------------------------------------------


class Node:
    """A node whose own agent will not do. answers: of the module, one after the other."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *answers: dict[str, Any]) -> None:
        self.asked: list[dict[str, Any]] = []
        self.sent: list[tuple[str, Any]] = []
        left = [*answers]

        def execute(module_name: str, module_args: dict[str, Any], **_more: Any) -> dict[str, Any]:
            self.asked.append(module_args)
            return left.pop(0)

        monkeypatch.setattr(node_drift.agent_source, "said", lambda: AGENT)
        monkeypatch.setattr(node_drift.agent_source, "archive", lambda: b"the agent")
        monkeypatch.setattr(node_drift.ActionBase, "run", lambda self, tmp, task_vars: {})
        self.plugin = object.__new__(node_drift.ActionModule)
        self.plugin._task = SimpleNamespace(args={}, async_val=0, check_mode=False)
        self.plugin._connection = SimpleNamespace(
            _shell=SimpleNamespace(join_path=lambda *parts: "/".join(parts))
        )
        self.plugin._execute_module = execute
        self.plugin._make_tmp_path = lambda: "/tmp/own"
        self.plugin._transfer_data = lambda path, data: self.sent.append((path, data))
        self.plugin._fixup_perms2 = lambda paths, execute: self.sent.append((paths, execute))


def test_a_node_with_another_agent_is_sent_the_right_one(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(
        monkeypatch,
        {"changed": False, "no_agent": "/usr/local/bin/mlnode is another", "absent": False},
        {"changed": False, "compliant": False},
    )

    assert node.plugin.run(task_vars={}) == {"changed": False, "compliant": False}

    assert node.sent == [("/tmp/own/mlnode", b"the agent"), (("/tmp/own", "/tmp/own/mlnode"), False)]
    said = {**AGENT, "path": "/tmp/own/mlnode"}
    wrong = "/usr/local/bin/mlnode is another: site.yml installs it anew"
    assert node.asked[1] == {"agent": {**said, "instead": wrong}}


def test_a_node_without_an_agent_is_not_wrong_for_that(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(monkeypatch, {"no_agent": "not there", "absent": True}, {"changed": False, "compliant": True})

    assert node.plugin.run(task_vars={})["compliant"] is True

    assert node.asked[1]["agent"]["instead"] == ""


def test_an_agent_that_does_not_work_even_so_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = {"no_agent": "/tmp/own/mlnode is damaged", "absent": False}
    node = Node(monkeypatch, answer, answer)

    with pytest.raises(AnsibleError, match="does not work: /tmp/own/mlnode is damaged"):
        node.plugin.run(task_vars={})


def test_nobody_else_says_which_agent_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(monkeypatch, {"changed": False, "compliant": True})
    node.plugin._task.args = {"agent": {"path": "/tmp/evil", "size": 0, "sha256": "e3b0c442"}}

    node.plugin.run(task_vars={})

    assert node.asked == [{"agent": AGENT}]
