# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What would have been seen is what is seen, and both looks count."""

from __future__ import annotations

import math

import pytest
from ansible_collections.mlnode.tuning.plugins.plugin_utils.campaign.fit import fit
from ansible_collections.mlnode.tuning.plugins.plugin_utils.campaign.numbers import Measured, share
from ansible_collections.mlnode.tuning.tests.unit.plugins.plugin_utils.campaign.measurements import (
    fitted,
    measured,
    only,
    slow,
)

SEEDS = range(40)


@pytest.mark.parametrize("noise", [0.01, 0.03])
def test_a_loss_that_would_have_been_seen_is_named(noise: float) -> None:
    """With 95 %, of 40 that is 33 at least, in 99.9 % of cases."""
    seen = sum(share(fitted(measured(8, slow([], 1), noise, seed=seed)).bound(3)) for seed in SEEDS) / len(
        SEEDS
    )
    fits = [fitted(measured(8, slow([3], 1 - seen), noise, seed=seed)) for seed in SEEDS]

    assert sum(any(one.suspect.where == (3,) for one in found.named) for found in fits) >= 33


def test_no_end_that_is_not_named_has_more_than_its_bound() -> None:
    for loss in (0.02, 0.04, 0.06, 0.08, 0.1):
        for seed in SEEDS:
            found = fitted(measured(6, slow([3], 1 - loss), 0.03, seed=seed))
            if not any(one.suspect.where == (3,) for one in found.named):
                assert share(found.bound(3)) >= loss


def test_more_noise_and_fewer_measurements_see_less() -> None:
    full = measured(12, slow([], 1), 0.02)
    few = only(full, lambda ends: 3 not in ends or bool(ends & {0, 1}))

    assert fitted(full).bound(3) < fitted(few).bound(3)
    assert fitted(full).bound(3) < fitted(measured(12, slow([], 1), 0.06)).bound(3)


def twice(found: Measured, again: float, who: int) -> Measured:
    """The pairs of an end measured again, with so much of their level."""
    looks = [
        [*mine, math.log(again)] if who in ends else mine
        for *ends, mine in zip(found.sender, found.receiver, found.looks)
    ]
    return found._replace(looks=looks, rate=[sum(mine) / len(mine) for mine in looks])


def test_both_looks_are_pooled() -> None:
    found = measured(10, slow([4], 0.96), 0.02)

    [low] = fitted(twice(found, 0.96, 4)).named
    assert low.suspect.where == (4,)
    # A first look at the border and a second one without a loss are none.
    assert fitted(twice(measured(10, slow([4], 0.97), 0.02), 1.0, 4)).named == []


@pytest.mark.parametrize(("again", "lows"), [(0.8, 2), (1.0, 1)])
def test_of_a_path_it_is_known_how_often_it_was_low(again: float, lows: int) -> None:
    found = measured(10, lambda *ends: 0.8 if {*ends} == {1, 2} else 1.0, 0.005)
    looks = [
        [*mine, math.log(again)] if {*ends} == {1, 2} else mine
        for *ends, mine in zip(found.sender, found.receiver, found.looks)
    ]

    [path] = fitted(found._replace(looks=looks, rate=[sum(mine) / len(mine) for mine in looks])).paths

    assert (path.looks, path.lows) == (2, lows)


def test_a_level_below_the_promise_of_the_hardware_is_no_level() -> None:
    found = measured(6, lambda *_ends: 0.5)
    promised = [math.log(0.8)] * len(found.rate)

    assert fitted(found).named == []
    assert fit(found, [-1] * 6, promised, 0.05).named
