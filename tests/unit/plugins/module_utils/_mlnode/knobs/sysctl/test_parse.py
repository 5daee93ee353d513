# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases, door
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from mlnode.engine.kind import Facts
from mlnode.knobs.sysctl import parse as sysctl_parse
from mlnode.linux import sysctl_aliases, sysctl_d
from mlnode.model.errors import DeclarationError, HostError
from mlnode.model.setting import Setting

GC, GC6 = sysctl_parse.GC_THRESH


def one(key: Any, value: Any, facts: Facts | None = None, **sizing: Any) -> Setting:
    (setting,) = door.parse("sysctl", {"settings": {key: value}, "sizing": sizing}, facts)
    return setting


# -- what is refused -----------------------------------------------------------------------


@pytest.mark.parametrize("key", sorted(sysctl_parse.ACTIONS))
def test_an_action_is_no_state_in_either_spelling(key: str) -> None:
    for spelling in (key, key.replace(".", "/")):
        with pytest.raises(DeclarationError, match=f"^{key}: writing it is an action"):
            one(spelling, 1)


def test_a_name_that_no_kernel_has_is_no_action() -> None:
    """The file of SysRq is /proc/sysrq-trigger, and not a sysctl."""
    assert one("kernel.sysrq_trigger", 1).key == "kernel.sysrq_trigger"


@pytest.mark.parametrize("sizing", [{"hosts": 4}, {"rails": 4}])
def test_the_neighbour_table_needs_both_numbers(machine: Machine, sizing: dict[str, int]) -> None:
    with pytest.raises(DeclarationError, match=r"needs sizing\.hosts and sizing\.rails"):
        one(f"{GC}1", "auto", Facts(machine), **sizing)


PAIRS = [tuple(map(sysctl_d.dotted, pair)) for pair in sysctl_aliases.PAIRS]


@pytest.mark.parametrize("keys", [*PAIRS, ("vm.nr_hugepages", "vm.nr_hugepages@node1")])
def test_keys_that_change_each_other_cannot_stand_together(keys: tuple[str, str]) -> None:
    for first, second in (keys, keys[::-1]):
        with pytest.raises(DeclarationError, match="declare one and leave the other out") as caught:
            door.parse("sysctl", {"settings": {first: 1, second: 2}})
        assert first in str(caught.value)
        assert second in str(caught.value)
        # null leaves the other one untouched
        assert [setting.key for setting in door.parse("sysctl", {"settings": {first: 1, second: None}})] == [
            first
        ]


def test_one_key_in_two_spellings_has_to_agree() -> None:
    both = door.parse("sysctl", {"settings": {"vm.swappiness": 1, "vm/swappiness": "1"}})
    assert [(setting.key, setting.want) for setting in both] == [("vm.swappiness", "1")]


def test_a_bad_value_is_found_before_the_hardware_is_looked_at() -> None:
    """No machine at all stands behind these facts."""
    facts = Facts(Machine("/nonexistent"))
    with pytest.raises(DeclarationError, match=r"vm\.swappiness"):
        one("vm.swappiness", "auto", facts)
    with pytest.raises(HostError):
        one("vm.min_free_kbytes", "auto", facts)


# -- what is taken -------------------------------------------------------------------------


@cases.table
def test_a_plain_value_is_wanted_as_written_with_single_blanks(value: object, want: str) -> None:
    setting = one("vm.x", value)
    assert (setting.want, setting.claim, setting.raise_only, setting.formula) == (want, want, False, "")
    assert (setting.kind, setting.key, setting.path) == ("sysctl", "vm.x", "/proc/sys/vm/x")


def test_null_leaves_a_setting_out_and_the_order_stays() -> None:
    spec = {"settings": {"vm.b": 1, "vm.a": None, "vm.c": 3}}
    assert [setting.key for setting in door.parse("sysctl", spec)] == ["vm.b", "vm.c"]


@cases.table
def test_a_key_has_one_spelling_and_one_file(key: str, canonical: str, path: str) -> None:
    setting = one(key, 1)
    assert (setting.key, setting.path) == (canonical, path)
    assert sysctl_parse.canonical(canonical) == canonical


@cases.table
def test_a_floor_only_raises(key: str, floor: object, want: str) -> None:
    setting = one(key, {"at_least": floor})
    assert (setting.want, setting.raise_only, setting.claim) == (want, True, f">= {floor}")


# -- automatic values ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "value", "sizing", "want", "raise_only", "formula"),
    [
        ("net.core.rmem_max", "auto", {}, "16777216", True, "100 Gb/s, RTT 100 us"),
        ("net.core.wmem_max", "auto", {"rtt_us": 20000}, "134217728", True, "100 Gb/s, RTT 20000 us"),
        ("net.ipv4.tcp_rmem", "4096 131072 auto", {}, "4096 131072 16777216", True, "100 Gb/s"),
        ("net.ipv4.tcp_wmem", "4096 auto auto", {}, "4096 16777216 16777216", True, "100 Gb/s"),
        ("vm.min_free_kbytes", "auto", {}, "327680", True, "65536000 kB of memory / 200"),
        ("vm.dirty_background_bytes", "auto", {}, "2999975936", False, "2 s x 2000000000 B/s, 3000000000 B"),
        ("vm.dirty_bytes", "auto", {"disk_bytes_per_s": 10**9}, "9999220736", False, "10 s x 1000000000 B/s"),
        (f"{GC}1", "auto", {"hosts": 128, "rails": 8}, "1024", True, "128 hosts x 8 rails, 1/4 of it"),
        (f"{GC}2", "auto", {"hosts": 128, "rails": 8}, "2048", True, "128 hosts x 8 rails, 1/2 of it"),
        (f"{GC}3", "auto", {"hosts": 128, "rails": 8}, "4096", True, "128 hosts x 8 rails, 1/1 of it"),
        (f"{GC6}3", "auto", {"hosts": 128, "rails": 8}, "4096", True, "128 hosts x 8 rails, 1/1 of it"),
    ],
)
def test_auto_is_computed_from_this_machine(
    machine: Machine, key: str, value: str, sizing: dict[str, int], want: str, raise_only: bool, formula: str
) -> None:
    """65536000 kB of memory, one 100 Gb/s link."""
    setting = one(key, value, Facts(machine), **sizing)
    said = f" ({', '.join(f'{name} {number}' for name, number in sizing.items())})" if sizing else ""
    assert (setting.want, setting.raise_only, setting.claim) == (want, raise_only, value + said)
    assert formula in setting.formula


@pytest.mark.parametrize("key", sorted({"vm.dirty_bytes", *sysctl_parse.RAISE_ONLY_AUTO}))
def test_auto_stays_open_where_no_hardware_may_be_looked_at(key: str) -> None:
    setting = one(key, "auto", None, hosts=4, rails=2)
    claim = "auto (hosts 4, rails 2)" if key.startswith((GC, GC6)) else "auto"
    assert (setting.want, setting.claim, setting.formula) == (None, claim, "")


@cases.table
def test_a_claim_names_the_unusual_inputs_of_its_own_formula(key: str, value: Any, claim: str) -> None:
    sizing = {"rtt_us": 20000, "disk_bytes_per_s": 10**9, "hosts": 128, "rails": 8}
    assert one(key, value, None, **sizing).claim == claim


def test_data_path_is_local_or_nfs_and_part_of_the_claim(machine: Machine) -> None:
    setting = one("vm.dirty_bytes", "auto", Facts(machine), data_path="nfs")
    assert (setting.want, setting.claim) == ("629145600", "auto (data_path nfs)")
    assert setting.formula == "min(40 % of memory, 629145600 B with NFS), whole MiB"
    assert one("vm.dirty_background_bytes", "auto", Facts(machine), data_path="nfs").want == "314572800"
    assert one("vm.dirty_bytes", "auto", None, data_path="local").claim == "auto"


def test_the_usual_inputs_are_not_worth_a_word() -> None:
    assert one("net.core.rmem_max", "auto", None, rtt_us=100).claim == "auto"
    assert one("vm.dirty_bytes", "auto", None, disk_bytes_per_s=2 * 10**9).claim == "auto"


def test_a_buffer_that_the_cap_decides_names_need_and_cap(machine: Machine) -> None:
    for key, value in (("net.core.rmem_max", "auto"), ("net.ipv4.tcp_wmem", "4096 16384 auto")):
        setting = one(key, value, Facts(machine), rtt_us=20000)
        assert setting.clamped == (
            "100 Gb/s, RTT 20000 us: 4 x BDP is 1073741824 bytes, and min(128 MiB, RAM/64) is 134217728"
        )
        assert one(key, value, Facts(machine)).clamped == ""
    # The lower bound of a small machine is no need.
    machine.put("/proc/meminfo", "MemTotal: 524288 kB\n")
    found = one("net.core.rmem_max", "auto", Facts(machine))
    assert (found.want, found.clamped) == ("8388608", "")


def test_a_link_without_speed_is_told_in_the_formula(machine: Machine) -> None:
    machine.put("/sys/class/net/eth0/speed", "-1\n")
    setting = one("net.core.rmem_max", "auto", Facts(machine))
    assert setting.want == "16777216"
    assert setting.formula.startswith("no link reports its speed, RTT 100 us")


@cases.table
def test_huge_pages_for_a_number_of_bytes(machine: Machine, key: str, need: int, want: str) -> None:
    setting = one(key, {"for_bytes": need}, Facts(machine))
    assert (setting.want, setting.claim) == (want, f"auto for {need} bytes")
    assert f"{need} bytes" in setting.formula
    assert one(key, {"for_bytes": need}).want is None


# -- properties ----------------------------------------------------------------------------
