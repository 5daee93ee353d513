# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from ansible.errors import AnsibleError
from ansible_collections.mlnode.tuning.plugins.action import node_drift

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
    monkeypatch.setattr(node_drift.ActionBase, "run", lambda self, tmp, task_vars: {})
    return plugin.run(task_vars={"a": 1}), asked


def test_without_roles_the_inventory_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    result, asked = run(monkeypatch, fail_at="high")

    assert asked == [("mlnode.tuning.node_drift", {"fail_at": "high"})]
    assert result["compliant"] is True


def test_roles_become_what_is_expected(monkeypatch: pytest.MonkeyPatch) -> None:
    _result, asked = run(monkeypatch, roles=["training_node"], fail_at="low")

    assert asked == [
        ["training_node"],
        ("mlnode.tuning.node_drift", {"fail_at": "low", "expected": DIGESTS}),
    ]


def test_no_role_at_all_compares_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    _result, asked = run(monkeypatch, roles=[], fail_at="low")

    assert asked == [("mlnode.tuning.node_drift", {"fail_at": "low"})]


@pytest.mark.parametrize("roles", ["training_node", {"training_node": 1}, 1])
def test_roles_are_a_list(monkeypatch: pytest.MonkeyPatch, roles: Any) -> None:
    with pytest.raises(AnsibleError, match="roles: give a list of names"):
        run(monkeypatch, roles=roles)
