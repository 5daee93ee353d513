# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import errno

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.cpu_machine import CPUFREQ, PSTATE, CpuMachine
from ansible_collections.mlnode.tuning.tests.unit.plugins.module_utils._mlnode.knobs.cpu.reading import (
    policy,
    reading,
    readings,
)
from mlnode.model.setting import Value, Write


def test_no_turbo_is_boost_the_other_way_round(intel: CpuMachine) -> None:
    found = reading(intel, {"boost": False})
    (part,) = found.parts
    assert (found.runtime.text, found.want, found.path) == ("on", "off", f"{PSTATE}/no_turbo")
    assert (part.runtime, part.want) == ("0", "1")
    # The kernel takes min_perf_pct down to what is left without turbo.
    assert part.undo == (Write(f"{PSTATE}/no_turbo", "0"), Write(f"{PSTATE}/min_perf_pct", "22"))
    intel.remove(f"{PSTATE}/min_perf_pct")
    assert reading(intel, {"boost": False}).parts[0].undo == (Write(f"{PSTATE}/no_turbo", "0"),)


def test_no_turbo_is_of_the_whole_machine(intel: CpuMachine) -> None:
    words = f"{PSTATE}/no_turbo is one switch for the whole machine: declare boost without cpus"
    assert reading(intel, {"boost": True, "cpus": "0-1"}).runtime == Value(absent=words)


@cases.table
def test_boost_that_the_firmware_took_away_is_told_before_a_write(
    intel: CpuMachine, flags: str, boost: bool, blocked: bool
) -> None:
    intel.put(f"{PSTATE}/no_turbo", "1\n")
    intel.put("/proc/cpuinfo", flags)
    words = "the firmware has switched boost off (no flag `ida` in /proc/cpuinfo): switch it on there"
    assert reading(intel, {"boost": boost}).parts[0].answer == (words if blocked else "")


@pytest.mark.parametrize(("boost", "first"), [(True, f"{CPUFREQ}/boost"), (False, policy(0, "boost"))])
def test_the_switch_of_the_machine_and_of_the_policies(amd: CpuMachine, boost: bool, first: str) -> None:
    """Off in the machine's switch, the others take no write: it is the first to go on and the last to go."""
    amd.put(policy(2, "boost"), "0\n")
    found = reading(amd, {"boost": boost})
    assert found.runtime.text == "on for the machine, on: 0-1,3; off: 2 for its policies"
    assert found.parts[0].path == first
    assert len(found.parts) == 5
    back = {part.path: part.undo for part in found.parts}
    # The way back of the machine's switch sets all of them.
    assert back[f"{CPUFREQ}/boost"] == (Write(f"{CPUFREQ}/boost", "1"), Write(policy(2, "boost"), "0"))
    assert back[policy(2, "boost")] == (Write(f"{CPUFREQ}/boost", "1"), Write(policy(2, "boost"), "0"))


def test_machine_and_policies_that_agree_are_one_word(amd: CpuMachine) -> None:
    found = reading(amd, {"boost": True})
    assert (found.runtime.text, found.path) == ("on", f"{CPUFREQ}/boost")


def test_one_switch_only(acpi: CpuMachine) -> None:
    found = reading(acpi, {"boost": False})
    assert [(part.path, part.runtime, part.want) for part in found.parts] == [(f"{CPUFREQ}/boost", "1", "0")]
    assert found.runtime.text == "on"


def test_switches_of_the_policies_only(amd: CpuMachine) -> None:
    amd.remove(f"{CPUFREQ}/boost")
    found = reading(amd, {"boost": False})
    assert found.path == f"{CPUFREQ}/policy*/boost"
    assert [part.number for part in found.parts] == [0, 1, 2, 3]
    assert found.parts[1].undo == (Write(policy(1, "boost"), "1"),)
    amd.remove(policy(3, "boost"))
    assert reading(amd, {"boost": False}).runtime.absent == (
        f"{CPUFREQ}/boost does not exist: the driver or the processor has no boost, or the firmware hides it"
    )


def test_a_policy_that_cannot_boost_does_not_hinder_the_others(amd: CpuMachine) -> None:
    amd.remove(policy(3, "boost"))
    assert len(reading(amd, {"boost": True}).parts) == 4


def test_boost_for_a_list_is_the_policies_own(amd: CpuMachine) -> None:
    found = reading(amd, {"boost": False, "cpus": "1-2"})
    assert [(part.path, part.want) for part in found.parts] == [
        (policy(1, "boost"), "0"),
        (policy(2, "boost"), "0"),
    ]
    assert found.refusal == ""
    amd.put(f"{CPUFREQ}/boost", "0\n")
    assert reading(amd, {"boost": True, "cpus": "1-2"}).refusal == (
        f"{CPUFREQ}/boost is 0, and no policy takes a write before it is 1: declare boost without cpus"
    )


def test_boost_for_a_list_needs_switches_of_the_policies(acpi: CpuMachine) -> None:
    found = reading(acpi, {"boost": True, "cpus": "0-1"})
    assert found.runtime == Value(
        absent="policy 0 has no boost: it is one switch for the whole machine, so declare it without cpus"
    )
    acpi.remove(f"{CPUFREQ}/boost")
    none = reading(acpi, {"boost": True, "cpus": "0-3"}).runtime.absent or ""
    assert none.startswith("policies 0,2 have no boost: the driver or the processor has no boost")


@pytest.mark.parametrize("file", [f"{CPUFREQ}/boost", policy(1, "boost"), f"{PSTATE}/no_turbo"])
def test_a_switch_that_cannot_be_read_is_unknown(amd: CpuMachine, file: str) -> None:
    amd.put(file, "1\n")
    amd.unreadable[file] = errno.EAGAIN
    assert file in (reading(amd, {"boost": True}).runtime.unreadable or "")


def test_the_least_performance(intel: CpuMachine) -> None:
    found = reading(intel, {"min_perf_pct": 100})
    assert (found.runtime.text, found.want, found.refusal) == ("22", "100", "")
    intel.put(f"{PSTATE}/max_perf_pct", "80\n")
    assert reading(intel, {"min_perf_pct": 80}).refusal == ""
    assert reading(intel, {"min_perf_pct": 81}).refusal == (
        f"{PSTATE}/max_perf_pct is 80, and the kernel takes no more for the least: raise it first"
    )


def test_the_least_performance_goes_with_boost(intel: CpuMachine) -> None:
    intel.put(f"{PSTATE}/min_perf_pct", "100\n")
    found = readings(intel, {"boost": False, "min_perf_pct": 100})["min_perf_pct"]
    assert found.runtime.text == "100 (moved by boost)"
    assert found.parts[0].undo == (Write(f"{PSTATE}/min_perf_pct", "100"),)
    intel.put(f"{PSTATE}/no_turbo", "1\n")
    assert readings(intel, {"boost": False, "min_perf_pct": 100})["min_perf_pct"].runtime.text == "100"


def test_other_drivers_have_no_least_performance(amd: CpuMachine) -> None:
    words = "intel_pstate alone has it, and not with intel_pstate=per_cpu_perf_limits"
    assert reading(amd, {"min_perf_pct": 50}).runtime == Value(
        absent=f"{PSTATE}/min_perf_pct does not exist: {words}"
    )
