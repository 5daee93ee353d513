# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is read of each machine, and what is said where it cannot be had. What a run makes of it is in
test_cpu_runs.py."""

from __future__ import annotations

import errno
import os
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.cpu_machine import CPU, CPUFREQ, PSTATE, CpuMachine
from ansible_collections.mlnode.tuning.tests.unit.plugins.module_utils._mlnode.knobs.cpu.reading import (
    PREFERENCE,
    policy,
    reading,
    readings,
)
from mlnode.engine.kind import AGENT_UNIT
from mlnode.knobs.cpu.kind import kind as cpu
from mlnode.knobs.cpu.node import LATER
from mlnode.model.setting import Severity, Value

# -- CPUs ----------------------------------------------------------------------------------


def test_a_list_takes_the_policies_of_its_cpus_only(intel: CpuMachine) -> None:
    found = reading(intel, {"governor": "performance", "cpus": "1-2"})
    assert [part.number for part in found.parts] == [1, 2]
    assert (found.refusal, found.invalid) == ("", "")


def test_a_part_of_a_policy_is_refused(acpi: CpuMachine) -> None:
    found = reading(acpi, {"governor": "performance", "cpus": "1-3"})
    assert found.refusal == (
        "policy 0 sets the CPUs 0-1 together, and CPU 0 is not in the list: name all of them, or none"
    )
    assert reading(acpi, {"governor": "performance", "cpus": "2-3"}).refusal == ""


def test_cpus_that_the_machine_does_not_have_are_named(intel: CpuMachine) -> None:
    found = reading(intel, {"governor": "performance", "cpus": "2-7"})
    assert found.invalid == "CPUs 4-7 are not on this machine, which has 0-3"
    assert [part.number for part in found.parts] == [2, 3]
    alone = reading(intel, {"max_latency_us": 0, "cpus": "9"})
    assert (alone.invalid, alone.parts) == ("CPU 9 is not on this machine, which has 0-3", ())
    assert reading(intel, {"governor": "performance", "cpus": "9"}).invalid == alone.invalid


@pytest.mark.parametrize("how", ["EBUSY", "empty", "absent", "no folder"])
def test_the_policy_of_an_offline_cpu_is_left_out_and_said(root: str, how: str) -> None:
    machine = CpuMachine.intel(root, online="0-2", present="0-3")
    path = policy(3, "affected_cpus")
    if how != "no folder":
        machine.policy(3, [], "<unsupported>", "")
    if how == "EBUSY":  # since Linux 6.0 (cpufreq.c: show)
        machine.unreadable[path] = errno.EBUSY
    if how == "absent":
        machine.remove(path)
    found = reading(machine, {"governor": "performance"})
    assert [part.number for part in found.parts] == [0, 1, 2]
    assert found.note == f"CPU 3 is offline and left out: {LATER}"
    assert found.runtime.text == "powersave"


def test_offline_cpus_of_a_list_are_said_and_others_not(root: str) -> None:
    machine = CpuMachine.intel(root, online="0-3", present="0-7")
    assert (
        reading(machine, {"max_latency_us": 0, "cpus": "0-5"}).note
        == f"CPUs 4-5 are offline and left out: {LATER}"
    )
    assert reading(machine, {"max_latency_us": 0, "cpus": "0-3"}).note == ""
    gone = reading(machine, {"max_latency_us": 0, "cpus": "4-5"})
    assert gone.runtime == Value(absent=f"CPUs 4-5 are offline: {LATER}")


def test_a_policy_that_has_lost_one_cpu_is_one_of_the_others(acpi: CpuMachine) -> None:
    acpi.put(f"{CPU}/online", "1-3\n")
    acpi.put(policy(0, "affected_cpus"), "1\n")
    found = reading(acpi, {"governor": "performance", "cpus": "1"})
    assert [part.number for part in found.parts] == [0]
    assert found.refusal == ""


def test_without_a_driver_it_is_unsupported_with_the_reason(root: str) -> None:
    machine = CpuMachine.bare(root, "0-3")
    spec = {"governor": "performance", PREFERENCE: "performance"}
    for found in readings(machine, spec).values():
        assert found.runtime == Value(
            absent=f"{CPUFREQ} has no policy: no cpufreq driver is loaded, as in most virtual machines"
        )
        assert found.parts == ()


def test_a_kernel_with_clocks_and_without_policies_is_unsupported_with_that_reason(root: str) -> None:
    machine = CpuMachine.bare(root, "0-3")
    machine.put(f"{CPU}/cpu0/cpufreq/scaling_governor", "powersave\n")
    found = reading(machine, {"governor": "performance"})
    assert (found.runtime.absent or "").startswith(f"this kernel has {CPU}/cpu0/cpufreq and no ")


def test_a_cpu_without_a_policy_is_named_and_costs_no_other_its_value(intel: CpuMachine) -> None:
    for number in (1, 2):
        for name in os.listdir(intel.root + f"{CPUFREQ}/policy{number}"):
            intel.remove(policy(number, name))
        os.rmdir(intel.root + f"{CPUFREQ}/policy{number}")
    words = f"CPUs 1-2 are in no policy of {CPUFREQ}"
    found = reading(intel, {"governor": "performance"})
    assert (found.note, [part.number for part in found.parts]) == (words, [0, 3])
    assert reading(intel, {"governor": "performance", "cpus": "3"}).runtime.text == "powersave"
    for alone in ("1", "0-3"):  # those that a list names have to be there
        named = reading(intel, {"governor": "performance", "cpus": alone}).runtime.absent or ""
        assert named.endswith(f"in no policy of {CPUFREQ}")


@pytest.mark.parametrize("file", ["present", "online"])
@pytest.mark.parametrize("knob", [{"governor": "performance"}, {"max_latency_us": 0}])
def test_unknown_cpus_are_unknown(intel: CpuMachine, file: str, knob: dict[str, Any]) -> None:
    path = f"{CPU}/{file}"
    intel.put(path, "zero\n")
    assert "is not a list of CPUs" in (reading(intel, knob).runtime.unreadable or "")
    intel.put(path, "")
    assert reading(intel, knob).runtime.unreadable == f"{path} is empty"
    intel.unreadable[path] = errno.EIO
    assert "EIO" in (reading(intel, knob).runtime.unreadable or "")
    del intel.unreadable[path]


@pytest.mark.parametrize("file", ["present", "online"])
def test_without_their_list_the_cpus_are_those_that_have_a_folder(intel: CpuMachine, file: str) -> None:
    intel.remove(f"{CPU}/{file}")
    assert [part.number for part in reading(intel, {"governor": "performance"}).parts] == [0, 1, 2, 3]


def test_a_folder_that_does_not_say_whether_its_cpu_is_online_leaves_all_unknown(intel: CpuMachine) -> None:
    intel.remove(f"{CPU}/online")
    intel.unreadable[f"{CPU}/cpu2/online"] = errno.EIO
    assert "EIO" in (reading(intel, {"governor": "performance"}).runtime.unreadable or "")


@pytest.mark.parametrize("file", ["scaling_governor", "affected_cpus"])
def test_a_policy_that_cannot_be_read_is_not_absent(intel: CpuMachine, file: str) -> None:
    intel.unreadable[policy(1, file)] = errno.EIO
    found = reading(intel, {"governor": "performance"})
    assert found.runtime.absent is None
    assert policy(1, file) in (found.runtime.unreadable or "")


def test_cpus_of_a_policy_that_are_no_list_are_not_guessed(intel: CpuMachine) -> None:
    intel.put(policy(1, "affected_cpus"), "1 two\n")
    assert "'1,two' is not a list" in (reading(intel, {"governor": "performance"}).runtime.unreadable or "")


def test_policies_that_cannot_be_listed_are_unknown(intel: CpuMachine) -> None:
    intel.unreadable[CPUFREQ] = errno.EACCES
    assert "EACCES" in (reading(intel, {"governor": "performance"}).runtime.unreadable or "")


def test_what_is_no_policy_is_passed_over(intel: CpuMachine) -> None:
    for name in ("ondemand/up_threshold", "policy/x", "policy-1/x", "policy1x/affected_cpus"):
        intel.put(f"{CPUFREQ}/{name}", "9\n")
    assert len(reading(intel, {"governor": "performance"}).parts) == 4


def test_one_read_only_file_blocks_all(intel: CpuMachine) -> None:
    intel.read_only[policy(3)] = "a container"
    assert reading(intel, {"governor": "performance"}).blocked == "a container"


# -- boot, origin and the rest of a kind ---------------------------------------------------

FULL: dict[str, Any] = {
    "governor": "performance",
    PREFERENCE: "performance",
    "energy_perf_bias": 0,
    "boost": False,
    "min_perf_pct": 50,
    "max_latency_us": "unlimited",
}


@pytest.mark.parametrize("agent", [True, False])
def test_the_agent_brings_it_back(intel: CpuMachine, agent: bool) -> None:
    for found in readings(intel, FULL, agent=agent).values():
        assert not found.boot.foreign
        assert found.boot.value.text == (found.want if agent else None)
        assert agent or f"{AGENT_UNIT} is not enabled" in (found.boot.value.absent or "")


def test_the_origin_is_told_in_the_words_of_the_declaration(intel: CpuMachine) -> None:
    latency = f"{CPU}/cpu{{}}/power/pm_qos_resume_latency_us"
    origins = {
        policy(0): "powersave",
        policy(1): "powersave",
        f"{PSTATE}/no_turbo": "0",
        latency.format(0): "0",
        latency.format(1): "n/a",
    }
    found = readings(intel, FULL, origins=origins)
    assert {name: each.origin for name, each in found.items()} == {
        "governor": "powersave",
        PREFERENCE: None,
        "energy_perf_bias": None,
        "boost": "on",
        "min_perf_pct": None,
        "max_latency_us": "unlimited: 0; 0: 1",
    }


def test_the_kernel_command_line_is_mentioned(intel: CpuMachine) -> None:
    assert cpu.boot_sources("cpu.governor", intel) == []
    line = "ro cpufreq.default_governor=powersave cpufreq.default_governor=ondemand"
    intel.put("/proc/cmdline", f"{line}\n")
    assert cpu.boot_sources("cpu.governor[0-3]", intel) == [
        "/proc/cmdline: cpufreq.default_governor=ondemand"
    ]
    assert cpu.boot_sources("cpu.boost", intel) == []


@cases.table
def test_another_governor_costs_more(key: str, runtime: str | None, severity: str) -> None:
    assert cpu.info(key, Value(text=runtime)).severity is Severity(severity)
