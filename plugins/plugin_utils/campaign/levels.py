# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Level of the pairs of each class: the rate of those between two good ends.

An average is no level: with half of the ends slow, three of four pairs are. An end is as good as its best
pairs, as a slow end has none. So ends are sorted by the upper quarter of their pairs, the best group that is
large enough is taken for good, and the level of a class is the median of the pairs inside this group.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from .numbers import Measured, median, quantile

#: Part of an end's readings that are above its capacity, by which ends are compared: with half of the ends
#: slow, half of the readings of a good end are low, and the median of the others is at this quantile.
_UPPER = 0.85

#: A group is apart from the rest if the means differ by so many standard deviations inside the two parts. The
#: best cut of one normal distribution, at its mean, has 2 sqrt(2/pi) / sqrt(1 - 2/pi) = 2.65.
_APART = 3.5
#: ... and by so much: differences between good ends are smaller.
_LEAST_STEP = 0.03

#: Part of the ends that a group takes to be the standard for the others, and the least number of them: two
#: ends have one pair, and that may be a shorter way. Up to four, half of them are two.
_STANDARD = 0.1
_LEAST_ENDS, _LEAST_OF_FEW, _FEW = 3, 2, 4


class Start(NamedTuple):
    """level: of each class, in logarithms; 0 without a reading. rest: how far the readings between good ends
    are under it."""

    level: list[float]
    rest: list[float]


def start(found: Measured) -> Start:
    """Levels before any suspect is named."""
    by_class: list[list[float]] = [[] for _ in range(found.classes)]
    for like, looks in zip(found.like, found.looks):
        by_class[like].append(looks[0])
    upper = [quantile(sorted(rates), _UPPER) if rates else 0.0 for rates in by_class]
    good = _good(_capacities(found, upper))
    inside: list[list[float]] = [[] for _ in range(found.classes)]
    for sender, receiver, looks, like in zip(found.sender, found.receiver, found.looks, found.like):
        if good[sender] and good[receiver]:
            inside[like].append(looks[0])
    level = [median(mine or rates) if rates else 0.0 for mine, rates in zip(inside, by_class)]
    return Start(level, [one - rate for one, mine in zip(level, inside) for rate in mine])


def _capacities(found: Measured, upper: Sequence[float]) -> list[float | None]:
    """Upper quarter of each end's readings, in terms of its classes; None without any."""
    mine: list[list[float]] = [[] for _ in range(found.ends)]
    for sender, receiver, looks, like in zip(found.sender, found.receiver, found.looks, found.like):
        rate = looks[0] - upper[like]
        mine[sender].append(rate)
        mine[receiver].append(rate)
    return [quantile(sorted(rates), _UPPER) if rates else None for rates in mine]


def _good(capacities: Sequence[float | None]) -> list[bool]:
    known = sorted(one for one in capacities if one is not None)
    low, high = bounds(known)
    return [one is not None and low <= one <= high for one in capacities]


def bounds(values: Sequence[float]) -> tuple[float, float]:
    """From the least to the greatest of the best group of values, which are in ascending order.

    A group of fewer than a tenth is not the standard: there may be ends that are better than the rest.
    """
    values = [*values]
    fewest = _LEAST_OF_FEW if len(values) <= _FEW else _LEAST_ENDS
    least = max(fewest, math.ceil(_STANDARD * len(values)))
    while len(values) > least:
        cut = _cut(values)
        if cut is None:
            break
        values = values[cut:] if len(values) - cut >= least else values[:cut]
    return (values[0], values[-1]) if values else (0.0, 0.0)


def _cut(values: Sequence[float]) -> int | None:
    """Where values in ascending order fall into two groups: the first of the upper one. None if they are
    one group."""
    count = len(values)
    sums = [0.0, *accumulate(values)]
    squares = [0.0, *accumulate(value * value for value in values)]

    def between(cut: int) -> float:
        lower, higher = sums[cut] / cut, (sums[-1] - sums[cut]) / (count - cut)
        return cut * (count - cut) * (higher - lower) ** 2

    cut = max(range(1, count), key=between)
    lower, higher = sums[cut] / cut, (sums[-1] - sums[cut]) / (count - cut)
    inside = squares[-1] - cut * lower**2 - (count - cut) * higher**2
    spread = math.sqrt(max(0.0, inside) / count)
    return cut if higher - lower > max(_APART * spread, _LEAST_STEP) else None
