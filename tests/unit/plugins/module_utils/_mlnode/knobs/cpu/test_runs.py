# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whole runs of the engine on machines whose kernel refuses, ignores and moves things along."""

from __future__ import annotations

import errno
import pathlib
import shutil
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases, door
from ansible_collections.mlnode.tuning.tests.unit.cpu_machine import CPU, CPUFREQ, PSTATE, CpuMachine
from mlnode.engine import boot_run, engine, revert
from mlnode.engine.engine import Outcome, Request
from mlnode.engine.plan import Plan
from mlnode.knobs.cpu.kind import kind as cpu
from mlnode.knobs.cpu.node import LATER
from mlnode.model.errors import DeclarationError, RefusedError, TransactionError
from mlnode.model.setting import Status

PREFERENCE = "energy_performance_preference"


@pytest.fixture
def root(tmp_path: pathlib.Path) -> str:
    return str(tmp_path / "node")


def enabled(machine: CpuMachine) -> CpuMachine:
    machine.enable_agent()
    return machine


@pytest.fixture
def intel(root: str) -> CpuMachine:
    return enabled(CpuMachine.intel(root))


@pytest.fixture
def amd(root: str) -> CpuMachine:
    return enabled(CpuMachine.amd(root))


@pytest.fixture
def acpi(root: str) -> CpuMachine:
    return enabled(CpuMachine.acpi(root))


def apply(machine: CpuMachine, name: str = "default", **spec: Any) -> Outcome:
    return door.apply(machine, door.request(name, "cpu", spec))


def statuses(outcome: Outcome | Plan) -> dict[str, Status]:
    return {row.setting.key: row.status for row in outcome.rows}


def kernel(machine: CpuMachine) -> dict[str, str]:
    """Every value of the kernel, without what mlnode itself keeps."""
    return {path: text for path, (text, _mode) in machine.tree().items() if path.startswith("/sys")}


def ruled(machine: CpuMachine, number: int) -> tuple[str, str]:
    """Governor and preference of a policy."""
    base = f"{CPUFREQ}/policy{number}"
    return machine.now(f"{base}/scaling_governor"), machine.now(f"{base}/{PREFERENCE}")


def by_hand(machine: CpuMachine, path: str, value: str) -> None:
    """Somebody else's write."""
    machine.write_kernel(path, value)
    machine.writes.clear()


FULL: dict[str, Any] = {
    "governor": "performance",
    PREFERENCE: "performance",
    "energy_perf_bias": "performance",
    "boost": False,
    "min_perf_pct": 50,
    "max_latency_us": 0,
}


def test_everything_is_set_verified_and_put_back(intel: CpuMachine) -> None:
    before = kernel(intel)

    outcome = apply(intel, **FULL)

    assert {*statuses(outcome).values()} == {Status.CHANGED}
    assert ruled(intel, 3) == ("performance", "performance")
    assert intel.now(f"{CPU}/cpu3/power/energy_perf_bias") == "0"
    assert intel.now(f"{CPU}/cpu3/power/pm_qos_resume_latency_us") == "n/a"
    assert (intel.now(f"{PSTATE}/no_turbo"), intel.now(f"{PSTATE}/min_perf_pct")) == ("1", "50")
    assert {row.setting.key: row.origin for row in outcome.rows} == {
        "cpu.governor": "powersave",
        f"cpu.{PREFERENCE}": "balance_performance",
        "cpu.energy_perf_bias": "6",
        "cpu.boost": "on",
        "cpu.min_perf_pct": "22",
        "cpu.max_latency_us": "unlimited",
    }

    again = apply(intel, **FULL)
    assert not again.changed
    assert again.plan.steps == ()

    revert.revert(intel)
    assert kernel(intel) == before


@pytest.mark.parametrize("driver", ["intel", "amd"])
@pytest.mark.parametrize("preference", ["performance", "balance_performance", "power"])
def test_the_preference_sticks_when_the_governor_leaves_performance(
    root: str, driver: str, preference: str
) -> None:
    """The kernel brings back a preference of its own then, even where the present one is as declared."""
    machine: CpuMachine = enabled(getattr(CpuMachine, driver)(root))
    for number in range(4):
        by_hand(machine, f"{CPUFREQ}/policy{number}/scaling_governor", "performance")
    before = kernel(machine)
    spec = {"governor": "powersave", PREFERENCE: preference}

    outcome = apply(machine, **spec)

    assert [row.origin for row in outcome.rows] == ["performance", "performance"]
    assert {*statuses(outcome).values()} == {Status.CHANGED}
    assert ruled(machine, 0) == ("powersave", preference)
    assert apply(machine, **spec).plan.steps == ()
    revert.revert(machine)
    assert kernel(machine) == before


def test_going_back_and_forth_keeps_the_first_origin(intel: CpuMachine) -> None:
    before = kernel(intel)
    apply(intel, governor="performance")
    apply(intel, governor="powersave", **{PREFERENCE: "power"})
    apply(intel, **{PREFERENCE: "balance_power"})
    apply(intel, governor="performance", **{PREFERENCE: "performance"})

    revert.revert(intel)

    assert kernel(intel) == before


def test_a_preference_goes_back_though_somebody_set_the_governor(intel: CpuMachine) -> None:
    before = kernel(intel)
    apply(intel, **{PREFERENCE: "power"})
    by_hand(intel, f"{CPUFREQ}/policy0/scaling_governor", "performance")

    revert.revert(intel)

    assert kernel(intel) == before


def test_the_least_performance_sticks_when_boost_goes(intel: CpuMachine) -> None:
    by_hand(intel, f"{PSTATE}/min_perf_pct", "100")
    before = kernel(intel)

    outcome = apply(intel, boost=False, min_perf_pct=100)

    assert {*statuses(outcome).values()} == {Status.CHANGED}
    assert (intel.now(f"{PSTATE}/no_turbo"), intel.now(f"{PSTATE}/min_perf_pct")) == ("1", "100")
    revert.revert(intel)
    assert kernel(intel) == before


def test_boost_alone_puts_back_the_least_performance_too(intel: CpuMachine) -> None:
    by_hand(intel, f"{PSTATE}/min_perf_pct", "100")
    before = kernel(intel)
    apply(intel, boost=False)
    assert intel.now(f"{PSTATE}/min_perf_pct") == "74"

    revert.revert(intel)

    assert kernel(intel) == before


@pytest.mark.parametrize("boost", [True, False])
@pytest.mark.parametrize("machine_wide", ["0", "1"])
def test_boost_of_the_machine_and_its_policies(amd: CpuMachine, boost: bool, machine_wide: str) -> None:
    by_hand(amd, f"{CPUFREQ}/policy1/boost", "0")
    if machine_wide == "0":
        by_hand(amd, f"{CPUFREQ}/boost", "0")
    before = kernel(amd)

    apply(amd, boost=boost)

    switches = [amd.now(path) for path in amd.matching(f"{CPUFREQ}/policy*/boost")]
    assert {*switches, amd.now(f"{CPUFREQ}/boost")} == {"1" if boost else "0"}
    assert apply(amd, boost=boost).plan.steps == ()
    revert.revert(amd)
    assert kernel(amd) == before


def test_a_rollback_of_boost_gives_each_policy_its_own_back(amd: CpuMachine) -> None:
    """The write to the machine's switches on what was off before, even where nothing was written to it."""
    by_hand(amd, f"{CPUFREQ}/policy1/boost", "0")
    before = amd.tree()
    amd.fails[f"{CPU}/cpu3/power/pm_qos_resume_latency_us"] = errno.EROFS
    with pytest.raises(TransactionError) as caught:
        apply(amd, boost=False, max_latency_us=5)
    assert "COULD NOT" not in str(caught.value)
    assert amd.tree() == before


def test_a_number_that_has_a_word_is_put_back_and_told(intel: CpuMachine) -> None:
    before = [ruled(intel, number) for number in range(4)]

    with pytest.raises(RefusedError) as caught:
        apply(intel, **{PREFERENCE: 128 + 64})

    assert f"{PREFERENCE} 192: the device made it balance_power, and has {before[0][1]} again" in str(
        caught.value
    )
    assert [ruled(intel, number) for number in range(4)] == before


def test_a_number_without_a_word_is_kept(intel: CpuMachine) -> None:
    assert statuses(apply(intel, **{PREFERENCE: "37"})) == {f"cpu.{PREFERENCE}": Status.CHANGED}
    assert ruled(intel, 0) == ("powersave", "37")


def test_less_than_the_processor_can_is_clamped(intel: CpuMachine) -> None:
    by_hand(intel, f"{PSTATE}/min_perf_pct", "50")
    (row,) = apply(intel, min_perf_pct=5).rows
    assert (row.status, row.reason) == (
        Status.CLAMPED,
        f"{PSTATE}/min_perf_pct: asked for 5, and the driver made it 22",
    )
    assert not apply(intel, min_perf_pct=5).changed


def test_a_preference_under_somebody_elses_performance_is_refused(intel: CpuMachine) -> None:
    apply(intel, **{PREFERENCE: "power"})
    by_hand(intel, f"{CPUFREQ}/policy1/scaling_governor", "performance")

    for number in (0, 2):
        by_hand(intel, f"{CPUFREQ}/policy{number}/{PREFERENCE}", "balance_power")

    with pytest.raises(RefusedError, match="policy 1 takes no other preference than performance"):
        apply(intel, **{PREFERENCE: "power"})
    assert [ruled(intel, number)[1] for number in range(4)] == ["power", "performance", "power", "power"]
    (row,) = engine.evaluate(intel, Request("default", cpu, {PREFERENCE: "power"})).rows
    assert row.status is Status.REFUSED


def test_a_part_of_a_policy_is_refused_only_where_it_differs(root: str) -> None:
    machine = enabled(CpuMachine.acpi(root))
    with pytest.raises(RefusedError, match="name all of them, or none"):
        apply(machine, governor="performance", cpus="0")
    assert statuses(apply(machine, governor="schedutil", cpus="0")) == {"cpu.governor[0]": Status.CHANGED}


def test_boost_without_turbo_stops_nothing_else(intel: CpuMachine) -> None:
    intel.firmware_turbo = False
    intel.put(f"{PSTATE}/no_turbo", "1\n")
    intel.put("/proc/cpuinfo", "flags\t\t: fpu arat\n")

    with pytest.raises(RefusedError, match=r"the firmware has switched boost off.*all else is applied"):
        apply(intel, boost=True, governor="performance")
    work = Request("default", cpu, {"boost": True, "governor": "performance"})
    assert statuses(engine.evaluate(intel, work)) == {"cpu.governor": Status.OK, "cpu.boost": Status.REFUSED}
    asked = work._replace(profile=frozenset({"cpu.boost"}))
    assert statuses(door.apply(intel, asked))["cpu.boost"] is Status.UNSUPPORTED


def test_turbo_that_goes_away_later_is_an_error_of_the_kernel(intel: CpuMachine) -> None:
    by_hand(intel, f"{PSTATE}/no_turbo", "1")
    intel.firmware_turbo = False
    with pytest.raises(RefusedError, match="EPERM"):
        apply(intel, boost=True)


def test_a_machine_without_cpufreq_ends_well(root: str) -> None:
    machine = enabled(CpuMachine.bare(root, "0-3"))

    outcome = apply(machine, **FULL)

    assert statuses(outcome) == {
        "cpu.governor": Status.UNSUPPORTED,
        f"cpu.{PREFERENCE}": Status.UNSUPPORTED,
        "cpu.energy_perf_bias": Status.UNSUPPORTED,
        "cpu.boost": Status.UNSUPPORTED,
        "cpu.min_perf_pct": Status.UNSUPPORTED,
        "cpu.max_latency_us": Status.CHANGED,
    }


def test_a_profile_declares_the_bias_for_the_processors_that_have_it(amd: CpuMachine) -> None:
    amd.put("/proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu cpb\n")
    asked = Request("node", cpu, {"energy_perf_bias": "0"})
    [mine] = engine.evaluate(amd, asked).rows
    assert (mine.status, mine.reading.elsewhere) == (Status.UNSUPPORTED, False), "an operator is told"
    [profiles] = engine.evaluate(amd, asked._replace(profile=frozenset({"cpu.energy_perf_bias"}))).rows
    assert (profiles.status, profiles.reading.elsewhere) == (Status.UNSUPPORTED, True)


def test_the_bias_of_a_cpu_that_comes_online_is_drift_until_the_next_run(root: str) -> None:
    machine = enabled(CpuMachine.intel(root, online="0-2", present="0-3"))
    bias = f"{CPU}/cpu{{}}/power/energy_perf_bias"
    assert statuses(apply(machine, energy_perf_bias=0)) == {"cpu.energy_perf_bias": Status.CHANGED}
    # Online for the first time with 0 of the firmware, of which Linux makes 6 (intel_epb_restore).
    machine.put(f"{CPU}/online", "0-3\n")
    machine.put(bias.format(3), "6\n")
    [row] = engine.evaluate(machine, Request("default", cpu, {"energy_perf_bias": "0"})).rows
    assert (row.status, row.reading.runtime.text) == (Status.DRIFTED, "0: 0-2; 6: 3")
    apply(machine, energy_perf_bias=0)
    assert [machine.now(bias.format(number)) for number in range(4)] == ["0"] * 4
    revert.revert(machine)
    assert [machine.now(bias.format(number)) for number in range(4)] == ["6"] * 4


def test_two_names_share_the_cpus_but_not_one_of_them(intel: CpuMachine) -> None:
    apply(intel, "training", governor="performance", cpus="0-1")
    apply(intel, "serving", governor="powersave", cpus="2-3")
    with pytest.raises(DeclarationError, match=r"cpu.governor\[1-2\] \(declared by other\) and cpu.governor"):
        apply(intel, "other", governor="performance", cpus="1-2")
    with pytest.raises(DeclarationError, match="change each other"):
        apply(intel, "all", governor="performance")
    assert [ruled(intel, number)[0] for number in range(4)] == ["performance"] * 2 + ["powersave"] * 2


@cases.table
def test_what_moves_the_other_needs_one_name(
    intel: CpuMachine, one: dict[str, Any], other: dict[str, Any]
) -> None:
    """At boot the names come in their own order, and the last write would win."""
    apply(intel, "zulu", **one)
    with pytest.raises(DeclarationError, match="change each other"):
        apply(intel, "alpha", **other)
    assert {*statuses(apply(intel, "zulu", **one, **other)).values()} == {Status.OK, Status.CHANGED}


def test_a_boot_that_is_denied_one_thing_does_the_others(intel: CpuMachine) -> None:
    """And what it is denied does not take back the governor that was set before it."""
    for number in range(4):
        by_hand(intel, f"{CPUFREQ}/policy{number}/scaling_governor", "performance")
    spec = {"governor": "powersave", PREFERENCE: "power", "max_latency_us": 5}
    intel.fails[f"{CPUFREQ}/policy3/{PREFERENCE}"] = errno.EIO

    _outcome, errors = boot_run.apply_each(intel, Request("default", cpu, spec))

    (error,) = errors
    assert f"policy3/{PREFERENCE}" in error
    assert [ruled(intel, number)[0] for number in range(4)] == ["powersave"] * 4
    assert intel.now(f"{CPU}/cpu3/power/pm_qos_resume_latency_us") == "5"


def test_an_offline_cpu_changes_nothing_but_the_note(root: str) -> None:
    machine = enabled(CpuMachine.intel(root, online="0-2", present="0-3"))
    (row,) = apply(machine, governor="performance").rows
    (again,) = engine.evaluate(machine, Request("default", cpu, {"governor": "performance"})).rows
    assert row.status is Status.CHANGED
    assert (again.status, again.reason) == (Status.OK, f"CPU 3 is offline and left out: {LATER}")


# -- a policy that cannot be set, and a driver that offers something else ------------------


def test_a_policy_that_goes_away_meanwhile_costs_no_other_its_governor(intel: CpuMachine) -> None:
    """No device has answered, and the others are set. What is gone is in no policy by then."""
    machine = Vanishing(intel.root, f"{CPUFREQ}/policy2")
    machine.driver = intel.driver
    (row,) = apply(machine, governor="performance").rows
    assert (row.status, [ruled(machine, number)[0] for number in (0, 1, 3)]) == (
        Status.CHANGED,
        ["performance"] * 3,
    )
    assert (
        "CPU 2 is in no policy"
        in engine.evaluate(machine, Request("default", cpu, {"governor": "performance"})).rows[0].reason
    )


class Vanishing(CpuMachine):
    """A policy that is gone once the first write is made."""

    def __init__(self, root: str, folder: str) -> None:
        super().__init__(root)
        self._leaves = folder

    def write_kernel(self, path: str, value: str) -> None:
        shutil.rmtree(self.root + self._leaves, ignore_errors=True)
        super().write_kernel(path, value)


def test_a_policy_that_cannot_be_read_is_unknown_and_the_others_are_set(acpi: CpuMachine) -> None:
    """As where its last CPU has gone offline since the list of CPUs was read."""
    acpi.unreadable[f"{CPUFREQ}/policy2/scaling_governor"] = errno.EBUSY
    outcome = apply(acpi, governor="performance")
    (row,) = outcome.rows
    assert (row.status, "policy2/scaling_governor" in row.reason) == (Status.UNKNOWN, True)
    assert acpi.now(f"{CPUFREQ}/policy0/scaling_governor") == "performance"


def test_policies_whose_cpus_are_all_offline_do_not_count_and_are_named(root: str) -> None:
    machine = enabled(CpuMachine.acpi(root, "0-3", together=1))
    machine.put(f"{CPU}/online", "0-1\n")
    for number in (2, 3):
        policy = f"{CPUFREQ}/policy{number}"
        for name in ("affected_cpus", "scaling_governor", "scaling_driver", "scaling_available_governors"):
            machine.unreadable[f"{policy}/{name}"] = errno.EBUSY
    (before,) = engine.evaluate(machine, Request("default", cpu, {"governor": "performance"})).rows
    assert f"CPUs 2-3 are offline and left out: {LATER}" in before.reason
    (row,) = apply(machine, governor="performance").rows
    assert row.status is Status.CHANGED


UPDATED = {"governor": "schedutil"}


@pytest.mark.parametrize(
    ("profile", "status"),
    [(frozenset[str](), Status.REFUSED), (frozenset({"cpu.governor"}), Status.UNSUPPORTED)],
    ids=["operator", "profile"],
)
def test_a_kernel_that_brings_another_driver_ends_alike_everywhere(
    root: str, profile: frozenset[str], status: Status
) -> None:
    """schedutil under acpi-cpufreq; the next kernel starts amd-pstate-epp, which does not offer it."""
    work = Request("default", cpu, UPDATED, profile=profile)
    door.apply(enabled(CpuMachine.acpi(root, "0-3", together=1)), work)
    machine = CpuMachine.amd(root)
    expected = {"cpu.governor": status}

    assert statuses(engine.evaluate(machine, work)) == expected
    assert statuses(engine.preview(machine, [work]).outcomes[0]) == expected
    boot, errors = boot_run.apply_each(machine, work._replace(alone=True))
    assert (statuses(boot), errors) == (expected, [])
    (row,) = engine.apply_together(machine, lambda: [work]).outcomes[0].rows
    assert row.status is status
    assert "policies 0-3: 'schedutil' is not on offer, but performance, powersave" in row.reason
