# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pathlib

import pytest
import yaml
from ansible_collections.mlnode.tuning.plugins.modules import cpu_governor
from ansible_collections.mlnode.tuning.tests.unit.cpu_machine import CPU, CPUFREQ, PSTATE, CpuMachine
from ansible_collections.mlnode.tuning.tests.unit.plugins.modules.running import Make, Runner, put_in_place


@pytest.fixture
def machine(tmp_path: pathlib.Path) -> CpuMachine:
    """In the place of the small Debian node of the other modules."""
    return CpuMachine.intel(str(tmp_path / "node"))


@pytest.fixture
def governor(running: Make) -> Runner:
    return running(cpu_governor)


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


# -- what is documented --------------------------------------------------------------------


def test_the_sample_is_what_a_node_says(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, governor: Runner
) -> None:
    machine = CpuMachine.intel(str(tmp_path / "large"), "0-63")
    for number in range(62):
        machine.put(f"{CPUFREQ}/policy{number}/scaling_governor", "performance\n")
    put_in_place(machine, monkeypatch)

    (found,) = governor.ok(check=True, governor="performance").result["settings"]

    (sample,) = yaml.safe_load(cpu_governor.RETURN)["settings"]["sample"]
    assert sample.items() <= found.items()
