# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Noise of each end: the variance of a reading is the sum of the variances of its two ends.

The noise of the fleet is estimated first. Each end's noise is then drawn towards it, as a dozen readings give
a variance only to a third. A reading within three standard deviations of its prediction counts fully, beyond
that less, and from six on not at all: a disturbed measurement and a bad path are not noise.
"""

from __future__ import annotations

from collections.abc import Sequence

from .numbers import Measured, deviation, quantile

#: Standard deviation of repeated measurements between two nodes, before anything was measured, and how many
#: readings this counts for: iperf3 and ib_write_bw on idle links repeat within one or two percent.
_USUAL, _USUAL_COUNTS = 0.015, 4

#: Most of the overall noise as a multiple of the better half's noise: purely downward noise has 1.2.
_HALVES = 1.5

#: Weight of the fleet's noise in an end's noise, as a number of readings
PRIOR = 6.0

#: Squared standard deviations up to which a reading counts
BOUND = 9.0

#: Least standard deviation of a reading: results have four digits
_LEAST = 5e-4

#: ... and from which it does not count: in between it counts less and less.
_FAR = 36.0

_PASSES = 6


def of_fleet(rest: Sequence[float]) -> float:
    """Variance of a reading, from the residuals of the predictions. While many low readings are unexplained,
    only the better half counts."""
    if not rest:
        return _USUAL**2
    better = [residual for residual in rest if residual <= 0]
    size = deviation(rest, 0.0)
    if better:
        size = min(size, _HALVES * deviation(better, 0.0))
    count = len(rest)
    return max((size**2 * count + _USUAL**2 * _USUAL_COUNTS) / (count + _USUAL_COUNTS), _LEAST**2)


def of_ends(measured: Measured, rest: Sequence[float]) -> list[float]:
    """Variance that each end adds to one measurement. rest: of each reading, how far the first look is under
    its prediction."""
    fleet = of_fleet(rest) / 2
    squares = [residual * residual for residual in rest]
    own = [fleet] * measured.ends
    least = _LEAST**2 / 2
    for _ in range(_PASSES):
        seen = [PRIOR * fleet / size for size in own]
        counts = [PRIOR] * measured.ends
        for sender, receiver, square in zip(measured.sender, measured.receiver, squares):
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
            max(least, size * min(4.0, max(0.25, total / count)))
            for size, total, count in zip(own, seen, counts)
        ]
    return own


#: Purely downward noise, a half-normal distribution: ratio of the lower tenth's distance from the median to
#: the upper tenth's, and fall of the mean per standard deviation
_HALF, _FALL = 1.77, 1.2
#: With fewer readings the tenths say little.
_ENOUGH = 200


def fall(rest: Sequence[float]) -> float:
    """How much lower a reading of a noisier end is, per additional standard deviation.

    0 for noise in both directions. With purely downward noise, such as other traffic, a noisy end is low on
    average though its capacity is the same.
    """
    if len(rest) < _ENOUGH:
        return 0.0
    ordered = sorted(rest)
    upper, centre, lower = (quantile(ordered, part) for part in (0.1, 0.5, 0.9))
    if centre <= upper:
        return 0.0
    ratio = (lower - centre) / (centre - upper)
    return _FALL * min(1.0, max(0.0, (ratio - 1) / (_HALF - 1)))
