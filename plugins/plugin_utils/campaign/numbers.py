# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Readings of a campaign as numbers, and the statistics that its model takes.

All rates are logarithms: a loss is a difference, and a pair at 0.9 of its level loses -log(0.9) = 0.105.
The sign is turned for units in which less is better, so low is always bad.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from typing import NamedTuple

#: Least logarithm of a share: a rate of 0 counts as a fiftieth of its level, a loss of 98 %
LEAST = -math.log(50)

#: Standard deviation in median absolute deviations, of a normal distribution
PER_MAD = 1.4826

NORMAL = statistics.NormalDist()


class Measured(NamedTuple):
    """Readings as columns: one for each direction of each pair on each rail, whatever often it was measured.

    sender, receiver: number of an end; for a value without a direction, both ends count alike. rate:
    logarithm of the value, the mean of all looks. like: number of the class. pair: number of the pair. looks:
    the values in their order. spare: how far the port of the sender and of the receiver is above the rate of
    the pair: such an end is seen only if it loses more. kin: by class, number of the class that lends its
    level while readings are few. Later looks followed a low first look, so levels and noise are taken from
    the first.
    """

    ends: int
    classes: int
    sender: list[int]
    receiver: list[int]
    rate: list[float]
    like: list[int]
    pair: list[int]
    looks: list[list[float]]
    spare: list[tuple[float, float]]
    kin: list[int]


def quantile(values: Sequence[float], part: float) -> float:
    """Interpolated quantile of values in ascending order, at least one."""
    place = part * (len(values) - 1)
    below = int(place)
    rest = place - below
    return values[below] if not rest else values[below] * (1 - rest) + values[below + 1] * rest


def median(values: Iterable[float]) -> float:
    return quantile(sorted(values), 0.5)


def deviation(values: Sequence[float], centre: float) -> float:
    """Standard deviation around a centre, by the median of the distances."""
    return PER_MAD * median(abs(value - centre) for value in values)


def student(normal: float, freedom: float) -> float:
    """Quantile of Student's t with so many degrees of freedom, of the probability of a normal quantile.

    Wallace 1959, Bounds on normal approximations to Student's distribution: within 1 % from 8 degrees on, for
    probabilities up to 99.95 %.
    """
    scaled = normal * (8 * freedom + 3) / (8 * freedom + 1)
    # Beyond some hundred standard deviations nothing is decided by more.
    return math.sqrt(freedom * math.expm1(min(scaled * scaled / freedom, 50.0)))


def share(loss: float) -> float:
    """Part of the rate that a loss takes."""
    return -math.expm1(-loss)
