# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Other explanations of the readings that a named suspect explains, and the odds of each."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ...module_utils._mlnode.model.values import by_key
from .noise import BOUND
from .numbers import Measured
from .suspects import BEFORE, NODE, PATH, Named, State, Suspect, Without

#: A gain above which no partner of an end is a rival. They share two readings in each look, four in both;
#: each reading counts for 4.5 at most, and a hundredth of the odds is 4.6.
_DECIDED = 25.0

#: A suspect with less than this part of the odds of another one is not its rival.
_RIVAL = 0.01


class Rival(NamedTuple):
    """One of the explanations of the same readings, with its probability."""

    sort: str
    where: tuple[int, ...]
    way: str
    chance: float


def rivals(
    state: State, measured: Measured, everyone: Sequence[Suspect], named: Sequence[Named]
) -> list[list[Rival]]:
    """For each named suspect, the suspects that explain its readings as well, by their odds, itself first."""
    if not named:
        return []
    by_end: dict[int, list[Suspect]] = {}
    groups: list[Suspect] = []
    for suspect in everyone:
        if suspect.sort == NODE:
            by_end.setdefault(suspect.where[0], []).append(suspect)
        else:
            groups.append(suspect)
    others = _Others(measured, by_end, groups, named, _bad(measured, state))
    without = Without(state, named)
    odds = []
    for culprit in named:
        with without.leave_out(culprit) as rest:
            odds.append(others.odds(rest, culprit))
    return odds


def _bad(measured: Measured, state: State) -> int:
    """Pairs that nothing named explains."""
    columns = zip(measured.pair, state.low, state.loss, state.precision)
    return len({
        pair
        for pair, low, loss, weight in columns
        if low - loss >= 2 * state.least and (low - loss) ** 2 * weight > BOUND
    })  # fmt: skip


def _odds_against(sort: str, some: int, among: int) -> float:
    """As before anything was measured, until some were found: one among as many as the odds say counts as
    known from the beginning."""
    return math.log((math.exp(BEFORE[sort]) + among) / (1 + some))


class _Others:
    """Suspects that are not named. before: sort → cost of one more. If many ends are slow, another slow end
    is likely."""

    def __init__(
        self,
        measured: Measured,
        by_end: Mapping[int, Sequence[Suspect]],
        groups: Sequence[Suspect],
        named: Sequence[Named],
        bad: int,
    ) -> None:
        self.measured = measured
        there = {(culprit.suspect.sort, culprit.suspect.where) for culprit in named}
        self.by_end = {end: mine for end, mine in by_end.items() if (NODE, (end,)) not in there}
        self.groups = [suspect for suspect in groups if (suspect.sort, suspect.where) not in there]
        slow = sum(sort == NODE for sort, _where in there)
        self.before = {
            **BEFORE,
            NODE: _odds_against(NODE, slow, len(by_end)),
            PATH: _odds_against(PATH, bad, max(measured.pair) + 1),
        }

    def odds(self, rest: State, culprit: Named) -> list[Rival]:
        own = culprit.suspect
        best = rest.gain(own.sort, own.readings, culprit.loss) - self.before[own.sort]
        scores = [(best, own.sort, own.where, own.way)]
        shared = {*own.readings}
        near = [other for other in self.groups if not shared.isdisjoint(other.readings)]
        if culprit.gain < _DECIDED:
            senders, receivers = self.measured.sender, self.measured.receiver
            ends = {senders[n] for n in own.readings} | {receivers[n] for n in own.readings}
            near += [other for end in ends for other in self.by_end.get(end, ())]
        scores += [(self.score(rest, other), other.sort, other.where, other.way) for other in near]
        scores.append((self.each_pair(rest, own), PATH, (), ""))
        scores = [candidate for candidate in scores if candidate[0] >= best + math.log(_RIVAL)]
        most = max(score for score, *_rest in scores)
        total = sum(math.exp(score - most) for score, *_rest in scores)
        return [Rival(sort, where, way, math.exp(score - most) / total) for score, sort, where, way in scores]

    def score(self, rest: State, other: Suspect) -> float:
        loss = rest.estimate(other.readings)
        return (
            rest.gain(other.sort, other.readings, loss) - self.before[other.sort]
            if loss >= rest.least
            else 0.0
        )

    def each_pair(self, rest: State, own: Suspect) -> float:
        """Score of all low pairs if each has a separate reason: its path, or the other end."""
        pairs = by_key((self.measured.pair[number], number) for number in own.readings)
        total = 0.0
        for mine in pairs.values():
            gain = rest.gain(PATH, mine, sum(rest.low[n] for n in mine) / len(mine))
            ends = (
                {self.measured.sender[mine[0]], self.measured.receiver[mine[0]]} if own.sort == NODE else ()
            )
            partners = (partner for end in ends for partner in self.by_end.get(end, ()))
            costs = [
                self.before[NODE]
                for partner in partners
                if self.score(rest, partner) >= gain - self.before[NODE]
            ]
            total += max(0.0, gain - min([self.before[PATH], *costs]))
        return total
