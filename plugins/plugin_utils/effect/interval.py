# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The effect of a change, from phases before it (A) and with it (B), and its 95 % interval.

Four phases are a block, A B B A or B A A B: a straight trend in time adds as much to the mean of A as to the
mean of B (counterbalancing; Box, Hunter and Hunter, Statistics for Experimenters, ch. 4). The difference of a
block is the mean of ln B - ln A over its phases and over all pairs. A change and the noise of links are parts
of the measured value, and a pair of 400 Gb/s counts as much as one of 100.

The block is the unit of the statistic. All pairs share a phase, and so its disturbances: a thousand pairs in
one block are one measurement of a phase's noise. If A and B do the same, a block's difference is as often
above 0 as below, with any distribution of the noise. Heavy tails make Student's t err to the safe side
(Efron, Student's t-test under symmetry conditions, 1969).

Values that jump between two levels err to the other side: of three such blocks, 3 of 100 have equal
differences, which scatter by nothing. So half of the scatter within the blocks counts if it is larger. It
comes from the contrast -1 3 -3 1 of a block, to which A, B and a straight trend add nothing (orthogonal
polynomials; Fisher and Yates, Statistical Tables, table XXIII).

Several metrics of one run share its error rate (Bonferroni): all their intervals hold together in 95 of 100
runs, however the metrics depend on each other.
"""

from __future__ import annotations

import itertools
import math
import random
import statistics
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import NamedTuple

from .student import quantile

#: A metric of which a change makes more, and one of which it makes less
HIGHER, LOWER = "higher", "lower"

#: Conclusions about one metric, the most urgent first
VERDICTS = ("harms", "unknown", "not decided", "helps", "no difference")
HARMS, UNKNOWN, NOT_DECIDED, HELPS, NO_DIFFERENCE = VERDICTS

#: Both forms of a block. A straight trend cancels in each.
FORMS = ("ABBA", "BAAB")

#: Phases of a block
BLOCK = 4

#: Blocks that an interval takes. With two of them the quantile is 12.7, and finds nothing but huge effects.
LEAST = 3

#: Forms of the first LEAST blocks, without the first one
_BEGINS = [forms for forms in itertools.product(FORMS, repeat=LEAST - 1) if FORMS[1] in forms]

#: Blocks from which on a narrow interval may end a run. The spread of few blocks is small by chance, and an
#: interval that ends the run for it is too narrow: with normal noise, 7 of 100 miss the truth if three blocks
#: may end a run, and 4.6 if eight may. tests/simulation holds it.
NARROW = 8

#: Weights of a block's phases for the scatter within it, and the root of the sum of their squares
_CUBIC = (-1, 3, -3, 1)
_CUBIC_NORM = math.sqrt(20)

#: Part of the scatter within the blocks that their differences have at least. All of it would make intervals
#: of three blocks a third wider, and false effects ten times as rare as promised.
_FLOOR = 0.5

#: Noise below this part of a step of the values does not average their rounding out: with normal noise of a
#: third of a step, rounding moves a mean by up to 4 % of a step, and without noise by half a step (Widrow and
#: Kollar, Quantization Noise, ch. 4).
_HIDES = 1 / 3

#: Part of all intervals that may miss the truth if blocks are independent, and the part of it for all looks
#: before the last one. At most 5 of 100 are promised; the fifth is for noise that lasts from block to block
#: and for bent trends. The last look keeps nearly all: stopping early costs it 4 % of its width (Haybittle,
#: 1971, and Peto et al., 1976: p < 0.001 at looks before the last). The parts add up. So it holds for every
#: order of looks (Bonferroni), and for repeated confidence intervals with any rule to stop (Jennison and
#: Turnbull, Group Sequential Methods, ch. 9).
OUTSIDE = 0.04
EARLY = 0.005

#: Part of equal runs that would miss an effect as large as the power that is stated
MISSED = 0.05

#: A million times as much: a figure beyond it has no number that JSON can hold
_GREATEST = math.log(1e6)

#: More blocks than this are not recommended: a day of them
_MOST = 500

#: Measurements in the order of the phases; None for a missing one
Series = Sequence["float | None"]


class Effect(NamedTuple):
    """Change from A to B, as a part of A: 0.03 is 3 % more. low, high: ends of the 95 % interval. seen: the
    least effect, in either direction, that 95 of 100 such runs would have found. differences: of each block,
    of logarithms. pairs: how many are in it. spread: standard deviation of a block. rounding: step between
    two values that their digits can tell apart, if it hides the noise; else 0. family: metrics of the run."""

    value: float
    low: float
    high: float
    seen: float
    differences: tuple[float, ...]
    pairs: int
    spread: float
    rounding: float = 0.0
    family: int = 1

    @property
    def is_certain(self) -> bool:
        """The interval does not contain "no effect"."""
        return self.low > 0 or self.high < 0

    def is_below(self, least: float) -> bool:
        """The interval contains no effect as large as least."""
        return -least < self.low <= self.high < least

    def is_decided(self, least: float) -> bool:
        """More blocks would not change the answer: there is an effect, or none as large as least."""
        return self.is_certain or self.is_below(least)

    def is_narrow(self, precision: float) -> bool:
        """The interval reaches no further than precision to both sides of its middle."""
        return len(self.differences) >= NARROW and self.high - self.low <= 2 * precision

    def blocks_for(self, least: float) -> int | None:
        """Number of blocks whose power would be least, if they scatter as these; None if it is too large."""
        if self.rounding > math.log1p(least):
            return None
        counts, most = range(LEAST, _MOST + 1), math.log1p(least)
        return next((n for n in counts if _power(self.spread, n, n, self.family) <= most), None)


def order(blocks: int, seed: str = "") -> str:
    """States of the phases of so many blocks; more blocks begin as fewer of the same seed. The form of each
    block is drawn: in any fixed order, noise that comes back, as of a timer, falls on the same state again
    and again. With a period of 3.2 phases, 43 of 100 runs of the sequence of Thue and Morse had a false
    effect. Not all of the first LEAST blocks are alike, as noise with the period of a block would then be an
    effect."""
    chance = random.Random(seed)  # noqa: S311  an order, no secret
    begin = FORMS[0], *chance.choice(_BEGINS)
    forms = [*begin, *(chance.choice(FORMS) for _block in range(blocks - len(begin)))]
    return "".join(forms[:blocks])


def estimate(
    pairs: Mapping[str, Series], states: str, most: int, family: int = 1, exact: bool = False
) -> Effect | None:
    """From the measurements of all pairs in the same phases. states: of these phases. most: blocks after
    which the run ends in any case. Each look from LEAST blocks on may end it. family: metrics of the run.
    exact: the values are not rounded.

    None with too few blocks, or without a pair that has a result in each phase of them: all blocks are of the
    same pairs, as pairs differ in how much a change does to them."""
    whole = complete(pairs, len(states) // BLOCK)
    blocks = len(states) // BLOCK
    if blocks < LEAST or not whole:
        return None
    signs = [1 if state == "B" else -1 for state in states]
    differences = _contrasts(whole, [sign / 2 for sign in signs])
    # Logarithms, in which a block's mean of B minus mean of A has the variance of one phase, as this has.
    within = _contrasts(whole, [weight / _CUBIC_NORM for weight in _CUBIC] * blocks)
    floor = _FLOOR * math.sqrt(statistics.fmean(scatter**2 for scatter in within))
    spread = max(statistics.stdev(differences), floor)
    rounding = hides(0.0 if exact else step(whole, len(states)), spread)
    middle = statistics.fmean(differences)
    half = quantile(_outside(blocks, most) / family, blocks - 1) * spread / math.sqrt(blocks)
    half = max(half, rounding)
    value, low, high = (_part(logarithm) for logarithm in (middle, middle - half, middle + half))
    # The interval may reach further than the power, and no value in it is refuted.
    seen = max(_part(_power(spread, blocks, most, family)), -low, high)
    return Effect(value, low, high, seen, tuple(differences), len(whole), spread, rounding, family)


def _part(difference: float) -> float:
    """A difference of logarithms as a part of A."""
    return math.expm1(min(difference, _GREATEST))


def complete(pairs: Mapping[str, Series], blocks: int) -> dict[str, Series]:
    """Pairs that have a result in each phase of the first blocks."""
    phases = BLOCK * blocks
    return {
        name: series
        for name, series in pairs.items()
        if len(series) >= phases and all(series[:phases]) and phases
    }


def _contrasts(pairs: Mapping[str, Series], weights: Sequence[float]) -> list[float]:
    """Sum of the weighted logarithms of each block, as a mean over the pairs."""
    logarithms = [[math.log(value or math.nan) for value in series] for series in pairs.values()]
    phases = [statistics.fmean(values) for values in zip(*logarithms)]
    weighted = [weight * phase for weight, phase in zip(weights, phases)]
    return [math.fsum(weighted[begin : begin + BLOCK]) for begin in range(0, len(weighted), BLOCK)]


def hides(step: float, spread: float) -> float:
    """A step between two values if it hides noise of this spread, else 0."""
    return step if spread < _HIDES * step else 0.0


def step(pairs: Mapping[str, Series], phases: int) -> float:
    """Step of the last digit that the values of a pair have, as a part of their mean; the mean over the
    pairs. Values that are all printed as 1.2 may differ by 0.1."""
    steps = []
    for series in pairs.values():
        values = [value or 0.0 for value in series[:phases]]
        steps.append(10.0 ** min(map(_exponent, values)) / statistics.fmean(values))
    return statistics.fmean(steps)


def _exponent(value: float) -> int:
    """Power of ten of the last digit after the point; 0 for a whole number."""
    exponent = Decimal(repr(value)).normalize().as_tuple().exponent
    return min(0, exponent) if isinstance(exponent, int) else 0


def _outside(blocks: int, most: int) -> float:
    """Part of all intervals after so many blocks that may miss the truth."""
    before = most - LEAST
    if before <= 0:
        return OUTSIDE
    return EARLY / before if blocks < most else OUTSIDE - EARLY


def _power(spread: float, blocks: int, most: int, family: int = 1) -> float:
    """Least difference of logarithms that is found with 1 - MISSED: that its interval leaves 0 out, also if
    the mean is low by as much as that (Bloom, Minimum detectable effects, 1995)."""
    degrees = blocks - 1
    factor = quantile(_outside(blocks, most) / family, degrees) + quantile(2 * MISSED, degrees)
    return factor * spread / math.sqrt(blocks)


# -- for people -------------------------------------------------------------------------------------


def verdict(effect: Effect | None, least: float, better: str, precision: float | None = None) -> str:
    """Conclusion about a metric. least: the smallest effect that matters. better: HIGHER or LOWER.
    precision: asked for, as a part of A: with it, an interval around 0 names the effect that it excludes."""
    if effect is None:
        return UNKNOWN
    if effect.is_below(least):
        return NO_DIFFERENCE
    if not effect.is_certain:
        return NO_DIFFERENCE if _excludes(effect, precision) else NOT_DECIDED
    return HELPS if (effect.value > 0) == (better == HIGHER) else HARMS


def _excludes(effect: Effect, precision: float | None) -> bool:
    """The interval is as narrow as asked for, and the digits of the values show as much."""
    return precision is not None and effect.is_narrow(precision) and effect.rounding <= math.log1p(precision)


def words(effect: Effect | None, blocks: int, least: float, precision: float | None = None) -> str:
    """blocks: how many were measured. least, precision: as in verdict()."""
    return ", ".join(_words(effect, blocks, least, precision))


def _words(effect: Effect | None, blocks: int, least: float, precision: float | None) -> Iterator[str]:
    if effect is None:
        yield _unknown(blocks)
        return
    interval = f"(95 % interval {100 * effect.low:+.2f} to {100 * effect.high:+.2f} %)"
    if effect.is_below(least):
        yield f"{NO_DIFFERENCE} above {100 * least:g} % {interval}"
        return
    if effect.is_certain:
        yield f"{100 * effect.value:+.2f} % {interval}"
        return
    if _excludes(effect, precision):
        yield f"{NO_DIFFERENCE} above {up(effect.seen)} % {interval}"
        return
    yield f"{NOT_DECIDED} {interval}"
    yield f"would have seen {up(effect.seen)} % or more"
    if effect.rounding > math.log1p(least):
        yield too_few_digits(least)
        return
    more = effect.blocks_for(least)
    yield f"{f'about {more}' if more else f'more than {_MOST}'} blocks would see {100 * least:g} %"


def too_few_digits(least: float) -> str:
    return f"its digits are too few for {100 * least:g} %"


def up(part: float) -> str:
    """As percent with two decimals, and not less than it is."""
    return f"{max(1, math.ceil(10000 * part)) / 100:.2f}"


def _unknown(blocks: int) -> str:
    lacking = LEAST - blocks
    if lacking <= 0:
        return "unknown: no pair has a result in all phases"
    measured = f"{blocks} {'block' if blocks == 1 else 'blocks'}"
    return (
        f"unknown: an interval comes from the scatter of {LEAST} blocks or more, got {measured}; "
        f"{lacking} more would give one"
    )
