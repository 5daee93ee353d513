# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measurements of a pair, with noise that only takes.

The noise of a measurement: each direction is the rate of its path, less a half-normal loss with a standard
deviation of 1.5 %, as repeated runs of one pair scatter to one side: nothing is faster than its link. One in
a hundred measurements is disturbed besides, and loses up to a fifth, as when another flow passes.
"""

from __future__ import annotations

import random
from typing import Any, NamedTuple

#: Gb/s of payload of a healthy pair: 400 Gb/s at MTU 9000
GBITS = 396.0

SPREAD = 0.015
DISTURBED = 0.01
DISTURBANCE = 0.2


class Fleet(NamedTuple):
    """slow: node → part that it loses. bad: pair of nodes → the same."""

    nodes: dict[str, dict[str, Any]]
    slow: dict[str, float]
    bad: dict[frozenset[str], float]
    chance: random.Random

    def measured(self, one: str, other: str) -> float:
        loss = abs(self.chance.gauss(0, SPREAD))
        if self.chance.random() < DISTURBED:
            loss += self.chance.uniform(0, DISTURBANCE)
        path = self.bad.get(frozenset((one, other)), 0.0)
        return GBITS * (1 - loss) * (1 - self.slow.get(one, 0)) * (1 - self.slow.get(other, 0)) * (1 - path)
