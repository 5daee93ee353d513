# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest
import yaml
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.agent import registry
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.engine import engine
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.engine.engine import Request
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.knobs.cpu import kind as cpu
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.knobs.cpu import parse as cpu_parse
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.model.setting import Layer
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.report import diff
from ansible_collections.mlnode.tuning.plugins.modules import cpu_governor
from ansible_collections.mlnode.tuning.tests.unit.cpu_machine import CPU, CPUFREQ, PSTATE, CpuMachine
from ansible_collections.mlnode.tuning.tests.unit.plugins.modules.running import Make, Runner, put_in_place

DECLARATION = "/etc/mlnode/declared.d/training.json"
PREFERENCE = "energy_performance_preference"

FULL: dict[str, Any] = {
    "governor": "performance",
    PREFERENCE: "performance",
    "energy_perf_bias": "performance",
    "boost": True,
    "min_perf_pct": 100,
    "max_latency_us": "10",
}


@pytest.fixture
def machine(tmp_path: pathlib.Path) -> CpuMachine:
    """In the place of the small Debian node of the other modules."""
    return CpuMachine.intel(str(tmp_path / "node"))


@pytest.fixture
def governor(running: Make) -> Runner:
    return running(cpu_governor)


def test_check_mode_predicts_what_the_run_then_does(machine: CpuMachine, governor: Runner) -> None:
    machine.enable_agent()
    before = machine.tree()
    predicted = governor.ok(check=True, name="training", **FULL)
    assert machine.tree() == before

    done = governor.ok(name="training", **FULL)

    assert predicted.result["diff"] == done.result["diff"]
    want = {key: setting["want"] for key, setting in predicted.settings.items()}
    assert want == {key: setting["runtime"] for key, setting in done.settings.items()}
    assert want == {key: setting["boot"] for key, setting in done.settings.items()}
    assert want == {
        "cpu.governor": "performance",
        f"cpu.{PREFERENCE}": "performance",
        "cpu.energy_perf_bias": "0",
        "cpu.boost": "on",
        "cpu.min_perf_pct": "100",
        "cpu.max_latency_us": "10",
    }


def test_the_diff_names_the_cpus(machine: CpuMachine, governor: Runner) -> None:
    """A value for each group of CPUs that have it, and the value alone where one file rules the machine."""
    machine.put(f"{CPUFREQ}/policy2/scaling_governor", "performance\n")
    machine.put(f"{CPU}/cpu3/power/pm_qos_resume_latency_us", "50\n")
    machine.put(f"{PSTATE}/min_perf_pct", "25\n")
    asked = {"governor": "performance", "max_latency_us": "10", "min_perf_pct": 100}
    before, after = governor.ok(check=True, **asked).diff["runtime"]
    assert before.splitlines() == [
        "cpu.governor (CPUs 0-1,3) = powersave",
        "cpu.min_perf_pct = 25",
        "cpu.max_latency_us (CPUs 0-2) = 0",
        "cpu.max_latency_us (CPU 3) = 50",
    ]
    assert after.splitlines() == [
        "cpu.governor (CPUs 0-1,3) = performance",
        "cpu.min_perf_pct = 100",
        "cpu.max_latency_us (CPUs 0-3) = 10",
    ]


@pytest.mark.parametrize(
    ("driver", "asked", "before"),
    [
        # The policies 0 and 2 rule two CPUs each.
        (CpuMachine.acpi, {"governor": "ondemand"}, ["cpu.governor (CPUs 0-3) = schedutil"]),
        # One switch of the machine, and one of each policy.
        (CpuMachine.amd, {"boost": False}, ["cpu.boost = 1", "cpu.boost (CPUs 0-3) = 1"]),
    ],
)
def test_the_diff_names_the_cpus_of_policies_and_not_their_numbers(
    tmp_path: pathlib.Path, driver: Any, asked: dict[str, Any], before: list[str]
) -> None:
    node = driver(str(tmp_path / "other"))
    request = Request("training", cpu, asked, (Layer.RUNTIME,))
    (runtime,) = diff.diff(engine.evaluate(node, request).steps)
    assert runtime["before"].splitlines() == before


def test_a_second_run_changes_nothing(machine: CpuMachine, governor: Runner) -> None:
    machine.enable_agent()
    governor.ok(**FULL)
    tree, writes = machine.tree(), list(machine.writes)

    again = governor.ok(**FULL)

    assert not again.changed
    assert again.result["diff"] == []
    assert {setting["status"] for setting in again.settings.values()} == {"ok"}
    assert (machine.tree(), machine.writes) == (tree, writes)


def test_the_declaration_is_kept_as_it_was_given(machine: CpuMachine, governor: Runner) -> None:
    governor.ok(name="training", boost=False, cpus="all", max_latency_us="0")
    kinds = json.loads(machine.read(DECLARATION))["kinds"]
    assert kinds == {"cpu": {"boost": False, "cpus": "all", "max_latency_us": "0"}}


def test_a_list_rules_its_cpus_only(machine: CpuMachine, governor: Runner) -> None:
    done = governor.ok(name="serving", cpus="2-3", governor="performance", max_latency_us="0")
    assert [*done.settings] == ["cpu.governor[2-3]", "cpu.max_latency_us[2-3]"]
    governors = [machine.now(f"{CPUFREQ}/policy{number}/scaling_governor") for number in range(4)]
    assert governors == ["powersave", "powersave", "performance", "performance"]
    assert machine.now(f"{CPU}/cpu1/power/pm_qos_resume_latency_us") == "0"
    assert machine.now(f"{CPU}/cpu2/power/pm_qos_resume_latency_us") == "n/a"


@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize(
    "arguments, words",
    [
        ({"governor": "ondemand"}, ["cpu.governor: policies 0-3", "'ondemand'", "performance, powersave"]),
        ({"governor": "performance", PREFERENCE: "power"}, [f"cpu.{PREFERENCE}", "EBUSY", "powersave"]),
        ({"governor": "performance", "cpus": "0-63"}, ["CPUs 4-63 are not on this machine, which has 0-3"]),
        ({"governor": "performance", "cpus": "0-9999999"}, ["cpu.cpus", "9999999 cannot exist"]),
        ({"governor": "perf\nx"}, ["cpu.governor", "does not print"]),
        ({"governor": True}, ["cpu.governor: must be a word such as performance, got 'True'"]),
        ({PREFERENCE: "256"}, [f"cpu.{PREFERENCE}", "from 0 to 255"]),
        ({"energy_perf_bias": "16"}, ["cpu.energy_perf_bias", "from 0 to 15"]),
        ({"boost": "perhaps"}, ["boost", "perhaps"]),
        ({"min_perf_pct": 101}, ["cpu.min_perf_pct", "from 0 to 100"]),
        ({"min_perf_pct": 50, "cpus": "0"}, ["cpu.min_perf_pct", "whole machine"]),
        ({"max_latency_us": "n/a"}, ["cpu.max_latency_us", "unlimited"]),
    ],
)
def test_bad_input_is_named_before_anything_is_written(
    machine: CpuMachine, governor: Runner, check: bool, arguments: dict[str, Any], words: list[str]
) -> None:
    before = machine.tree()

    msg = governor.msg(check, **arguments)

    for word in words:
        assert word in msg
    assert machine.tree() == before
    assert machine.writes == []


@pytest.mark.parametrize("on_unsupported", ["fail", "warn", "ignore"])
def test_a_list_where_there_is_one_switch(machine: CpuMachine, governor: Runner, on_unsupported: str) -> None:
    before = machine.tree()

    done = governor(boost=False, cpus="0-1", on_unsupported=on_unsupported)

    words = f"{PSTATE}/no_turbo is one switch for the whole machine: declare boost without cpus"
    if on_unsupported == "fail":
        assert done.rc == 1
        assert words in done.result["msg"]
        assert machine.tree() == before
    else:
        assert done.settings["cpu.boost[0-1]"]["status"] == "unsupported"
        assert any(words in warning for warning in done.warnings) is (on_unsupported == "warn")


def test_a_declaration_of_nothing_leaves_the_node(machine: CpuMachine, governor: Runner) -> None:
    governor.ok(name="training", governor="performance", cpus="0-1")
    assert machine.exists(DECLARATION)

    governor.ok(name="training", cpus="0-1")

    assert not machine.exists(DECLARATION)
    assert not governor.ok(name="training").changed


# -- what is documented --------------------------------------------------------------------


def test_every_option_is_in_the_order_of_application() -> None:
    assert [*registry.options("cpu")] == [*cpu_parse.PATHS, "cpus"]


def test_the_documented_fields_of_a_setting_are_those_it_has(governor: Runner) -> None:
    answer = governor.ok(governor="performance").result
    documented = yaml.safe_load(cpu_governor.RETURN)
    assert {*documented} <= {*answer}
    assert [*documented["settings"]["sample"][0]] == [*answer["settings"][0]]


def test_the_sample_is_what_a_node_says(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, governor: Runner
) -> None:
    machine = CpuMachine.intel(str(tmp_path / "large"), "0-63")
    for number in range(62):
        machine.put(f"{CPUFREQ}/policy{number}/scaling_governor", "performance\n")
    put_in_place(machine, monkeypatch)

    (found,) = governor.ok(check=True, governor="performance").result["settings"]

    (sample,) = yaml.safe_load(cpu_governor.RETURN)["settings"]["sample"]
    assert found == sample


def test_the_examples_work(governor: Runner) -> None:
    for task in yaml.safe_load(cpu_governor.EXAMPLES):
        assert task["name"]
        call = task["mlnode.tuning.cpu_governor"]
        if "cpus" in call:  # which are more than this small machine has
            call["cpus"] = "0-1"
        governor.ok(check=True, **call)
