# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Suspects for low readings, and the search for the few that explain them.

A reading is as low as the worst suspect on its way: losses do not add up, as a transfer runs at the rate of
its slowest part. The search takes the suspect that explains most, corrects the readings that it explains, and
goes on until no suspect explains more than chance would in a campaign of this size.
"""

from __future__ import annotations

import contextlib
import heapq
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from .noise import BOUND
from .numbers import NORMAL, Measured, quantile, student

#: False findings of each sort that a campaign may have on average
FALSE = 0.1

#: Sorts, and how likely one is slow before anything was measured: cables and nodes fail some in a hundred,
#: switches and their uplinks some in a thousand. It decides only between suspects that explain the same.
NODE, LEAF, LINK, PATH = "node", "leaf", "link", "path"
BEFORE = {NODE: math.log(50), LEAF: math.log(200), LINK: math.log(500), PATH: math.log(200)}

#: A port with more than this part of spare rate cannot be the limit of a pair.
_SPARE = 0.05

#: Squared standard deviations up to which a reading above its prediction counts: four for an end, whose noise
#: is known to a third only, and six for leaves, of whose many readings a loud end has few.
_ABOVE = {NODE: 16.0, LEAF: 36.0, LINK: 36.0, PATH: 36.0}

#: Part by which a loss varies from pair to pair: a faulty link does not lose the same at each time.
VARIES = 0.1

#: Gains that differ by less are the same.
_EQUAL = 1e-9

#: Directions of a suspect
BOTH, SENDS, RECEIVES = "both directions", "sending", "receiving"


#: Parts of the false findings. Most faults are in both directions.
_PARTS = {BOTH: 0.8, SENDS: 0.1, RECEIVES: 0.1}


class Suspect(NamedTuple):
    """where: number of an end, of a leaf, or of two leaves. readings: those on its way."""

    sort: str
    where: tuple[int, ...]
    way: str
    readings: Sequence[int]

    @property
    def kind(self) -> tuple[str, str]:
        return self.sort, self.way


class Sides(NamedTuple):
    """Readings by the end that limits them, sending and receiving. spare: by end, all other readings, with
    the end's spare rate in each."""

    sends: list[list[int]]
    takes: list[list[int]]
    spare: dict[int, list[tuple[int, float]]]


class Named(NamedTuple):
    """loss: logarithm. gain: logarithm of how much more likely the readings are with it."""

    suspect: Suspect
    loss: float
    gain: float


class State:
    """Readings and the part of them that is explained so far. low: by reading, distance below its level.
    precision: inverse of the variance. loss: the part that the named suspects explain. least: smaller losses
    are differences between good ends."""

    def __init__(self, low: Sequence[float], precision: Sequence[float], least: float) -> None:
        self.low, self.precision, self.least = low, precision, least
        self.loss = [0.0] * len(low)

    def estimate(self, readings: Sequence[int]) -> float:
        """Loss of a suspect by the readings that no other one explains, or by all if there are too few."""
        low, loss, precision = self.low, self.loss, self.precision
        free = [number for number in readings if not loss[number]]
        chosen = free if len(free) * 4 >= len(readings) else readings
        centre = quantile(sorted([low[number] for number in chosen]), 0.5)
        total = weights = 0.0
        for number in chosen:
            away = low[number] - centre
            weight = precision[number]
            if away * away * weight <= BOUND:
                total += weight * low[number]
                weights += weight
        return total / weights if weights else centre

    def gain(self, sort: str, readings: Sequence[int], taken: float) -> float:
        """Log-likelihood gain if a suspect has this loss. No transfer runs faster than its slowest part, so
        readings above the prediction count more than readings below."""
        low, loss, precision, above = self.low, self.loss, self.precision, _ABOVE[sort]
        varies = (VARIES * taken) ** 2
        gain = 0.0
        for number in readings:
            before = loss[number]
            if taken > before:
                value, weight = low[number], precision[number]
                old, new = value - before, value - taken
                limit = above if new < 0 else BOUND
                if before:
                    old *= old * weight / (1.0 + weight * (VARIES * before) ** 2)
                else:
                    old *= old * weight
                new *= new * weight / (1.0 + weight * varies)
                gain += (old if old < BOUND else BOUND) - (new if new < limit else limit)
        return gain / 2

    def explain(self, readings: Iterable[int], taken: float) -> None:
        for number in readings:
            if taken > self.loss[number]:
                self.loss[number] = taken


def needed(sizes: Mapping[str, int], freedom: float) -> dict[tuple[str, str], float]:
    """Sort and way → least gain by which such a suspect is named. sizes: of each sort, how many there are."""
    return {
        (sort, way): student(NORMAL.inv_cdf(1 - FALSE * part / max(1, size)), freedom) ** 2 / 2
        for sort, size in sizes.items()
        for way, part in _PARTS.items()
    }


def sides(measured: Measured) -> Sides:
    made = Sides([[] for _ in range(measured.ends)], [[] for _ in range(measured.ends)], {})
    for number, (sender, receiver, spare) in enumerate(
        zip(measured.sender, measured.receiver, measured.spare)
    ):
        for end, mine, own in ((sender, made.sends, spare[0]), (receiver, made.takes, spare[1])):
            if own > _SPARE:
                made.spare.setdefault(end, []).append((number, own))
            else:
                mine[end].append(number)
    return made


def of_ends(made: Sides) -> list[Suspect]:
    """All ends, in both directions and in each of them."""
    ways = enumerate(zip(made.sends, made.takes))
    return [suspect for end, (sends, takes) in ways for suspect in _ways(NODE, (end,), sends, takes)]


def of_leaves(measured: Measured, leaf: Sequence[int]) -> list[Suspect]:
    """Uplinks of all leaves, and the ways between two. leaf: of each end its number, -1 if it is not
    known."""
    sends: dict[int, list[int]] = {}
    takes: dict[int, list[int]] = {}
    between: dict[tuple[int, int], list[int]] = {}
    for number, (sender, receiver) in enumerate(zip(measured.sender, measured.receiver)):
        ours, theirs = leaf[sender], leaf[receiver]
        if ours != theirs and ours >= 0 and theirs >= 0:
            sends.setdefault(ours, []).append(number)
            takes.setdefault(theirs, []).append(number)
            between.setdefault((ours, theirs), []).append(number)
    uplinks = [
        suspect
        for where in sorted({*sends, *takes})
        for suspect in _ways(LEAF, (where,), sends.get(where, []), takes.get(where, []))
    ]
    pairs = sorted({(min(way), max(way)) for way in between})
    links = [
        suspect
        for way in pairs
        for suspect in _ways(LINK, way, between.get(way, []), between.get((way[1], way[0]), []))
    ]
    return uplinks + links


def _ways(sort: str, where: tuple[int, ...], sends: list[int], takes: list[int]) -> Iterator[Suspect]:
    if sends and takes:
        yield Suspect(sort, where, BOTH, sends + takes)
    if sends:
        yield Suspect(sort, where, SENDS, sends)
    if takes:
        yield Suspect(sort, where, RECEIVES, takes)


def search(
    state: State, measured: Measured, suspects: Sequence[Suspect], least: Mapping[tuple[str, str], float]
) -> list[Named]:
    """Name suspects, the most explanatory first. least: sort and way → required gain. Updates the explained
    part in the state."""
    return _Search(state, measured, suspects, least).run()


class _Search:
    """heap: suspects by their gain when last computed, which may have fallen since. changed: readings
    explained since the heap was filled."""

    def __init__(
        self,
        state: State,
        measured: Measured,
        suspects: Sequence[Suspect],
        least: Mapping[tuple[str, str], float],
    ) -> None:
        self.state, self.measured, self.suspects, self.least = state, measured, suspects, least
        self.heap: list[tuple[float, int]] = []
        self.named: dict[int, Named] = {}
        self.changed: set[int] = set()

    def run(self) -> list[Named]:
        self.fill(number for number, suspect in enumerate(self.suspects) if _is_low(self.state, suspect))
        self.take_all()
        return _needed([*self.named.values()], self.state, self.least)

    def take_all(self) -> None:
        while self.heap:
            self.take()
            # A suspect may show its loss only after others are out of the way.
            if not self.heap and self.changed:
                near = self.near()
                self.changed = set()
                self.fill(near)

    def fill(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            if number not in self.named:
                gain, _loss = self.look(number)
                if gain >= self.least[self.suspects[number].kind]:
                    heapq.heappush(self.heap, (self.cost(number) - gain, number))

    def look(self, number: int) -> tuple[float, float]:
        """Gain and loss of a suspect as things stand."""
        suspect = self.suspects[number]
        readings = suspect.readings
        loss = self.state.estimate(readings)
        return (self.state.gain(suspect.sort, readings, loss) if loss >= self.state.least else 0.0), loss

    def cost(self, number: int) -> float:
        return BEFORE[self.suspects[number].sort]

    def take(self) -> None:
        _score, number = heapq.heappop(self.heap)
        suspect = self.suspects[number]
        gain, loss = self.look(number)
        if number in self.named or gain < self.least[suspect.kind]:
            return
        score = self.cost(number) - gain
        if self.heap and score > self.heap[0][0] + _EQUAL:
            heapq.heappush(self.heap, (score, number))
            return
        self.named[number] = Named(suspect, loss, gain)
        self.state.explain(suspect.readings, loss)
        self.changed.update(suspect.readings)

    def near(self) -> list[int]:
        """Suspects with readings that have changed."""
        senders, receivers = self.measured.sender, self.measured.receiver
        ends = {senders[number] for number in self.changed} | {receivers[number] for number in self.changed}
        return [
            number
            for number, suspect in enumerate(self.suspects)
            if suspect.sort != NODE or suspect.where[0] in ends
        ]


class Without:
    """State without one of the named suspects at a time."""

    def __init__(self, state: State, named: Sequence[Named]) -> None:
        self.state = state
        self.by_reading: dict[int, list[Named]] = {}
        for culprit in named:
            for number in culprit.suspect.readings:
                self.by_reading.setdefault(number, []).append(culprit)

    @contextlib.contextmanager
    def leave_out(self, culprit: Named) -> Iterator[State]:
        loss, readings = self.state.loss, culprit.suspect.readings
        before = [loss[number] for number in readings]
        for number in readings:
            others = (other.loss for other in self.by_reading[number] if other is not culprit)
            loss[number] = max(others, default=0.0)
        yield self.state
        for number, old in zip(readings, before):
            loss[number] = old

    def forget(self, culprit: Named) -> None:
        with self.leave_out(culprit) as state:
            now = [state.loss[number] for number in culprit.suspect.readings]
        for number, loss in zip(culprit.suspect.readings, now):
            self.by_reading[number] = [other for other in self.by_reading[number] if other is not culprit]
            self.state.loss[number] = loss


def _needed(named: list[Named], state: State, least: Mapping[tuple[str, str], float]) -> list[Named]:
    """Those without which the readings are not explained: of an end that has met only slow ones, nothing is
    known, though it may have been named before they were."""
    without = Without(state, named)
    kept = []
    for culprit in named:
        with without.leave_out(culprit) as rest:
            gain = rest.gain(culprit.suspect.sort, culprit.suspect.readings, culprit.loss)
        if gain >= least[culprit.suspect.kind]:
            kept.append(culprit._replace(gain=gain))
        else:
            without.forget(culprit)
    return kept


def _is_low(state: State, suspect: Suspect) -> bool:
    """Worth a closer look: the mean of its readings, each of three standard deviations at most, is low."""
    total = 0.0
    for number in suspect.readings:
        size = state.low[number] * math.sqrt(state.precision[number])
        total += -3.0 if size < -3.0 else 3.0 if size > 3.0 else size
    return total > math.sqrt(len(suspect.readings))
