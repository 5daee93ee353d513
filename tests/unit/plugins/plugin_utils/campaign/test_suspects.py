# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which ends, leaves and paths explain what is low, and which of them are named."""

from __future__ import annotations

import math

import pytest
from ansible_collections.mlnode.tuning.plugins.plugin_utils.campaign import suspects
from ansible_collections.mlnode.tuning.plugins.plugin_utils.campaign.fit import Fit
from ansible_collections.mlnode.tuning.plugins.plugin_utils.campaign.numbers import share
from ansible_collections.mlnode.tuning.plugins.plugin_utils.campaign.suspects import (
    BOTH,
    LEAF,
    LINK,
    NODE,
    RECEIVES,
    SENDS,
)
from ansible_collections.mlnode.tuning.tests.unit.plugins.plugin_utils.campaign.measurements import (
    fitted,
    measured,
    only,
    slow,
)


def named(found: Fit) -> set[tuple[str, tuple[int, ...], str]]:
    return {(one.suspect.sort, one.suspect.where, one.suspect.way) for one in found.named}


@pytest.mark.parametrize("ends", [[], [0], [2, 5], [0, 1, 2, 3]])
def test_slow_ends_are_named_with_their_loss_and_no_other(ends: list[int]) -> None:
    found = fitted(measured(10, slow(ends, 0.8)))

    assert named(found) == {(NODE, (end,), BOTH) for end in ends}
    assert [share(one.loss) for one in found.named] == pytest.approx([0.2] * len(ends), abs=0.01)
    assert found.paths == []


@pytest.mark.parametrize(("place", "way"), [(0, SENDS), (1, RECEIVES)])
def test_an_end_that_is_slow_in_one_direction_is_named_with_it(place: int, way: str) -> None:
    found = fitted(measured(10, lambda *ends: 0.8 if ends[place] == 4 else 1.0))

    assert named(found) == {(NODE, (4,), way)}


def test_losses_do_not_add_up() -> None:
    """A transfer between two slow ends runs at the rate of the slower one."""
    found = fitted(measured(10, lambda *ends: min({3: 0.8, 4: 0.6}.get(end, 1.0) for end in ends)))

    losses = {one.suspect.where[0]: share(one.loss) for one in found.named}
    assert losses == {3: pytest.approx(0.2, abs=0.01), 4: pytest.approx(0.4, abs=0.01)}


LEAVES = [end // 4 for end in range(20)]


def over(one: int, other: int, *leaves: int) -> bool:
    """A way out of a leaf, or the way between two of them."""
    ends = {LEAVES[one], LEAVES[other]}
    return len(ends) == 2 and ends >= {*leaves}


@pytest.mark.parametrize(("sort", "where"), [(LEAF, (2,)), (LINK, (1, 3))])
def test_uplinks_and_ways_between_leaves_are_named_and_their_nodes_are_not(
    sort: str, where: tuple[int, ...]
) -> None:
    found = fitted(measured(20, lambda *ends: 0.7 if over(*ends, *where) else 1.0), LEAVES)

    assert named(found) == {(sort, where, BOTH)}
    assert found.paths == []


def test_a_slow_end_in_a_leaf_with_slow_uplinks_is_named_as_well() -> None:
    def part(one: int, other: int) -> float:
        return min(0.7 if over(one, other, 2) else 1.0, 0.5 if 8 in (one, other) else 1.0)

    assert named(fitted(measured(20, part), LEAVES)) == {(LEAF, (2,), BOTH), (NODE, (8,), BOTH)}


def test_unknown_leaves_are_no_suspects() -> None:
    found = suspects.of_leaves(measured(4, slow([], 1)), [-1, 0, -1, 1])

    assert {(one.sort, one.where, one.way) for one in found} == {
        *((LEAF, (leaf,), way) for leaf in (0, 1) for way in (BOTH, SENDS, RECEIVES)),
        *((LINK, (0, 1), way) for way in (BOTH, SENDS, RECEIVES)),
    }
    assert all(len(one.readings) == (2 if one.way == BOTH else 1) for one in found)


def test_a_low_pair_is_a_path_and_a_low_end_has_none() -> None:
    def part(one: int, other: int) -> float:
        return 0.8 if 9 in (one, other) or {one, other} == {2, 3} else 1.0

    found = fitted(measured(10, part))

    assert named(found) == {(NODE, (9,), BOTH)}
    [path] = found.paths
    assert (share(path.loss), path.looks, path.lows) == (pytest.approx(0.2, abs=0.03), 1, 1)


def test_an_end_that_has_met_slow_ends_only_is_not_named() -> None:
    """Of three nodes of which two are slow, nothing is known of the third one's pairs."""
    found = fitted(measured(12, slow(range(6), 0.8)))
    few = only(measured(12, slow(range(6), 0.8)), lambda ends: 11 not in ends or bool(ends & {*range(6)}))

    spoilt = fitted(few)

    assert named(found) == {(NODE, (end,), BOTH) for end in range(6)}
    assert named(spoilt) == named(found)
    assert math.isinf(spoilt.bound(11))


def test_a_port_with_something_to_spare_is_blamed_for_more_than_that_only() -> None:
    """Ports of 400 among ports of 100 Gb/s: of the former, such a pair says nothing until they fall to a
    quarter."""
    few = measured(10, slow([], 1))
    spare = [(1.4, 0.0) if one == 0 else (0.0, 1.4) if other == 0 else (0.0, 0.0)
             for one, other in zip(few.sender, few.receiver)]  # fmt: skip

    found = fitted(few._replace(spare=spare))

    assert found.named == []
    assert math.isinf(found.bound(0))
    assert all(share(found.bound(end)) < 0.1 for end in range(1, 10))


@pytest.mark.parametrize(("sizes", "more"), [(10, 100), (100, 10_000)])
def test_more_suspects_take_more_to_be_named(sizes: int, more: int) -> None:
    few, many = (suspects.needed({NODE: size}, 20) for size in (sizes, more))

    assert all(few[kind] < many[kind] for kind in few)
    assert few[NODE, BOTH] < few[NODE, SENDS]


def test_of_noise_alone_hardly_anything_is_named() -> None:
    fits = [fitted(measured(12, slow([], 1), noise=0.03, seed=seed)) for seed in range(30)]

    assert sum(len(one.named) for one in fits) <= 4
