# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Noise of each end: the variance of a reading is the sum of those of its two ends.

The noise of a fleet is estimated first, then each end's own, drawn towards that of the fleet, as a dozen
readings tell a variance to a third only. A reading counts up to three standard deviations from its
prediction, less beyond, and not at all from six on: a disturbed measurement and a bad path are not noise.
"""

from __future__ import annotations

from collections.abc import Sequence

from .numbers import Measured, deviation, quantile

#: Standard deviation of repeated measurements between two nodes, before anything was measured, and how many
#: readings this counts for: iperf3 and ib_write_bw on idle links repeat within one or two percent.
_USUAL, _USUAL_COUNTS = 0.015, 4

#: Most that the noise of all may be above that of the better half: noise that only takes has 1.2.
_HALVES = 1.5

#: As many readings the noise of the fleet counts for in that of an end
PRIOR = 6.0

#: Squared standard deviations up to which a reading counts
BOUND = 9.0

#: Least standard deviation of a reading: results have four digits
_LEAST = 5e-4

#: ... and from which it does not count: in between it counts less and less.
_FAR = 36.0

_PASSES = 6


def of_fleet(rest: Sequence[float]) -> float:
    """Variance of a reading, of what is left of the predictions. If much is low that no suspect explains yet,
    the better half is taken."""
    if not rest:
        return _USUAL**2
    better = [one for one in rest if one <= 0]
    size = deviation(rest, 0.0)
    if better:
        size = min(size, _HALVES * deviation(better, 0.0))
    count = len(rest)
    return max((size**2 * count + _USUAL**2 * _USUAL_COUNTS) / (count + _USUAL_COUNTS), _LEAST**2)


def of_ends(found: Measured, rest: Sequence[float]) -> list[float]:
    """Variance that each end adds to one measurement. rest: of each reading, how far the first look is under
    its prediction."""
    fleet = of_fleet(rest) / 2
    squares = [one * one for one in rest]
    own = [fleet] * found.ends
    least = _LEAST**2 / 2
    for _ in range(_PASSES):
        seen = [PRIOR * fleet / size for size in own]
        counts = [PRIOR] * found.ends
        for sender, receiver, square in zip(found.sender, found.receiver, squares):
            part = square / (own[sender] + own[receiver])
            if part > _FAR:
                continue  # bad paths: a quarter of the readings of an end may be theirs
            if part > BOUND:
                part = BOUND * (_FAR - part) / (_FAR - BOUND)
            seen[sender] += part
            seen[receiver] += part
            counts[sender] += 1.0
            counts[receiver] += 1.0
        # From pass to pass at most four times, so that the partners of a loud end do not become loud.
        own = [
            max(least, size * min(4.0, max(0.25, one / count))) for size, one, count in zip(own, seen, counts)
        ]
    return own


#: Of noise that only takes, the lower tenth is so much further from the median than the upper one, and so
#: much does its mean fall for each standard deviation: a half-normal distribution.
_HALF, _FALL = 1.77, 1.2
#: With fewer readings the tenths say little.
_ENOUGH = 200


def fall(rest: Sequence[float]) -> float:
    """By how much a reading of an end that is louder than the others is low, for each standard deviation
    more.

    0 for noise to both sides. Where noise only takes, as other traffic does, a loud end is low on average
    though it can do as much as the others.
    """
    if len(rest) < _ENOUGH:
        return 0.0
    ordered = sorted(rest)
    upper, centre, lower = (quantile(ordered, part) for part in (0.1, 0.5, 0.9))
    if centre <= upper:
        return 0.0
    ratio = (lower - centre) / (centre - upper)
    return _FALL * min(1.0, max(0.0, (ratio - 1) / (_HALF - 1)))
