# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import errno
from typing import Any, Mapping

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases, door
from ansible_collections.mlnode.tuning.tests.unit.machine import THP, Machine
from ansible_collections.mlnode.tuning.tests.unit.strategies import quick
from hypothesis import given
from hypothesis import strategies as st
from mlnode.engine.kind import AGENT_UNIT, Context, Facts
from mlnode.knobs.thp.kind import cost, sized_policies
from mlnode.knobs.thp.kind import kind as thp
from mlnode.model.setting import BOTH_LAYERS, Layer, Reading, Severity, Value, Write

RESERVE = Write("/proc/sys/vm/min_free_kbytes", "67584")


def readings(
    machine: Machine, spec: Mapping[str, Any], layers: tuple[Layer, ...] = BOTH_LAYERS, agent: bool = False
) -> dict[str, Reading]:
    settings = door.parse("thp", spec)
    claims = {setting.key: setting.claim for setting in settings}
    context = Context(machine, Facts(machine), layers=layers, agent=agent, on_disk=claims)
    found = thp.read(settings, context)
    return {setting.key: reading for setting, reading in zip(settings, found)}


def reading(machine: Machine, spec: Mapping[str, Any], **how: Any) -> Reading:
    (found,) = readings(machine, spec, **how).values()
    return found


# -- the declaration -----------------------------------------------------------------------


def test_settings_come_in_the_order_in_which_they_are_applied() -> None:
    spec = {
        "sizes": {"64kB": {"shmem_enabled": "never", "enabled": "inherit"}, "2048kB": None},
        "khugepaged": {"pages_to_scan": "512", "defrag": 0},
        "use_zero_page": 0,
        "defrag": "defer+madvise",
        "enabled": "madvise",
        "shmem_enabled": None,
    }
    assert [(setting.key, setting.path, setting.want) for setting in door.parse("thp", spec)] == [
        ("thp.enabled", f"{THP}/enabled", "madvise"),
        ("thp.defrag", f"{THP}/defrag", "defer+madvise"),
        ("thp.use_zero_page", f"{THP}/use_zero_page", "0"),
        ("thp.khugepaged.defrag", f"{THP}/khugepaged/defrag", "0"),
        ("thp.khugepaged.pages_to_scan", f"{THP}/khugepaged/pages_to_scan", "512"),
        ("thp.hugepages-64kB.enabled", f"{THP}/hugepages-64kB/enabled", "inherit"),
        ("thp.hugepages-64kB.shmem_enabled", f"{THP}/hugepages-64kB/shmem_enabled", "never"),
    ]


# -- runtime -------------------------------------------------------------------------------


def test_the_bracketed_word_is_the_present_value_and_the_rest_is_offered(machine: Machine) -> None:
    found = reading(machine, {"enabled": "madvise"})
    assert found.runtime == Value(text="always")
    assert found.want == "madvise"
    assert found.offered == ("always", "madvise", "never")
    assert found.invalid == ""
    assert not found.native


def test_a_word_that_this_kernel_does_not_offer_is_told_with_those_it_does(machine: Machine) -> None:
    found = reading(machine, {"defrag": "sometimes"})
    assert "does not offer 'sometimes'" in found.parts[0].answer
    assert "always, defer, defer+madvise, madvise, never" in found.parts[0].answer


def test_a_number_is_read_as_it_is(machine: Machine) -> None:
    found = reading(machine, {"khugepaged": {"scan_sleep_millisecs": 1000}})
    assert (found.runtime.text, found.want, found.offered, found.invalid) == ("10000", "1000", (), "")


@pytest.mark.parametrize("file", ["enabled", "shmem_enabled"])
def test_what_a_change_of_enabled_moves_is_kept_to_be_put_back(machine: Machine, file: str) -> None:
    """khugepaged recomputes vm.min_free_kbytes as it starts."""
    found = reading(machine, {file: "advise"})
    assert found.parts[0].undo == (Write(f"{THP}/{file}", found.runtime.text or ""), RESERVE)
    sized = reading(machine, {"sizes": {"64kB": {"enabled": "madvise"}}})
    assert sized.parts[0].undo == (Write(f"{THP}/hugepages-64kB/enabled", "never"), RESERVE)


@cases.table
def test_a_size_that_does_not_follow_is_named(
    machine: Machine, policies: dict[str, str], spec: dict[str, Any], words: str
) -> None:
    machine.put(f"{THP}/hpage_pmd_size", "2097152\n")
    for size, policy in policies.items():
        known = " ".join(f"[{one}]" if one == policy else one for one in POLICIES)
        machine.put(f"{THP}/hugepages-{size}/enabled", f"{known}\n")
    note = next(iter(readings(machine, spec).values())).note
    assert words in note
    assert bool(words) == bool(note)


POLICIES = ("always", "inherit", "madvise", "never")


def test_a_size_that_the_command_line_sets_apart_is_named_with_it(machine: Machine) -> None:
    """A parameter for one size takes the default from all others (mm/huge_memory.c: hugepage_init_sysfs)."""
    machine.put(f"{THP}/hpage_pmd_size", "2097152\n")
    machine.put(f"{THP}/hugepages-2048kB/enabled", "always inherit madvise [never]\n")
    machine.put("/proc/cmdline", "ro thp_anon=64K:always\n")
    note = reading(machine, {"enabled": "madvise"}).note
    assert "hugepages-2048kB/enabled is never, and not inherit (kernel command line: thp_anon=64K:" in note


def test_shared_memory_has_sizes_as_well(machine: Machine) -> None:
    machine.put(f"{THP}/hpage_pmd_size", "2097152\n")
    machine.put(f"{THP}/hugepages-2048kB/shmem_enabled", "always inherit within_size advise [never]\n")
    assert "2048kB/shmem_enabled is never" in reading(machine, {"shmem_enabled": "advise"}).note
    assert reading(machine, {"shmem_enabled": "deny"}).note == ""


def test_other_files_move_nothing_else(machine: Machine) -> None:
    assert RESERVE not in reading(machine, {"defrag": "never"}).parts[0].undo
    machine.remove("/proc/sys/vm/min_free_kbytes")
    assert len(reading(machine, {"enabled": "never"}).parts[0].undo) == 1


def test_a_file_that_may_not_be_written_is_told(machine: Machine) -> None:
    machine.read_only[f"{THP}/enabled"] = "a container"
    assert reading(machine, {"enabled": "never"}).blocked == "a container"


@cases.table
def test_a_file_that_is_not_there_is_absent_with_the_reason(
    machine: Machine, spec: dict[str, Any], words: str
) -> None:
    found = reading(machine, spec)
    assert words in (found.runtime.absent or "")
    assert found.parts == ()


def test_a_kernel_without_sizes_says_so(tmp_path: Any) -> None:
    machine = Machine(str(tmp_path))
    machine.put("/proc/cmdline", "ro\n")
    machine.put(f"{THP}/enabled", "[always] madvise never\n")
    found = reading(machine, {"sizes": {"64kB": {"enabled": "always"}}})
    assert (found.runtime.absent or "").endswith("sizes here: none")


def test_a_kernel_without_huge_pages_says_so(tmp_path: Any) -> None:
    machine = Machine(str(tmp_path))
    machine.put("/proc/cmdline", "ro\n")
    for found in readings(machine, {"enabled": "never", "sizes": {"64kB": {"enabled": "never"}}}).values():
        assert found.runtime.absent == f"{THP} does not exist: this kernel has no transparent huge pages"


def test_an_unreadable_file_is_not_absent(machine: Machine) -> None:
    machine.unreadable[f"{THP}/enabled"] = errno.EIO
    found = reading(machine, {"enabled": "never"})
    assert found.runtime.absent is None
    assert "EIO" in (found.runtime.unreadable or "")


# -- boot ----------------------------------------------------------------------------------


@cases.table
def test_the_kernel_command_line_rules_at_boot(
    machine: Machine, line: str, spec: dict[str, Any], value: str, parameter: str
) -> None:
    machine.put("/proc/cmdline", f"ro {line}\n")
    machine.put(f"{THP}/hugepages-64kB/shmem_enabled", "always inherit within_size advise [never]\n")
    (setting,) = door.parse("thp", spec)
    boot = reading(machine, spec, agent=True).boot
    assert (boot.value.text, boot.foreign) == (value, True)
    assert boot.source == f"kernel command line ({parameter})"
    assert thp.boot_sources(setting.key, machine) == [f"/proc/cmdline: {parameter}"]


@cases.table
@pytest.mark.parametrize("agent", [True, False])
def test_where_the_command_line_is_silent_the_agent_brings_it_back(
    machine: Machine, line: str, spec: dict[str, Any], agent: bool
) -> None:
    machine.put("/proc/cmdline", f"{line}\n")
    (setting,) = door.parse("thp", spec)
    boot = reading(machine, spec, agent=agent).boot
    assert not boot.foreign
    if agent:
        assert (boot.value.text, boot.source) == (setting.want, AGENT_UNIT)
    else:
        assert f"{AGENT_UNIT} is not enabled" in (boot.value.absent or "")
    assert thp.boot_sources(setting.key, machine) == []


@cases.table
def test_sizes_and_policies_of_the_command_line(text: str, policies: dict[int, str]) -> None:
    assert sized_policies(text) == policies


_size = st.tuples(st.integers(0, 10), st.sampled_from(["K", "M", "k"])).map(
    lambda two: f"{1 << two[0]}{two[1]}"
)
_clause = st.tuples(_size, _size, st.sampled_from(["always", "madvise", "never"])).map(
    lambda three: f"{three[0]}-{three[1]}:{three[2]}"
)


@quick
@given(
    st.one_of(
        st.text(max_size=20),
        st.text(alphabet="0123456789KMG-,:;alwys", max_size=20),
        st.lists(_clause, max_size=4).map(";".join),
    )
)
def test_whatever_stands_on_the_command_line_gives_powers_of_two_and_known_words(text: str) -> None:
    for size, policy in sized_policies(text).items():
        assert size > 0
        assert size & (size - 1) == 0
        assert policy in text


# -- the rest of a kind --------------------------------------------------------------------


@cases.table
def test_defrag_always_costs_most(key: str, runtime: str, severity: str) -> None:
    assert thp.info(key, Value(text=runtime)).severity is Severity(severity)


def test_what_both_together_cost() -> None:
    def severity(enabled: str, defrag: str | None) -> Severity:
        return cost(Value(enabled), Value(defrag)).severity

    assert severity("always", "always") is Severity.HIGH
    assert severity("always", "madvise") is severity("madvise", "always") is Severity.LOW
    assert severity("always", None) is Severity.MEDIUM
