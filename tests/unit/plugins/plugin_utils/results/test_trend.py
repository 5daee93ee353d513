# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Results over time: a node that gets worse a little each day is named."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import jsonschema
import pytest
from ansible_collections.mlnode.tuning.plugins.plugin_utils.results import result, trend
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.plugins.plugin_utils.results.campaigns import campaign
from mlnode.model.errors import MlnodeError

SCHEMA = json.loads((pathlib.Path(__file__).parents[5] / "docs/schema/trend.schema.json").read_text("utf-8"))


def followed(*documents: dict[str, Any]) -> trend.Trend:
    points = [trend.point(result.read(one, f"{at}.json")) for at, one in enumerate(documents)]
    found = trend.trend(points)
    jsonschema.validate(trend.whole([found], ["x.json is none"]), SCHEMA)
    return found


def worse(found: trend.Trend) -> list[str]:
    return [name for name, one in found.nodes.items() if one.last.word == "worse"]


def test_a_node_that_loses_a_hundredth_a_day_is_named_after_a_week() -> None:
    documents = [campaign(16, day, slow={"gpu007": 1 - day / 100}) for day in range(1, 9)]

    found = followed(*documents)

    assert worse(found) == ["gpu007"]
    assert found.fleet.last.word == "same"
    assert found.verdict == "worse"
    values = [value for value in found.nodes["gpu007"].values if value is not None]
    assert len(values) == 8
    assert values[0] > values[-1]


def test_the_order_is_that_of_time() -> None:
    documents = [campaign(16, day, slow={"gpu007": 0.8} if day == 1 else {}) for day in (3, 1, 2)]

    found = followed(*documents)

    assert [run.started[:10] for run in found.runs] == ["2026-11-01", "2026-11-02", "2026-11-03"]
    assert worse(found) == []


def test_a_steady_fleet_has_nothing_to_say() -> None:
    found = followed(*(campaign(64, day, noise=0.02) for day in range(1, 6)))

    assert found.verdict == "same"
    assert {one.last.word for one in found.nodes.values()} == {"same"}


@cases.table
def test_what_cannot_be_compared_is_unknown(silent: tuple[str, ...], reason: str) -> None:
    last = campaign(16, 2)
    gone = {*silent}
    last["pairs"] = [pair for pair in last["pairs"] if gone.isdisjoint(end["node"] for end in pair["ends"])]

    found = followed(*([campaign(16, 1)] if silent else []), last)

    assert {one.last.reason for one in found.nodes.values() if one.last.word == "unknown"} == {reason}
    assert found.verdict == "unknown"


def test_lines_fit_a_terminal_and_have_a_bar_for_each_run() -> None:
    documents = [campaign(48, day, slow={"gpu007": 1 - day / 20}) for day in range(1, 6)]
    documents[2]["pairs"] = [
        pair for pair in documents[2]["pairs"] if "gpu007" not in {end["node"] for end in pair["ends"]}
    ]
    documents[3]["nodes"][0]["kernel"] = "6.13.1"

    lines = trend.lines(followed(*documents), 80)

    assert all(len(line) <= 80 for line in lines), lines
    [row] = [line for line in lines if line.startswith("gpu007")]
    bars = row.split()[4]
    assert (len(bars), bars[0], bars[2], bars[4]) == (5, "█", "·", "▁")
    assert any(line.startswith("and 47 more: gpu[001:006], gpu[008:048]") for line in lines)
    assert "  2026-11-04 kernel 6.12.0 -> 6.13.1: gpu001" in lines
    assert lines[-1] == "worse: 48 nodes: 1 worse, 47 same"


def test_the_same_campaign_twice_is_refused() -> None:
    with pytest.raises(MlnodeError, match=r"0\.json and 1\.json are the same campaign"):
        followed(campaign(4, 1), campaign(4, 1))


def test_units_are_not_mixed() -> None:
    other = campaign(2, 2)
    other["campaign"]["unit"] = "usec"
    other["classes"] = []
    for one in (*other["pairs"], *(limit for pair in other["pairs"] for limit in pair["limits"])):
        one["usec"] = one["gbits"]

    with pytest.raises(MlnodeError, match=r"0\.json is in Gb/s, and 1\.json in usec"):
        followed(campaign(2, 1), other)
