# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from ansible_collections.mlnode.tuning.plugins.modules import kernel_modules
from ansible_collections.mlnode.tuning.tests.unit.machine import RELEASE, Machine
from ansible_collections.mlnode.tuning.tests.unit.plugins.modules.running import Make, Runner

DECLARATION = "/etc/mlnode/declared.d/fabric.json"
FILE = "/etc/modules-load.d/mlnode-modules.fabric.conf"


@pytest.fixture
def modules(running: Make, machine: Machine) -> Runner:
    machine.put(f"/lib/modules/{RELEASE}/modules.dep", "a/ib_uverbs.ko:\na/rdma_ucm.ko:\n")
    return running(kernel_modules)


def test_check_mode_predicts_what_the_run_then_does(machine: Machine, modules: Runner) -> None:
    before = machine.tree()
    predicted = modules.ok(check=True, name="fabric", modules=["ib_uverbs", "rdma-ucm"])
    assert machine.tree() == before

    done = modules.ok(name="fabric", modules=["ib_uverbs", "rdma-ucm"])

    assert predicted.result["diff"] == done.result["diff"]
    assert done.diff["runtime"] == ("", "module ib_uverbs loaded\nmodule rdma_ucm loaded\n")
    assert done.diff[FILE][1].splitlines()[2:] == ["ib_uverbs", "rdma_ucm"]
    assert {one["status"] for one in done.settings.values()} == {"changed"}
    assert json.loads(machine.read(DECLARATION))["kinds"] == {
        "modules": {"modules": ["ib_uverbs", "rdma-ucm"]}
    }


def test_a_second_run_changes_nothing(machine: Machine, modules: Runner) -> None:
    modules.ok(name="fabric", modules=["ib_uverbs"])
    tree = machine.tree()
    again = modules.ok(name="fabric", modules=["ib_uverbs"])
    assert (again.changed, again.result["diff"], machine.tree()) == (False, [], tree)


def test_a_declaration_of_nothing_leaves_the_node(machine: Machine, modules: Runner) -> None:
    modules.ok(name="fabric", modules=["ib_uverbs"])
    done = modules.ok(name="fabric")
    assert [*done.diff] == [DECLARATION, FILE]
    assert not machine.exists(FILE)


@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize("name", ["ib_uverbs\nloop", "loop max_loop=8", "#loop", "../loop", "loop;loop"])
def test_bad_input_is_named_before_anything_is_written(
    machine: Machine, modules: Runner, check: bool, name: str
) -> None:
    before = machine.tree()
    assert repr(name) in modules.msg(check, modules=["ib_uverbs", name])
    assert machine.tree() == before


@pytest.mark.parametrize("on_unsupported", ["fail", "warn", "ignore"])
def test_a_module_that_this_kernel_does_not_have(
    machine: Machine, modules: Runner, on_unsupported: str
) -> None:
    before = machine.tree()
    done = modules(modules=["ib_uverbs", "nvidia_peermem"], on_unsupported=on_unsupported)
    if on_unsupported == "fail":
        assert (done.rc, machine.tree()) == (1, before)
    else:
        assert done.settings["module.nvidia_peermem"]["status"] == "unsupported"
        assert any("nvidia_peermem" in text for text in done.warnings) is (on_unsupported == "warn")


@pytest.mark.parametrize("task", yaml.safe_load(kernel_modules.EXAMPLES), ids=lambda task: task["name"])
def test_every_example_works(machine: Machine, modules: Runner, task: dict[str, Any]) -> None:
    done = modules.ok(**task["mlnode.tuning.kernel_modules"])
    assert {setting["status"] for setting in done.settings.values()} <= {"changed", "ok", "drifted"}


def test_the_documented_sample_is_what_is_returned(machine: Machine, modules: Runner) -> None:
    machine.put("/etc/modprobe.d/local.conf", "# theirs\nblacklist ib_uverbs\n")
    done = modules.ok(modules=["ib_uverbs"])
    sample = yaml.safe_load(kernel_modules.RETURN)["settings"]["sample"]
    assert sample == [done.settings["module.ib_uverbs"]]
