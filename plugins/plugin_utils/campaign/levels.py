# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Level of the pairs of each class: the rate of those between two good ends.

An average is too low: with half of the ends slow, three of four pairs are. An end can send as much as it
sends to partners that can receive as much, so that what all can send and receive is found in turns. The best
group that is large enough is taken for good, and the level of a class is the median of the pairs inside this
group."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from .numbers import Measured, median, quantile

#: Quantile for the first guess of an end's rate: if half of its partners are slow, the others' median is here
_UPPER = 0.75

#: Turns after which guesses no longer change by more than their noise
_TURNS = 4

#: A partner slower by this part limits the pair: differences between good ends are smaller.
_STEP = 0.03

#: A group is apart from the rest if the means differ by so many standard deviations inside the two parts. The
#: best cut of one normal distribution, at its mean, has 2 sqrt(2/pi) / sqrt(1 - 2/pi) = 2.65.
_APART = 3.5

#: Part of the sides that a group needs to be the standard for the others, and the least number of sides. This
#: is three ends: two ends have one pair, which may be a shorter way. With up to four ends, two are half.
_STANDARD = 0.1
_LEAST_SIDES, _LEAST_OF_FEW, _FEW = 6, 4, 8

#: A class with fewer readings between good ends has the level of its kin. The error of the median of so many
#: is a third of a single reading's error.
_ENOUGH = 12

#: Reading of a side: number of the partner, rate
_Mine = list[tuple[int, float]]


class Start(NamedTuple):
    """level: of each class, in logarithms; 0 without a reading. rest: how far the readings between good ends
    are under it."""

    level: list[float]
    rest: list[float]


def start(measured: Measured) -> Start:
    """Levels before any suspect is named."""
    rates = [looks[0] for looks in measured.looks]
    upper = _by(measured.kin, measured.like, rates)
    base = [quantile(sorted(mine), _UPPER) if mine else 0.0 for mine in upper]
    sends: list[_Mine] = [[] for _ in range(measured.ends)]
    takes: list[_Mine] = [[] for _ in range(measured.ends)]
    for sender, receiver, rate, like in zip(measured.sender, measured.receiver, rates, measured.like):
        above = rate - base[measured.kin[like]]
        sends[sender].append((receiver, above))
        takes[receiver].append((sender, above))
    can_send, can_take = _capacities(sends, takes)
    low, high = bounds(sorted(capacity for capacity in (*can_send, *can_take) if capacity is not None))
    good_send, good_take = (
        [capacity is not None and low <= capacity <= high for capacity in side]
        for side in (can_send, can_take)
    )
    columns = zip(measured.sender, measured.receiver, rates, measured.like)
    inside = [
        (like, rate) for sender, receiver, rate, like in columns if good_send[sender] and good_take[receiver]
    ]
    level = level_of(measured, inside, [median(mine) if mine else 0.0 for mine in upper])
    return Start(level, [level[like] - rate for like, rate in inside])


def level_of(
    measured: Measured, readings: Sequence[tuple[int, float]], before: Sequence[float]
) -> list[float]:
    """Median of the readings of each class, or of its kin if it has few readings. readings: class, rate.
    before: level of each kin without readings."""
    own: list[list[float]] = [[] for _ in range(measured.classes)]
    of_kin: list[list[float]] = [[] for _ in range(measured.classes)]
    for like, rate in readings:
        own[like].append(rate)
        of_kin[measured.kin[like]].append(rate)
    shared = [median(mine) if mine else old for mine, old in zip(of_kin, before)]
    return [median(mine) if len(mine) >= _ENOUGH else shared[kin] for mine, kin in zip(own, measured.kin)]


def _by(kin: Sequence[int], like: Sequence[int], rates: Sequence[float]) -> list[list[float]]:
    by_kin: list[list[float]] = [[] for _ in kin]
    for number, rate in zip(like, rates):
        by_kin[kin[number]].append(rate)
    return by_kin


def _capacities(
    sends: Sequence[_Mine], takes: Sequence[_Mine]
) -> tuple[list[float | None], list[float | None]]:
    can_send, can_take = (
        [quantile(sorted(rate for _end, rate in mine), _UPPER) if mine else None for mine in side]
        for side in (sends, takes)
    )
    for _turn in range(_TURNS):
        can_send = [_capacity(mine, can_take, own) for mine, own in zip(sends, can_send)]
        can_take = [_capacity(mine, can_send, own) for mine, own in zip(takes, can_take)]
    return can_send, can_take


def _capacity(mine: _Mine, partners: Sequence[float | None], own: float | None) -> float | None:
    """Median of the readings with partners that can do as much."""
    if own is None:
        return None
    least = own - _STEP
    chosen = [rate for end, rate in mine if (partners[end] or 0.0) >= least]
    return median(chosen) if chosen else own


def bounds(values: Sequence[float]) -> tuple[float, float]:
    """From the least to the greatest of the best group of values, which are in ascending order.

    A group of fewer than a tenth is not the standard: there may be ends that are better than the rest.
    """
    values = [*values]
    fewest = _LEAST_OF_FEW if len(values) <= _FEW else _LEAST_SIDES
    least = max(fewest, math.ceil(_STANDARD * len(values)))
    while len(values) > least:
        cut = _cut(values)
        if cut is None:
            break
        values = values[cut:] if len(values) - cut >= least else values[:cut]
    return (values[0], values[-1]) if values else (0.0, 0.0)


def _cut(values: Sequence[float]) -> int | None:
    """Index where values in ascending order split into two groups: the first value of the upper group. None
    for a single group."""
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
    return cut if higher - lower > max(_APART * spread, _STEP) else None
