# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Student's t distribution, as the standard library has none."""

from __future__ import annotations

import math
from functools import lru_cache

#: Halvings of an angle until a float has no digit left for more
_STEPS = 60


@lru_cache(maxsize=None)
def quantile(outside: float, degrees: int) -> float:
    """Value t with P(|T| > t) = outside, for a whole number of degrees of freedom."""
    low, high = 0.0, math.pi / 2
    for _step in range(_STEPS):
        middle = (low + high) / 2
        if 1 - _inside(middle, degrees) > outside:
            low = middle
        else:
            high = middle
    return math.sqrt(degrees) * math.tan(low)


def _inside(angle: float, degrees: int) -> float:
    """P(|T| <= t) with angle = atan(t / sqrt(degrees)). Abramowitz and Stegun, Handbook of Mathematical
    Functions, 26.7.3 (odd) and 26.7.4 (even)."""
    odd = degrees % 2
    term, total = math.cos(angle) if odd else 1.0, 0.0
    for number in range(1 + odd, degrees, 2):
        total += term
        term *= math.cos(angle) ** 2 * number / (number + 1)
    total *= math.sin(angle)
    return (angle + total) * 2 / math.pi if odd else total
