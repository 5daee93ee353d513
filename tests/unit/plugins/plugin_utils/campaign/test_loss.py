# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Packets that are lost and connections that do not come about, although the bandwidth passes."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.plugins.plugin_utils.campaign.fleets import (
    GBITS,
    Fleet,
    missing,
    second,
    verdict,
)


def losing(report: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = report["document"]["losing"]
    return found


def nodes(one: dict[str, Any]) -> list[str]:
    return [end["node"] for end in one["ends"]]


def usual(fleet: Fleet, share: float = 0.0001) -> None:
    fleet.each(lambda slot: slot.update(loss=[share, share]))


def sender(fleet: Fleet, one: str, other: str) -> int:
    """Place of the direction from one to the other."""
    return int(fleet.server(one, other)[0] == one)


def test_a_path_that_loses_is_a_finding_although_its_bandwidth_passes() -> None:
    fleet = Fleet()
    usual(fleet)
    fleet.slot("a", "b")["loss"][sender(fleet, "b", "a")] = 0.03

    report = fleet.report()

    [one] = losing(report)
    assert nodes(one) == ["b", "a"]
    assert (one["verdict"], one["certainty"], one["sent_again_percent"]) == ("fail", "probable", 3.0)
    assert one["reason"] == "3.00% of its packets are sent again; the limit is 0.50%"
    assert any(line.startswith("fail, probable  path b -> a  3.00% of its") for line in report["table"])
    assert report["document"]["verdict"] == "fail"
    assert report["document"]["paths"] == []
    assert {verdict(report, name) for name in "abcdefgh"} == {"pass"}
    # It is measured again.
    assert {*report["again"]["slots"]} == {"a", "b"}


@pytest.mark.parametrize(("again", "certainties"), [(0.03, ["certain"]), (0.0, [])])
def test_a_path_that_loses_in_both_looks_is_certain_and_a_disturbance_is_over(
    again: float, certainties: list[str]
) -> None:
    fleet = Fleet()
    usual(fleet)
    fleet.slot("a", "b")["loss"] = [0.03, 0.03]
    look = second(fleet, fleet.report()["again"], GBITS, loss=[again, again])

    report = fleet.report(look)

    assert [one["certainty"] for one in losing(report)] == certainties * 2
    assert report["success"] == (again == 0)


def test_a_node_that_loses_with_most_of_its_partners_is_named_and_its_paths_are_not() -> None:
    fleet = Fleet()
    usual(fleet)
    for other in "bcdefgh":
        fleet.slot("a", other)["loss"] = [0.03, 0.02]

    [one] = losing(fleet.report())

    assert nodes(one) == ["a"]
    assert one["certainty"] == "certain"
    assert one["reason"].startswith("up to 3.00% of its packets are sent again, in 14 directions")


def test_a_fleet_that_loses_everywhere_alike_has_short_queues_and_a_worse_path_is_named() -> None:
    fleet = Fleet()
    usual(fleet, 0.004)
    assert losing(fleet.report()) == []

    fleet.slot("a", "b")["loss"] = [0.03, 0.004]
    [one] = losing(fleet.report())
    assert one["reason"].endswith("the limit is 1.60%")


def test_what_was_not_counted_is_no_loss() -> None:
    fleet = Fleet()
    fleet.each(lambda slot: slot.update(loss=[None, None]))

    report = fleet.report()

    assert losing(report) == []
    assert report["document"]["verdict"] == "pass"


@pytest.mark.parametrize("loss", [[0.1], [0.1, 0.1, 0.1], "x", [-1, 0], ["0.1", 0], {"a": 1}])
def test_a_loss_that_is_none_makes_the_answer_none(loss: object) -> None:
    fleet = Fleet()
    fleet.slot("a", "b")["loss"] = loss

    report = fleet.report()

    assert report["document"]["verdict"] == "unknown"
    assert any("its answer is not one: " in node["reason"] for node in report["document"]["nodes"])


def failed(slot: dict[str, Any], how: str = "refused", **probe: Any) -> None:
    missing(slot)
    slot.update(reason="unable to connect", failed=how, **({"probe": probe} if probe else {}))


@pytest.mark.parametrize("how", ["unreachable", "timeout", "nothing", "refused"])
def test_a_pair_that_never_connects_is_a_path_that_fails(how: str) -> None:
    fleet = Fleet()
    failed(fleet.slot("a", "b"), how)

    report = fleet.report()

    [one] = losing(report)
    assert {*nodes(one)} == {"a", "b"}
    assert (one["verdict"], one["sent_again_percent"]) == ("fail", None)
    assert one["reason"] == "no connection: unable to connect"
    assert report["document"]["verdict"] == "fail"


@cases.table
def test_a_probe_of_the_path_says_why(probe: dict[str, int], said: str) -> None:
    fleet = Fleet()
    failed(fleet.slot("a", "b"), "nothing", **probe)

    [one] = losing(fleet.report())

    assert one["reason"] == f"no connection: {said}unable to connect"


def test_a_node_that_nobody_reaches_is_named_once() -> None:
    fleet = Fleet()
    for other in "bcdefgh":
        failed(fleet.slot("a", other))

    report = fleet.report()

    [one] = losing(report)
    assert nodes(one) == ["a"]
    why = "no connection with 7 of its partners, which others reach: unable to connect"
    assert (one["certainty"], one["reason"]) == ("probable", why)


def test_a_pair_that_connects_when_it_is_tried_again_is_well() -> None:
    fleet = Fleet()
    failed(fleet.slot("a", "b"))
    again = fleet.report()["again"]
    assert {*again["slots"]} == {"a", "b"}

    report = fleet.report(second(fleet, again, GBITS))

    assert losing(report) == []
    assert report["document"]["verdict"] == "pass"


def test_a_partner_that_did_not_answer_is_no_fault_of_the_network() -> None:
    fleet = Fleet()
    for other in "bcdefgh":
        if fleet.server("a", other)[0] == "a":
            failed(fleet.slot("a", other))
    del fleet.answers["a"]

    report = fleet.report()

    assert losing(report) == []
    assert report["document"]["verdict"] == "unknown"
