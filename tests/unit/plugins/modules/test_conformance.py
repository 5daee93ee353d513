# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What holds for every module of one area: check mode predicts the run, a second run changes nothing, bad
input is named before anything is written, and a declaration of nothing leaves the node."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.plugins.plugin_utils.areas import VIEWS
from ansible_collections.mlnode.tuning.tests.unit.faults import in_memory, no_disk
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from ansible_collections.mlnode.tuning.tests.unit.plugins.module_utils._mlnode.knobs.qos.node import ROCE
from ansible_collections.mlnode.tuning.tests.unit.plugins.modules.full import FULL, PREFERENCE, made
from ansible_collections.mlnode.tuning.tests.unit.plugins.modules.running import Make, Runner
from mlnode.agent import registry

DECLARATION = "/etc/mlnode/declared.d/training.json"
#: Only the next boot brings it
AT_BOOT = ("boot_params", "limits")

#: Module, arguments, what is named: by the options of the module, the parser, and what this node can do. Each
#: message of the parsers is in refused/AREA.yml.
BAD: list[tuple[str, dict[str, Any], tuple[str, ...]]] = [
    *(
        (name, {**FULL[name], **wrong}, words)
        for name in VIEWS
        for wrong, words in (
            ({"layers": []}, ("layers",)),
            ({"layers": ["now"]}, ("layers", "now")),
            ({"name": "../x"}, ("name '../x'",)),
            ({"on_unsupported": "shrug"}, ("on_unsupported", "shrug")),
        )
    ),
    *(
        (name, {**FULL[name], "allow": ["everything"]}, ("allow", "everything"))
        for name, area in VIEWS.items()
        if "allow" in registry.options(area)
    ),
    ("kernel_modules", {"modules": ["ib_uverbs", "a\nb"]}, ("modules", r"'a\nb'")),
    ("thp", {"use_zero_page": "yes"}, ("use_zero_page", "yes")),
    ("thp", {"khugepaged": {"defrag": "madvise"}}, ("khugepaged", "defrag")),
    ("sysctl_ml", {"settings": {"vm.swappiness": "1\nkernel.panic = 1"}}, ("vm.swappiness",)),
    ("sysctl_ml", {}, ("settings",)),
    ("limits", {"nofile": True}, ("limits.nofile",)),
    ("cpu_governor", {"governor": "performance", PREFERENCE: "power"}, (f"cpu.{PREFERENCE}", "EBUSY")),
    ("cpu_governor", {"governor": "performance", "cpus": "0-63"}, ("4-63", "0-3")),
    ("cpu_governor", {"boost": "perhaps"}, ("boost", "perhaps")),
    ("nic_ethtool", {"rules": [{"mtu": 9000}]}, ("name",)),
    ("nic_ethtool", {"confirm_seconds": -1}, ("confirm_seconds", "30")),
    ("nic_ethtool", {"confirm_seconds": 29}, ("confirm_seconds", "30")),
    ("irq_affinity", {"rules": [{"name": "a", "strategy": "spread", "nic": {}}]}, ("rules.nic", "nics")),
    ("boot_params", {"isolate": {"cpus": "2-3,64"}}, ("boot.isolcpus", "64", "0-7")),
]

#: Module, arguments, the setting that is unsupported on its node, a word of why
UNSUPPORTED: list[tuple[str, dict[str, Any], str, str]] = [
    ("thp", {"sizes": {"128kB": {"enabled": "madvise"}}}, "thp.hugepages-128kB.enabled", "2048kB, 64kB"),
    ("sysctl_ml", {"settings": {"kernel.no_knob": 1}}, "kernel.no_knob", "/proc/sys/kernel/no_knob"),
    (
        "irq_affinity",
        {"rules": [{"name": "a", "nics": {"drivers": ["bnxt_en"]}, "strategy": "spread"}]},
        "irq.a",
        "drivers bnxt_en",
    ),
]

#: Module, arguments, what is named, and the guard that is to be switched off
REFUSED: list[tuple[str, dict[str, Any], tuple[str, ...], str]] = [
    ("sysctl_ml", {"settings": {"vm.overcommit_memory": 2}}, ("vm.overcommit_memory",), "overcommit"),
    ("limits", {"nofile": 2097152}, ("limits.login.*.nofile", "fs.nr_open", "1048576"), ""),
    (
        "roce_qos",
        {"rules": [{**ROCE, "pfc": [3, 4]}]},
        ("qos.roce.pfc", "3,4", "qos.roce.dscp"),
        "pfc_priorities",
    ),
    ("boot_params", {"isolate": {"cpus": "1-3,5-7"}}, ("boot.isolcpus", "NUMA node 1"), "housekeeping"),
]

every_module = pytest.mark.parametrize("name", VIEWS)


@pytest.fixture(autouse=True)
def _quick() -> Iterator[None]:
    yield from no_disk()


@pytest.fixture(name="machine")
def _machine(name: str) -> Iterator[Machine]:
    for folder in in_memory():
        yield made(name, folder / "node")


@pytest.fixture
def module(name: str, running: Make) -> Runner:
    return running(importlib.import_module(f"ansible_collections.mlnode.tuning.plugins.modules.{name}"))


def told(setting: dict[str, Any]) -> dict[str, Any]:
    """Without what a run moves: the state, and with it what a deviation costs."""
    moved = ("runtime", "boot", "boot_source", "origin", "status", "severity")
    return {name: value for name, value in setting.items() if name not in moved}


@every_module
def test_check_mode_predicts_the_run_and_a_second_one_changes_nothing(
    machine: Machine, module: Runner, name: str
) -> None:
    full = {"name": "training", **FULL[name]}
    before = machine.tree()
    predicted = module.ok(check=True, **full)
    assert (predicted.changed, machine.tree(), machine.writes) == (True, before, [])

    done = module.ok(**full)

    assert done.changed
    assert predicted.result["diff"] == done.result["diff"]
    assert [one.result["reboot_required"] for one in (predicted, done)] == [name in AT_BOOT] * 2
    assert done.warnings == []
    assert {one["status"] for one in done.settings.values()} <= {"changed", "pending_reboot", "ok"}
    want = {key: one["want"] for key, one in predicted.settings.items()}
    assert {key: one["boot"] for key, one in done.settings.items()} == want
    if name not in AT_BOOT:
        assert {key: one["runtime"] for key, one in done.settings.items()} == want
        foretold = {key: told(one) for key, one in predicted.settings.items()}
        assert {key: told(one) for key, one in done.settings.items()} == foretold
    assert json.loads(machine.read(DECLARATION))["kinds"] == {VIEWS[name]: FULL[name]}

    tree, writes = machine.tree(), [*machine.writes]
    for again in (module.ok(check=True, **full), module.ok(**full)):
        assert (again.changed, again.result["diff"], again.warnings) == (False, [], [])
        assert {one["status"] for one in again.settings.values()} <= {"ok", "pending_reboot"}
    assert (machine.tree(), machine.writes) == (tree, writes)


@every_module
def test_a_declaration_of_nothing_leaves_the_node(machine: Machine, module: Runner, name: str) -> None:
    written = {*module.ok(name="training", **FULL[name]).diff} - {"runtime"}
    nothing = {"settings": {}} if name in ("sysctl_ml", "sysfs") else {}
    done = module.ok(name="training", **nothing)
    assert written - {*done.diff} <= {"/etc/mlnode/management.json"}
    assert not machine.exists(DECLARATION)
    again = module.ok(name="training", **nothing)
    assert (again.changed, again.settings) == (False, {})


@pytest.mark.parametrize(("name", "arguments", "words"), BAD)
def test_bad_input_is_named_before_anything_is_written(
    machine: Machine, module: Runner, arguments: dict[str, Any], words: tuple[str, ...]
) -> None:
    before = machine.tree()
    for check in (True, False):
        msg = module.msg(check, **arguments)
        assert [word for word in words if word not in msg] == []
        assert "\n" not in msg
    kept = {path: found for path, found in machine.tree().items() if not path.startswith("/run")}
    assert kept == {path: found for path, found in before.items() if not path.startswith("/run")}
    assert machine.writes == []


@pytest.mark.parametrize("on_unsupported", ["fail", "warn", "ignore"])
@pytest.mark.parametrize(("name", "arguments", "key", "word"), UNSUPPORTED)
def test_what_is_not_there_fails_or_warns(
    machine: Machine,
    module: Runner,
    name: str,
    on_unsupported: str,
    arguments: dict[str, Any],
    key: str,
    word: str,
) -> None:
    before = machine.tree()
    done = module(on_unsupported=on_unsupported, **arguments)
    if on_unsupported == "fail":
        assert done.rc == 1
        assert word in done.result["msg"]
        assert machine.tree() == before
    else:
        assert done.settings[key]["status"] == "unsupported"
        assert any(word in warning for warning in done.warnings) is (on_unsupported == "warn")


@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize(("name", "arguments", "words", "guard"), REFUSED)
def test_what_a_guard_refuses_is_only_declared(
    machine: Machine,
    module: Runner,
    name: str,
    check: bool,
    arguments: dict[str, Any],
    words: tuple[str, ...],
    guard: str,
) -> None:
    whole, before = machine.tree(), Machine.tuned(machine)
    msg = module.msg(check, **arguments)
    missing = [word for word in ("refused: ", *words, guard and f"allow: [{guard}]") if word not in msg]
    assert missing == []
    assert (Machine.tuned(machine), machine.writes) == (before, [])
    assert (machine.tree() == whole) == check
    if guard:
        done = module.ok(check, allow=[guard], **arguments)
        assert {one["status"] for one in done.settings.values()} <= {"changed", "drifted", "pending_reboot"}
