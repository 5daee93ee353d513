# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What must not pass: each way in which a fleet can look better than it is."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit.plugins.plugin_utils.campaign.fleets import (
    Fleet,
    low,
    missing,
    names,
    pair,
    rail,
    verdict,
)


def test_a_fleet_that_is_well() -> None:
    report = Fleet().report()

    assert report["success"]
    assert report["document"]["verdict"] == "pass"
    assert report["document"]["coverage"]["pairs_measured"] == 8 * 7 / 2
    assert report["table"][-2:] == [
        "would have been seen with 95%: a node that loses 4.1% or more, a path that loses 5.2% or more",
        "pass: 8 nodes: 8 pass",
    ]
    assert report["document"]["power"] == {
        "asked_percent": 10.0, "node_percent": 4.1, "path_percent": 5.2, "rounds_more": 0
    }  # fmt: skip
    assert report["again"]["rounds"] == 0
    assert {one["name"] for one in pair(report, "a", "b")["limits"]} == {"port", "fleet"}


def test_a_slow_node_is_named_with_the_limit_that_it_breaks() -> None:
    fleet = Fleet()
    fleet.all_of("c", low)

    report = fleet.report()

    assert verdict(report, "c") == "fail"
    assert [verdict(report, name) for name in "abdefgh"] == ["pass"] * 7
    assert pair(report, "a", "c")["broke"] == ["port", "fleet"]
    assert "70 Gb/s: under 79.2 Gb/s, " in pair(report, "a", "c")["reason"]
    why = "29% under its level in both directions, low with 7 of 7 partners, not tried again"
    assert report["table"][1] == f"fail, probable  node c  {why}"
    found = rail(report, "c")
    assert (found["direction"], found["loss_percent"]) == ("both directions", 28.6)
    assert found["suspects"] == [{"what": "c", "probability": 1.0}]
    assert report["document"]["paths"] == []
    assert {slot["peer"] for slot in report["again"]["slots"]["c"]} <= {*"abdefgh"}
    assert len(report["again"]["slots"]["c"]) == 3


def test_a_fleet_that_is_slow_as_a_whole_breaks_the_limit_of_its_ports() -> None:
    fleet = Fleet()
    fleet.each(low)

    report = fleet.report()

    assert report["document"]["verdict"] == "fail"
    assert pair(report, "a", "b")["broke"] == ["port"]
    # Which of them is slower than it has to be is known of none.
    assert {verdict(report, name) for name in "abcdefgh"} == {"unknown"}
    [finding] = report["document"]["fleet"]
    assert finding["reason"].startswith("the level of 28 pairs, 70 Gb/s, is under 79.2 Gb/s: ")


def test_a_narrow_pcie_link_explains_and_excuses_no_more_than_it_carries() -> None:
    fleet = Fleet(pcie=[{"address": "0000:17:00.0", "gigatransfers": 8.0, "lanes": 8}])
    fleet.each(lambda slot: slot.update(forward_gbits=52.0, backward_gbits=52.0))
    fleet.all_of("c", lambda slot: slot.update(forward_gbits=40.0))

    assert "pcie" in pair(fleet.report(), "a", "c")["broke"]


def test_a_low_path_is_no_slow_node() -> None:
    fleet = Fleet()
    low(fleet.slot("a", "b"))

    report = fleet.report()

    assert {verdict(report, name) for name in "abcdefgh"} == {"pass"}
    assert report["document"]["verdict"] == "fail"
    [path] = report["document"]["paths"]
    assert (names(path), path["loss_percent"], path["certainty"]) == ({"a", "b"}, 28.6, "probable")


def test_an_average_that_hides_a_hole() -> None:
    fleet = Fleet()
    fleet.slot("a", "b")["hole"] = 0.1

    found = pair(fleet.report(), "a", "b")

    assert (found["verdict"], found["broke"]) == ("fail", ["hole"])
    assert found["reason"] == "98 Gb/s: its least second has 10% of the median one"


def test_one_slow_direction_counts() -> None:
    fleet = Fleet()
    fleet.sends("c", 10.0)

    report = fleet.report()

    assert verdict(report, "c") == "fail"
    assert rail(report, "c")["direction"] == "sending"
    assert " in one direction, sending, low with 7 of 7 partners" in rail(report, "c")["reason"]
    assert [verdict(report, name) for name in "abdefgh"] == ["pass"] * 7


def test_a_node_that_is_low_with_all_partners_but_in_no_direction_of_its_own_does_not_pass() -> None:
    """Such as one that is slow for the first seconds of each measurement: it sends first, or receives."""
    fleet = Fleet()
    fleet.all_of("c", lambda slot: slot.update(forward_gbits=70.0))

    report = fleet.report()

    assert verdict(report, "c") == "unknown"
    assert "low with 7 of 7 partners" in rail(report, "c")["reason"]
    assert [verdict(report, name) for name in "abdefgh"] == ["pass"] * 7
    assert len(report["document"]["paths"]) == 7


def test_two_of_eight_nodes_tested_is_no_pass() -> None:
    fleet = Fleet()
    for name in "cdefgh":
        del fleet.answers[name]
        fleet.started[name] = {"failed": False, "msg": "campaign: jobs run here"}
    for name in "ab":
        for slot in fleet.answers[name]["slots"]:
            if slot is not fleet.slot("a", "b"):
                missing(slot)

    report = fleet.report()

    assert not report["success"]
    assert report["document"]["verdict"] == "unknown"
    assert report["document"]["coverage"]["nodes_never_measured"] == [*"cdefgh"]
    assert "coverage: 1 of 28 planned pairs measured, of 28 that there are" in report["table"]
    assert "unknown  nodes c, d, e, f, g, h  campaign: jobs run here" in report["table"]


def test_a_pair_just_under_the_limit_of_its_ports_is_a_path_though_the_fleet_is_near_it() -> None:
    fleet = Fleet()
    fleet.each(lambda slot: slot.update(forward_gbits=80.5, backward_gbits=80.5))
    fleet.slot("a", "b")["forward_gbits"] = 78.9

    report = fleet.report()

    assert pair(report, "a", "b")["broke"] == ["port"]
    assert [{end["node"] for end in path["ends"]} for path in report["document"]["paths"]] == [{"a", "b"}]
    assert report["document"]["verdict"] == "fail"


def test_a_node_that_died_before_it_answered_does_not_pass() -> None:
    fleet = Fleet()
    del fleet.answers["h"]
    fleet.problems["h"] = "no route to host"

    report = fleet.report()

    # Its partners have measured some of its pairs, all of which are well.
    [node] = [one for one in report["document"]["nodes"] if one["name"] == "h"]
    assert node["rails"][0]["partners"]["measured"] > 0
    assert (node["verdict"], node["reason"]) == ("unknown", "no route to host")
    assert not report["success"]


def test_nothing_at_all_is_unknown() -> None:
    fleet = Fleet()
    fleet.answers.clear()

    report = fleet.report()

    assert report["document"]["verdict"] == "unknown"
    assert {verdict(report, name) for name in "abcdefgh"} == {"unknown"}
    assert "unknown  nodes a, b, c, d, e, f and 2 more  no answer was collected" in report["table"]


def test_a_rail_that_was_never_measured_is_named() -> None:
    fleet = Fleet(rails=2)
    fleet.all_of("c", missing, rail=1)

    report = fleet.report()

    assert verdict(report, "c") == "unknown"
    assert report["document"]["coverage"]["rails_never_measured"] == [{"node": "c", "rail": 1}]
    assert "never measured: rail 1 of c" in report["table"]


def test_what_another_than_the_peer_has_measured_does_not_count() -> None:
    fleet = Fleet()
    server, number = fleet.server("a", "b")
    fleet.answers[server]["served"] = [{"round": number, "rail": 0, "reason": "10.9.9.9 came"}]

    found = pair(fleet.report(), "a", "b")

    assert (found["verdict"], found["gbits"], found["reason"]) == (
        "unknown",
        None,
        f"{server}: 10.9.9.9 came",
    )


def test_without_a_rate_and_without_like_pairs_there_is_nothing_to_compare_with() -> None:
    fleet = Fleet("abc", speed_mbit=None)

    report = fleet.report()

    assert report["document"]["verdict"] == "unknown"
    assert "no port has a rate, and fewer than 5 pairs are like this one" in pair(report, "a", "b")["reason"]
    [like] = report["document"]["classes"]
    assert (like["pairs"], like["mad_gbits"], like["limit"]) == (3, None, None)
    assert "3 pairs of rate unknown, MTU 9000: median 98 Gb/s" in report["table"]


def test_what_the_cores_could_not_feed_is_judged_by_the_fleet_alone() -> None:
    fleet = Fleet()
    fleet.each(lambda slot: slot.update(forward_gbits=80.0, backward_gbits=80.0, cpu_bound=True))
    fleet.all_of("c", lambda slot: slot.update(forward_gbits=60.0, backward_gbits=60.0))

    report = fleet.report()

    assert verdict(report, "c") == "fail"

    assert pair(report, "a", "b")["verdict"] == "pass"
    assert "cores were the limit" in pair(report, "a", "b")["reason"]
    assert pair(report, "a", "c")["broke"] == ["fleet"]


@pytest.mark.parametrize(
    "change",
    [
        {"forward_gbits": "98"},
        {"forward_gbits": True},
        {"forward_gbits": -1},
        {"forward_gbits": float("inf")},
        {"forward_gbits": None},
        {"hole": None},
        {"round": "0"},
        {"rail": -1},
    ],
)
def test_an_answer_that_is_none_makes_the_node_unknown_and_breaks_nothing(change: dict[str, Any]) -> None:
    fleet = Fleet()
    name = next(name for name, one in fleet.answers.items() if one["slots"])
    fleet.answers[name]["slots"][0].update(change)

    report = fleet.report()

    assert verdict(report, name) in ("unknown", "pass")
    assert report["document"]["verdict"] == "unknown"
    node = next(node for node in report["document"]["nodes"] if node["name"] == name)
    assert node["reason"].startswith("its answer is not one: ")


@pytest.mark.parametrize("field", ["rails", "slots", "served"])
@pytest.mark.parametrize("value", [None, "x", 3, [3], {"a": 1}])
def test_a_broken_part_of_an_answer(field: str, value: object) -> None:
    fleet = Fleet()
    fleet.answers["a"][field] = value

    assert fleet.report()["document"]["verdict"] == "unknown"


def test_a_reason_beside_numbers_wins() -> None:
    fleet = Fleet()
    fleet.slot("a", "b")["reason"] = "it went another way"

    assert pair(fleet.report(), "a", "b")["gbits"] is None


def test_control_codes_of_a_node_do_not_reach_the_terminal() -> None:
    fleet = Fleet()
    slot = fleet.slot("a", "b")
    missing(slot)
    slot["reason"] = "\x1b[2Jall is well"

    assert not any("\x1b" in line for line in fleet.report()["table"])
