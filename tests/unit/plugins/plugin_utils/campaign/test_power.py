# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who passes: only a node whose loss would have been found."""

from __future__ import annotations

import pytest
from ansible_collections.mlnode.tuning.plugins.plugin_utils.measure import campaign
from ansible_collections.mlnode.tuning.plugins.plugin_utils.measure.nodes import MeasureError
from ansible_collections.mlnode.tuning.tests.unit.plugins.plugin_utils.campaign.fleets import (
    Fleet,
    missing,
    rail,
    verdict,
)


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
        row = (
            f"unknown  nodes a, b, c, d, e, f and 2 more  a loss of less than {loss} would not have been seen"
        )
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


@pytest.mark.parametrize("limit", [0, -1, 100, float("nan")])
def test_a_limit_that_is_no_percentage_is_refused(limit: float) -> None:
    with pytest.raises(MeasureError, match="campaign_limit: expected a percentage between 0 and 100, got"):
        campaign.part(limit)
