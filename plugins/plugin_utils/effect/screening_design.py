# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Design of a screening experiment: which areas each phase applies, and in which order.

The base design is a table of Plackett and Burman: N runs for up to N - 1 areas. With twice as many phases it
is folded over: each run has a second one with all areas switched (Box, Hunter and Hunter, Statistics for
Experimenters, 2nd ed.). An interaction of two areas is equal in both runs, and the effects, which come
from their difference, are free of it (resolution IV).

Four phases are a block of two pairs: run, other run, opposite of the first, opposite of the other. A straight
trend adds the same to every difference, and as each area is on in half of the first runs, nothing to its
effect. The distance of two phases makes effects independent of noise that swings from phase to phase: with an
autocorrelation of -0.5, opposite neighbours would find 12 false effects in 100 experiments.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence
from typing import NamedTuple

#: First rows of the cyclic designs; the last run of each has all areas off. N = 8 to 36 from Plackett and
#: Burman, The Design of Optimum Multifactorial Experiments, Biometrika 33 (1946), 305-325
ROWS = {
    4: "++-",
    8: "+++-+--",
    12: "++-+++---+-",
    16: "++++-+-++--+---",
    20: "++--++++-+-+----++-",
    24: "+++++-+-++--++--+-+----",
    32: "----+-+-+++-++---+++++--++-+--+",
    36: "-+-+++---+++++-+++--+----+-+-++--+-",
}

#: Degrees of freedom for the noise, at least: with fewer, Student's t of 8 areas is above 5
LEAST_FREE = 4

#: Orders to choose from, in 0.2 s. The largest correlation of a bent trend with one of 8 areas is 0.27 in a
#: random order of 24 phases, 0.16 in the best of 100 and 0.14 in the best of 1,000. Under a trend that is
#: bent by 20 %, an effect of 3 % is found in 83 of 100 experiments with the best of 100, in 89 with 1,000.
_ORDERS = 1000


class Design(NamedTuple):
    """Phases of an experiment.

    levels: of each phase, +1 or -1 for each area. folded: each phase has an opposite one, and the
    effects are clear of interactions of two areas.
    """

    areas: tuple[str, ...]
    levels: tuple[tuple[int, ...], ...]
    folded: bool

    def applied(self, phase: int) -> tuple[str, ...]:
        """Areas that a phase applies; all others are as found."""
        return tuple(area for area, level in zip(self.areas, self.levels[phase]) if level > 0)

    @property
    def words(self) -> str:
        """Text about the design for people."""
        count = f"{len(self.areas)} areas in {len(self.levels)} phases"
        if self.folded:
            return f"{count}: the effect of each area is clear of interactions of two areas"
        return (
            f"{count}: an interaction of two areas may look like the effect of a third; "
            f"{2 * _base(len(self.areas))} phases would tell them apart"
        )

    def confounded(self, area: int) -> list[tuple[str, str, float]]:
        """Pairs of other areas whose interaction adds to the effect of this one, and the part of it that
        does, from -1 to 1; the largest first."""
        columns = [*zip(*self.levels)]
        others = [other for other in range(len(self.areas)) if other != area]
        shares = [
            (
                self.areas[first],
                self.areas[second],
                sum(map(math.prod, zip(columns[area], columns[first], columns[second]))) / len(self.levels),
            )
            for first, second in itertools.combinations(others, 2)
        ]
        return sorted((share for share in shares if share[2]), key=lambda share: -abs(share[2]))


def _folded(row: tuple[int, ...]) -> tuple[int, ...]:
    """The opposite run."""
    return tuple(-level for level in row)


def table(runs: int) -> list[tuple[int, ...]]:
    """Rows of a base design, +1 and -1: the first row moved by one place at a time, and a row of -1."""
    first = [1 if sign == "+" else -1 for sign in ROWS[runs]]
    return [*(tuple(first[-at:] + first[:-at]) for at in range(runs - 1)), (-1,) * (runs - 1)]


def design(areas: Sequence[str], phases: int, seed: int) -> Design:
    """The design with the most phases that fits.

    Raises ValueError if there are too few phases or too many areas.
    """
    used = tuple(areas)
    if len({*used}) < len(used):
        raise ValueError("by: expected each area once; remove the repeated names")
    base = _base(len(used))
    chance = random.Random(seed)  # noqa: S311  an order, no secret
    folded = phases >= 2 * base
    if folded:
        # The most phases, of the most different ones
        sizes = [size for size in ROWS if base <= size <= phases // 2]
        runs = max(sizes, key=lambda size: (phases // (2 * size) * size, size))
        levels = _pairs(runs, len(used), phases // (2 * runs), chance)
    else:
        sizes = [size for size in ROWS if len(used) + 2 + LEAST_FREE <= size <= phases]
        if not sizes:
            least = min([2 * base, *(size for size in ROWS if size >= len(used) + 2 + LEAST_FREE)])
            raise ValueError(
                f"phases: expected at least {least} for {len(used)} areas, got {phases}; "
                "allow more phases, or name fewer areas"
            )
        rows = [row[: len(used)] for row in table(max(sizes))]
        levels = _best([chance.sample(rows, len(rows)) for _order in range(_ORDERS)], (1, 2, 3))
    return Design(used, tuple(levels), folded)


def _base(areas: int) -> int:
    """Runs of the smallest table, whose fold-over also leaves degrees of freedom for the noise."""
    for size in ROWS:
        if areas < size and 2 * size - areas - 2 >= LEAST_FREE:
            return size
    most = max(ROWS) - 1
    raise ValueError(f"by: expected at most {most} areas, got {areas}; combine areas, or name fewer")


def _pairs(runs: int, areas: int, repeats: int, chance: random.Random) -> list[tuple[int, ...]]:
    rows = [row[:areas] for row in table(runs)] * repeats
    orders = []
    for _order in range(_ORDERS):
        sign = chance.choice((1, -1))
        shuffled = chance.sample(rows, len(rows))
        twos = zip(shuffled[::2], shuffled[1::2])
        blocks = ((row, other, _folded(row), _folded(other)) for row, other in twos)
        orders.append([tuple(sign * level for level in row) for block in blocks for row in block])
    return _best(orders, (2, 3))


def _best(orders: Sequence[list[tuple[int, ...]]], degrees: Sequence[int]) -> list[tuple[int, ...]]:
    """The order in which trends of these degrees add least to the effect of any area."""
    trends = trend(len(orders[0]), max(degrees))

    def worst(order: list[tuple[int, ...]]) -> float:
        shares = [
            abs(sum(level * part for level, part in zip(column, trends[degree])))
            for column in zip(*order)
            for degree in degrees
        ]
        return float(max(shares))

    return min(orders, key=worst)


def trend(phases: int, degree: int) -> list[list[float]]:
    """Orthogonal polynomials of degree 0 to `degree` over the phases, each of length 1."""
    columns: list[list[float]] = []
    for power in range(degree + 1):
        column = [math.pow(2 * at / (phases - 1) - 1, power) for at in range(phases)]
        for other in columns:
            shared = sum(map(float.__mul__, column, other))
            column = [value - shared * part for value, part in zip(column, other)]
        length = math.sqrt(sum(value * value for value in column))
        columns.append([value / length for value in column])
    return columns
