# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.strategies import quick
from hypothesis import given
from hypothesis import strategies as st
from mlnode.checks import expect, rdma_limits, rdma_values
from mlnode.checks.expect import parse
from mlnode.checks.rdma_limits import Limit
from mlnode.model.errors import DeclarationError
from mlnode.topology.model import RdmaDevice, RdmaPort

DECLARED = {
    "all": {"mtu": 1024, "width": "4X", "numa": 0, "netns": "shared"},
    "rails": {"count": 8, "mtu": 2048, "width": "2X", 3: {"mtu": 4096}, "4": {"mtu": 512}},
    "devices": {"mlx5_3": {"mtu": 256, "width": 1}, "mlx5_3/2": {"width": 8}},
}


@cases.table
def test_the_most_specific_section_wins_key_by_key(
    device: str, port: int | None, rail: int | None, mtu: int, width: int
) -> None:
    found = parse(DECLARED).section(device, port, rail)
    assert (found["mtu"], found["width"], found["numa"]) == (mtu, width, 0)


def test_as_a_mapping_it_is_what_is_declared_of_the_node() -> None:
    found = parse({**DECLARED, "exact": True})
    assert dict(found) == {"mtu": 1024, "width": 4, "numa": 0, "netns": "shared"}
    assert (found.count, found.exact, found.devices) == (8, True, ("mlx5_3",))
    assert found.get("memlock") is None
    assert dict(parse(None)) == {}


def test_bit_error_rates_are_merged_kind_by_kind() -> None:
    found = expect.parse(
        {
            "all": {"ber": {"effective": "1e-12", "raw": 1e-6}},
            "devices": {"mlx5_0": {"ber": {"raw": "0.00001"}}},
        }
    )
    assert found.section("mlx5_0", 1)["ber"] == {"effective": 1e-12, "raw": 1e-5}
    assert found.section("mlx5_1", 1)["ber"] == {"effective": 1e-12, "raw": 1e-6}


def test_counters_are_merged_counter_by_counter() -> None:
    found = parse(
        {
            "all": {"counters": {"symbol_error": {"per_hour": 10}, "out_of_buffer": 5}},
            "devices": {"mlx5_0": {"counters": {"out_of_buffer": False}}},
        }
    )
    assert found.section("mlx5_0", 1)["counters"] == {
        "symbol_error": (Limit("per_hour", 10),),
        "out_of_buffer": (),
    }
    assert found.section("mlx5_1", 1)["counters"]["out_of_buffer"] == (Limit("rise", 5),)


def test_null_declares_nothing() -> None:
    assert parse({"all": None, "rails": None, "devices": {"mlx5_0": None}}).section("mlx5_0", 1) == {}
    assert parse({"all": {"mtu": None}}).section("mlx5_0") == {}


# -- what is judged ------------------------------------------------------------------------


def judged(
    declared: dict[str, Any], rail: int | None = None, virtual: bool = False, name: str = "mlx5_0"
) -> bool:
    device = RdmaDevice(name, ports=(RdmaPort(1, "Ethernet", "ACTIVE", ""),), rail=rail)
    return parse(declared).judges(device, 1, virtual, rails=True)


def test_where_nothing_is_declared_the_rails_are_judged() -> None:
    assert judged({}, rail=0)
    assert not judged({})
    device = RdmaDevice("mlx5_0")
    assert parse({}).judges(device, 1, virtual=False, rails=False)
    assert not parse({}).judges(device, 1, virtual=True, rails=False)


def test_a_key_of_ports_for_all_means_all_but_virtual_functions() -> None:
    assert judged({"all": {"mtu": 4096}})
    assert not judged({"all": {"mtu": 4096}}, virtual=True)
    assert judged({"all": {"mtu": 4096}, "devices": {"mlx5_0": {}}}, virtual=True)


def test_a_key_of_the_node_for_all_means_no_device() -> None:
    assert not judged({"all": {"memlock": "unlimited"}, "rails": {"count": 8}})
    assert not judged({"all": {"netns": "shared"}, "devices": {"mlx5_1": {}}}, rail=0)
    assert judged({"all": {"netns": "shared"}}, rail=0)


def test_rails_and_names_are_judged_and_nothing_else() -> None:
    declared = {"rails": {"count": 8}, "devices": {"mlx5_1": {}, "mlx5_2/2": {}}}
    assert judged(declared, rail=5)
    assert judged(declared, name="mlx5_1")
    assert not judged(declared, name="mlx5_2")
    assert not judged(declared, name="mlx5_3")


def test_what_is_not_used_is_not_judged() -> None:
    declared = {"all": {"mtu": 4096}, "devices": {"mlx5_0": {"used": False}}}
    assert not judged(declared, rail=0)
    assert judged(declared, name="mlx5_1")


# -- values --------------------------------------------------------------------------------


@cases.table
def test_rates(raw: Any, gbits: float, generation: str) -> None:
    found = rdma_values.rate("rate", raw)
    assert (found.gbits, found.generation) == (gbits, generation)


def test_a_width_says_what_a_generation_gives() -> None:
    assert rdma_values.rate("rate", "HDR").of_lanes(2) == 100
    assert rdma_values.rate("rate", "HDR").of_lanes(None) == 200
    assert rdma_values.rate("rate", 200).of_lanes(2) == 200


@cases.table
def test_values_in_other_spellings(key: str, raw: Any, value: Any) -> None:
    assert parse({"all": {key: raw}}).section("mlx5_0")[key] == value


scalars = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8))
anything = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(scalars, inner, max_size=3)),
    max_leaves=6,
)
sections = st.dictionaries(
    st.one_of(st.sampled_from([*expect.PORT_KEYS, *expect.NODE_KEYS, "count", 3, "4"]), scalars),
    anything,
    max_size=4,
)


@quick
@given(
    st.one_of(
        anything,
        st.fixed_dictionaries(
            {},
            optional={
                "all": st.one_of(sections, anything),
                "rails": st.one_of(sections, anything),
                "devices": st.one_of(st.dictionaries(st.sampled_from(["mlx5_0", "a/1"]), sections), anything),
                "exact": anything,
            },
        ),
    )
)
def test_any_declaration_is_taken_or_refused_with_words(declared: Any) -> None:
    try:
        found = parse(declared)
    except DeclarationError:
        return
    found.section("mlx5_0", 1, 3)


def test_every_limit_is_in_a_window_and_every_counter_has_advice() -> None:
    for counter in rdma_limits.COUNTERS:
        assert counter.check in rdma_limits.ADVICE
        assert all(limit.window in rdma_limits.WINDOWS for limit in counter.limits)
    assert len(rdma_limits.BY_NAME) == len(rdma_limits.COUNTERS)


@pytest.mark.parametrize(
    ("limit", "rise", "seconds", "allowed"),
    [
        (Limit("rise", 0), 0, 9e9, True),
        (Limit("rise", 0), 1, 9e9, False),
        (Limit("per_hour", 120), 120, 1, True),
        (Limit("per_hour", 120), 121, 1, False),
        (Limit("per_hour", 120), 240, 7200, True),
        (Limit("per_hour", 120), 241, 7200, False),
        (Limit("per_second", 10), 11, 0.0, False),
        (Limit("per_second", 10), 600, 60, True),
    ],
)
def test_limits(limit: Limit, rise: int, seconds: float, allowed: bool) -> None:
    assert limit.allows(rise, seconds) is allowed
