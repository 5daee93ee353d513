# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fleets with known faults, measured as a plan says: the answers of their nodes, and the truth about them.

One direction of a pair reaches the smaller of what its sender sends and its receiver takes, less what leaf,
link between leaves and path lose, times noise.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Mapping
from typing import Any, NamedTuple

from ansible_collections.mlnode.tuning.plugins.plugin_utils.campaign import schedule

#: Gb/s of payload of a healthy pair: 400 Gb/s at MTU 9000
GBITS = 396.0

#: Amounts are written to a ten-thousandth, as nodes do.
_DIGITS = 4


class World(NamedTuple):
    """Kind of fleet. All sizes are parts of one.

    noise: standard deviation of one direction. noisy: share of nodes whose noise is `loud`. tail: gauss, half
    (measurements lose only), student (three degrees of freedom). slow: share of nodes that lose `loss`; with
    spread, they lose from half to one and a half of it. way: both, send, receive. one_rail: slow on one rail
    only. leaf_size: nodes of a leaf, 0 for unknown leaves. leaves, links: how many uplinks of leaves, and
    links between two leaves, lose `group_loss`. bad: share of the measured paths that lose `bad_loss`.
    missing, zeros, disturbed: share of measurements without result, with 0, and that lose up to 20 %. old:
    share of nodes with half of the rate. rated: ports tell their rates. negotiated: share of nodes whose
    ports have a fortieth of the rate and say so.
    """

    nodes: int = 256
    rails: int = 1
    rounds: int = 8
    noise: float = 0.02
    noisy: float = 0.0
    loud: float = 0.06
    tail: str = "gauss"
    slow: float = 0.0
    loss: float = 0.15
    spread: bool = False
    way: str = "both"
    one_rail: bool = False
    leaf_size: int = 0
    leaves: int = 0
    links: int = 0
    group_loss: float = 0.3
    bad: float = 0.0
    bad_loss: float = 0.3
    missing: float = 0.0
    zeros: float = 0.0
    disturbed: float = 0.0
    old: float = 0.0
    rated: bool = True
    negotiated: float = 0.0


class Fleet:
    """One fleet of a world, drawn by a seed.

    slow: end → loss. leaves, links, paths: leaf, two leaves, two nodes → loss.
    """

    def __init__(self, world: World, seed: int) -> None:
        self.world, self.chance = world, random.Random(seed)
        chance = self.chance
        self.names = [f"gpu{number:04}" for number in range(world.nodes)]
        size = world.leaf_size
        self.leaf = {
            name: f"leaf{number // size:03}" if size else "" for number, name in enumerate(self.names)
        }
        about = {
            name: {
                "addresses": [f"10.{rail}.{number // 250}.{number % 250}" for rail in range(world.rails)],
                "leaf": self.leaf[name],
            }
            for number, name in enumerate(self.names)
        }
        self.plan = schedule.document(about, "tcp", world.rounds, seed, 4)
        self.slow = self._slow()
        self.noise = dict.fromkeys(self.names, world.noise)
        self.noise.update(dict.fromkeys(self._some(world.noisy), world.loud))
        self.old = {*self._some(world.old)}
        self.negotiated = {*self._some(world.negotiated)}
        there = sorted({*self.leaf.values()} - {""})
        self.slow_leaves = dict.fromkeys(
            chance.sample(there, min(world.leaves, len(there))), world.group_loss
        )
        ways = [(one, other) for one in there for other in there if one < other]
        self.slow_links = dict.fromkeys(chance.sample(ways, min(world.links, len(ways))), world.group_loss)
        met = sorted(
            {
                tuple(sorted((name, slot["peer"])))
                for name, mine in self.plan["slots"].items()
                for slot in mine
            }
        )
        self.bad = dict.fromkeys(chance.sample(met, round(world.bad * len(met))), world.bad_loss)

    def _some(self, share: float) -> list[str]:
        return self.chance.sample(self.names, round(share * len(self.names)))

    def _slow(self) -> dict[tuple[str, int], float]:
        world, chance = self.world, self.chance
        count = max(1, round(world.slow * world.nodes)) if world.slow else 0
        found = {}
        for name in chance.sample(self.names, count):
            loss = world.loss * (chance.uniform(0.5, 1.5) if world.spread else 1.0)
            rails = [chance.randrange(world.rails)] if world.one_rail else range(world.rails)
            found.update({(name, rail): loss for rail in rails})
        return found

    def measured(self, one: str, other: str, rail: int) -> float | None:
        """Gb/s of one direction; None for no result."""
        world, chance = self.world, self.chance
        if chance.random() < world.missing:
            return None
        if chance.random() < world.zeros:
            return 0.0
        sends = 1 - (self.slow.get((one, rail), 0.0) if world.way != "receive" else 0.0)
        takes = 1 - (self.slow.get((other, rail), 0.0) if world.way != "send" else 0.0)
        sends *= 0.5 if one in self.old else 1.0
        takes *= 0.5 if other in self.old else 1.0
        for name in (one, other):
            if name in self.negotiated:
                sends /= 40
                break
        least = min(sends, takes, *self._between(one, other))
        loss = 1 - self.bad.get(tuple(sorted((one, other))), 0.0)
        return round(GBITS * max(0.0, least * loss * self._noise(one, other)), _DIGITS)

    def _between(self, one: str, other: str) -> list[float]:
        ours, theirs = self.leaf[one], self.leaf[other]
        if ours == theirs:
            return [1.0]
        link = self.slow_links.get((min(ours, theirs), max(ours, theirs)), 0.0)
        return [
            1 - loss for loss in (self.slow_leaves.get(ours, 0.0), self.slow_leaves.get(theirs, 0.0), link)
        ]

    def _noise(self, one: str, other: str) -> float:
        chance, size = self.chance, max(self.noise[one], self.noise[other])
        if self.world.tail == "student":
            drawn = chance.gauss(0, 1) / math.sqrt(sum(chance.gauss(0, 1) ** 2 for _ in range(3)))
        else:
            drawn = chance.gauss(0, 1)
        part = 1 - abs(drawn) * size if self.world.tail == "half" else 1 + drawn * size
        if chance.random() < self.world.disturbed:
            part *= 1 - chance.uniform(0, 0.2)
        return part

    def answers(self, slots: Mapping[str, Any]) -> dict[str, str]:
        """Node → what it answers about its part of a plan, as JSON."""
        rails = range(self.world.rails)
        return {
            name: json.dumps(
                {
                    "kernel": "6.12.0",
                    "declarations": {},
                    "rails": [self._facts(name) for _rail in rails],
                    "served": [],
                    "slots": [
                        self._slot(name, slot, rail) for slot in mine if not slot["serves"] for rail in rails
                    ],
                }
            )
            for name, mine in slots.items()
        }

    def _facts(self, name: str) -> dict[str, Any]:
        rate = 10_000 if name in self.negotiated else 200_000 if name in self.old else 400_000
        return {
            "interface": "eth0",
            "speed_mbit": rate if self.world.rated else None,
            "mtu": 9000,
            "pcie": [],
        }

    def _slot(self, name: str, slot: Mapping[str, Any], rail: int) -> dict[str, Any]:
        peer = str(slot["peer"])
        one, other = self.measured(name, peer, rail), self.measured(peer, name, rail)
        place = {"round": slot["round"], "rail": rail}
        if one is None or other is None:
            return {**place, "reason": "no server listened"}
        return {**place, "forward_gbits": one, "backward_gbits": other, "hole": 0.9}
