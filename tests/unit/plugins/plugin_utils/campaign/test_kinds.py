# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each kind of measurement, by its own limits."""

from __future__ import annotations

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.plugins.plugin_utils.campaign.fleets import (
    GOOD,
    Fleet,
    pair,
    verdict,
)


@pytest.mark.parametrize("kind", [*GOOD])
def test_a_fleet_that_is_well_in_each_kind(kind: str) -> None:
    report = Fleet(kind=kind).report()

    assert report["table"][-1] == "pass: 8 nodes: 8 pass"
    campaign = report["document"]["campaign"]
    assert (campaign["kind"], campaign["unit"]) == (kind, "usec" if kind == "rdma_lat" else "gbits")
    assert campaign["streams"] == (4 if kind == "tcp" else 1)
    assert {one["name"] for one in pair(report, "a", "b")["limits"]} == {
        "tcp": {"port", "fleet"},
        "rdma_bw": {"port", "fleet"},
        "rdma_lat": {"fleet"},
        "gpudirect": {"host", "fleet"},
    }[kind]


@pytest.mark.parametrize(("kind", "field"), [(kind, field) for kind, good in GOOD.items() for field in good])
def test_a_slot_without_one_of_its_amounts_is_none(kind: str, field: str) -> None:
    fleet = Fleet(kind=kind)
    del fleet.slot("a", "b")[field]

    assert fleet.report()["document"]["verdict"] == "unknown"


def test_rdma_has_to_reach_nine_tenths_of_what_a_port_carries() -> None:
    fleet = Fleet(kind="rdma_bw", device="mlx5_0/1")
    fleet.each(lambda slot: slot.update(forward_gbits=88.0, backward_gbits=88.0))

    found = pair(fleet.report(), "a", "b")

    assert found["broke"] == ["port"]
    # 4096 of 4096 + 44 + 38 bytes
    assert "under 88.23 Gb/s, " in found["reason"]
    assert "0.9 of 100 Gb/s of mlx5_0/1, payload 0.980 at MTU 9000" in found["reason"]


def test_of_a_latency_more_is_worse() -> None:
    fleet = Fleet(kind="rdma_lat")
    fleet.all_of("c", lambda slot: slot.update(usec=2.3))
    # Two others that are nearer make nobody slow.
    fleet.slot("a", "b")["usec"] = 1.0

    report = fleet.report()

    assert [verdict(report, name) for name in "abcdefgh"] == [*["pass"] * 2, "fail", *["pass"] * 5]
    found = pair(report, "a", "c")
    assert (found["gbits"], found["usec"], found["broke"]) == (None, 2.3, ["fleet"])
    assert found["reason"] == "2.3 usec: over 2.2 usec, median 2 usec of 28 like pairs, and 10% of it"
    [like] = report["document"]["classes"]
    assert (like["median_usec"], like["median_gbits"], like["limit"]["usec"]) == (2.0, None, 2.2)
    assert "28 pairs of 100 Gb/s, MTU 9000: median 2 usec, limit 2.2 usec" in report["table"]


def test_a_tail_warns_and_blames_nothing() -> None:
    fleet = Fleet(kind="rdma_lat")
    fleet.slot("a", "b")["p99_usec"] = 20.1

    report = fleet.report()

    found = pair(report, "a", "b")
    assert (found["verdict"], found["broke"], found["p99_usec"]) == ("warn", ["tail"], 20.1)
    assert report["document"]["verdict"] == "warn"
    assert {verdict(report, name) for name in "abcdefgh"} == {"pass"}
    assert any(line.startswith("warn     pair ") and "20.1 usec" in line for line in report["table"])


@cases.table
def test_gpus_are_compared_with_the_memory_of_their_own_hosts(
    change: dict[str, float], broke: list[str]
) -> None:
    fleet = Fleet(kind="gpudirect")
    fleet.slot("a", "b").update(change)

    found = pair(fleet.report(), "a", "b")

    assert found["broke"] == broke
    assert ("between the memories of the hosts" in found["reason"]) == ("host" in broke)
