# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Modules that declare one area, where the agent is there."""

from __future__ import annotations

import json
import pathlib
from types import ModuleType
from typing import Any

import pytest
import yaml
from ansible_collections.mlnode.tuning.plugins.action import declare
from ansible_collections.mlnode.tuning.plugins.modules import sysctl_ml, thp
from ansible_collections.mlnode.tuning.plugins.plugin_utils import agent_answer, areas
from ansible_collections.mlnode.tuning.plugins.plugin_utils.confirmed import PADDING
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from ansible_collections.mlnode.tuning.tests.unit.plugins.action.asked import (
    MISSING,
    NO_PYTHON,
    OTHER,
    Done,
    Node,
    answer,
    done,
)
from ansible_collections.mlnode.tuning.tests.unit.plugins.modules.running import (
    DECLARING,
    Runner,
    put_in_place,
)
from mlnode.agent import call, registry
from mlnode.agent.registry import KINDS

ROOT = pathlib.Path(__file__).parents[4]
AREA = {"changed": True, "settings": [], "reboot_required": False}


def node(monkeypatch: pytest.MonkeyPatch, module: str, *answers: Done, **arguments: Any) -> Node:
    found = Node(monkeypatch, declare, *answers, **arguments)
    found.task.action = f"mlnode.tuning.{module}"
    return found


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What modules were run with."""
    calls: list[dict[str, Any]] = []

    def execute(self: Any, **words: Any) -> dict[str, Any]:
        self._used_interpreter = None
        calls.append(words)
        return {"changed": True, "settings": ["of the module"]}

    monkeypatch.setattr(declare.ActionModule, "_execute_module", execute)
    return calls


def test_every_module_of_an_area_is_routed_and_no_other() -> None:
    routing = yaml.safe_load((ROOT / "meta/runtime.yml").read_text(encoding="utf-8"))["plugin_routing"]
    assert {name: about["action_plugin"] for name, about in routing["modules"].items()} == dict.fromkeys(
        areas.VIEWS, "mlnode.tuning.declare"
    )
    assert sorted(areas.VIEWS.values()) == sorted(KINDS)


def test_the_agent_is_asked_about_this_area_alone(
    monkeypatch: pytest.MonkeyPatch, ran: list[dict[str, Any]]
) -> None:
    found = node(monkeypatch, "thp", answer(changed=True, areas={"thp": AREA}), name="site", enabled="never")

    assert found.run() == {"changed": True, "settings": [], "reboot_required": False}
    assert ran == []
    [question] = found.questions
    options = question["options"]
    assert options["areas"] == {"thp": {**dict.fromkeys(registry.options("thp")), "enabled": "never"}}
    assert options["selected"] == ["thp"]
    assert (options["name"], options["layers"]) == ("site", ["runtime", "boot"])
    assert options["install"] is False


@pytest.mark.parametrize("first", [MISSING, OTHER, NO_PYTHON], ids=["missing", "another", "no Python"])
def test_without_the_agent_the_module_is_run(
    monkeypatch: pytest.MonkeyPatch, ran: list[dict[str, Any]], first: Done
) -> None:
    found = node(monkeypatch, "thp", first, enabled="never")

    assert found.run(inventory_hostname="n1")["settings"] == ["of the module"]
    assert ran == [{"task_vars": {"inventory_hostname": "n1"}, "wrap_async": False}]
    assert found.ways == ["installed"], "none is sent for a module that has its own files"


@pytest.mark.parametrize(
    ("module", "wrong"),
    [
        ("thp", {"enable": "never"}),
        ("thp", {"layers": []}),
        ("sysctl_ml", {"on_unsupported": "sometimes"}),
        ("nic_ethtool", {"confirm_seconds": 3}),
    ],
)
def test_what_is_wrong_is_said_by_the_module(
    monkeypatch: pytest.MonkeyPatch, ran: list[dict[str, Any]], module: str, wrong: dict[str, Any]
) -> None:
    node(monkeypatch, module, **wrong).run()

    assert len(ran) == 1


def test_a_module_may_run_on_its_own_time(monkeypatch: pytest.MonkeyPatch, ran: list[dict[str, Any]]) -> None:
    found = node(monkeypatch, "thp", enabled="never")
    found.task.async_val = 60
    found.run()

    assert ran == [{"task_vars": {}, "wrap_async": True}]


def test_an_agent_that_was_killed_is_no_reason_to_do_it_again(
    monkeypatch: pytest.MonkeyPatch, ran: list[dict[str, Any]]
) -> None:
    found = node(monkeypatch, "thp", done("mlnode: begun\n", 137), enabled="never").run()

    assert found["failed"]
    assert "thp: the agent does not answer (exit status 137" in found["msg"]
    assert ran == []


def test_a_check_that_was_killed_is_made_by_the_module(
    monkeypatch: pytest.MonkeyPatch, ran: list[dict[str, Any]]
) -> None:
    found = node(monkeypatch, "thp", done("mlnode: begun\n", 137), enabled="never")
    found.task.check_mode = True
    found.run()

    assert len(ran) == 1


def test_a_risk_is_confirmed_over_a_new_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    proof = answer(pending={"id": "abc", "left": 30}, undone={}, padding="x" * PADDING)
    made = answer(changed=True, areas={"nic": AREA}, confirm={"id": "abc", "seconds": 30})
    kept = answer(pending={}, undone={}, padding="")
    found = node(
        monkeypatch, "nic_ethtool", answer(risks="it interrupts eth0"), made, proof, kept,
        rules=[{"name": "all", "mtu": 9000}], confirm_seconds=30,
    )  # fmt: skip
    found.connection.reset = lambda: None
    found.connection.get_option = {"timeout": 10, "ssh_common_args": ""}.__getitem__
    found.connection.set_option = lambda name, value: None

    assert found.run() == {
        "changed": True, "settings": [], "reboot_required": False, "confirmed": True,
        "confirm": {"id": "abc", "seconds": 30},
    }  # fmt: skip
    assert [question["options"].get("risky") for question in found.questions[:2]] == [False, True]


def test_an_agent_that_is_gone_before_the_change_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    rules = [{"name": "all", "mtu": 9000}]
    found = node(monkeypatch, "nic_ethtool", answer(risks="it interrupts eth0"), MISSING, rules=rules).run()

    assert found["failed"]
    assert "replaced or removed" in found["msg"]


def _name(module: ModuleType) -> str:
    return module.__name__.rpartition(".")[2]


_MORE = [
    (sysctl_ml, {"settings": {"vm.overcommit_memory": 2, "vm.swappiness": 1}}),
    (sysctl_ml, {"settings": {"vm.swappiness": "a lot"}}),
    (sysctl_ml, {"settings": {"vm.no_such": 1}, "on_unsupported": "fail"}),
    (thp, {"enabled": "madvise", "layers": ["runtime"]}),
]


@pytest.mark.parametrize("check", [True, False], ids=["check", "run"])
@pytest.mark.parametrize(("module", "arguments"), [*DECLARING.items(), *_MORE], ids=lambda one: str(one)[:30])
def test_the_result_is_that_of_the_module(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: pathlib.Path,
    module: ModuleType,
    arguments: dict[str, Any],
    check: bool,
) -> None:
    """Both on a machine of its own, of which nothing but the folder differs."""
    one, other = (Machine.debian(str(tmp_path / part)) for part in ("module", "agent"))
    with monkeypatch.context() as patch:
        put_in_place(one, patch)
        done = Runner(capsys, module)(check=check, **arguments)

    found = node(monkeypatch, _name(module), **arguments)
    found.task.check_mode, found.task.diff = check, True

    def ask(name: str, options: dict[str, Any], changes: bool) -> dict[str, Any]:
        assert changes is not check
        said = json.loads(json.dumps(call.CALLS[name](other, options)))
        return agent_answer.checked(name, {key: value for key, value in said.items() if value != ""})

    monkeypatch.setattr(found.plugin, "ask", ask)
    result = found.plugin.run(task_vars={})

    warnings = result.pop("warnings")
    assert {**result, "failed": bool(result.get("failed"))} == {
        **{name: value for name, value in done.result.items() if name != "warnings"},
        "failed": done.rc != 0,
    }
    assert warnings == done.warnings
    assert one.tree() == other.tree()
