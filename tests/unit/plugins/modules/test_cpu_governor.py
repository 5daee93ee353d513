# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pathlib
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.plugins.modules import cpu_governor
from ansible_collections.mlnode.tuning.tests.unit.cpu_machine import CPU, CPUFREQ, PSTATE, CpuMachine
from ansible_collections.mlnode.tuning.tests.unit.plugins.modules.running import Make, Runner
from mlnode.engine import engine
from mlnode.engine.engine import Request
from mlnode.knobs.cpu.kind import kind as cpu
from mlnode.model.setting import Layer
from mlnode.report import diff

PREFERENCE = "energy_performance_preference"


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


# -- what is documented --------------------------------------------------------------------
