# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""From the readings of the phases of a screening experiment to its document and lines."""

from __future__ import annotations

import json
import math
import pathlib
import random
import re
from typing import Any

import jsonschema
import pytest
from ansible_collections.mlnode.tuning.plugins.plugin_utils.effect import screening_design, screening_report
from ansible_collections.mlnode.tuning.plugins.plugin_utils.effect.metrics import STATUS, Metric
from ansible_collections.mlnode.tuning.plugins.plugin_utils.effect.readings import Reading
from ansible_collections.mlnode.tuning.plugins.plugin_utils.effect.screening_design import Design

SCHEMA = json.loads(
    (pathlib.Path(__file__).parents[5] / "docs/schema/screening.schema.json").read_text("utf-8")
)

RATE = Metric("command", "rate", "1/s", "higher")
TAIL = Metric("command", "tail", "s", "lower")
AREAS = ["thp", "cpu", "nic", "sysctl.vm.swappiness"]

ABOUT = {
    "id": "spring", "ended": "2026-11-30T04:00:00+00:00", "nodes": ["a", "b"], "duration_seconds": 4,
    "least_percent": 1.0, "command": ["true"], "repeated": [], "stopped": "", "seed": 0,
    "left_out": [{"area": "boot", "reason": "needs a boot"}],
}  # fmt: skip

#: Metric → area → its effect
EFFECTS = {RATE: {"thp": 0.1, "cpu": -0.05}, TAIL: {"thp": 0.2, "nic": -0.1}}


def phases(
    design: Design, effects: dict[Metric, dict[str, float]], names: str = "ab"
) -> list[dict[str, Any]]:
    chance = random.Random(4)
    measured = []
    for number in range(len(design.levels)):
        applied = design.applied(number)
        command = {
            metric: {
                name: Reading(
                    math.prod(1 + areas.get(area, 0) for area in applied)
                    * (1 + place) * math.exp(chance.gauss(0, 0.002)),
                    tool="command", nodes=(name,),
                )
                for place, name in enumerate(names)
            }
            for metric, areas in effects.items()
        }  # fmt: skip
        runs = [{"node": "a", "rc": 0, "seconds": 1.5, "stdout": "1"}]
        measured.append({"state": "", "command": command, "runs": runs})
    return measured


def made(measured: list[dict[str, Any]], design: Design, **about: Any) -> dict[str, Any]:
    document = screening_report.document(measured, {}, design, {**ABOUT, **about})
    jsonschema.validate(document, SCHEMA)
    return document


@pytest.fixture(name="design")
def folded() -> Design:
    return screening_design.design(AREAS, 16, 0)


def test_harm_comes_first_in_each_metric_and_in_all(design: Design) -> None:
    document = made(phases(design, EFFECTS), design)

    verdicts = [
        (result["name"], area["area"], area["verdict"])
        for result in document["results"]
        for area in result["areas"][:2]
    ]
    assert verdicts == [
        ("tail", "thp", "harms"), ("tail", "nic", "helps"),
        ("rate", "cpu", "harms"), ("rate", "thp", "helps"),
    ]  # fmt: skip
    assert screening_report.is_success(document)
    tail, rate = screening_report.harmed(document)
    assert re.match(r"tail: thp: harms: \+(19\.9|20\.0).{,2} % \(95 % interval \+19\.", tail)
    assert re.match(r"rate: cpu: harms: -(4\.9|5\.0).{,2} % \(95 % interval -5\.", rate)
    lines = screening_report.lines(document)
    assert lines[0].startswith("tail (s, command, 2 nodes, noise of 0.1")
    assert lines[1] == f"  {tail.partition(' ')[2]}"
    assert lines[-2:] == [
        "4 areas in 16 phases: the effect of each area is clear of interactions of two areas",
        "left out: boot: needs a boot",
    ]


@pytest.mark.parametrize(
    ("tool", "words"),
    [
        ("command", "not decided (95 % interval -8.00 to +8.69 %), its digits are too few for 1 %"),
        (STATUS, "no difference above 1 % (95 % interval -0.00 to +0.00 %)"),
    ],
)
def test_digits_that_could_hide_an_effect_are_said(design: Design, tool: str, words: str) -> None:
    """All phases print 1.2; an exit status has no digits."""
    measured = [
        {"state": "", "command": {RATE: {"a": Reading(1.2, tool=tool, nodes=("a",))}}, "runs": []}
        for _phase in design.levels
    ]

    [result] = made(measured, design)["results"]

    assert {area["words"] for area in result["areas"]} == {words}


def test_several_metrics_have_wider_intervals(design: Design) -> None:
    def reach(effects: dict[Metric, dict[str, float]]) -> float:
        measured = [
            {**phase, "command": {metric: phase["command"][metric] for metric in effects}}
            for phase in phases(design, EFFECTS)
        ]
        [result] = [result for result in made(measured, design)["results"] if result["name"] == "rate"]
        effect = result["areas"][0]["effect"]
        return float(effect["high_percent"] - effect["low_percent"])

    assert reach(EFFECTS) > 1.05 * reach({RATE: EFFECTS[RATE]})


def test_a_run_that_was_stopped_decides_nothing(design: Design) -> None:
    document = made(phases(design, EFFECTS)[:15], design, stopped="phase 15 of 16 (thp) was lost")

    areas = [area for result in document["results"] for area in result["areas"]]
    assert {(area["verdict"], area["effect"]) for area in areas} == {("unknown", None)}
    assert not screening_report.is_success(document)
    assert screening_report.harmed(document) == []
    assert screening_report.lines(document)[-1] == "stopped: phase 15 of 16 (thp) was lost"


@pytest.mark.parametrize("stopped", ["", "phase 16 of 16 (thp) was lost"])
def test_a_missing_reading_makes_its_metric_unknown(design: Design, stopped: str) -> None:
    measured = phases(design, EFFECTS)
    measured[3]["command"][TAIL]["b"] = Reading(None, "no number", nodes=("b",))
    document = made(measured, design, stopped=stopped)

    verdicts = {
        result["name"]: {area["verdict"] for area in result["areas"]} for result in document["results"]
    }
    assert verdicts["tail"] == {"unknown"}
    assert ("unknown" in verdicts["rate"]) == bool(stopped)
    assert not screening_report.is_success(document)
    assert "  b: no number" in screening_report.lines(document)


def test_interactions_that_are_part_of_an_effect_are_named() -> None:
    names = [f"area{number}" for number in range(8)]
    design = screening_design.design(names, 16, 3)
    document = made(phases(design, {RATE: {"area1": 0.1}}), design)

    assert not document["effect"]["clear"]
    [result] = document["results"]
    assert all(area["confounded"] for area in result["areas"])
    assert {abs(pair["share"]) for area in result["areas"] for pair in area["confounded"]} == {1.0}
    lines = {line.partition(":")[0]: line for line in screening_report.lines(document)}
    assert lines["  area1"].endswith("; includes 100 % of area4 x area5")
    assert "; includes 100 % of 2 interactions such as area1 x area4" in lines["  area5"]
    assert "24 phases would tell them apart" in screening_report.lines(document)[-2]


def test_nothing_measured_is_no_success(design: Design) -> None:
    assert not screening_report.is_success(made([{"state": ""}], design, stopped="phase 1 was lost"))
