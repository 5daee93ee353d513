# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What must not pass: each way in which a fleet can look better than it is."""

from __future__ import annotations

import copy
import json
import pathlib
import random
from collections.abc import Callable, Sequence
from typing import Any

import jsonschema
import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.mlnode.tuning.plugins.filter import campaign_plan, campaign_report

SCHEMA = json.loads(
    (pathlib.Path(__file__).parents[5] / "docs/schema/campaign.schema.json").read_text("utf-8")
)
ABOUT = {"id": "spring", "begin": 1795564800.0, "duration": 4, "streams": 4}
Answers = dict[str, dict[str, Any]]

#: Gb/s of TCP on a port of 100 Gb/s at MTU 9000
GBITS = 98.0

#: What a good pair of each kind has; of RDMA at MTU 9000, 97 of 100 Gb/s are payload
GOOD: dict[str, dict[str, float]] = {
    "tcp": {"forward_gbits": GBITS, "backward_gbits": GBITS, "hole": 0.97},
    "rdma_bw": {"forward_gbits": 96.0, "backward_gbits": 96.0},
    "rdma_lat": {"usec": 2.0, "p99_usec": 2.4},
    "gpudirect": {
        "forward_gbits": 94.0, "backward_gbits": 94.0, "host_forward_gbits": 96.0, "host_backward_gbits": 96.0
    },
}  # fmt: skip


class Fleet:
    """Nodes a, b, ... and what they answer. Without a number of rounds all have met all others."""

    def __init__(
        self,
        names: Sequence[str] = "abcdefgh",
        rails: int = 1,
        kind: str = "tcp",
        leaves: str = "",
        rounds: int = 0,
        **facts: Any,
    ) -> None:
        addresses = {
            name: [f"10.{rail}.0.{number + 1}" for rail in range(rails)] for number, name in enumerate(names)
        }
        self.plan = campaign_plan.campaign_plan(addresses, dict(zip(names, leaves)), kind=kind, rounds=rounds)
        self.slots = {name: json.loads(own) for name, own in self.plan["slots"].items()}
        rail = {
            "interface": "eth0",
            "speed_mbit": 100_000,
            "mtu": 9000,
            "driver": "mlx5_core",
            "firmware": "28.1",
        }
        self.answers: Answers = {
            name: {
                "kernel": "6.12.0",
                "declarations": {"node": "0123456789abcdef"},
                "rails": [{**rail, "pcie": [], **facts} for _rail in range(rails)],
                "served": [],
                "slots": [
                    {"round": slot["round"], "rail": number, **GOOD[kind], "cpu_bound": False, "reason": "",
                     "evidence": {"command": "iperf3"}}
                    for slot in slots if not slot["serves"] for number in range(rails)
                ],
            }
            for name, slots in self.slots.items()
        }  # fmt: skip
        self.started: Answers = {name: {"ends": 1.0} for name in names}
        self.problems: dict[str, str] = {}

    def slot(self, one: str, other: str, rail: int = 0) -> dict[str, Any]:
        """Of a pair, whoever of the two measures."""
        for name, peer in ((one, other), (other, one)):
            for slot in self.slots[name]:
                if slot["peer"] == peer and not slot["serves"]:
                    mine: list[dict[str, Any]] = self.answers[name]["slots"]
                    return next(it for it in mine if (it["round"], it["rail"]) == (slot["round"], rail))
        raise AssertionError

    def server(self, one: str, other: str) -> tuple[str, int]:
        """The one of a pair that serves, and the round."""
        slots = [slot for slot in self.slots[one] if slot["peer"] == other]
        return (one if slots[0]["serves"] else other), slots[0]["round"]

    def all_of(self, name: str, change: Callable[[dict[str, Any]], None], rail: int = 0) -> None:
        for other in self.plan["nodes"]:
            if other != name:
                change(self.slot(name, other, rail))

    def sends(self, name: str, gbits: float, rail: int = 0) -> None:
        """One direction of a node, whoever measures."""
        for other in self.plan["nodes"]:
            if other != name:
                way = "backward_gbits" if self.server(name, other)[0] == name else "forward_gbits"
                self.slot(name, other, rail)[way] = gbits

    def scatter(self, part: float, seed: int = 1) -> None:
        """Noise of each direction, as a standard deviation."""
        chance = random.Random(seed)
        for answer in self.answers.values():
            for slot in answer["slots"]:
                for way in ("forward_gbits", "backward_gbits"):
                    slot[way] *= 1 + chance.gauss(0, part)

    def report(self, second: dict[str, Any] | None = None, limit: float = 10.0) -> dict[str, Any]:
        collected = {name: {"answer": text(self.answers.get(name)), "problem": self.problems.get(name, "")}
                     for name in self.plan["nodes"]}  # fmt: skip
        found = campaign_report.campaign_report(self.plan, self.started, collected, ABOUT, second, limit)
        found["document"] = json.loads(found["document"])
        jsonschema.validate(found["document"], SCHEMA)
        assert found["success"] == (found["document"]["verdict"] in ("pass", "warn"))
        return found


def text(answer: dict[str, Any] | None) -> str:
    """As a node gives it."""
    return json.dumps(answer) if answer else ""


def verdict(report: dict[str, Any], name: str) -> str:
    return next(str(node["verdict"]) for node in report["document"]["nodes"] if node["name"] == name)


def pair(report: dict[str, Any], one: str, other: str) -> dict[str, Any]:
    return next(
        found
        for found in report["document"]["pairs"]
        if {end["node"] for end in found["ends"]} == {one, other}
    )


def rail(report: dict[str, Any], name: str, number: int = 0) -> dict[str, Any]:
    """Finding about a node on a rail."""
    node = next(node for node in report["document"]["nodes"] if node["name"] == name)
    found: dict[str, Any] = node["rails"][number]
    return found


def names(path: dict[str, Any]) -> set[str]:
    return {end["node"] for end in path["ends"]}


def low(slot: dict[str, Any]) -> None:
    slot.update(forward_gbits=70.0, backward_gbits=70.0)


def missing(slot: dict[str, Any]) -> None:
    slot.update(forward_gbits=None, backward_gbits=None, hole=None, reason="no server listened")


def test_a_fleet_that_is_well() -> None:
    report = Fleet().report()

    assert report["success"]
    assert report["document"]["verdict"] == "pass"
    assert report["document"]["coverage"]["pairs_measured"] == 8 * 7 / 2
    assert report["table"][-2:] == [
        "would have been seen with 95%: a node that loses 2.5% or more, a path that loses 5% or more",
        "pass: 8 nodes: 8 pass",
    ]
    assert report["document"]["power"] == {
        "asked_percent": 10.0, "node_percent": 2.5, "path_percent": 5.0, "rounds_more": 0
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
    assert {slot["peer"] for slot in json.loads(report["again"]["slots"]["c"])} <= {*"abdefgh"}
    assert len(json.loads(report["again"]["slots"]["c"])) == 3


def test_slower_than_the_fleet_alone_is_named_as_that() -> None:
    fleet = Fleet()
    fleet.sends("c", 85.0)

    assert pair(fleet.report(), "a", "c")["broke"] == ["fleet"]


def test_a_fleet_that_is_slow_as_a_whole_breaks_the_limit_of_its_ports() -> None:
    fleet = Fleet()
    for one in fleet.answers.values():
        for slot in one["slots"]:
            low(slot)

    report = fleet.report()

    assert report["document"]["verdict"] == "fail"
    assert pair(report, "a", "b")["broke"] == ["port"]
    # Which of them is slower than it has to be is known of none.
    assert {verdict(report, name) for name in "abcdefgh"} == {"unknown"}
    [finding] = report["document"]["fleet"]
    assert finding["reason"].startswith("the level of 28 pairs, 70 Gb/s, is under 79.2 Gb/s: ")


def test_a_narrow_pcie_link_explains_and_excuses_no_more_than_it_carries() -> None:
    fleet = Fleet(pcie=[{"address": "0000:17:00.0", "gigatransfers": 8.0, "lanes": 8}])
    for one in fleet.answers.values():
        for slot in one["slots"]:
            slot.update(forward_gbits=52.0, backward_gbits=52.0)
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


def test_nothing_at_all_is_unknown() -> None:
    fleet = Fleet()
    fleet.answers.clear()

    report = fleet.report()

    assert report["document"]["verdict"] == "unknown"
    assert {verdict(report, name) for name in "abcdefgh"} == {"unknown"}
    assert "unknown  nodes a, b, c, d, e, f and 2 more  no answer was collected" in report["table"]


def test_unknown_ranks_above_pass_and_below_fail() -> None:
    fleet = Fleet()
    missing(fleet.slot("a", "b"))
    assert fleet.report()["document"]["verdict"] == "unknown"

    fleet.all_of("h", low)
    assert fleet.report()["document"]["verdict"] == "fail"


def test_a_node_passes_with_so_many_results_as_would_have_shown_its_loss() -> None:
    """The same results prove more with less noise."""
    for noise, expected in ((0.002, "pass"), (0.03, "unknown")):
        fleet = Fleet()
        fleet.scatter(noise)
        for other in "bcdefg":
            missing(fleet.slot("a", other))

        report = fleet.report()

        assert verdict(report, "a") == expected
        assert verdict(report, "b") == "pass"
        seen = rail(report, "a")["would_have_seen_percent"]
        assert (seen <= 10) == (expected == "pass")
        # Its other pairs have no result.
        assert report["document"]["verdict"] == "unknown"


@pytest.mark.parametrize("limit", [4.0, 30.0])
def test_the_loss_that_has_to_be_found_decides_who_passes(limit: float) -> None:
    fleet = Fleet()
    fleet.scatter(0.04)

    report = fleet.report(limit=limit)

    seen = {name: rail(report, name)["would_have_seen_percent"] for name in "abcdefgh"}
    assert 4 < min(seen.values()) <= max(seen.values()) < 30
    assert {verdict(report, name) for name in seen} == {"pass" if limit == 30 else "unknown"}
    power = report["document"]["power"]
    assert power["asked_percent"] == limit
    if limit == 4:
        assert power["node_percent"] is None
        least, most = min(seen.values()), max(seen.values())
        loss = f"{least:.0f} to {most:.0f}%"
        row = f"unknown  nodes a, b, c, d, e, f and 2 more  a loss of less than {loss} would not have been seen"
        assert row in report["table"]
    else:
        assert power["node_percent"] == max(seen.values())


def test_more_rounds_are_proposed_if_there_are_more() -> None:
    fleet = Fleet([f"n{number}" for number in range(20)], rounds=4)
    fleet.scatter(0.05)

    report = fleet.report()

    more = report["document"]["power"]["rounds_more"]
    assert 0 < more <= 20 * 4
    assert f"a loss of 10% at all nodes takes {more} more rounds (campaign_rounds)" in report["table"]


@pytest.mark.parametrize("limit", [0, -1, 100, float("nan"), "ten", None])
def test_a_limit_that_is_no_percentage_is_refused(limit: Any) -> None:
    with pytest.raises(AnsibleFilterError, match="limit: expected a percentage between 0 and 100, got"):
        Fleet().report(limit=limit)


def test_a_rail_that_was_never_measured_is_named() -> None:
    fleet = Fleet(rails=2)
    fleet.all_of("c", missing, rail=1)

    report = fleet.report()

    assert verdict(report, "c") == "unknown"
    assert report["document"]["coverage"]["rails_never_measured"] == [{"node": "c", "rail": 1}]
    assert "never measured: rail 1 of c" in report["table"]


def test_one_slow_rail_is_named_with_its_number() -> None:
    fleet = Fleet(rails=2)
    fleet.all_of("c", low, rail=1)

    report = fleet.report()

    assert verdict(report, "c") == "fail"
    assert [rail["verdict"] for rail in report["document"]["nodes"][2]["rails"]] == ["pass", "fail"]
    assert "node c rail 1" in report["table"][1]


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


def test_what_the_cores_could_not_feed_is_judged_by_the_fleet_alone() -> None:
    fleet = Fleet()
    for one in fleet.answers.values():
        for slot in one["slots"]:
            slot.update(forward_gbits=80.0, backward_gbits=80.0, cpu_bound=True)
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


def second(fleet: Fleet, again: dict[str, Any], gbits: float) -> dict[str, Any]:
    slots = {name: json.loads(own) for name, own in again["slots"].items()}
    answers = {}
    for name, mine in slots.items():
        answers[name] = copy.deepcopy(fleet.answers[name])
        answers[name]["slots"] = [
            {"round": slot["round"], "rail": 0, "forward_gbits": gbits, "backward_gbits": gbits, "hole": 0.9}
            for slot in mine
            if not slot["serves"]
        ]
    collected = {name: {"answer": text(answer)} for name, answer in answers.items()}
    return {"plan": again, "started": {name: {"ends": 1} for name in slots}, "collected": collected}


@pytest.mark.parametrize(
    ("gbits", "word", "low_again"),
    # It was low with all of its partners, and three good ones do not undo this.
    [(70.0, "fail, certain", 3), (98.0, "fail, probable", 0)],
)
def test_a_second_look_at_a_node(gbits: float, word: str, low_again: int) -> None:
    fleet = Fleet()
    fleet.all_of("c", low)
    again = fleet.report()["again"]

    report = fleet.report(second(fleet, again, gbits))

    row = next(line for line in report["table"] if " node c " in line)
    assert row.startswith(word)
    assert row.endswith(f"low with 7 of 7 partners, {low_again} of 3 when tried again")
    assert rail(report, "c")["second_look"] == {
        "planned": 3, "measured": 3, "low": low_again, "slow_themselves": 0
    }  # fmt: skip
    assert report["document"]["paths"] == []
    assert report["document"]["verdict"] == "fail"
    assert report["document"]["campaign"]["second_look_rounds"] == 3


@pytest.mark.parametrize(
    ("gbits", "certainty", "verdict"), [(70.0, "certain", "fail"), (98.0, "not confirmed", "warn")]
)
def test_a_second_look_at_a_path(gbits: float, certainty: str, verdict: str) -> None:
    fleet = Fleet()
    low(fleet.slot("a", "b"))

    report = fleet.report(second(fleet, fleet.report()["again"], gbits))

    [path] = report["document"]["paths"]
    assert (names(path), path["certainty"], path["verdict"]) == ({"a", "b"}, certainty, verdict)
    assert report["document"]["verdict"] == verdict


def test_a_pair_without_a_result_is_measured_in_the_second_look() -> None:
    fleet = Fleet()
    missing(fleet.slot("a", "b"))
    first = fleet.report()
    assert any(line.startswith("unknown  pair ") for line in first["table"])
    assert [*first["again"]["slots"]] in (["a", "b"], ["b", "a"])

    found = fleet.report(second(fleet, first["again"], GBITS))
    assert found["document"]["verdict"] == "pass"
    assert found["document"]["coverage"]["pairs_measured"] == 28
    assert not any("no server listened" in line for line in found["table"])

    found = fleet.report(second(fleet, first["again"], 70.0))
    # Low once, and never measured twice
    assert [path["certainty"] for path in found["document"]["paths"]] == ["probable"]


def test_what_a_node_could_not_measure_as_it_did_not_answer_is_not_tried_again() -> None:
    fleet = Fleet()
    for other in "bcdefgh":
        server, _number = fleet.server("a", other)
        if server == "a":  # the others found no server
            missing(fleet.slot("a", other))
    del fleet.answers["a"]

    assert fleet.report()["again"]["rounds"] == 0


# -- kinds ---------------------------------------------------------------------------------------


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
    for one in fleet.answers.values():
        for slot in one["slots"]:
            slot["backward_gbits"] = 88.0

    found = pair(fleet.report(), "a", "b")

    assert found["broke"] == ["port"]
    # 4096 of 4096 + 44 + 38 bytes
    assert "under 88.23 Gb/s, " in found["reason"]
    assert "0.9 of 100 Gb/s of mlx5_0/1, of which 0.980 is payload at MTU 9000" in found["reason"]


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


@pytest.mark.parametrize(
    ("change", "broke"),
    [
        ({"backward_gbits": 86.0}, ["fleet", "host"]),
        # The whole pair is slow, and the GPU is not the reason.
        ({"backward_gbits": 86.0, "host_backward_gbits": 90.0}, ["fleet"]),
        # The slower direction is the better one of the two.
        ({"forward_gbits": 92.0, "host_forward_gbits": 130.0, "backward_gbits": 91.0}, ["host"]),
    ],
)
def test_gpus_are_compared_with_the_memory_of_their_own_hosts(
    change: dict[str, float], broke: list[str]
) -> None:
    fleet = Fleet(kind="gpudirect")
    fleet.slot("a", "b").update(change)

    found = pair(fleet.report(), "a", "b")

    assert found["broke"] == broke
    assert ("between the memories of the hosts" in found["reason"]) == ("host" in broke)


# -- leaves --------------------------------------------------------------------------------------


def test_a_slow_way_between_two_leaves_is_one_finding() -> None:
    fleet = Fleet("abcdefghij", leaves="1111222333")
    for one in "abcd":
        for other in "efg":
            low(fleet.slot(one, other))
    low(fleet.slot("d", "h"))

    report = fleet.report()

    [way] = report["document"]["uplinks"]
    assert (way["leaves"], way["direction"], way["loss_percent"]) == (["1", "2"], "both directions", 28.6)
    assert (way["verdict"], way["certainty"], way["low"], way["measured"]) == ("fail", "probable", 12, 12)
    assert [names(path) for path in report["document"]["paths"]] == [{"d", "h"}]
    assert {verdict(report, name) for name in "abcdefghij"} == {"pass"}
    rows = [line for line in report["table"] if line.startswith("fail, ")]
    assert len(rows) == 2
    assert "between leaves 1 and 2  29% under the level of other pairs, both directions: 12 of 12 m" in rows[0]


def test_some_low_paths_between_two_leaves_are_no_slow_way_between_them() -> None:
    fleet = Fleet("abcdefghij", leaves="1111222333")
    for one, other in ("ae", "bf", "cg"):
        low(fleet.slot(one, other))

    report = fleet.report()

    assert report["document"]["uplinks"] == []
    assert len(report["document"]["paths"]) == 3


def test_slow_uplinks_of_a_leaf_are_no_slow_nodes() -> None:
    fleet = Fleet("abcdefghijklmno", leaves="111222333444555")
    for one in "abc":
        for other in "defghijklmno":
            low(fleet.slot(one, other))

    report = fleet.report()

    [leaf] = report["document"]["uplinks"]
    assert (leaf["leaves"], leaf["verdict"], leaf["loss_percent"]) == (["1"], "fail", 28.6)
    assert {verdict(report, name) for name in "abcdefghijklmno"} == {"pass"}
    assert report["document"]["paths"] == []
    assert report["document"]["verdict"] == "fail"


@pytest.mark.parametrize("leaves", ["111122223333", "111111222222"])
def test_with_few_leaves_most_pairs_across_may_be_low(leaves: str) -> None:
    """Which uplinks are slow is not known then, but that some are."""
    fleet = Fleet("abcdefghijkl", leaves=leaves)
    for one, leaf in zip("abcdefghijkl", leaves):
        for other, another in zip("abcdefghijkl", leaves):
            if leaf == "1" != another:
                fleet.slot(one, other).update(forward_gbits=85.0, backward_gbits=85.0)

    report = fleet.report()

    assert report["document"]["verdict"] == "fail"
    assert {verdict(report, name) for name in "abcdefghijkl"} == {"pass"}
    [across] = report["document"]["fleet"]
    assert across["verdict"] == "fail"
    assert across["reason"].startswith("pairs across leaves have 87% of the rate of pairs inside one: ")


def test_a_node_that_is_low_across_leaves_only_is_no_leaf() -> None:
    fleet = Fleet("abcdefgh", leaves="11112222")
    for other in "efgh":
        low(fleet.slot("a", other))

    report = fleet.report()

    assert [verdict(report, name) for name in "abcdefgh"] == ["unknown", *["pass"] * 7]
    assert report["document"]["uplinks"] == []
    assert not report["success"]


def test_of_two_nodes_of_a_leaf_that_never_met_the_uplinks_are_suspects_as_well() -> None:
    """One node stands for its leaf: which of the two is slow is not known, so neither is certain."""
    fleet = Fleet("abcdefgh", leaves="12222333")
    fleet.all_of("a", low)

    report = fleet.report()

    found = rail(report, "a")
    suspects = {one["what"]: one["probability"] for one in found["suspects"]}
    assert {"a", "uplinks of leaf 1"} <= suspects.keys()
    assert sum(suspects.values()) == pytest.approx(1, abs=0.01)
    assert found["verdict"] == "unknown"
    assert "suspects: a " in found["reason"]
    assert report["document"]["verdict"] == "unknown"


def test_a_plan_that_is_none_is_refused() -> None:
    with pytest.raises(AnsibleFilterError, match="campaign_plan"):
        campaign_plan.campaign_plan({"a": ["10.0.0.1"]})


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"kind": "udp"}, "kind: 'udp' is not one of tcp, rdma_bw, rdma_lat, gpudirect"),
        ({"kind": "rdma_bw", "devices": {"a": "mlx5_0"}}, "a: campaign_devices is 'mlx5_0', and not a list"),
        ({"kind": "rdma_bw", "devices": {"a": ["x", "y", "z"]}}, "there are 3 campaign_devices and 2 cam"),
    ],
)  # fmt: skip
def test_what_cannot_be_planned(more: dict[str, Any], said: str) -> None:
    with pytest.raises(AnsibleFilterError) as error:
        campaign_plan.campaign_plan({"a": ["10.0.0.1", "10.0.1.1"], "b": ["10.0.0.2"]}, **more)
    assert said in str(error.value)


def test_devices_share_an_address_to_agree_over_and_are_of_rdma_alone() -> None:
    nodes, devices = {"a": ["10.0.0.1"], "b": ["10.0.0.2"]}, {name: ["mlx5_0", "mlx5_1"] for name in "ab"}

    rdma = campaign_plan.campaign_plan(nodes, devices=devices, kind="rdma_bw")
    tcp = campaign_plan.campaign_plan(nodes, devices=devices)

    assert rdma["nodes"]["a"] == {"addresses": ["10.0.0.1"] * 2, "devices": ["mlx5_0", "mlx5_1"], "leaf": ""}
    assert len(json.loads(rdma["slots"]["a"])[0]["rails"]) == 2
    assert tcp["nodes"]["a"] == {"addresses": ["10.0.0.1"], "leaf": ""}
    assert rdma["round_seconds"] == 1 + 2 * (4 + 6)
