# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Change from one measurement to a later one, and whether it is more than both of them scatter."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ...module_utils._mlnode.checks.campaign import kinds
from ..campaign.limits import DEVIATIONS
from .result import Pair, Unit

#: From the worst on
WORDS = ("worse", "only in A", "unknown", "only in B", "better", "same")
WORSE, ONLY_A, UNKNOWN, ONLY_B, BETTER, SAME = WORDS

#: A smaller change is never named. The deviation within a run does not show what differs between two runs,
#: and where all pairs measure the same it is 0. A fifth of the least that any kind takes for slow.
LEAST = min(kinds.kind(name).MARGIN for name in kinds.NAMES) / 5

#: The standard deviation in median absolute deviations, of a normal distribution: half of its values are
#: nearer to the middle than its upper quartile.
_PER_MAD = 1 / statistics.NormalDist().inv_cdf(0.75)

#: Standard deviation of a median of n values, in standard deviations of one value divided by the root of n:
#: the root of pi / 2, of a normal distribution
_OF_MEDIAN = math.sqrt(math.pi / 2)


def worst(words: Iterable[str]) -> str:
    """Verdict on several things: the worst of their words."""
    return min(words, key=WORDS.index, default=UNKNOWN)


def is_success(verdict: str) -> bool:
    return verdict not in (WORSE, ONLY_A, UNKNOWN)


def sums(words: Iterable[str]) -> str:
    """How many there are of each word, for people."""
    counts = Counter(words)
    return ", ".join(f"{counts[word]} {word}" for word in WORDS if counts[word])


class Measure(NamedTuple):
    """Median of some pairs. pairs: pairs of nodes, with any number of rails. noise: median absolute deviation
    of a similar pair, as a part of the median; None if unknown."""

    value: float
    pairs: int
    noise: float | None

    @property
    def deviation(self) -> float:
        """Standard deviation of the value, as a part of it."""
        return _PER_MAD * (self.noise or 0.0) * min(1.0, _OF_MEDIAN / math.sqrt(self.pairs))


class Change(NamedTuple):
    """part: relative to the earlier value, such as -0.1 for a tenth less. noise: the least part that counts
    as a change; None if unknown."""

    word: str
    before: float | None = None
    after: float | None = None
    part: float | None = None
    noise: float | None = None
    reason: str = ""


def measure(pairs: Sequence[Pair]) -> Measure:
    """Measure of pairs with a value, at least one. With several classes of pairs, the noise is the largest.
    The rails of two nodes count once: they are measured together, and one disturbance may affect all."""
    values = [pair.value for pair in pairs if pair.value is not None]
    noises = [pair.noise for pair in pairs if pair.noise is not None]
    nodes = {tuple(sorted(name for name, _rail in pair.ends)) for pair in pairs}
    return Measure(statistics.median(values), len(nodes), max(noises, default=None))


def change(before: Measure, after: Measure, unit: Unit) -> Change:
    """A change counts if it exceeds the median absolute deviations of both, and four standard deviations of
    the difference, the limit of a campaign for a pair and its median."""
    if not before.value:
        return Change(
            UNKNOWN, before.value, after.value, reason="nothing to compare with: the first one is 0"
        )
    part = after.value / before.value - 1
    if before.noise is None or after.noise is None:
        reason = "too few pairs are like it to know their noise"
        return Change(UNKNOWN, before.value, after.value, part, reason=reason)
    both = DEVIATIONS * math.hypot(before.deviation, after.deviation)
    noise = max(LEAST, both, before.noise, after.noise)
    word = SAME if abs(part) <= noise else BETTER if part * unit.better > 0 else WORSE
    return Change(word, before.value, after.value, part, noise)


def percent(part: float | None) -> str:
    return "" if part is None else f"{100 * part:+.1f} %"
