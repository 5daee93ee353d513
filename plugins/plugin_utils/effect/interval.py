# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The effect of a change, from paired measurements before it (A) and with it (B), and its 95 % interval.

Within a block the order is A B B A, so that what grows or falls with time in a straight line adds as much to
the mean of A as to that of B (counterbalancing; Box, Hunter and Hunter, Statistics for Experimenters, ch. 4).
Differences are those of logarithms, as a change and the noise of links are parts of what is measured, and a
pair of 400 Gb/s counts as much as one of 100.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

ORDER = "ABBA"

#: Of Student's t distribution with 1, 2, 3 ... degrees of freedom, what 95 % of it lie within (NIST/SEMATECH
#: e-Handbook of Statistical Methods, 1.3.6.7.2, column 0.975). With more, that of 30, which is 4 % wider than
#: the normal distribution's 1.960 and so errs to the safe side.
_T = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip

#: Part of the variance that the differences of two pairs with a node in common share, where all of it is in
#: the nodes: the difference of a pair is then the sum of two equal parts, of which one is the same
_SHARED = 0.5

#: Measurements in their order, four for each block; None where there is none
Series = Sequence["float | None"]


class Effect(NamedTuple):
    """Change from A to B, as a part of A: 0.03 is 3 % more. low, high: ends of the 95 % interval.
    differences: from how many it is. unit: what each of them is of, `pair` or `block`."""

    value: float
    low: float
    high: float
    differences: int
    unit: str

    @property
    def is_certain(self) -> bool:
        """The interval does not contain "no effect"."""
        return self.low > 0 or self.high < 0

    @property
    def bound(self) -> float:
        """An effect above this, in either direction, would have been seen."""
        return max(abs(self.low), abs(self.high))


def differences(series: Series) -> list[float | None]:
    """ln B - ln A of each block, by their means; None for a block of which a measurement is missing or 0."""
    blocks = [series[at : at + len(ORDER)] for at in range(0, len(series), len(ORDER))]
    return [_difference(block) for block in blocks]


def _difference(block: Series) -> float | None:
    logs = [math.log(value) for value in block if value]
    if len(logs) < len(ORDER):
        return None
    parts = {state: [log for name, log in zip(ORDER, logs) if name == state] for state in "AB"}
    return statistics.fmean(parts["B"]) - statistics.fmean(parts["A"])


def of(pairs: Mapping[str, Series], nodes: Mapping[str, Sequence[str]] | None = None) -> Effect | None:
    """Of all pairs together, whose measurements were taken at the same times; None with fewer than two
    differences. nodes: the two of a pair, where a node may be in several pairs.

    Neither the differences of one pair in several blocks nor those of several pairs in one block are
    independent: pairs differ in how much a change does to them, and a disturbance of a block meets all pairs.
    So one difference is a pair's mean over its blocks or, where there are more blocks than pairs, a block's
    mean over the pairs. Pairs that share nodes prove less than as many others: the interval is wider then.
    """
    table = [differences(series) for series in pairs.values()]
    unit = "pair"
    if table and len(table[0]) > len(table):
        table, unit = [[*column] for column in zip(*table)], "block"
    known = [[one for one in row if one is not None] for row in table]
    means = [statistics.fmean(row) for row in known if row]
    measured = [(nodes or {}).get(name, ()) for name, row in zip(pairs, known) if row]
    if len(means) < 2:
        return None
    middle = statistics.fmean(means)
    degrees = len(means) - 1
    half = _T[min(degrees, len(_T)) - 1] * statistics.stdev(means, middle) / math.sqrt(len(means))
    half *= _wider(measured) if unit == "pair" else 1.0
    value, low, high = (math.expm1(one) for one in (middle, middle - half, middle + half))
    return Effect(value, low, high, len(means), unit)


def _wider(pairs: Sequence[Sequence[str]]) -> float:
    """By how much the standard error of a mean is larger than that of as many independent differences of the
    same spread, if pairs with a node in common share as much as they can."""
    number = len(pairs)
    # Two pairs of a node share it, as many as its pairs make two of.
    common = sum(count * (count - 1) / 2 for count in Counter(node for one in pairs for node in one).values())
    part = _SHARED * min(1.0, common / (number * (number - 1) / 2))
    return math.sqrt((1 + (number - 1) * part) / (1 - part))


def words(effect: Effect | None) -> str:
    """For people."""
    if effect is None:
        return "unknown: fewer than two differences were measured"
    interval = f"95 % interval {100 * effect.low:+.2f} to {100 * effect.high:+.2f} %"
    if effect.is_certain:
        return f"{100 * effect.value:+.2f} % ({interval})"
    return f"no difference above {100 * effect.bound:.2f} % ({interval})"
