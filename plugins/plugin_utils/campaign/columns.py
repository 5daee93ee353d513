# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Samples as columns of numbers, for the model: which ends, which class, how much, and what hardware
promises."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ...module_utils._mlnode.checks.campaign.kind import Kind
from . import limits
from .limits import Class
from .model import End, Facts, Limit, Node, Reading, Sample
from .numbers import LEAST, Measured


class Fleet(NamedTuple):
    """A fleet before anything is judged. ends: in their order, and each one's number."""

    kind: Kind
    nodes: Mapping[str, Node]
    leaves: Mapping[str, str]
    ends: Mapping[End, int]

    def facts(self, end: End) -> Facts:
        name, rail = end
        rails = self.nodes[name].rails if name in self.nodes else ()
        return rails[rail] if rail < len(rails) else Facts()

    def near(self, sample: Sample) -> bool | None:
        """Both ends are on one leaf; None if that is not known."""
        leaf, other_leaf = (self.leaves.get(name, "") for name in sample.nodes)
        return leaf == other_leaf if leaf and other_leaf else None

    def leaf_numbers(self) -> tuple[list[int], list[tuple[str, int]]]:
        """Number of each end's leaf on its rail, -1 if unknown, and the leaf and rail of each number."""
        numbers: dict[tuple[str, int], int] = {}
        of_end = []
        for name, rail in self.ends:
            leaf = self.leaves.get(name, "")
            of_end.append(numbers.setdefault((leaf, rail), len(numbers)) if leaf else -1)
        return of_end, [*numbers]


class Columns(NamedTuple):
    """measured: for the model. sample: of each reading the numbers of its samples. floor: logarithm of the
    least that hardware promises, minus infinity for none. classes: in the order of their numbers. hardware:
    of each sample the lowest limit by hardware."""

    measured: Measured
    sample: list[list[int]]
    floor: list[float]
    classes: list[Class]
    like: list[int]
    hardware: list[Limit | None]


def tabulate(fleet: Fleet, samples: Sequence[Sample]) -> Columns:
    numbers: dict[Class, int] = {}
    by_facts: dict[tuple[Facts, Facts, bool | None], tuple[int, Limit | None]] = {}
    pairs: dict[tuple[int, int], int] = {}
    places: dict[tuple[int, int], int] = {}
    measured = Measured(len(fleet.ends), 0, [], [], [], [], [], [], [], [])
    table = Columns(measured, [], [], [], [], [])
    for number, sample in enumerate(samples):
        end, partner = sample.ends
        key = (fleet.facts(end), fleet.facts(partner), fleet.near(sample))
        if key not in by_facts:
            by_facts[key] = (
                numbers.setdefault(limits.class_of(*key), len(numbers)),
                limits.least(limits.of_hardware(fleet.kind, [("", key[0]), ("", key[1])])),
            )
        like, weakest = by_facts[key]
        table.like.append(like)
        table.hardware.append(weakest)
        ours, theirs = fleet.ends[end], fleet.ends[partner]
        for way, value, least in _values(fleet.kind, sample.reading, weakest):
            ends = (theirs, ours) if way else (ours, theirs)
            if ends not in places:
                places[ends] = len(measured.rate)
                measured.sender.append(ends[0])
                measured.receiver.append(ends[1])
                measured.rate.append(value)
                measured.like.append(like)
                measured.pair.append(pairs.setdefault((min(ends), max(ends)), len(pairs)))
                measured.looks.append([])
                spare = (_spare(key[0], key[1]), _spare(key[1], key[0]))
                measured.spare.append(spare[::-1] if way else spare)
                table.sample.append([])
                table.floor.append(least)
            measured.looks[places[ends]].append(value)
            table.sample[places[ends]].append(number)
    _clip(measured, len(numbers))
    made = [*numbers]
    kin = [_kin(fleet.kind, numbers, pair_class) for pair_class in made]
    return table._replace(measured=measured._replace(classes=len(made), kin=kin), classes=made)


def _kin(kind: Kind, numbers: Mapping[Class, int], pair_class: Class) -> int:
    """Class with the same rate and MTU, inside a leaf or not. Latencies have none, as a hop adds to them."""
    own = numbers[pair_class]
    if kind.UNIT.lower:
        return own
    others = (numbers.get(pair_class._replace(near=near), own) for near in (True, False, None))
    return min(own, *others)


def _spare(own: Facts, other: Facts) -> float:
    """How far a port is above the other one, in logarithms; 0 if it is not or not known."""
    if not own.speed_mbit or not other.speed_mbit:
        return 0.0
    return max(0.0, math.log(own.speed_mbit / other.speed_mbit))


def _values(kind: Kind, reading: Reading, weakest: Limit | None) -> list[tuple[int, float, float]]:
    """Direction, logarithm and floor of each value of a reading. A second that is a hole counts as if the
    whole were as bad as it is beyond the limit of a hole."""
    if reading.value is None:
        return []
    hole = min(1.0, reading.amounts.get("hole", 1.0) / limits.HOLE)
    values = []
    for way, name in enumerate(kind.JUDGED):
        value = reading.amounts[name] * hole
        least = weakest.value if weakest and not reading.cpu_bound else 0.0
        host = reading.amounts.get(f"host_{name}")
        if host:
            least = limits.OF_HOST * host
        values.append((way, _logarithm(kind, value), _logarithm(kind, least)))
    return values


def _logarithm(kind: Kind, value: float) -> float:
    if value <= 0:
        return -math.inf
    return -math.log(value) if kind.UNIT.lower else math.log(value)


def _clip(measured: Measured, classes: int) -> None:
    """Nothing is lower than a fiftieth of the best of its class: 0 has no logarithm. The rate of a reading is
    the mean of its looks."""
    best = [-math.inf] * classes
    for like, looks in zip(measured.like, measured.looks):
        best[like] = max(best[like], *looks)
    for number, (like, looks) in enumerate(zip(measured.like, measured.looks)):
        least = best[like] + LEAST if best[like] > -math.inf else LEAST
        looks[:] = [max(rate, least) for rate in looks]
        measured.rate[number] = looks[0] if len(looks) == 1 else sum(looks) / len(looks)
