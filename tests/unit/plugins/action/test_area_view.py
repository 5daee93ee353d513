# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Modules that declare one area, where the agent is there."""

from __future__ import annotations

import importlib
import json
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from ansible_collections.mlnode.tuning.plugins.action import agent, declare, node_preflight
from ansible_collections.mlnode.tuning.plugins.plugin_utils import agent_answer, areas
from ansible_collections.mlnode.tuning.plugins.plugin_utils.confirmed import PADDING
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.faults import no_disk
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from ansible_collections.mlnode.tuning.tests.unit.plugins.action.asked import (
    MISSING,
    NO_PYTHON,
    OTHER,
    Done,
    Node,
    answer,
    done,
    modules_run,
)
from ansible_collections.mlnode.tuning.tests.unit.plugins.modules.full import FULL, made
from ansible_collections.mlnode.tuning.tests.unit.plugins.modules.running import Runner, put_in_place
from mlnode.agent import call, history, inspections, registry
from mlnode.agent.registry import KINDS

ROOT = pathlib.Path(__file__).parents[4]
AREA = {"changed": True, "settings": [], "reboot_required": False}


def node(monkeypatch: pytest.MonkeyPatch, module: str, *answers: Done, **arguments: Any) -> Node:
    return Node(monkeypatch, declare, *answers, module=module, **arguments)


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    return modules_run(monkeypatch, declare)


ACTIONS = {
    **dict.fromkeys(areas.VIEWS, declare),
    **dict.fromkeys(inspections.MODULES, node_preflight),
    "node_revert": agent,
}


@pytest.mark.parametrize("module", ACTIONS)
def test_a_module_that_the_agent_can_answer_has_an_action_file(module: str) -> None:
    """Ansible imports an action of the module's own name once, before it forks for each host. It imports the
    `action_plugin` of meta/runtime.yml in each fork, which takes ten times as long as the rest of it."""
    action = importlib.import_module(f"ansible_collections.mlnode.tuning.plugins.action.{module}")

    assert action.ActionModule is ACTIONS[module].ActionModule


def test_no_action_is_routed() -> None:
    assert "plugin_routing" not in yaml.safe_load((ROOT / "meta/runtime.yml").read_text(encoding="utf-8"))
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

    assert found.run(inventory_hostname="n1")["msg"] == "of the module"
    assert ran == [{"task_vars": {"inventory_hostname": "n1"}, "wrap_async": False}]
    assert found.ways == ["installed"], "none is sent for a module that has its own files"


@cases.table
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
    proof = answer(
        pending={"id": "abc", "left": 30, "words": "it interrupts eth0"}, undone={}, padding="x" * PADDING
    )
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


#: What a module may answer beside a change: a refusal, bad input, what is not there, one layer
_OTHERWISE: list[tuple[str, dict[str, Any]]] = [
    ("sysctl_ml", {"settings": {"vm.overcommit_memory": 2, "vm.swappiness": 1}}),
    ("sysctl_ml", {"settings": {"vm.swappiness": "a lot"}}),
    ("sysctl_ml", {"settings": {"vm.no_such": 1}}),
    ("sysctl_ml", {"settings": {"vm.no_such": 1}, "on_unsupported": "fail"}),
    ("thp", {"enabled": "madvise", "layers": ["runtime"]}),
]


@pytest.fixture(autouse=True)
def _quick() -> Iterator[None]:
    yield from no_disk()


@pytest.mark.parametrize("check", [True, False], ids=["check", "run"])
@pytest.mark.parametrize(("module", "arguments"), [*FULL.items(), *_OTHERWISE], ids=lambda one: str(one)[:30])
def test_the_agent_answers_as_the_module_and_as_the_whole_declaration(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: pathlib.Path,
    module: str,
    arguments: dict[str, Any],
    check: bool,
) -> None:
    """Each on a node of its own, of which nothing but the folder differs: no fact that a module returns is
    missing in the answer for a whole declaration."""
    one, other, whole = (made(module, tmp_path / part) for part in ("module", "agent", "whole"))
    with monkeypatch.context() as patch:
        put_in_place(one, patch)
        imported = importlib.import_module(f"ansible_collections.mlnode.tuning.plugins.modules.{module}")
        done = Runner(capsys, imported)(check=check, **arguments)

    found = node(monkeypatch, module, **arguments)
    found.task.check_mode, found.task.diff = check, True
    asked: dict[str, Any] = {}

    def ask(name: str, options: dict[str, Any], changes: bool) -> dict[str, Any]:
        assert changes is not check
        asked.update(options)
        return _answer(other, options)

    monkeypatch.setattr(found.plugin, "ask", ask)
    result = found.plugin.run(task_vars={})

    warnings = result.pop("warnings")
    of_module = {name: value for name, value in done.result.items() if name != "warnings"}
    assert {**result, "failed": bool(result.get("failed"))} == {**of_module, "failed": done.rc != 0}
    assert warnings == done.warnings
    assert _declared(one) == _declared(other)

    # Beside another area, so that each has to be told from the other.
    area, beside = areas.VIEWS[module], "nccl" if module != "nccl_conf" else "limits"
    more = {"nccl": {"variables": {"NCCL_NET": "IB"}}, "limits": {"core": "unlimited"}}[beside]
    said = _answer(
        whole,
        {**asked, "areas": {**asked["areas"], beside: more}, "selected": [*KINDS]},
    )
    if not said.get("areas"):
        assert "settings" not in of_module, "refused before anything was changed"
        return
    facts = {name: of_module[name] for name in of_module if name not in ("diff", "failed", "msg", "confirm")}
    assert said["areas"][area] == facts
    assert [*said["areas"]] == [name for name in KINDS if name in (area, beside)]
    told = [text.removeprefix(f"{area}: ") for text in said["warnings"]]
    assert [text for text in told if text in done.warnings] == done.warnings
    headers = [pair["before_header"] for pair in said["diff"]]
    assert len(headers) == len({*headers}), "one pair for each area and layer"
    for pair in of_module["diff"]:
        header = pair["before_header"]
        named = f"{area} {header}" if header == "runtime" else header
        assert named in headers
        if "declared.d" not in named:  # that file has both areas
            assert (pair["before"], pair["after"]) == next(
                (item["before"], item["after"]) for item in said["diff"] if item["before_header"] == named
            )


def _declared(machine: Machine) -> dict[str, tuple[str, int]]:
    """All files but the history, which the agent alone keeps."""
    own = (history.PATH, str(pathlib.PurePath(history.PATH).parent))
    return {path: what for path, what in machine.tree().items() if path not in own}


def _answer(machine: Machine, options: dict[str, Any]) -> dict[str, Any]:
    """As it arrives at the controller."""
    said = json.loads(json.dumps(call.CALLS["declare"](machine, options)))
    return agent_answer.checked("declare", {key: value for key, value in said.items() if value != ""})
