# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

from ansible_collections.mlnode.tuning.tests.unit import cases, door
from ansible_collections.mlnode.tuning.tests.unit.strategies import quick
from hypothesis import given
from hypothesis import strategies as st
from mlnode.knobs.cpu import parse as cpu_parse
from mlnode.knobs.cpu.kind import kind as cpu
from mlnode.model import cpulist

PREFERENCE = "energy_performance_preference"


def wanted(spec: dict[str, Any]) -> dict[str, str | None]:
    return {setting.key: setting.want for setting in door.parse("cpu", spec)}


def test_settings_come_in_the_order_that_makes_them_stick() -> None:
    spec = {
        "max_latency_us": 10,
        "min_perf_pct": "50",
        "boost": False,
        "energy_perf_bias": "power",
        PREFERENCE: "balance_power",
        "governor": "powersave",
    }
    assert [(setting.key, setting.want, setting.claim) for setting in door.parse("cpu", spec)] == [
        ("cpu.governor", "powersave", "powersave"),
        (f"cpu.{PREFERENCE}", "balance_power", "balance_power"),
        ("cpu.energy_perf_bias", "15", "15"),
        ("cpu.boost", "off", "off"),
        ("cpu.min_perf_pct", "50", "50"),
        ("cpu.max_latency_us", "10", "10"),
    ]


@cases.table
def test_one_set_of_cpus_has_one_key(cpus: Any, key: str) -> None:
    assert wanted({"governor": "performance", "cpus": cpus}) == {key: "performance"}


@cases.table
def test_a_value_has_one_spelling(name: str, value: Any, want: str) -> None:
    assert wanted({name: value}) == {f"cpu.{name}": want}


_cpus = st.sets(st.integers(0, 60), min_size=1, max_size=8)


@quick
@given(_cpus)
def test_a_key_gives_its_name_and_cpus_back(cpus: set[int]) -> None:
    (setting,) = door.parse("cpu", {"boost": True, "cpus": cpulist.render(cpus)})
    assert cpu_parse.split(setting.key) == ("boost", tuple(sorted(cpus)))


@quick
@given(_cpus, _cpus)
def test_two_lists_are_rivals_where_they_have_a_cpu_in_common(left: set[int], right: set[int]) -> None:
    one, other = (f"cpu.boost[{cpulist.render(cpus)}]" for cpus in (left, right))
    assert cpu.conflicts(one, other) == (left != right and bool(left & right))
    assert cpu.conflicts(one, other) == cpu.conflicts(other, one)


@cases.table
def test_all_cpus_are_rivals_of_any(key: str, other: str, conflicts: bool) -> None:
    assert cpu.conflicts(key, other) is conflicts
