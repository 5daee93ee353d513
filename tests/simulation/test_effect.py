# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Effects that are there, and that are not, with the noise of fleet.py and a fleet that grows slower: 10
pairs, each measured four times, A B B A."""

from __future__ import annotations

import math
import random

import pytest
from ansible_collections.mlnode.tuning.plugins.plugin_utils.campaign import plan as circle
from ansible_collections.mlnode.tuning.plugins.plugin_utils.effect import interval
from ansible_collections.mlnode.tuning.plugins.plugin_utils.effect.interval import Effect
from ansible_collections.mlnode.tuning.tests.simulation.fleet import Fleet
from ansible_collections.mlnode.tuning.tests.unit.effort import EFFORT

pytestmark = pytest.mark.robustness

SEEDS = range(1000 * EFFORT)
PAIRS = 10
#: Of one phase to the next, as when a switch warms up: more than the effect, over the four of them
TREND = 0.99


def measured(effect: float, seed: int) -> Effect:
    fleet = Fleet({}, {}, {}, random.Random(seed))
    found = interval.of({str(pair): _series(fleet, effect) for pair in range(PAIRS)})
    assert found is not None
    return found


def _series(fleet: Fleet, effect: float) -> list[float]:
    """The mean of both directions, as plugin_utils/effect/report.py takes it."""
    return [
        math.sqrt(fleet.measured("a", "b") * fleet.measured("b", "a"))
        * TREND**number
        * (1 + effect * (state == "B"))
        for number, state in enumerate(interval.ORDER)
    ]


def test_three_percent_are_seen() -> None:
    found = [measured(0.03, seed) for seed in SEEDS]

    assert sum(one.low > 0 for one in found) >= 0.95 * len(found)


def test_no_effect_is_seldom_taken_for_one() -> None:
    found = [measured(0.0, seed) for seed in SEEDS]

    assert sum(one.is_certain for one in found) <= 0.05 * len(found)


@pytest.mark.parametrize(("nodes", "rounds"), [(3, 2), (3, 3), (5, 2), (8, 2)])
def test_pairs_that_share_nodes_prove_no_more_than_they_do(nodes: int, rounds: int) -> None:
    """All noise is in the nodes, which is the worst for pairs of the same ones. Without a wider interval the
    truth was held in 83 to 91 of 100 cases."""
    plan = circle.of(nodes, rounds)
    met = [pair for number in range(rounds) for pair in plan.pairs(number)]
    pairs = {f"{one} {other}": (str(one), str(other)) for one, other in met}
    held = 0
    for seed in SEEDS:
        chance = random.Random(seed)
        noise = {str(node): [chance.gauss(0, 0.01) for _phase in interval.ORDER] for node in range(nodes)}
        series = {
            name: [math.exp(one + other) for one, other in zip(*(noise[node] for node in ends))]
            for name, ends in pairs.items()
        }
        found = interval.of(series, pairs)
        assert found is not None
        held += found.low <= 0 <= found.high

    assert held >= 0.93 * len(SEEDS)


@pytest.mark.parametrize("effect", [-0.05, 0.01])
def test_the_interval_holds_the_truth(effect: float) -> None:
    found = [measured(effect, seed) for seed in SEEDS]

    assert sum(one.low <= effect <= one.high for one in found) >= 0.95 * len(found)
