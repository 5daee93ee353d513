# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A fleet whose nodes have answered, and its report."""

from __future__ import annotations

import copy
import json
import pathlib
import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jsonschema
from ansible_collections.mlnode.tuning.plugins.plugin_utils.campaign import schedule
from ansible_collections.mlnode.tuning.plugins.plugin_utils.measure import campaign
from ansible_collections.mlnode.tuning.plugins.plugin_utils.measure.rounds import Ran

SCHEMA = json.loads(
    (pathlib.Path(__file__).parents[5] / "docs/schema/campaign.schema.json").read_text("utf-8")
)
ABOUT = {
    "id": "spring",
    "started": "2026-11-25T00:00:00+00:00",
    "second_look_rounds": 0,
    "duration_seconds": 4,
    "streams": 4,
}
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


def report(
    plan: dict[str, Any],
    started: Any,
    collected: Any,
    about: dict[str, Any],
    second: dict[str, Any] | None = None,
    limit: float = 10.0,
) -> dict[str, Any]:
    """As the action has it of a campaign, and the plan of a second look. second: as that has run."""
    looks = [(plan, Ran(0.0, started, collected))]
    if second:
        looks.append((second["plan"], Ran(0.0, second["started"], second["collected"])))
    judged = campaign.judged(looks, campaign.part(limit))
    whole = campaign.report(
        judged, plan, {**about, "second_look_rounds": second["plan"]["rounds"] if second else 0}
    )
    return {**whole._asdict(), "again": schedule.second(plan, judged)}


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
        self.plan = schedule.plan(addresses, dict(zip(names, leaves)), kind=kind, rounds=rounds)
        self.slots = self.plan["slots"]
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

    def each(self, change: Callable[[dict[str, Any]], None]) -> None:
        """Of all pairs."""
        for answer in self.answers.values():
            for slot in answer["slots"]:
                change(slot)

    def set_rate(self, names: Iterable[str], mbit: int | None) -> None:
        """Rate of the ports of these nodes."""
        for name in names:
            for rail in self.answers[name]["rails"]:
                rail["speed_mbit"] = mbit

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
        found = report(self.plan, self.started, collected, ABOUT, second, limit)
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


def second(fleet: Fleet, again: dict[str, Any], gbits: float, **more: Any) -> dict[str, Any]:
    slots = again["slots"]
    answers = {}
    for name, mine in slots.items():
        answers[name] = copy.deepcopy(fleet.answers[name])
        answers[name]["slots"] = [
            {
                "round": slot["round"],
                "rail": 0,
                "forward_gbits": gbits,
                "backward_gbits": gbits,
                "hole": 0.9,
                **more,
            }
            for slot in mine
            if not slot["serves"]
        ]
    collected = {name: {"answer": text(answer)} for name, answer in answers.items()}
    return {"plan": again, "started": {name: {"ends": 1} for name in slots}, "collected": collected}
