# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Groups of nodes to measure next if a large group is low, and conclusions from the results.

A low group is halved, and each low half again. The last two nodes are measured separately with good ones: low
with them means a slow node, low only between the two a slow path. If both halves are good, only a path
between them can be slow: a quarter of the one then meets a quarter of the other, straight and crosswise, and
low combinations are halved in the same way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ..campaign.blame import Blame, Pair, State, blame
from ..campaign.plan import WITNESSES

Group = tuple[str, ...]

#: If the whole, both halves and all quarters are low, the cause is not a few nodes: stop, to save time.
_ALL_LOW = 7


class Search(NamedTuple):
    """wanted: groups to measure. blame: once there are none. rest: groups that stay low, although all of
    their parts are good."""

    wanted: tuple[Group, ...]
    blame: Blame[str]
    rest: tuple[Group, ...]


def search(nodes: Sequence[str], states: Mapping[Group, State]) -> Search:
    """states: of groups that were measured, the names in a group sorted."""
    return _Search({frozenset(group): state for group, state in states.items()}).run(tuple(nodes))


class _Search:
    def __init__(self, states: Mapping[frozenset[str], State]) -> None:
        self.states = states
        self.wanted: dict[frozenset[str], Group] = {}
        self.inferred: dict[frozenset[str], State] = {}
        self.rest: list[Group] = []
        self.seen: set[frozenset[str]] = set()

    def run(self, nodes: Group) -> Search:
        if self.state(nodes) is State.LOW:
            self.halve(nodes, nodes)
        good = {name for group, state in self.states.items() if state is State.GOOD for name in group}
        low = sum(state is State.LOW for state in self.states.values())
        wanted = () if low >= _ALL_LOW and not good else tuple(self.wanted.values())
        measured = {group: state for group, state in self.states.items() if len(group) == 2}
        pairs = [_pair(group, state) for group, state in {**self.inferred, **measured}.items()]
        # The groups were the first look. A pair with a good node is the second.
        blamed = blame(nodes, pairs, [pair for pair in pairs if {pair.first, pair.second} & good])
        # Between two nodes that were never good with others, the cause may be a node or the path.
        paths = {ends: sure for ends, sure in blamed.paths.items() if good.issuperset(ends)}
        return Search(wanted, blamed._replace(paths=paths), tuple(self.rest))

    def state(self, group: Group) -> State | None:
        """State of a group; None if unknown so far. Part of a good group is good."""
        names = frozenset(group)
        if any(state is State.GOOD and names <= known for known, state in self.states.items()):
            return State.GOOD
        return self.states.get(names)

    def ask(self, *groups: Group) -> list[State | None]:
        states = [self.state(group) for group in groups]
        for group, state in zip(groups, states):
            if state is None:
                self.wanted.setdefault(frozenset(group), tuple(sorted(group)))
        return states

    def good(self, without: Group, nodes: Group) -> list[str]:
        """Nodes that are known to be good, and are not in question."""
        known = {name for group, state in self.states.items() if state is State.GOOD for name in group}
        return [name for name in nodes if name in known and name not in without]

    def halve(self, group: Group, nodes: Group) -> None:
        """A group that is low."""
        if frozenset(group) in self.seen:
            return
        self.seen.add(frozenset(group))
        middle = (len(group) + 1) // 2
        first_half, second_half = group[:middle], group[middle:]
        if len(group) < 4:
            self.meet(group, nodes)
            return
        states = self.ask(first_half, second_half)
        for half, state in zip((first_half, second_half), states):
            if state is State.LOW:
                self.halve(half, nodes)
        if all(state is State.GOOD for state in states):
            self.cross(first_half, second_half, nodes)

    def cross(self, first_half: Group, second_half: Group, nodes: Group) -> None:
        """Two groups that are good, and low together."""
        quarters = [
            (half[: (len(half) + 1) // 2], half[(len(half) + 1) // 2 :]) for half in (first_half, second_half)
        ]
        (first, second), (third, fourth) = quarters
        mixed = [first + third, second + fourth, first + fourth, second + third]
        states = self.ask(*mixed)
        for group, state in zip(mixed, states):
            if state is State.LOW:
                self.halve(group, nodes)
        if all(state is State.GOOD for state in states):
            self.rest.append(first_half + second_half)

    def meet(self, group: Group, nodes: Group) -> None:
        """The last two or three: all pairs, and each with nodes that are known to be good."""
        witnesses = self.good(group, nodes)[:WITNESSES]
        pairs = [(name, partner) for place, name in enumerate(group) for partner in group[place + 1 :]]
        pairs += [(name, witness) for name in group for witness in witnesses]
        for pair, state in zip(pairs, self.ask(*pairs)):
            if state is not None:
                self.inferred[frozenset(pair)] = state


def _pair(group: frozenset[str], state: State) -> Pair[str]:
    name, partner = sorted(group)
    return Pair(name, partner, state)
