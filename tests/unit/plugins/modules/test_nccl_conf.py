# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest
import yaml
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.knobs.nccl.file import PATH
from ansible_collections.mlnode.tuning.plugins.modules import nccl_conf
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from ansible_collections.mlnode.tuning.tests.unit.plugins.module_utils._mlnode.knobs.nccl.node import (
    HCAS,
    block,
    declare_class,
    give_addresses,
    roce,
)
from ansible_collections.mlnode.tuning.tests.unit.plugins.modules.running import Make, Runner

DECLARATION = "/etc/mlnode/declared.d/jobs.json"


@pytest.fixture
def machine(tmp_path: pathlib.Path) -> Machine:
    """With two RoCE rails."""
    return roce(str(tmp_path / "node"))


@pytest.fixture
def nccl(running: Make) -> Runner:
    return running(nccl_conf)


AUTO: dict[str, Any] = {"NCCL_IB_HCA": "auto", "NCCL_SOCKET_IFNAME": "auto", "NCCL_IB_TC": "auto"}


def test_check_mode_predicts_what_the_run_then_does(machine: Machine, nccl: Runner) -> None:
    declare_class(machine, 106)
    machine.put(PATH, "NCCL_DEBUG=INFO\n")
    before = machine.tree()
    predicted = nccl.ok(check=True, name="jobs", variables=AUTO)
    assert machine.tree() == before

    done = nccl.ok(name="jobs", variables=AUTO)

    assert predicted.result["diff"] == done.result["diff"]
    assert done.diff[PATH] == (
        "NCCL_DEBUG=INFO\n",
        block(f"NCCL_IB_HCA={HCAS}", "NCCL_SOCKET_IFNAME==eth0", "NCCL_IB_TC=106") + "NCCL_DEBUG=INFO\n",
    )
    want = {key: setting["want"] for key, setting in predicted.settings.items()}
    assert {key: setting["runtime"] for key, setting in done.settings.items()} == want
    assert {key: setting["boot"] for key, setting in done.settings.items()} == want
    assert {setting["status"] for setting in done.settings.values()} == {"changed"}
    assert (predicted.result["reboot_required"], done.result["reboot_required"]) == (False, False)
    assert done.warnings == []


def test_a_second_run_changes_nothing(machine: Machine, nccl: Runner) -> None:
    nccl.ok(name="jobs", variables=AUTO)
    tree = machine.tree()

    again = nccl.ok(name="jobs", variables=AUTO)

    assert (again.changed, again.result["diff"]) == (False, [])
    assert {setting["status"] for setting in again.settings.values()} == {"ok"}
    assert machine.tree() == tree


def test_auto_is_kept_as_it_was_declared(machine: Machine, nccl: Runner) -> None:
    nccl.ok(name="jobs", variables={**AUTO, "NCCL_NET": None})
    assert json.loads(machine.read(DECLARATION))["kinds"] == {"nccl": {"variables": AUTO}}


def test_a_declaration_of_nothing_leaves_the_node(machine: Machine, nccl: Runner) -> None:
    nccl.ok(name="jobs", variables={"NCCL_DEBUG": "WARN"})

    done = nccl.ok(name="jobs", allow=["unknown"])

    assert [*done.diff] == [DECLARATION, PATH]
    assert not machine.exists(PATH)
    assert not machine.exists(DECLARATION)
    assert not nccl.ok(name="jobs").changed


def test_the_environment_that_wins_is_a_warning(machine: Machine, nccl: Runner) -> None:
    machine.put("/etc/environment", "NCCL_DEBUG=INFO\n")
    done = nccl.ok(variables={"NCCL_DEBUG": "WARN"})
    assert done.warnings == ["nccl.NCCL_DEBUG is overridden: boot: /etc/environment:1 sets INFO"]
    assert done.settings["nccl.NCCL_DEBUG"]["boot_source"] == "/etc/environment:1"


def test_an_index_is_written_where_it_is_certain(machine: Machine, nccl: Runner) -> None:
    done = nccl.ok(variables={"NCCL_IB_GID_INDEX": "auto"})
    assert "left out" in done.settings["nccl.NCCL_IB_GID_INDEX"]["reason"]
    assert not machine.exists(PATH)
    give_addresses(machine, {"mlx5_0": [3], "mlx5_1": [3]})
    nccl.ok(variables={"NCCL_IB_GID_INDEX": "auto"})
    assert "NCCL_IB_GID_INDEX=3\n" in machine.read(PATH)


@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"variables": {"NCCL_IB_HCAS": "auto"}}, ["'NCCL_IB_HCAS'", "did you mean NCCL_IB_HCA"]),
        ({"variables": {"NCCL_IB_TC": 300}}, ["NCCL_IB_TC: '300'", "from 0 to 255"]),
        ({"variables": {"NCCL_IB_DISABLE": True}}, ["NCCL_IB_DISABLE", "YAML boolean true"]),
        ({"variables": {"NCCL_X": "1\nLD_PRELOAD=/x"}, "allow": ["unknown"]}, ["NCCL_X", "does not print"]),
        ({"variables": {"NCCL_DEBUG": "WARN"}, "layers": []}, ["layers"]),
        ({"variables": {"NCCL_DEBUG": "WARN"}, "allow": ["all"]}, ["allow", "unknown"]),
    ],
)
def test_bad_input_is_named_before_anything_is_written(
    machine: Machine, nccl: Runner, check: bool, arguments: dict[str, Any], words: list[str]
) -> None:
    declare_class(machine, 106)
    before = machine.tree()

    msg = nccl.msg(check, **arguments)

    for word in words:
        assert word in msg
    assert machine.tree() == before


@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            {"variables": {"NCCL_IB_TC": 104}},
            ["refused: nccl.NCCL_IB_TC", "declared as 104", "as 106 by /etc/mlnode/declared.d/fabric.json"],
        )
    ],
)
def test_what_a_guard_refuses_is_only_declared(
    machine: Machine, nccl: Runner, check: bool, arguments: dict[str, Any], words: list[str]
) -> None:
    declare_class(machine, 106)
    whole, before = machine.tree(), machine.tuned()
    msg = nccl.msg(check, **arguments)
    for word in words:
        assert word in msg
    assert machine.tuned() == before
    assert (machine.tree() == whole) == check


@pytest.mark.parametrize("on_unsupported", ["fail", "warn", "ignore"])
def test_a_machine_without_rails(machine: Machine, nccl: Runner, on_unsupported: str) -> None:
    (pathlib.Path(machine.root) / "sys/class/infiniband").rename(f"{machine.root}/sys/class/other")
    before = machine.tree()

    done = nccl(variables={"NCCL_IB_HCA": "auto"}, on_unsupported=on_unsupported)

    if on_unsupported == "fail":
        assert (done.rc, machine.tree()) == (1, before)
    else:
        assert done.settings["nccl.NCCL_IB_HCA"]["status"] == "unsupported"
        assert any("no RDMA device" in text for text in done.warnings) is (on_unsupported == "warn")


@pytest.mark.parametrize("task", yaml.safe_load(nccl_conf.EXAMPLES), ids=lambda task: task["name"])
def test_every_example_works(machine: Machine, nccl: Runner, task: dict[str, Any]) -> None:
    done = nccl.ok(**task["mlnode.tuning.nccl_conf"])
    assert {setting["status"] for setting in done.settings.values()} <= {"changed", "ok"}


def test_the_documented_sample_is_what_is_returned(machine: Machine, nccl: Runner) -> None:
    machine.put("/etc/environment", "A=1\nB=2\nNCCL_IB_TC=104\n")
    done = nccl.ok(variables={"NCCL_IB_TC": 106})
    sample = yaml.safe_load(nccl_conf.RETURN)["settings"]["sample"]
    assert sample == [done.settings["nccl.NCCL_IB_TC"]]
