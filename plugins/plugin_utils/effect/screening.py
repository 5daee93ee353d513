# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Effect of each area of a screening experiment, with intervals that hold together.

Least squares on logarithms: a constant, a trend in time and one term for each area. The test begins with the
area of the smallest effect. Areas with smaller effects than the tested one count as noise, which then has 21
instead of 14 degrees of freedom for 8 areas in 24 phases. With m areas, an area is found if its t is beyond
the quantile of 0.0475 / m (Bonferroni): without any effect, at most 5 of 100 experiments find one. All areas
with larger effects are found with it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

from .interval import hides, too_few_digits
from .screening_design import LEAST_FREE, Design, trend
from .student import quantile

#: Part of all experiments that find an area without effect, of all areas together, as each test counts it. At
#: most 5 of 100 are promised. Later steps of the test, and curves that are taken out by chance, add the rest:
#: 4.96 of 100 in 900,000 experiments of the same model in NumPy, with the noise of tests/simulation.
OUTSIDE = 0.0475
#: Part of equal experiments that would miss an effect as large as `seen`
MISSED = 0.05
#: A bent trend is part of the model if its t is beyond the quantile of this: by chance in 2 of 1000
#: experiments for both degrees. A trend that is taken out by chance makes the noise look smaller.
_BENT = 0.001
#: Noise at least: values that are exact differ by the rounding of floats
_EXACT = 1e-9


class Answer(str, Enum):
    """Answer about one area. Whether more helps or harms depends on the metric, which the caller knows."""

    MORE = "more"
    LESS = "less"
    NO_DIFFERENCE = "no difference"
    NOT_DECIDED = "not decided"


class AreaEffect(NamedTuple):
    """change, low, high: as parts, 0.03 is 3 % more. seen: the least effect that 95 of 100 such experiments
    would have found. why: reason for NOT_DECIDED, if it is not the width of the interval."""

    area: str
    answer: Answer
    change: float
    low: float
    high: float
    seen: float
    why: str = ""


class Screening(NamedTuple):
    """noise: standard deviation of a phase, as a part. notes: for people."""

    effects: tuple[AreaEffect, ...]
    noise: float
    notes: tuple[str, ...]


def analyse(
    design: Design, values: Sequence[float], least: float, family: int = 1, step: float = 0.0
) -> Screening:
    """Effects of all areas of a design.

    values: one positive number for each phase. least: the smallest change that matters, as a part. family:
    metrics of the experiment, which share its error rate (Bonferroni). step: between two values that their
    digits can tell apart, as a part. Raises ValueError for values that cannot be measurements.
    """
    if len(values) != len(design.levels):
        raise ValueError(f"values: expected {len(design.levels)}, one for each phase; got {len(values)}")
    bad = next((value for value in values if not 0 < value < math.inf), None)
    if bad is not None:
        raise ValueError(f"values: expected positive numbers, got {bad}; measure a rate or a time")
    model = _Model(design, [*map(math.log, values)])
    effects, noise = _effects(model, least, OUTSIDE / (family * len(design.areas)), step)
    return Screening(effects, noise, tuple(model.notes))


class _Term(NamedTuple):
    """Last column of a fit. size: standard error of its coefficient for noise 1; 0 if others add up to it,
    as the columns of two areas may to an interaction."""

    coefficient: float
    size: float
    residuals: list[float]


class _Noise(NamedTuple):
    deviation: float
    free: int


class _Model:
    """Logarithms of the phases, and the columns that may explain them."""

    def __init__(self, design: Design, logs: list[float]) -> None:
        self.design, self.logs = design, logs
        self.columns = [[*map(float, column)] for column in zip(*design.levels)]
        self._trends = trend(len(logs), 3)
        self.notes: list[str] = []
        self.degree = 1
        self.every = tuple(range(len(self.columns)))
        for degree in (2, 3):
            free = len(logs) - degree - 1 - len(self.columns)
            if free < LEAST_FREE:
                break
            term = _last([*self._trends[:degree], *self.columns, self._trends[degree]], logs)
            spread = math.sqrt(_squares(term.residuals) / free)
            if abs(term.coefficient) > quantile(_BENT, free) * spread * term.size:
                self.degree = degree
                self.notes = ["the trend in time is bent, and a curve is taken out"]
        self.whole = [
            self.term([other for other in self.every if other != area], self.columns[area])
            for area in self.every
        ]

    def term(self, areas: Sequence[int], *columns: Sequence[float]) -> _Term:
        """The last of the columns, in a model with the trend, these areas and all columns."""
        return _last(
            [*self._trends[: self.degree + 1], *(self.columns[area] for area in areas), *columns], self.logs
        )

    def noise(self, terms: int, residuals: Sequence[float]) -> _Noise:
        """Noise of a phase, with `terms` areas in the model."""
        free = len(residuals) - self.degree - 1 - terms
        return _Noise(max(math.sqrt(_squares(residuals) / free), _EXACT), free)


def _last(columns: Sequence[Sequence[float]], values: Sequence[float]) -> _Term:
    """Least squares: each column is made orthogonal to those before it.

    Modified Gram-Schmidt: Golub and Van Loan, Matrix Computations, 5.2.8.
    """
    rest = [list(column) for column in columns]
    residuals = list(values)
    coefficient, length = 0.0, 0.0
    for at, column in enumerate(rest):
        length = _squares(column)
        if length <= 1e-9 * _squares(columns[at]):
            length = 0.0
            continue
        for other in rest[at + 1 :]:
            share = sum(map(float.__mul__, column, other)) / length
            other[:] = [value - share * part for value, part in zip(other, column)]
        coefficient = sum(map(float.__mul__, column, residuals)) / length
        residuals = [value - coefficient * part for value, part in zip(residuals, column)]
    return _Term(coefficient if length else 0.0, 1 / math.sqrt(length) if length else 0.0, residuals)


def _squares(values: Sequence[float]) -> float:
    return sum(value * value for value in values)


# -- areas ---------------------------------------------------------------------------------


def _effects(
    model: _Model, least: float, outside: float, step: float
) -> tuple[tuple[AreaEffect, ...], float]:
    whole = model.whole
    order = sorted(model.every, key=lambda area: -abs(whole[area].coefficient) / whole[area].size)
    active: list[int] = []
    noise = model.noise(0, model.term((), [0.0] * len(model.logs)).residuals)
    for count in range(len(order), 0, -1):
        term = model.term(order[: count - 1], model.columns[order[count - 1]])
        rest = model.noise(count, term.residuals)
        if abs(term.coefficient) > quantile(outside, rest.free) * rest.deviation * term.size:
            active, noise = order[:count], rest
            break
    effects = (_effect(model, area, active, outside, least, step) for area in model.every)
    return tuple(effects), noise.deviation


def _effect(
    model: _Model, area: int, active: Sequence[int], outside: float, least: float, step: float
) -> AreaEffect:
    others = [other for other in active if other != area]
    term = model.term(others, model.columns[area])
    noise = model.noise(len(others) + 1, term.residuals)
    error = 2 * noise.deviation * term.size  # from off to on, -1 to +1
    rounding = hides(step, noise.deviation)
    middle, half = 2 * term.coefficient, max(quantile(outside, noise.free) * error, rounding)
    low, high = math.expm1(middle - half), math.expm1(middle + half)
    seen = math.expm1(half + quantile(2 * MISSED, noise.free) * error)
    answer, why = Answer.NOT_DECIDED, too_few_digits(least) if rounding > math.log1p(least) else ""
    if -least < low <= high < least:
        answer = Answer.NO_DIFFERENCE
    elif low > 0 or high < 0:
        answer = Answer.MORE if low > 0 else Answer.LESS
        pair = _alias(model, area, others, half)
        if pair:
            answer = Answer.NOT_DECIDED
            why = f"it may be the interaction of {pair[0]} and {pair[1]}; test the three alone"
    return AreaEffect(model.design.areas[area], answer, math.expm1(middle), low, high, seen, why)


def _alias(model: _Model, area: int, others: Sequence[int], half: float) -> tuple[str, str] | None:
    """Two active areas whose interaction may look like this area, in a design that is not folded over."""
    if model.design.folded:
        return None
    mine = model.columns[area]
    others = sorted(others)
    for at, first in enumerate(others):
        for second in others[at + 1 :]:
            both = list(map(float.__mul__, model.columns[first], model.columns[second]))
            # 0 if the phases cannot tell the two apart
            left = model.term(others, both, mine).coefficient
            if abs(2 * left) <= half:
                return model.design.areas[first], model.design.areas[second]
    return None
