# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A level is that of good ends, however many others there are."""

from __future__ import annotations

import math
import random

import pytest
from ansible_collections.mlnode.tuning.plugins.plugin_utils.campaign import levels
from ansible_collections.mlnode.tuning.plugins.plugin_utils.campaign.numbers import Measured
from ansible_collections.mlnode.tuning.tests.unit.plugins.plugin_utils.campaign.measurements import (
    measured,
    slow,
)


@pytest.mark.parametrize("loss", [0.1, 0.15, 0.5, 0.9])
@pytest.mark.parametrize(("ends", "bad"), [(4, 2), (5, 2), (8, 4), (30, 15), (30, 20), (30, 3), (30, 0)])
def test_slow_ends_do_not_lower_the_level(ends: int, bad: int, loss: float) -> None:
    start = levels.start(measured(ends, slow(range(bad), 1 - loss)))

    assert start.level[0] == pytest.approx(0, abs=0.02)
    # The noise between good ends, without the loss of others
    assert max(start.rest) < 0.06


def test_a_few_ends_that_are_better_than_the_rest_are_no_standard() -> None:
    """Two of 40, as if another model were among them: the others are not slow."""
    start = levels.start(measured(40, lambda one, other: 2.0 if {one, other} == {0, 1} else 1.0))

    assert start.level[0] == pytest.approx(0, abs=0.02)


@pytest.mark.parametrize("ends", [5, 6, 8, 12])
def test_one_pair_on_a_shorter_way_is_no_standard(ends: int) -> None:
    start = levels.start(measured(ends, lambda one, other: 1.5 if {one, other} == {0, 1} else 1.0))

    assert start.level[0] == pytest.approx(0, abs=0.02)


def test_three_generations_have_the_level_of_the_best() -> None:
    def part(one: int, other: int) -> float:
        return min([1.0, 0.5, 0.25][one % 3], [1.0, 0.5, 0.25][other % 3])

    assert levels.start(measured(30, part)).level[0] == pytest.approx(0, abs=0.02)


def test_each_class_has_its_level() -> None:
    found = measured(10, lambda _one, _other: 1.0)
    places = [one % 2 == other % 2 for one, other in zip(found.sender, found.receiver)]
    looks = [[rate[0] - (0 if near else 0.7)] for rate, near in zip(found.looks, places)]
    two = found._replace(classes=3, like=[int(near) for near in places], looks=looks, kin=[0, 1, 2])

    level = levels.start(two).level

    assert level[:2] == pytest.approx([-0.7, 0], abs=0.02)
    # Nothing was measured.
    assert level[2] == 0.0


def test_a_class_with_few_pairs_has_the_level_of_its_kin() -> None:
    """One slow pair inside of a leaf is no level of its own."""
    found = measured(10, lambda *ends: 0.7 if {*ends} == {0, 1} else 1.0)
    like = [int({*ends} == {0, 1}) for ends in zip(found.sender, found.receiver)]

    level = levels.start(found._replace(classes=2, like=like, kin=[0, 0])).level

    assert level == pytest.approx([0, 0], abs=0.02)


def test_nothing_measured_has_no_level() -> None:
    assert levels.start(Measured(3, 1, [], [], [], [], [], [], [], [0])) == levels.Start([0.0], [])


@pytest.mark.parametrize("spread", [0.0, 0.005, 0.02, 0.1])
def test_noise_is_not_two_groups(spread: float) -> None:
    chance = random.Random(1)
    values = sorted(chance.gauss(0, spread) for _ in range(100))

    assert levels.bounds(values) == (values[0], values[-1])


def test_bounds_hold_the_best_group() -> None:
    few = [-0.7, -0.69, -0.3, 0.0, 0.005, 0.01, 0.012]
    many = sorted([*few, -0.31, -0.32, *few])

    assert levels.bounds(few) == levels.bounds(many) == (0.0, 0.012)
    assert levels.bounds([]) == (0.0, 0.0)
    assert levels.bounds([math.log(0.5)]) == (math.log(0.5),) * 2
