# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Effects that are there, and that are not, in worlds of which the truth is known.

Each pair has the noise of fleet.py. All pairs of a phase share one disturbance besides, whose size and kind
are the world. Runs are as effect.yml makes them: they may end after each block from the third on.
"""

from __future__ import annotations

import functools
import itertools
import math
import random
import statistics
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest
from ansible_collections.mlnode.tuning.plugins.plugin_utils.effect import interval
from ansible_collections.mlnode.tuning.plugins.plugin_utils.effect.interval import Effect
from ansible_collections.mlnode.tuning.plugins.plugin_utils.effect.student import quantile
from ansible_collections.mlnode.tuning.tests.simulation.fleet import Fleet
from ansible_collections.mlnode.tuning.tests.unit.effort import EFFORT

pytestmark = pytest.mark.robustness

#: Number of pairs → runs of a cell: those of many pairs take longer
RUNS = {1: 500 * EFFORT, 2: 200 * EFFORT, 10: 100 * EFFORT, 100: 25 * EFFORT}

#: Smallest effect that matters, the default of effect.yml
LEAST = 0.01


class Cell(NamedTuple):
    """common: standard deviation of what all pairs of a phase share. blocks: the most of a run."""

    world: str
    common: float
    pairs: int
    blocks: int = 6


def _lasting(part: float) -> Callable[[random.Random, float], Iterator[float]]:
    """Noise of which this part lasts from one phase to the next (autocorrelation of first order)."""

    def phases(chance: random.Random, size: float) -> Iterator[float]:
        last = chance.gauss(0, size)
        while True:
            yield last
            last = part * last + math.sqrt(1 - part**2) * chance.gauss(0, size)

    return phases


def _trend(curve: Callable[[int], float]) -> Callable[[random.Random, float], Iterator[float]]:
    """Noise around a curve over the number of the phase."""
    return lambda chance, size: (curve(number) + chance.gauss(0, size) for number in itertools.count())


def _wave(period: float) -> Callable[[random.Random, float], Iterator[float]]:
    """A timer of the node, which comes back. The phases of two runs meet it at other times."""

    def phases(chance: random.Random, size: float) -> Iterator[float]:
        begin = chance.uniform(0, period)
        for number in itertools.count():
            wave = math.sin(2 * math.pi * (begin + number) / period)
            yield 3 * size * wave + chance.gauss(0, size)

    return phases


def _drawn(draw: Callable[[random.Random], float]) -> Callable[[random.Random, float], Iterator[float]]:
    return lambda chance, size: (size * draw(chance) for _number in itertools.count())


def _disturbed(chance: random.Random) -> float:
    """One phase of ten loses much."""
    return chance.gauss(0, 1) - (chance.uniform(0, 20) if chance.random() < 0.1 else 0)


def _drifting(chance: random.Random, size: float) -> Iterator[float]:
    """A random walk."""
    place = 0.0
    while True:
        yield place
        place += chance.gauss(0, size)


WORLDS: dict[str, Callable[[random.Random, float], Iterator[float]]] = {
    "gaussian": _drawn(lambda chance: chance.gauss(0, 1)),
    "one side": _drawn(lambda chance: -abs(chance.gauss(0, 1))),
    # Student's t with 2 degrees of freedom, whose variance is infinite, and with 1, which has no mean
    "heavy tails": _drawn(lambda chance: chance.gauss(0, 1) / math.sqrt(chance.expovariate(1))),
    "cauchy": _drawn(lambda chance: math.tan(math.pi * (chance.random() - 0.5))),
    "disturbed": _drawn(_disturbed),
    "lasting 0.5": _lasting(0.5),
    "lasting 0.9": _lasting(0.9),
    "swinging": _lasting(-0.5),
    "falling": _trend(lambda number: -0.01 * number),
    "bent": _trend(lambda number: -0.0005 * number**2),
    "warming up": _trend(lambda number: -0.1 * math.exp(-number / 3)),
    "slow wave": _trend(lambda number: 0.03 * math.sin(2 * math.pi * number / 24)),
    "drift of nodes": _drifting,
    **{f"wave of {period:g} phases": _wave(period) for period in (2.3, 3, 3.2, 4, 5.3, 6, 8)},
}

#: The same noise of all phases, and none, for each number of pairs; and the other worlds
GRID = [
    *(Cell("gaussian", common, pairs) for common in (0.0, 0.003, 0.01, 0.03) for pairs in (2, 10, 100)),
    *(Cell("gaussian", 0.01, 1, blocks) for blocks in (3, 4, 5, 8, 12)),
    *(Cell(world, common, 1) for world in WORLDS if world != "gaussian" for common in (0.003, 0.01)),
    *(Cell(world, 0.003, 10, 3) for world in ("heavy tails", "lasting 0.9", "falling", "bent")),
]
EFFECTS = (0.0, 0.01, -0.05)


def run(cell: Cell, effect: float, seed: int) -> Effect:
    chance = random.Random(f"{cell}{effect}{seed}")
    noise, fleet = WORLDS[cell.world](chance, cell.common), Fleet({}, {}, {}, chance)
    states = interval.order(cell.blocks, str(seed))
    pairs: dict[str, list[float]] = {str(pair): [] for pair in range(cell.pairs)}
    for state, shared in zip(states, noise):
        part = math.exp(max(-50.0, min(shared, 50.0))) * (1 + effect * (state == "B"))
        for series in pairs.values():
            # The mean of both directions, as plugin_utils/effect/report.py takes it
            series.append(part * math.sqrt(fleet.measured("a", "b") * fleet.measured("b", "a")))
        found = interval.estimate(pairs, states[: len(series)], cell.blocks) if len(series) % 4 == 0 else None
        if found and found.is_decided(LEAST):
            return found
    assert found is not None
    return found


@functools.lru_cache(maxsize=None)
def runs(cell: Cell, effect: float) -> list[Effect]:
    return [run(cell, effect, seed) for seed in range(RUNS[cell.pairs])]


def most(count: int) -> float:
    """As many of count runs fail by chance if 5 of 100 do: three standard deviations above that. More effort
    leaves less room."""
    return 0.05 * count + 3 * math.sqrt(0.05 * 0.95 * count)


def is_false(effect: Effect) -> bool:
    """The verdict, if there is no effect."""
    return interval.verdict(effect, LEAST, interval.HIGHER) in (interval.HELPS, interval.HARMS)


def named(cell: Cell) -> str:
    return f"{cell.world}, {100 * cell.common:g} %, {cell.pairs} pairs, {cell.blocks} blocks"


@pytest.mark.parametrize("cell", GRID, ids=named)
def test_no_effect_is_seldom_taken_for_one(cell: Cell) -> None:
    found = runs(cell, 0.0)

    assert sum(one.is_certain for one in found) <= most(len(found))
    assert sum(is_false(one) for one in found) <= most(len(found))


def _sixth(chance: random.Random, size: float) -> Iterator[float]:
    """Noise in which every sixth phase is 20 % slower."""
    first = chance.randrange(6)
    return (math.log(0.8) * (number % 6 == first) + chance.gauss(0, size) for number in itertools.count())


@pytest.mark.parametrize(("blocks", "share"), [(6, 0.13), (12, 0.08)])
def test_a_strict_period_exceeds_that_as_the_guide_says(
    monkeypatch: pytest.MonkeyPatch, blocks: int, share: float
) -> None:
    """docs/guide/effects.md, Error rate"""
    monkeypatch.setitem(WORLDS, "every sixth phase", _sixth)
    found = runs(Cell("every sixth phase", 0.01, 1, blocks), 0.0)
    chance = 3 * math.sqrt(share * (1 - share) / len(found))

    assert sum(one.is_certain for one in found) / len(found) == pytest.approx(share, abs=chance)


@pytest.mark.parametrize("cell", GRID, ids=named)
@pytest.mark.parametrize("effect", EFFECTS[1:])
def test_the_interval_holds_the_truth(cell: Cell, effect: float) -> None:
    found = runs(cell, effect)

    assert sum(not one.low <= effect <= one.high for one in found) <= most(len(found))


@pytest.mark.parametrize("cell", GRID, ids=named)
@pytest.mark.parametrize("effect", EFFECTS[1:])
def test_an_effect_above_the_stated_power_is_not_missed(cell: Cell, effect: float) -> None:
    found = runs(cell, effect)

    assert sum(not one.is_certain and abs(effect) >= one.seen for one in found) <= most(len(found))


@pytest.mark.parametrize("common", [0.0, 0.003, 0.01])
def test_a_large_effect_ends_a_run_early(common: float) -> None:
    """Of 60 %, as buffers that are too small cost it."""
    found = runs(Cell("gaussian", common, 10), 0.6)

    assert statistics.fmean(len(one.differences) for one in found) < 3.2
    assert all(one.low > 0 for one in found)


@pytest.mark.parametrize("pairs", [2, 10, 100])
def test_three_percent_are_seen_in_six_blocks(pairs: int) -> None:
    found = runs(Cell("gaussian", 0.003, pairs), 0.03)

    assert sum(one.low > 0 for one in found) >= 0.95 * len(found)


# -- what these worlds find in statistics that are wrong ----------------------------------------------


def test_pairs_as_the_unit_would_not_hold() -> None:
    cell, false = Cell("gaussian", 0.01, 10), 0
    for seed in range(100):
        chance = random.Random(seed)
        shared = [chance.gauss(0, cell.common) for _phase in range(4)]
        values = [
            sum(sign * (one + chance.gauss(0, 0.01)) / 2 for sign, one in zip((-1, 1, 1, -1), shared))
            for _pair in range(cell.pairs)
        ]
        half = quantile(0.05, cell.pairs - 1) * statistics.stdev(values) / math.sqrt(cell.pairs)
        false += abs(statistics.fmean(values)) > half

    assert false > most(100)


def test_looks_at_the_usual_interval_after_each_block_would_not_hold() -> None:
    false = 0
    for seed in range(400):
        chance = random.Random(seed)
        values = [chance.gauss(0, 0.01) for _block in range(12)]
        false += any(
            abs(statistics.fmean(values[:count]))
            > quantile(0.05, count - 1) * statistics.stdev(values[:count]) / math.sqrt(count)
            for count in range(interval.LEAST, 13)
        )

    assert false > most(400)
