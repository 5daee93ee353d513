# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A fleet whose faults are known, measured by a plan: what a campaign must find, and what it must not.

The noise of a measurement: each direction is the rate of its path, less a half-normal loss with a standard
deviation of 1.5 %, as repeated runs of one pair scatter to one side: nothing is faster than its link. One in
a hundred measurements is disturbed besides, and loses up to a fifth, as when another flow passes. A slow
node takes 10 to 15 % from all its pairs, a bad path 10 to 50 % from one.
"""

from __future__ import annotations

import json
import random
from typing import Any, NamedTuple

from ansible_collections.mlnode.tuning.plugins.plugin_utils.campaign import schedule

#: Gb/s of payload of a healthy pair: 400 Gb/s at MTU 9000
GBITS = 396.0

SPREAD = 0.015
DISTURBED = 0.01
DISTURBANCE = 0.2
SLOW = (0.10, 0.15)
BAD = (0.10, 0.50)


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

    def answers(self, slots: dict[str, list[dict[str, Any]]]) -> dict[str, str]:
        """What the nodes would answer."""
        return {
            name: json.dumps(
                {
                    "kernel": "6.12.0",
                    "declarations": {"node": "0123456789abcdef"},
                    "rails": [{"interface": "eth0", "speed_mbit": 400_000, "mtu": 9000, "pcie": []}],
                    "served": [],
                    "slots": [self._slot(name, slot) for slot in mine if not slot["serves"]],
                }
            )
            for name, mine in slots.items()
        }

    def _slot(self, name: str, slot: dict[str, Any]) -> dict[str, Any]:
        one, other = (self.measured(name, slot["peer"]) for _direction in range(2))
        return {"round": slot["round"], "rail": 0, "forward_gbits": one, "backward_gbits": other, "hole": 0.9}


def made(nodes: int, slow: float, bad: float, rounds: int, seed: int) -> tuple[Fleet, dict[str, Any]]:
    """A fleet with these parts of slow nodes and, of the pairs that are measured, bad paths; and its plan."""
    chance = random.Random(seed)
    names = {f"gpu{number:04}": {"addresses": [f"10.0.{number // 250}.{number % 250}"], "leaf": ""}
             for number in range(nodes)}  # fmt: skip
    plan = schedule.document(names, "tcp", rounds, seed, 4)
    pairs = sorted(
        (name, slot["peer"]) for name, mine in plan["slots"].items() for slot in mine if slot["serves"]
    )
    return Fleet(
        names,
        {name: chance.uniform(*SLOW) for name in chance.sample([*names], round(slow * nodes))},
        {frozenset(pair): chance.uniform(*BAD) for pair in chance.sample(pairs, round(bad * len(pairs)))},
        chance,
    ), plan
