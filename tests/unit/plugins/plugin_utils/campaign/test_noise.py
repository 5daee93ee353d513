# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Noise of ends: neither what is disturbed nor a bad path is noise, and a loud end makes no other loud."""

from __future__ import annotations

import math
import random
import statistics

import pytest
from ansible_collections.mlnode.tuning.plugins.plugin_utils.campaign import noise
from ansible_collections.mlnode.tuning.plugins.plugin_utils.campaign.numbers import Measured
from ansible_collections.mlnode.tuning.tests.unit.plugins.plugin_utils.campaign.measurements import measured


def sizes(found: Measured) -> list[float]:
    """Standard deviation of a reading of each end with one like it."""
    rest = [-looks[0] for looks in found.looks]
    return [math.sqrt(2 * variance) for variance in noise.of_ends(found, rest)]


@pytest.mark.parametrize("size", [0.005, 0.02, 0.06])
def test_the_noise_of_a_fleet_is_that_of_its_readings(size: float) -> None:
    assert sizes(measured(30, lambda _one, _other: 1.0, size)) == pytest.approx([size] * 30, rel=0.45)


def test_a_loud_end_is_loud_and_its_partners_are_not() -> None:
    found = measured(30, lambda _one, _other: 1.0, 0.01)
    chance = random.Random(2)
    looks = [
        [mine[0] + chance.gauss(0, 0.08) if 3 in (one, other) else mine[0]]
        for one, other, mine in zip(found.sender, found.receiver, found.looks)
    ]

    own = sizes(found._replace(looks=looks))

    assert own[3] > 0.06
    assert max(own[:3] + own[4:]) < 0.02


def test_bad_paths_are_no_noise() -> None:
    """A fifth of the pairs lose 30 %."""

    def part(one: int, other: int) -> float:
        return 0.7 if (min(one, other) * 7 + max(one, other) * 3) % 5 == 0 else 1.0

    assert max(sizes(measured(40, part, 0.01))) < 0.02


def test_few_readings_are_drawn_towards_the_fleet() -> None:
    """Two readings that agree by chance do not make an end certain."""
    found = measured(20, lambda _one, _other: 1.0, 0.02)
    ways = [*zip(found.sender, found.receiver)]
    kept = [place for place, ends in enumerate(ways) if 0 not in ends or 1 in ends]
    few = found._replace(
        sender=[ways[place][0] for place in kept],
        receiver=[ways[place][1] for place in kept],
        looks=[[0.0] if 0 in ways[place] else found.looks[place] for place in kept],
    )

    assert sizes(few)[0] > 0.3 * 0.02


def test_without_a_reading_and_without_scatter_noise_is_not_zero() -> None:
    assert math.sqrt(noise.of_fleet([])) == pytest.approx(0.015)
    assert noise.of_fleet([0.0] * 1000) > 0
    # Of two readings the usual noise is most that is known.
    assert math.sqrt(noise.of_fleet([0.001, -0.001])) > 0.01


@pytest.mark.parametrize(("takes_only", "least", "most"), [(True, 0.9, 1.2), (False, 0.0, 0.25)])
def test_noise_that_only_takes_lowers_the_mean_of_a_loud_end(
    takes_only: bool, least: float, most: float
) -> None:
    chance = random.Random(1)
    values = [chance.gauss(0, 0.02) for _ in range(5000)]
    rest = [abs(one) for one in values] if takes_only else values
    centre = statistics.median(rest)

    assert least <= noise.fall([one - centre for one in rest]) <= most


def test_of_few_readings_no_shape_is_taken() -> None:
    assert noise.fall([abs(random.Random(1).gauss(0, 1)) for _ in range(50)]) == 0.0
