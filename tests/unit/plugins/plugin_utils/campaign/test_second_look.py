# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is measured again, and what becomes of it."""

from __future__ import annotations

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.plugins.plugin_utils.campaign.fleets import (
    GBITS,
    Fleet,
    low,
    missing,
    names,
    rail,
    second,
)


@cases.table
def test_a_second_look_at_a_node(gbits: float, word: str, low_again: int) -> None:
    fleet = Fleet()
    fleet.all_of("c", low)
    again = fleet.report()["again"]

    report = fleet.report(second(fleet, again, gbits))

    row = next(line for line in report["table"] if " node c " in line)
    assert row.startswith(word)
    assert f"low with 7 of 7 partners, {low_again} of 3 when tried again" in row
    assert rail(report, "c")["second_look"] == {
        "planned": 3, "measured": 3, "low": low_again, "slow_themselves": 0
    }  # fmt: skip
    assert report["document"]["paths"] == []
    assert not report["success"]
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
