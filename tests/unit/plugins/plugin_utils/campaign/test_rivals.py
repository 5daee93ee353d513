# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where measurements cannot tell, all explanations are named with their probabilities."""

from __future__ import annotations

import pytest
from ansible_collections.mlnode.tuning.plugins.plugin_utils.campaign.fit import Fit
from ansible_collections.mlnode.tuning.plugins.plugin_utils.campaign.suspects import BOTH, LEAF, NODE, PATH
from ansible_collections.mlnode.tuning.tests.unit.plugins.plugin_utils.campaign.measurements import (
    fitted,
    measured,
    only,
    slow,
)


def chances(found: Fit, number: int = 0) -> dict[tuple[str, tuple[int, ...]], float]:
    """The directions of one thing together."""
    sums: dict[tuple[str, tuple[int, ...]], float] = {}
    for one in found.rivals[number]:
        place = one.sort, one.where
        sums[place] = sums.get(place, 0.0) + one.chance
    return sums


def test_a_slow_end_that_has_met_many_has_no_rival() -> None:
    found = fitted(measured(10, slow([4], 0.8)))

    assert chances(found) == {(NODE, (4,)): pytest.approx(1, abs=0.01)}


def test_the_only_node_of_a_leaf_and_its_uplinks_explain_the_same() -> None:
    """Nodes fail more often than uplinks, so that the node is likelier; neither is certain."""
    leaves = [9, *[end // 3 for end in range(9)]]

    found = chances(fitted(measured(10, slow([0], 0.8)), leaves))

    node, uplinks = found[NODE, (0,)], found[LEAF, (9,)]
    assert node + uplinks == pytest.approx(1, abs=0.01)
    assert 0.7 < node < 0.9


def test_inside_of_the_leaf_the_node_is_told_from_its_uplinks() -> None:
    leaves = [end // 5 for end in range(10)]

    assert chances(fitted(measured(10, slow([0], 0.8)), leaves)) == {(NODE, (0,)): pytest.approx(1, abs=0.01)}


def test_of_two_ends_that_have_met_each_other_only_both_are_suspects() -> None:
    full = measured(12, lambda *ends: 0.7 if {*ends} == {0, 1} else 1.0, 0.005)
    few = only(full, lambda ends: ends == {0, 1} or not ends & {0, 1})

    found = fitted(few)

    sums = chances(found)
    assert len(found.named) == 1
    assert {*sums} == {(NODE, (0,)), (NODE, (1,)), (PATH, ())}
    assert list(sums.values()) == pytest.approx([1 / 3] * 3, abs=0.05)


def test_probabilities_add_up_and_the_named_one_is_first() -> None:
    leaves = [9, *[end // 3 for end in range(9)]]
    found = fitted(measured(10, slow([0, 4], 0.8)), leaves)

    assert len(found.rivals) == len(found.named) == 2
    for one, rivals in zip(found.named, found.rivals):
        assert (rivals[0].sort, rivals[0].where, rivals[0].way) == (NODE, one.suspect.where, BOTH)
        assert sum(rival.chance for rival in rivals) == pytest.approx(1)


def test_a_few_low_pairs_of_an_end_are_paths_rather_than_the_end() -> None:
    def part(one: int, other: int) -> float:
        return 0.7 if 0 in (one, other) and {one, other} & {1, 2} else 1.0

    found = fitted(measured(12, part))

    assert all((NODE, (0,)) not in chances(found, number) for number in range(len(found.named)))
    assert len(found.paths) == 2


def test_half_of_the_pairs_of_an_end_are_low_each_for_itself() -> None:
    """A slow end would be low with all of them."""

    def part(one: int, other: int) -> float:
        return 0.7 if 0 in (one, other) and max(one, other) < 5 else 1.0

    found = fitted(measured(8, part))

    assert found.named == []
    assert len(found.paths) == 4


def test_one_that_was_low_in_its_first_look_only_may_have_had_bad_paths() -> None:
    """The means of both looks are low, each by another part."""
    first = measured(10, slow([4], 0.7), 0.005)
    looks = [
        [*mine, 0.0] if 4 in ends and {*ends} & {0, 1, 2} else mine
        for *ends, mine in zip(first.sender, first.receiver, first.looks)
    ]
    both = first._replace(looks=looks, rate=[sum(mine) / len(mine) for mine in looks])

    sums = chances(fitted(both))

    assert sums[PATH, ()] > 0.5
