# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Screening experiments in worlds with a known truth: effects of areas, drift, noise, interactions."""

from __future__ import annotations

import functools
import math
import random
from collections.abc import Callable
from typing import NamedTuple

import pytest
from ansible_collections.mlnode.tuning.plugins.plugin_utils.effect import screening, screening_design
from ansible_collections.mlnode.tuning.plugins.plugin_utils.effect.screening import Screening
from ansible_collections.mlnode.tuning.tests.unit.effort import EFFORT

pytestmark = pytest.mark.robustness

#: Experiments of a cell, and of the one with the promised numbers
RUNS, PROMISE = 60 * EFFORT, 600 * EFFORT
#: Designs of a cell: each is used by several experiments
DESIGNS = 15

LEAST = 0.01
NOISE = 0.015


class Cell(NamedTuple):
    """effects: of the first areas. interaction: of the first two, in addition."""

    areas: int = 8
    phases: int = 24
    drift: str = "straight"
    noise: str = "gaussian"
    effects: tuple[float, ...] = ()
    interaction: float = 0.0


#: Logarithm over the part of the experiment that is over; straight is 1 % a phase
DRIFTS: dict[str, Callable[[float, int], float]] = {
    "none": lambda part, phases: 0.0,
    "straight": lambda part, phases: -0.01 * part * phases,
    "bent": lambda part, phases: -0.2 * part**2,
    "cubic": lambda part, phases: 1.2 * (part - 0.5) ** 3,
    "wave": lambda part, phases: 0.05 * math.sin(2 * math.pi * part),
    "step": lambda part, phases: -0.1 * (part > 0.6),
    "warming up": lambda part, phases: -0.1 * math.exp(-8 * part),
}


def _noise(kind: str, count: int, chance: random.Random) -> list[float]:
    """heavy: Student's t with 3 degrees of freedom. lasting, swinging: autocorrelation of first order."""
    if kind == "heavy":
        return [
            NOISE * chance.gauss(0, 1) / math.sqrt(chance.gammavariate(1.5, 1 / 1.5)) for _ in range(count)
        ]
    part = {"gaussian": 0.0, "lasting 0.5": 0.5, "lasting 0.9": 0.9, "swinging": -0.5}[kind]
    series = [chance.gauss(0, NOISE)]
    while len(series) < count:
        series.append(part * series[-1] + math.sqrt(1 - part**2) * chance.gauss(0, NOISE))
    return series


def _experiment(cell: Cell, seed: int) -> Screening:
    chance = random.Random(f"{cell}{seed}")
    design = _design(cell.areas, cell.phases, seed % DESIGNS)
    count = len(design.levels)
    values = []
    for phase, noise in enumerate(_noise(cell.noise, count, chance)):
        applied = {*design.applied(phase)}
        logarithm = DRIFTS[cell.drift](phase / count, count) + noise
        logarithm += sum(math.log1p(size) for area, size in _truth(cell).items() if area in applied)
        logarithm += math.log1p(cell.interaction) if {"area0", "area1"} <= applied else 0
        values.append(1000 * math.exp(logarithm))
    return screening.analyse(design, values, LEAST)


@functools.lru_cache(maxsize=None)
def _design(areas: int, phases: int, seed: int) -> screening_design.Design:
    return screening_design.design([f"area{number}" for number in range(areas)], phases, seed)


def _truth(cell: Cell) -> dict[str, float]:
    return {f"area{number}": size for number, size in enumerate(cell.effects)}


def counts(cell: Cell, runs: int) -> tuple[int, int]:
    """Experiments that find all effects, with their signs, and experiments with a false one."""
    found = false = 0
    truth = _truth(cell)
    for seed in range(runs):
        answers = {effect.area: effect.answer.value for effect in _experiment(cell, seed).effects}
        found += all(answers[area] == ("more" if size > 0 else "less") for area, size in truth.items())
        false += any(answer in ("more", "less") for area, answer in answers.items() if area not in truth)
    return found, false


def most(runs: int, part: float = 0.05) -> float:
    """Cases of a probability that runs may show by chance: three standard deviations more."""
    return part * runs + 3 * math.sqrt(part * (1 - part) * runs)


def named(cell: Cell) -> str:
    text = f"{cell.areas} in {cell.phases}, {cell.drift}, {cell.noise}, {len(cell.effects)} effects"
    return f"{text}, interaction" if cell.interaction else text


#: Where false effects stay rare. In designs that are not folded over, as 14 in 24, effects of an interaction
#: are not decided.
HOLDS = [
    *(Cell(drift=drift) for drift in DRIFTS),
    *(Cell(noise=noise) for noise in ("heavy", "lasting 0.5", "lasting 0.9", "swinging")),
    *(
        Cell(areas, phases)
        for areas, phases in ((2, 8), (2, 24), (5, 24), (11, 24), (12, 24), (16, 24), (16, 40))
    ),
    Cell(effects=(0.03, -0.03)),
    Cell(effects=(0.03, 0.03), interaction=0.03),
    Cell(effects=(0.1, 0.1), interaction=0.1),
    Cell(14, 24, effects=(0.1, 0.1), interaction=0.1),
    Cell(8, 16, effects=(0.05, 0.05), interaction=0.05),
]


def test_three_percent_are_found_among_eight_areas_in_24_phases() -> None:
    found, false = counts(Cell(effects=(0.03,)), PROMISE)
    assert PROMISE - found <= most(PROMISE)
    assert false <= most(PROMISE)


def test_without_effects_five_of_100_experiments_at_most_find_one() -> None:
    _found, false = counts(Cell(), PROMISE)
    assert false <= most(PROMISE)


@pytest.mark.parametrize("cell", HOLDS, ids=named)
def test_false_effects_are_rare(cell: Cell) -> None:
    _found, false = counts(cell, RUNS)
    assert false <= most(RUNS)


@pytest.mark.parametrize(
    ("cell", "least"),
    [
        (Cell(drift="bent", effects=(0.04,)), 0.9),
        (Cell(noise="lasting 0.9", effects=(0.03,)), 0.9),
        (Cell(effects=(0.03, 0.03), interaction=0.03), 0.9),
        (Cell(2, 24, effects=(0.03,)), 0.95),
        (Cell(16, 48, effects=(0.03,)), 0.95),
    ],
    ids=str,
)
def test_effects_are_found_in_other_worlds(cell: Cell, least: float) -> None:
    found, _false = counts(cell, RUNS)
    assert RUNS - found <= most(RUNS, 1 - least)


def test_without_a_trend_in_the_model_drift_would_hide_the_effect(monkeypatch: pytest.MonkeyPatch) -> None:
    """The worlds are able to find wrong statistics."""
    flat = [[1.0] * 24, *([0.0] * 24 for _degree in range(3))]
    monkeypatch.setattr(screening, "trend", lambda phases, degree: flat)
    found, _false = counts(Cell(effects=(0.03,)), 20)
    assert found < 10


def test_opposite_neighbours_would_not_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    """With noise that swings; phases that are two apart do."""
    order = [at for block in range(0, 24, 4) for at in (block, block + 2, block + 1, block + 3)]
    apart = _design

    def neighbours(areas: int, phases: int, seed: int) -> screening_design.Design:
        design = apart(areas, phases, seed)
        return design._replace(levels=tuple(design.levels[at] for at in order))

    monkeypatch.setitem(globals(), "_design", neighbours)
    _found, false = counts(Cell(noise="swinging"), 600)
    assert false > most(600)


def test_quantiles_of_one_area_would_not_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(screening, "OUTSIDE", 0.05 * 8)
    _found, false = counts(Cell(), 100)
    assert false > most(100)
