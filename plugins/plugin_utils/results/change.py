# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Change from one measurement to a later one, compared with the noise of both."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ...module_utils._mlnode.checks.campaign import kinds
from ..campaign.limits import DEVIATIONS
from .result import Pair, Unit

#: Verdicts, from the worst to the best
WORDS = ("worse", "only in A", "unknown", "only in B", "better", "same")
WORSE, ONLY_A, UNKNOWN, ONLY_B, BETTER, SAME = WORDS

#: The smallest reported change, as a part: a fifth of the smallest margin of any kind. The deviation within a
#: run does not contain differences between runs, and is 0 if all pairs measure the same.
LEAST = min(kinds.kind(name).MARGIN for name in kinds.NAMES) / 5

#: Standard deviation of a normal distribution, in median absolute deviations: half of its values are nearer
#: to the median than its upper quartile.
_PER_MAD = 1 / statistics.NormalDist().inv_cdf(0.75)

#: Standard deviation of the median of n values from a normal distribution, in standard deviations of one
#: value divided by the square root of n: the square root of pi / 2
_OF_MEDIAN = math.sqrt(math.pi / 2)


def worst(words: Iterable[str]) -> str:
    """The worst of several verdicts; unknown without any."""
    return min(words, key=WORDS.index, default=UNKNOWN)


def is_success(verdict: str) -> bool:
    return verdict not in (WORSE, ONLY_A, UNKNOWN)


def sums(words: Iterable[str]) -> str:
    """Number of each verdict, for people."""
    counts = Counter(words)
    return ", ".join(f"{counts[word]} {word}" for word in WORDS if counts[word])


class Measure(NamedTuple):
    """Median of some pairs. pairs: number of pairs of nodes; all rails of a pair count once. noise: median
    absolute deviation of a similar pair, as a part of the median; None if unknown."""

    value: float
    pairs: int
    noise: float | None

    @property
    def deviation(self) -> float:
        """Standard deviation of the value, as a part of it."""
        return _PER_MAD * (self.noise or 0.0) * min(1.0, _OF_MEDIAN / math.sqrt(self.pairs))


class Change(NamedTuple):
    """Verdict on a change. part: change relative to the earlier value, such as -0.1 for a tenth less. noise:
    the smallest part that counts as a change; None if unknown."""

    word: str
    before: float | None = None
    after: float | None = None
    part: float | None = None
    noise: float | None = None
    reason: str = ""


def measure(pairs: Sequence[Pair]) -> Measure:
    """Measure of pairs, at least one of them with a value. The noise is the largest of all classes of pairs.
    The rails of two nodes count once: they are measured together, and one disturbance may affect all."""
    values = [pair.value for pair in pairs if pair.value is not None]
    noises = [pair.noise for pair in pairs if pair.noise is not None]
    nodes = {tuple(sorted(name for name, _rail in pair.ends)) for pair in pairs}
    return Measure(statistics.median(values), len(nodes), max(noises, default=None))


def change(before: Measure, after: Measure, unit: Unit) -> Change:
    """Verdict on the change of a measure. A change must exceed the median absolute deviations of both, and
    four standard deviations of the difference, the limit of a campaign for a pair."""
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


def rounded(part: float | None) -> float | None:
    """The same for programs, in percent."""
    return None if part is None else round(100 * part, 2)
