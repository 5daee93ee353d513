# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Samples as numbers: one row for each direction of a pair, and nothing that has no logarithm."""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import ModuleType

import pytest
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.checks.campaign import (
    gpudirect,
    rdma_lat,
    tcp,
)
from ansible_collections.mlnode.tuning.plugins.plugin_utils.campaign import columns
from ansible_collections.mlnode.tuning.plugins.plugin_utils.campaign.columns import Fleet
from ansible_collections.mlnode.tuning.plugins.plugin_utils.campaign.model import Facts, Node, Reading, Sample

ENDS = [("a", 0), ("b", 0), ("c", 0)]


def fleet(rates: Sequence[int | None] = (None,) * 3, kind: ModuleType = tcp) -> Fleet:
    nodes = {name: Node(rails=(Facts(speed_mbit=rate),)) for (name, _rail), rate in zip(ENDS, rates)}
    return Fleet(kind, nodes, {}, {end: number for number, end in enumerate(ENDS)})


def sample(one: int, other: int, forward: float, backward: float, hole: float = 1.0) -> Sample:
    amounts = {"forward_gbits": forward, "backward_gbits": backward, "hole": hole}
    return Sample(0, (ENDS[one], ENDS[other]), Reading(min(forward, backward), amounts))


def test_both_looks_at_a_direction_are_one_row_whoever_measured() -> None:
    taken = [sample(0, 1, 100, 50), sample(1, 0, 25, 100)._replace(again=True)]

    found = columns.tabulate(fleet(), taken).measured

    assert [*zip(found.sender, found.receiver)] == [(0, 1), (1, 0)]
    assert found.looks == [[math.log(100)] * 2, pytest.approx([math.log(50), math.log(25)])]
    assert found.rate[1] == pytest.approx(math.log(50 * 25) / 2)
    assert found.pair == [0, 0]


def test_zero_counts_as_a_fiftieth_of_the_best() -> None:
    found = columns.tabulate(fleet(), [sample(0, 1, 100, 0), sample(0, 2, 80, 1e-9)]).measured

    assert found.rate == pytest.approx([math.log(100), math.log(2), math.log(80), math.log(2)])


def test_all_zero_is_low_and_no_error() -> None:
    found = columns.tabulate(fleet(), [sample(0, 1, 0, 0)]).measured

    assert all(math.isfinite(rate) for rate in found.rate)


def test_a_hole_counts_as_if_the_whole_were_as_bad() -> None:
    found = columns.tabulate(
        fleet(), [sample(0, 1, 100, 100, hole=0.25), sample(0, 2, 100, 100, hole=0.6)]
    ).measured

    assert found.rate == pytest.approx([math.log(50)] * 2 + [math.log(100)] * 2)


def test_a_measurement_without_a_result_is_no_row() -> None:
    found = columns.tabulate(fleet(), [Sample(0, (ENDS[0], ENDS[1]), Reading(reason="no server listened"))])

    assert found.measured.rate == []
    # It has a class all the same.
    assert (found.like, found.measured.classes) == ([0], 1)


def test_the_faster_port_has_something_to_spare_in_both_directions() -> None:
    found = columns.tabulate(fleet([400_000, 100_000, 100_000]), [sample(0, 1, 90, 80), sample(1, 2, 90, 80)])

    spare = math.log(4)
    # Of the sender and the receiver of each direction
    assert found.measured.spare == [
        pytest.approx((spare, 0)), pytest.approx((0, spare)), (0.0, 0.0), (0.0, 0.0)
    ]  # fmt: skip


def test_an_unknown_rate_has_nothing_to_spare() -> None:
    found = columns.tabulate(fleet([400_000, None, None]), [sample(0, 1, 90, 80)])

    assert found.measured.spare == [(0.0, 0.0)] * 2


def test_cores_that_were_the_limit_promise_nothing() -> None:
    bound = sample(0, 1, 50, 50)
    bound = bound._replace(reading=bound.reading._replace(cpu_bound=True))

    found = columns.tabulate(fleet([100_000] * 3), [sample(0, 2, 50, 50), bound])

    assert found.floor[:2] == pytest.approx([math.log(80)] * 2)
    assert found.floor[2:] == [-math.inf] * 2


def test_of_a_latency_less_is_better() -> None:
    def usec(one: int, other: int, value: float) -> Sample:
        return Sample(0, (ENDS[one], ENDS[other]), Reading(value, {"usec": value, "p99_usec": value}))

    found = columns.tabulate(fleet(kind=rdma_lat), [usec(0, 1, 2.0), usec(0, 2, 4.0)]).measured

    assert found.rate == pytest.approx([-math.log(2), -math.log(4)])


def test_gpus_promise_nine_tenths_of_what_their_hosts_have() -> None:
    amounts = {
        "forward_gbits": 80.0,
        "backward_gbits": 90.0,
        "host_forward_gbits": 100.0,
        "host_backward_gbits": 50.0,
    }
    found = columns.tabulate(fleet(kind=gpudirect), [Sample(0, (ENDS[0], ENDS[1]), Reading(80.0, amounts))])

    assert found.floor == pytest.approx([math.log(90), math.log(45)])
