# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import errno
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.fixtures.build import tree
from ansible_collections.mlnode.tuning.tests.unit import cases, door
from ansible_collections.mlnode.tuning.tests.unit.cpu_machine import ACTIVE, CPU, CpuMachine
from ansible_collections.mlnode.tuning.tests.unit.machine import captured
from ansible_collections.mlnode.tuning.tests.unit.plugins.module_utils._mlnode.knobs.cpu.reading import (
    PREFERENCE,
    policy,
    reading,
)
from ansible_collections.mlnode.tuning.tests.unit.work import is_linear
from mlnode.engine import engine
from mlnode.knobs.cpu.kind import kind as cpu
from mlnode.model.setting import Layer, Value, Write

# -- governor ------------------------------------------------------------------------------


def test_a_rule_becomes_a_part_for_every_policy(intel: CpuMachine) -> None:
    intel.put(policy(2), "performance\n")
    found = reading(intel, {"governor": "performance"})

    assert found.runtime == Value(text="powersave: 0-1,3; performance: 2")
    assert found.want == "performance"
    assert found.offered == ("performance", "powersave")
    assert [(part.number, part.path, part.runtime, part.want) for part in found.parts] == [
        (0, policy(0), "powersave", "performance"),
        (1, policy(1), "powersave", "performance"),
        (2, policy(2), "performance", "performance"),
        (3, policy(3), "powersave", "performance"),
    ]
    assert not any((found.invalid, found.refusal, found.blocked, found.note, found.native))


def test_policies_come_in_the_order_of_their_numbers(root: str) -> None:
    machine = CpuMachine.intel(root, "0-11")
    numbers = [part.number for part in reading(machine, {"governor": "performance"}).parts]
    assert numbers == list(range(12))


def test_a_governor_is_put_back_with_the_preference_that_it_moves(intel: CpuMachine) -> None:
    (part, *_rest) = reading(intel, {"governor": "performance"}).parts
    assert part.undo == (Write(policy(0), "powersave"), Write(policy(0, PREFERENCE), "balance_performance"))


@pytest.mark.parametrize("how", ["absent", "unreadable", "empty"])
def test_a_preference_that_nobody_can_read_is_not_put_back(intel: CpuMachine, how: str) -> None:
    """amd-pstate answers EINVAL where the firmware chose a number that has no word."""
    path = policy(0, PREFERENCE)
    if how == "absent":
        intel.remove(path)
    elif how == "empty":
        intel.put(path, "")
    else:
        intel.unreadable[path] = errno.EINVAL
    (part, *_rest) = reading(intel, {"governor": "performance"}).parts
    assert part.undo == (Write(policy(0), "powersave"),)


def test_what_a_policy_does_not_offer_is_told_with_what_it_does(intel: CpuMachine) -> None:
    found = reading(intel, {"governor": "ondemand"})
    answers = {(part.place, part.answer) for part in found.parts}
    assert answers == {("policies 0-3", "'ondemand' is not on offer, but performance, powersave")}


def test_a_governor_that_may_be_a_module_is_said_to_be_one(acpi: CpuMachine) -> None:
    for number in (0, 2):
        acpi.put(policy(number, "scaling_available_governors"), "performance schedutil \n")
    found = reading(acpi, {"governor": "ondemand"})
    told = {(part.place, part.answer, part.advice) for part in found.parts}
    answer = "'ondemand' is not on offer, but performance, schedutil"
    assert told == {("policies 0,2", answer, "if it is a module, load cpufreq_ondemand first")}
    (part, *_rest) = reading(acpi, {"governor": "sometimes"}).parts
    assert (part.answer, part.advice) == (answer.replace("ondemand", "sometimes"), "")


def test_policies_may_offer_different_governors(acpi: CpuMachine) -> None:
    """As on hybrid processors."""
    acpi.put(policy(2, "scaling_available_governors"), f"{ACTIVE}\n")
    found = reading(acpi, {"governor": "ondemand"})
    assert found.offered == ("powersave", "performance")
    answers = {part.place: part.answer for part in found.parts}
    assert answers == {"": "", "policy 2": "'ondemand' is not on offer, but performance, powersave"}
    assert not any(part.answer for part in reading(acpi, {"governor": "performance"}).parts)


def test_a_policy_without_a_list_is_left_to_the_kernel(acpi: CpuMachine) -> None:
    acpi.remove(policy(0, "scaling_available_governors"))
    found = reading(acpi, {"governor": "schedutil"})
    assert (found.invalid, found.offered) == ("", ())


# -- energy_performance_preference ---------------------------------------------------------


def test_a_preference_is_read_as_the_kernel_prints_it(intel: CpuMachine) -> None:
    intel.put(policy(1, PREFERENCE), "37\n")
    found = reading(intel, {PREFERENCE: "balance_power"})
    assert found.runtime.text == "balance_performance: 0,2-3; 37: 1"
    assert found.offered == ("default", "performance", "balance_performance", "balance_power", "power")
    assert (found.invalid, found.refusal) == ("", "")


def test_a_word_that_no_list_has_is_told(intel: CpuMachine) -> None:
    found = reading(intel, {PREFERENCE: "sometimes"})
    assert {part.place for part in found.parts} == {"policies 0-3"}
    assert found.parts[0].answer.startswith("'sometimes' is not on offer, but default, performance, ")
    assert not any(part.answer for part in reading(intel, {PREFERENCE: 37}).parts)


@pytest.mark.parametrize("driver", ["intel", "amd"])
def test_under_the_governor_performance_there_is_one_preference(root: str, driver: str) -> None:
    machine = getattr(CpuMachine, driver)(root)
    for number in range(4):
        machine.put(policy(number), "performance\n")
        machine.put(policy(number, PREFERENCE), "performance\n")
    words = "policies 0-3 take no other preference than performance under the governor performance (EBUSY)"

    there = reading(machine, {PREFERENCE: "balance_power"})
    assert there.refusal == f"{words}: declare another governor with it"
    assert there.invalid == ""

    declared = reading(machine, {"governor": "performance", PREFERENCE: "balance_power"})
    assert declared.invalid.startswith(f"{words}: declare powersave")

    for spec in ({PREFERENCE: 0}, {"governor": "performance", PREFERENCE: "performance"}):
        found = reading(machine, spec)
        assert (found.invalid, found.refusal, found.runtime.text) == ("", "", "performance")
    other = reading(machine, {"governor": "powersave", PREFERENCE: "balance_power"})
    assert (other.invalid, other.refusal) == ("", "")


def test_a_passive_driver_takes_any_preference(root: str) -> None:
    machine = CpuMachine.intel(root, passive=True)
    machine.put(policy(0), "performance\n")
    found = reading(machine, {"governor": "performance", PREFERENCE: "power"})
    assert (found.invalid, found.refusal) == ("", "")
    assert found.parts[0].undo == (Write(policy(0, PREFERENCE), "balance_performance"),)


def test_a_governor_that_goes_takes_the_preference_along(intel: CpuMachine) -> None:
    """The kernel brings back the preference before performance, so that the present one is no evidence."""
    intel.put(policy(1), "performance\n")
    intel.put(policy(1, PREFERENCE), "performance\n")
    found = reading(intel, {"governor": "powersave", PREFERENCE: "performance"})
    assert found.runtime.text == "balance_performance: 0,2-3; performance (moved by the governor): 1"
    assert found.parts[1].undo == (Write(policy(1, PREFERENCE), "performance"),)


@pytest.mark.parametrize("spec", [{}, {"governor": "performance"}])
def test_a_preference_goes_back_after_its_governor(intel: CpuMachine, spec: dict[str, str]) -> None:
    found = reading(intel, {**spec, PREFERENCE: "performance"})
    assert found.parts[0].undo == (
        Write(policy(0), "powersave"),
        Write(policy(0, PREFERENCE), "balance_performance"),
    )


def test_a_driver_without_preferences_is_named(acpi: CpuMachine) -> None:
    words = f"policies 0,2 have no {PREFERENCE}: the driver acpi-cpufreq does not have it"
    assert reading(acpi, {PREFERENCE: "power"}).runtime == Value(absent=words)


def test_a_preference_that_one_policy_lacks_is_named(intel: CpuMachine) -> None:
    intel.remove(policy(2, PREFERENCE))
    words = f"policy 2 has no {PREFERENCE}: the driver intel_pstate does not have it"
    found = reading(intel, {PREFERENCE: "power"})
    assert (found.runtime.text, found.note) == ("balance_performance", words)
    assert [part.number for part in found.parts] == [0, 1, 3]
    assert reading(intel, {PREFERENCE: "power", "cpus": "1-2"}).runtime.absent == words
    assert reading(intel, {PREFERENCE: "power", "cpus": "0-1"}).runtime.text == "balance_performance"


def test_a_preference_that_cannot_be_read_is_unknown(amd: CpuMachine) -> None:
    amd.unreadable[policy(2, PREFERENCE)] = errno.EINVAL
    found = reading(amd, {PREFERENCE: "performance"})
    assert "EINVAL" in (found.runtime.unreadable or "")


# -- energy_perf_bias and max_latency_us ---------------------------------------------------


def test_the_bias_of_every_cpu(intel: CpuMachine) -> None:
    path = f"{CPU}/cpu1/power/energy_perf_bias"
    intel.put(path, "0\n")
    found = reading(intel, {"energy_perf_bias": "performance"})
    assert found.runtime.text == "6: 0,2-3; 0: 1"
    assert (found.parts[1].path, found.parts[1].runtime, found.parts[1].want) == (path, "0", "0")
    assert found.parts[0].undo == (Write(f"{CPU}/cpu0/power/energy_perf_bias", "6"),)


@cases.table
def test_a_processor_without_bias(amd: CpuMachine, cpuinfo: str, why: str, optional: bool) -> None:
    amd.put("/proc/cpuinfo", f"processor\t: 0\n{cpuinfo}\n" if cpuinfo else "")
    found = reading(amd, {"energy_perf_bias": 0})
    assert found.runtime == Value(absent=f"CPUs 0-3 have no energy_perf_bias: {why}")
    assert found.optional is optional


def test_one_cpu_without_bias_costs_no_other_its_value(intel: CpuMachine) -> None:
    intel.remove(f"{CPU}/cpu2/power/energy_perf_bias")
    found = reading(intel, {"energy_perf_bias": 0})
    assert [part.number for part in found.parts] == [0, 1, 3]
    assert found.note.startswith("CPU 2 has no energy_perf_bias: ")
    assert not found.optional
    intel.unreadable[f"{CPU}/cpu1/power/energy_perf_bias"] = errno.EIO
    assert "EIO" in (reading(intel, {"energy_perf_bias": 0}).runtime.unreadable or "")


@pytest.mark.parametrize(("declared", "kernel"), [(0, "n/a"), ("unlimited", "0"), (50, "50")])
@pytest.mark.parametrize(("now", "shown"), [("n/a", "0"), ("0", "unlimited"), ("7", "7")])
def test_the_latency_is_shown_as_it_is_declared(
    intel: CpuMachine, declared: Any, kernel: str, now: str, shown: str
) -> None:
    for number in range(4):
        intel.put(f"{CPU}/cpu{number}/power/pm_qos_resume_latency_us", f"{now}\n")
    found = reading(intel, {"max_latency_us": declared})
    assert (found.runtime.text, found.want) == (shown, str(declared))
    assert {(part.runtime, part.want) for part in found.parts} == {(now, kernel)}
    assert found.note == ""


@pytest.mark.parametrize("folder", [True, False])
def test_a_limit_without_idle_states_says_that_it_has_no_effect(intel: CpuMachine, folder: bool) -> None:
    if folder:
        intel.put(f"{CPU}/cpuidle/current_driver", "none\n")
    else:
        intel.remove(f"{CPU}/cpuidle/current_driver")
    intel.put(f"{CPU}/present", "0-4\n")
    assert reading(intel, {"max_latency_us": 0}).note == (
        "CPU 4 is offline and left out: once online, `mlnode apply` or the next boot sets them; "
        "no cpuidle driver is loaded: there are no idle states to limit"
    )


def test_each_cpu_more_is_the_same_work() -> None:
    """All but what rules a whole machine."""
    some = {
        "governor": "performance",
        PREFERENCE: "performance",
        "energy_perf_bias": "performance",
        "max_latency_us": 10,
    }
    host = captured(tree("epyc256"), cpu.MOUNTS)

    def rule(cpus: int) -> int:
        spec = {**some, "cpus": f"0-{cpus - 1}"}
        request = door.request("x", "cpu", spec, (Layer.RUNTIME,))
        found = engine.evaluate(captured(host.root, cpu.MOUNTS), request)
        return max(len(row.reading.parts) for row in found.rows)

    assert rule(128) > 100
    assert is_linear((64, 128, 256), rule)
