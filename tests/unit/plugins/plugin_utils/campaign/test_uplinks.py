# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Uplinks of leaves and the ways between them, told from nodes and paths."""

from __future__ import annotations

import pytest
from ansible_collections.mlnode.tuning.tests.unit.plugins.plugin_utils.campaign.fleets import (
    Fleet,
    low,
    names,
    rail,
    verdict,
)


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
    assert (
        "between leaves 1 and 2  29% under the level of other pairs, both directions: 12 of 12 m" in rows[0]
    )


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


@pytest.mark.parametrize(("leaves", "known"), [("111122223333", ["1"]), ("111111222222", [])])
def test_with_two_leaves_it_is_not_known_which_uplinks_are_slow_but_that_some_are(
    leaves: str, known: list[str]
) -> None:
    fleet = Fleet("abcdefghijkl", leaves=leaves)
    for one, leaf in zip("abcdefghijkl", leaves):
        for other, another in zip("abcdefghijkl", leaves):
            if leaf == "1" != another:
                fleet.slot(one, other).update(forward_gbits=85.0, backward_gbits=85.0)

    report = fleet.report()

    assert report["document"]["verdict"] == "fail"
    assert {verdict(report, name) for name in "abcdefghijkl"} == {"pass"}
    assert [leaf for one in report["document"]["uplinks"] for leaf in one["leaves"]] == known
    if not known:
        [across] = report["document"]["fleet"]
        why = "pairs across leaves have 87% of the rate of pairs inside one: "
        assert (across["verdict"], across["reason"][: len(why)]) == ("fail", why)


def test_a_node_that_is_low_across_leaves_only_is_no_leaf() -> None:
    fleet = Fleet("abcdefgh", leaves="11112222")
    for other in "efgh":
        low(fleet.slot("a", other))

    report = fleet.report()

    assert [verdict(report, name) for name in "abcdefgh"] == ["unknown", *["pass"] * 7]
    assert report["document"]["uplinks"] == []
    assert len(report["document"]["paths"]) == 4
    assert report["document"]["verdict"] == "fail"


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
