# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Many ends that are slow alike are a group: reported as one, and never averaged into a limit."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit.plugins.plugin_utils.campaign.fleets import (
    GBITS,
    Fleet,
    rail,
    verdict,
)

NAMES = "abcdefghijklmnopqrst"


def slowed(fleet: Fleet, slow: str, part: float) -> None:
    for name in slow:
        fleet.all_of(name, lambda slot: slot.update(forward_gbits=part * GBITS, backward_gbits=part * GBITS))


def made_of(slow: str, part: float, **facts: Any) -> Fleet:
    made = Fleet(NAMES, **facts)
    slowed(made, slow, part)
    return made


@pytest.mark.parametrize("slow", ["abcdef", "abcdefghij"])
def test_slow_ends_that_are_alike_are_one_line_and_a_finding_of_each(slow: str) -> None:
    report = made_of(slow, 0.84).report()

    [group] = report["document"]["groups"]
    assert {end["node"] for end in group["ends"]} == {*slow}
    assert (group["of"], group["verdict"], group["loss_percent"]) == (20, "fail", 16.0)
    assert {verdict(report, name) for name in slow} == {"fail"}
    assert {verdict(report, name) for name in NAMES if name not in slow} == {"pass"}
    [row] = [line for line in report["table"] if " of 20 nodes: " in line]
    assert row.startswith(f"fail     {len(slow)} of 20 nodes: a, b, c, d, e, f")
    assert row.endswith("at 0.84 of the others")
    assert not any(" node a" in line or " nodes a" in line for line in report["table"])


def test_a_few_slow_ends_are_no_group() -> None:
    report = made_of("abcd", 0.84).report()

    assert report["document"]["groups"] == []
    assert any(" nodes a, b, c, d " in line for line in report["table"])


def test_two_groups_are_two_and_a_fault_beside_them_is_said() -> None:
    made = made_of("abcde", 0.84)
    slowed(made, "fghij", 0.5)
    slowed(made, "k", 0.3)

    report = made.report()

    groups = [
        ({end["node"] for end in one["ends"]}, one["loss_percent"]) for one in report["document"]["groups"]
    ]
    assert groups == [({*"abcde"}, 16.0), ({*"fghij"}, 50.0)]
    assert any(" node k " in line for line in report["table"])
    assert verdict(report, "k") == "fail"


@pytest.mark.parametrize("trait", ["driver", "firmware"])
def test_what_a_group_has_in_common_is_said(trait: str) -> None:
    made = made_of("abcdef", 0.84)
    for name in "abcdef":
        made.answers[name]["rails"][0][trait] = "old"

    report = made.report()

    [group] = report["document"]["groups"]
    assert group["common"] == f"{trait} old"
    assert any(line.endswith(f"at 0.84 of the others, all of {trait} old") for line in report["table"])


def test_a_kernel_in_common_is_said_and_one_that_others_have_too_is_not() -> None:
    for others, common in (("", "kernel 6.1.0"), ("t", "")):
        made = made_of("abcdef", 0.84)
        for name in f"abcdef{others}":
            made.answers[name]["kernel"] = "6.1.0"

        [group] = made.report()["document"]["groups"]

        assert group["common"] == common


def test_one_rail_of_all_nodes_is_a_group_of_that_rail() -> None:
    made = Fleet("abcdefgh", rails=3)
    for name in "abcdefgh":
        made.all_of(name, lambda slot: slot.update(forward_gbits=84.0, backward_gbits=84.0), rail=1)

    report = made.report()

    [group] = report["document"]["groups"]
    assert group["common"] == "rail 1"
    assert {end["rail"] for end in group["ends"]} == {1}
    # The eighth one has met these only.
    assert len(group["ends"]) == 7
    assert any(" 7 of 24 rails: " in line and line.endswith(", all of rail 1") for line in report["table"])
    assert group["verdict"] == "fail"
    for node in report["document"]["nodes"]:
        # Any seven of the eight explain the same.
        assert [one["verdict"] for one in node["rails"]] == ["pass", "unknown", "pass"]


@pytest.mark.parametrize(("part", "expected"), [(0.5, "unknown"), (0.85, "fail")])
def test_without_a_rate_a_group_at_half_of_the_rate_may_be_another_generation(
    part: float, expected: str
) -> None:
    report = made_of("abcdefg", part, speed_mbit=None).report()

    [group] = report["document"]["groups"]
    assert group["verdict"] == expected
    assert group["reason"] == (
        "another generation, or slow: no port reports its rate" if expected == "unknown" else ""
    )
    assert {verdict(report, name) for name in "abcdefg"} == {expected}
    assert rail(report, "a")["loss_percent"] == pytest.approx(100 * (1 - part), abs=0.1)
    assert report["document"]["verdict"] == expected
