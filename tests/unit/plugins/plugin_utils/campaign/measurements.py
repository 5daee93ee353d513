# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Readings as columns, of fleets in which all ends have met all others."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Sequence

from ansible_collections.mlnode.tuning.plugins.plugin_utils.campaign.fit import Fit, fit
from ansible_collections.mlnode.tuning.plugins.plugin_utils.campaign.numbers import Measured

#: Sender, receiver → part of the level that the direction reaches
Part = Callable[[int, int], float]


def measured(ends: int, part: Part, noise: float = 0.01, spare: float = 0.0, seed: int = 1) -> Measured:
    """One class. spare: how far each port is above the other one, in logarithms."""
    chance = random.Random(seed)
    ways = [(one, other) for one in range(ends) for other in range(ends) if one != other]
    pairs = {frozenset(way): number for number, way in enumerate(w for w in ways if w[0] < w[1])}
    rates = [math.log(part(*way)) + chance.gauss(0, noise) for way in ways]
    return Measured(
        ends=ends,
        classes=1,
        sender=[one for one, _other in ways],
        receiver=[other for _one, other in ways],
        rate=rates,
        like=[0] * len(ways),
        pair=[pairs[frozenset(way)] for way in ways],
        looks=[[rate] for rate in rates],
        spare=[(spare, spare)] * len(ways),
        kin=[0],
    )


def only(found: Measured, keep: Callable[[set[int]], bool]) -> Measured:
    """The pairs that are to be kept by their ends."""
    ways = enumerate(zip(found.sender, found.receiver))
    kept = [place for place, ends in ways if keep({*ends})]
    columns = ("sender", "receiver", "rate", "like", "pair", "looks", "spare")
    return found._replace(**{name: [getattr(found, name)[place] for place in kept] for name in columns})


def slow(ends: Iterable[int], part: float) -> Part:
    """These ends send and take so much."""
    those = {*ends}
    return lambda one, other: part if those & {one, other} else 1.0


def fitted(found: Measured, leaf: Sequence[int] | None = None, margin: float = 0.05) -> Fit:
    return fit(found, leaf or [-1] * found.ends, [-math.inf] * len(found.rate), margin)
