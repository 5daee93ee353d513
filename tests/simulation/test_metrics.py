# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs of a command that measure several metrics, in worlds in which A and B are the same.

The values are those of a program: rounded, on two levels, or equal. A run may end after each block from the
third on, by any of its rules. A run with one false verdict about any of its metrics is false.
"""

from __future__ import annotations

import functools
import math
import random
from collections.abc import Callable
from typing import NamedTuple

import pytest
from ansible_collections.mlnode.tuning.plugins.plugin_utils.effect import interval
from ansible_collections.mlnode.tuning.plugins.plugin_utils.effect.interval import Effect
from ansible_collections.mlnode.tuning.tests.simulation.test_effect import LEAST, is_false, most
from ansible_collections.mlnode.tuning.tests.unit.effort import EFFORT

pytestmark = pytest.mark.robustness

RUNS = 200 * EFFORT

#: World → a value of a phase, given what the metrics of the phase share, a normal number
WORLDS: dict[str, Callable[[random.Random, float], float]] = {
    "normal": lambda _chance, noise: math.exp(0.02 * noise),
    "two levels": lambda _chance, noise: 10.0 if noise > 0 else 11.0,
    "a rare level": lambda _chance, noise: 10.0 if noise > -1 else 13.0,
    "two noisy levels": lambda chance, noise: (10 if noise > 0 else 11) * math.exp(chance.gauss(0, 0.001)),
    "rounded": lambda _chance, noise: round(20 * math.exp(0.05 * noise)) / 1.0,
    "rounded to few values": lambda _chance, noise: round(1.2 + 0.03 * noise, 1),
    "equal": lambda _chance, _noise: 1.2,
    "noise that lasts": lambda _chance, noise: math.exp(0.02 * noise),
    "drift of nodes": lambda _chance, noise: math.exp(0.02 * noise),
    "heavy tails": lambda chance, noise: math.exp(0.01 * noise / math.sqrt(chance.expovariate(1))),
}

#: World → the part of the noise that is left in the next phase, and the size of the new noise
LASTING = {"noise that lasts": (0.9, math.sqrt(1 - 0.9**2)), "drift of nodes": (1.0, 0.3)}


class Rule(NamedTuple):
    """How a run ends. precision: 0 for none. blocks: at most."""

    name: str
    blocks: int
    precision: float = 0.0
    harms: bool = False


RULES = [
    Rule("decided", 6),
    Rule("decided, many blocks", 16),
    Rule("harms", 12, harms=True),
    Rule("precision 1 %", 24, 0.01),
    Rule("precision 2 %", 24, 0.02, harms=True),
    Rule("precision 5 %", 24, 0.05),
]

#: Number of metrics, and the part of their variance that they share
FAMILIES = [(3, 0.0), (3, 0.9)]

#: Narrow intervals take many blocks, and those of several metrics as many times as long.
GRID = [
    *((world, rule, 1, 0.0) for world in WORLDS for rule in RULES if rule.precision != 0.01),
    ("normal", RULES[3], 1, 0.0),
    *(
        (world, rule, *family)
        for world in ("normal", "two noisy levels")
        for rule in (RULES[0], RULES[2], RULES[4])
        for family in FAMILIES
    ),
]


def run(world: str, rule: Rule, family: int, common: float, seed: int) -> list[Effect]:
    chance = random.Random(f"{world}{rule}{family}{common}{seed}")
    states = interval.order(rule.blocks, str(seed))
    metrics: list[list[float]] = [[] for _metric in range(family)]
    found: list[Effect] = []
    left, new = LASTING.get(world, (0.0, 1.0))
    shared, own = 0.0, [0.0] * family
    for number in range(1, len(states) + 1):
        shared = left * shared + new * chance.gauss(0, 1)
        own = [left * noise + new * chance.gauss(0, 1) for noise in own]
        for series, noise in zip(metrics, own):
            both = math.sqrt(common) * shared + math.sqrt(1 - common) * noise
            series.append(WORLDS[world](chance, both))
        blocks = number // interval.BLOCK
        if number % interval.BLOCK or blocks < interval.LEAST:
            continue
        found = estimates(metrics, states[:number], rule.blocks)
        if rule.harms and any(is_false(effect) and effect.value < 0 for effect in found):
            return found
        if rule.precision:
            last = estimates(metrics, states[:number], blocks)
            if all(effect.is_narrow(rule.precision) for effect in last):
                return last
        elif all(effect.is_decided(LEAST) for effect in found):
            return found
    return found


def estimates(metrics: list[list[float]], states: str, blocks: int) -> list[Effect]:
    effects = [interval.estimate({"": series}, states, blocks, len(metrics)) for series in metrics]
    return [effect for effect in effects if effect]


@functools.lru_cache(maxsize=None)
def false(world: str, rule: Rule, family: int, common: float) -> int:
    """Runs with a false verdict."""
    return sum(any(map(is_false, run(world, rule, family, common, seed))) for seed in range(RUNS))


def named(part: object) -> str:
    return part.name if isinstance(part, Rule) else str(part)


@pytest.mark.parametrize(("world", "rule", "family", "common"), GRID, ids=named)
def test_of_100_runs_95_find_nothing(world: str, rule: Rule, family: int, common: float) -> None:
    assert false(world, rule, family, common) <= most(RUNS)


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule.precision], ids=lambda rule: rule.name)
def test_a_run_that_ends_for_its_precision_has_it(rule: Rule) -> None:
    ended = [run("normal", rule, 1, 0.0, seed) for seed in range(50)]
    short = [effect for [effect] in ended if len(effect.differences) < rule.blocks and not is_false(effect)]

    assert short or rule.precision < 0.02
    assert all(effect.high - effect.low <= 2 * rule.precision for effect in short)


def test_a_p99_that_loses_3_percent_is_found_beside_a_mean_that_gains() -> None:
    """With three metrics and the noise of a quiet job, 0.5 % of a phase."""
    found = 0
    for seed in range(100):
        chance = random.Random(seed)
        states = interval.order(6, str(seed))
        gains = {"mean": 0.02, "p50": 0.0, "p99": 0.03}
        metrics = [
            [math.exp(gain * (state == "B") + chance.gauss(0, 0.005)) for state in states]
            for gain in gains.values()
        ]
        _mean, _middle, tail = estimates(metrics, states, 6)
        found += interval.verdict(tail, LEAST, interval.LOWER) == interval.HARMS

    assert found >= 95


# -- what these worlds find in statistics that are wrong ----------------------------------------------


def test_an_interval_without_the_scatter_within_blocks_would_not_hold(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(interval, "_FLOOR", 0.0)
    rule = Rule("decided, no floor", 16)

    assert false("two noisy levels", rule, 1, 0.0) > 0.05 * RUNS


def test_metrics_that_share_no_error_rate_would_not_hold() -> None:
    wrong = 0
    for seed in range(200):
        chance = random.Random(seed)
        metrics = [[math.exp(chance.gauss(0, 0.02)) for _phase in range(24)] for _metric in range(6)]
        effects = [interval.estimate({"": series}, interval.order(6, str(seed)), 6) for series in metrics]
        wrong += any(effect and effect.is_certain for effect in effects)

    assert wrong > most(200)
