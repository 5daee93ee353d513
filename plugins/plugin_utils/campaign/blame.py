# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which node, or which path, is to blame for pairs that are low.

A slow node is low with nearly all of its partners, but each partner only with the slow node. The search names
one node after the other, first the node with the largest part of low partners. Pairs that a named node
explains no longer count for the others, which keeps a partner of two slow nodes from being named. The
remaining low pairs are findings about the path between two nodes.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from typing import Generic, Hashable, NamedTuple, TypeVar

from ...module_utils._mlnode.checks.model import Verdict

E = TypeVar("E", bound=Hashable)

#: Low with at least this part of its partners is slow
PART = 0.5

#: With a single partner, either of the two may be the slow one.
LEAST_PARTNERS = 2


class State(enum.Enum):
    GOOD = "good"
    LOW = "low"
    UNKNOWN = "unknown"


class Certainty(str, enum.Enum):
    """certain: tried again with nodes that are known to be good, and low again. probable: not tried again, or
    with too few. not confirmed: not low when it was tried again."""

    CERTAIN = "certain"
    PROBABLE = "probable"
    CLEARED = "not confirmed"

    def __str__(self) -> str:
        return self.value


class Pair(NamedTuple, Generic[E]):
    first: E
    second: E
    state: State

    def partner(self, end: E) -> E:
        return self.second if end == self.first else self.first


class Tally(NamedTuple):
    """Partners of an end. explained: low with a partner that is slow itself, of the planned ones."""

    planned: int
    measured: int
    low: int
    explained: int = 0


class Finding(NamedTuple):
    """Verdict on an end. certainty: of a fail, or of a warn about an unconfirmed suspect."""

    verdict: Verdict
    tally: Tally
    certainty: Certainty | None = None
    again: Tally | None = None


class Blame(NamedTuple, Generic[E]):
    """paths: pairs that are low while neither end is slow."""

    ends: Mapping[E, Finding]
    paths: Mapping[tuple[E, E], Certainty]

    @property
    def slow(self) -> list[E]:
        """Named ones: certain or probable."""
        return [end for end, finding in self.ends.items() if finding.verdict is Verdict.FAIL]


def blame(ends: Iterable[E], pairs: Sequence[Pair[E]], again: Sequence[Pair[E]] = ()) -> Blame[E]:
    """Findings about all ends, and paths. again: measurements of the second look at suspects."""
    pairs_of: dict[E, list[Pair[E]]] = {end: [] for end in ends}
    for pair in pairs:
        pairs_of[pair.first].append(pair)
        pairs_of[pair.second].append(pair)
    slow = _named(pairs_of)
    explained = {*slow}
    tried: dict[E, list[Pair[E]]] = {}
    for pair in again:
        tried.setdefault(pair.first, []).append(pair)
        tried.setdefault(pair.second, []).append(pair)
    findings = {end: _finding(end, mine, explained, tried.get(end, ())) for end, mine in pairs_of.items()}
    # A pair that a cleared end had explained is open again.
    stay = {end for end in slow if findings[end].verdict is Verdict.FAIL}
    states = {frozenset((pair.first, pair.second)): pair.state for pair in again}
    paths = {
        (pair.first, pair.second): _certainty(states.get(frozenset((pair.first, pair.second))))
        for pair in pairs
        if pair.state is State.LOW and not {pair.first, pair.second} & stay
    }
    return Blame(findings, paths)


def _certainty(state: State | None) -> Certainty:
    if state is State.GOOD:
        return Certainty.CLEARED
    return Certainty.CERTAIN if state is State.LOW else Certainty.PROBABLE


def _named(pairs_of: Mapping[E, Sequence[Pair[E]]]) -> list[E]:
    """The slow ones, in the order in which they are found."""
    counts = {end: [*_low_and_measured(mine)] for end, mine in pairs_of.items()}
    suspects = [end for end, (low, _measured) in counts.items() if low]
    slow: list[E] = []
    while suspects:
        # Among equals, more partners give a more certain result; then the first is taken.
        end = max(suspects, key=lambda suspect: (_part(counts[suspect]), counts[suspect][1]))
        measured = counts[end][1]
        if measured < LEAST_PARTNERS and _part(counts[end]) >= PART:
            suspects.remove(end)  # others may have more partners and a smaller part
            continue
        if _part(counts[end]) < PART:
            break
        slow.append(end)
        suspects.remove(end)
        for pair in pairs_of[end]:
            partner = pair.partner(end)
            if pair.state is not State.UNKNOWN:
                counts[partner][0] -= pair.state is State.LOW
                counts[partner][1] -= 1
        suspects = [suspect for suspect in suspects if counts[suspect][0]]
    return slow


def _low_and_measured(pairs: Sequence[Pair[E]]) -> tuple[int, int]:
    measured = [pair for pair in pairs if pair.state is not State.UNKNOWN]
    return sum(pair.state is State.LOW for pair in measured), len(measured)


def _part(count: Sequence[int]) -> float:
    low, measured = count
    return low / measured if measured else 0.0


def _finding(end: E, pairs: Sequence[Pair[E]], slow: set[E], tried: Sequence[Pair[E]]) -> Finding:
    low, measured = _low_and_measured(pairs)
    tally = Tally(len(pairs), measured, low, sum(pair.partner(end) in slow for pair in pairs))
    if end not in slow:
        return Finding(_innocent(end, pairs, slow), tally)
    witnesses = [pair for pair in tried if pair.partner(end) not in slow]
    again_low, again_measured = _low_and_measured(witnesses)
    second = Tally(len(witnesses), again_measured, again_low)
    if again_measured < LEAST_PARTNERS:
        return Finding(Verdict.FAIL, tally, Certainty.PROBABLE, second if tried else None)
    if again_low < PART * again_measured:
        return Finding(Verdict.WARN, tally, Certainty.CLEARED, second)
    return Finding(Verdict.FAIL, tally, Certainty.CERTAIN, second)


def _innocent(end: E, pairs: Sequence[Pair[E]], slow: set[E]) -> Verdict:
    """pass only if the missing measurements could not make the end slow. Measurements with a slow partner do
    not count; without any others, the verdict is unknown."""
    own = [pair for pair in pairs if pair.partner(end) not in slow]
    doubtful = sum(pair.state is not State.GOOD for pair in own)
    return Verdict.PASS if own and doubtful < PART * len(own) else Verdict.UNKNOWN
