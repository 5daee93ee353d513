# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Faults of all pairs at once: no pair is low compared with the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit.plugins.plugin_utils.campaign.fleets import (
    Fleet,
    pair,
    rail,
    verdict,
)


def both(gbits: float, **more: Any) -> Callable[[dict[str, Any]], None]:
    return lambda slot: slot.update(forward_gbits=gbits, backward_gbits=gbits, **more)


def verdicts(report: dict[str, Any]) -> set[str]:
    return {node["verdict"] for node in report["document"]["nodes"]}


@pytest.mark.parametrize("gbits", [3600.0, 1000.0, 151.0])
def test_no_pair_has_a_result_that_its_ports_cannot_carry(gbits: float) -> None:
    fleet = Fleet()
    fleet.each(both(gbits))

    report = fleet.report()

    assert report["document"]["verdict"] == "unknown"
    assert verdicts(report) == {"unknown"}
    found = pair(report, "a", "b")
    assert found["gbits"] is None
    why = (
        "Gb/s is more than the 100 Gb/s that its ports carry: another unit, the loopback interface, or forged"
    )
    assert found["reason"] == f"{gbits:.4g} {why}"


def test_one_forged_pair_is_unknown_and_makes_no_other_low() -> None:
    fleet = Fleet()
    fleet.slot("a", "b").update(forward_gbits=3600.0)

    report = fleet.report()

    assert pair(report, "a", "b")["verdict"] == "unknown"
    assert verdicts(report) == {"pass"}
    assert report["document"]["verdict"] == "unknown"


def test_a_level_above_the_ports_is_another_unit() -> None:
    """98 Gb/s as GiB/s would be 11.4; Gibit for Gbit and the like make 7 %, too little for a single pair."""
    fleet = Fleet()
    fleet.each(both(98 * 1.0737))

    report = fleet.report()

    assert report["document"]["verdict"] == "unknown"
    assert verdicts(report) == {"unknown"}
    [finding] = report["document"]["fleet"]
    assert finding["verdict"] == "unknown"
    assert finding["reason"] == "the median of 28 pairs, 105.2 Gb/s, is above the 100 Gb/s of their ports"


@pytest.mark.parametrize("share", [0.05, 0.5, 0.75])
def test_a_fleet_whose_cores_are_all_the_limit_is_unknown(share: float) -> None:
    """Nothing but the fleet is left to compare with, and it is slow as a whole."""
    fleet = Fleet()
    fleet.each(both(100 * share, cpu_bound=True))

    report = fleet.report()

    assert report["document"]["verdict"] == "unknown"
    assert verdicts(report) == {"unknown"}
    [finding] = report["document"]["fleet"]
    assert finding["reason"].endswith("; the cores were the limit, so nothing is known of the ports")


def test_a_slow_class_of_fast_ports_does_not_hide_behind_a_good_one() -> None:
    """Half of the nodes have ports of 400 Gb/s, and the pairs between them have 100."""
    fleet = Fleet()
    fleet.set_rate("abcd", 400_000)

    report = fleet.report()

    assert report["document"]["verdict"] == "fail"
    assert any("under 316.8 Gb/s" in one["reason"] for one in report["document"]["fleet"])
    assert {verdict(report, name) for name in "abcd"} != {"pass"}


@pytest.mark.parametrize(("few", "expected"), [("h", "fail"), ("efgh", "fail"), ("bcdefgh", "fail")])
def test_a_port_that_negotiated_less_than_its_twins_is_a_finding_by_itself(few: str, expected: str) -> None:
    """10 of 100 Gb/s: each of these pairs has all that its port carries."""
    fleet = Fleet()
    fleet.set_rate(few, 10_000)
    for name in few:
        fleet.all_of(name, both(9.8))

    report = fleet.report()

    for name in few:
        assert verdict(report, name) == expected
        assert rail(report, name)["certainty"] == "certain"
        twins = 8 - len(few)
        why = f"its port negotiated 10 of 100 Gb/s, which {twins} of its twins have"
        assert rail(report, name)["reason"].startswith(why)
    assert report["document"]["verdict"] == "fail"
    assert verdict(report, "a") != "fail"


def test_another_model_of_port_is_no_twin() -> None:
    fleet = Fleet()
    fleet.set_rate("gh", 50_000)
    for name in "gh":
        fleet.answers[name]["rails"][0].update(driver="bnxt_en")
        fleet.all_of(name, both(49.0))

    report = fleet.report()

    assert not any("negotiated" in rail(report, name)["reason"] for name in "abcdefgh")
    assert [verdict(report, name) for name in "abcdef"] == ["pass"] * 6


def test_ports_without_a_driver_may_be_another_model() -> None:
    """Half of the rate may be a design; a tenth is a fault."""
    for mbit, gbits, expected in ((50_000, 49.0, "unknown"), (10_000, 9.8, "fail")):
        fleet = Fleet(driver="")
        fleet.set_rate("h", mbit)
        fleet.all_of("h", both(gbits))

        assert verdict(fleet.report(), "h") == expected


def test_a_fast_port_among_slower_ones_is_not_blamed_for_them() -> None:
    """One port of 400 Gb/s: all of its pairs run at the 100 of the others, and prove nothing of the rest."""
    fleet = Fleet()
    fleet.set_rate("a", 400_000)
    fleet.answers["a"]["rails"][0]["firmware"] = "other"

    report = fleet.report()

    assert verdict(report, "a") == "unknown"
    assert rail(report, "a")["loss_percent"] is None


def test_a_fast_port_that_is_slower_than_the_slower_ones_is_named() -> None:
    fleet = Fleet()
    fleet.set_rate("abcd", 400_000)
    for one in "abcd":
        for other in "abcd":
            if one < other:
                fleet.slot(one, other).update(forward_gbits=392.0, backward_gbits=392.0)
    fleet.all_of("a", both(60.0))

    report = fleet.report()

    assert verdict(report, "a") == "fail"
    assert rail(report, "a")["loss_percent"] > 80


@pytest.mark.parametrize(("gbits", "word"), [(93.0, "warn"), (85.0, "fail"), (60.0, "fail")])
def test_pairs_across_two_leaves_are_compared_with_those_inside(gbits: float, word: str) -> None:
    fleet = Fleet("abcdefgh", leaves="11112222", speed_mbit=None)
    for one in "abcd":
        for other in "efgh":
            both(gbits)(fleet.slot(one, other))

    report = fleet.report()

    assert report["document"]["verdict"] == word
    [across] = report["document"]["fleet"]
    assert across["verdict"] == word
