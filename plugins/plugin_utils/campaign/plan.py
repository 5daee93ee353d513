# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plan of a campaign: which nodes measure each other in which round.

The circle method: of an even number n of places, one is fixed and the others turn around it; after n - 1
rounds each has met each other once. In round r the places i and j meet if i + j = r modulo n - 1, and the
place that would meet itself meets the fixed place. A node computes its peer of a round by arithmetic: the
plan is not stored, and any part of it can be computed alone. With an odd number of nodes the fixed place is
empty, and the node that meets it rests.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ...module_utils._mlnode.model.values import by_key
from ..fleet_report.names import natural


class Plan(NamedTuple):
    """Rounds of a tournament of so many nodes, which are numbered from 0.

    rounds: how many of those that there are, see turns(). seed: another one chooses other rounds, and so
    other pairs.
    """

    nodes: int
    rounds: int
    seed: int = 0

    @property
    def turns(self) -> int:
        """Rounds after which all have met: n - 1, or n if one node rests in each."""
        return _turns(self.nodes)

    def turn(self, number: int) -> int:
        """The turn of the circle in one of the rounds.

        Each of so many equal parts of all turns has one round, which spreads the peers of a node evenly over
        the circle, and over the leaves, whose nodes are neighbours in it. A hash selects the turn within the
        part: at equal distances the same few nodes would always meet.
        """
        begin, end = (self.turns * place // self.rounds for place in (number, number + 1))
        digest = hashlib.blake2b(f"{self.seed}/{number}".encode("ascii"), digest_size=8).digest()
        return begin + int.from_bytes(digest, "big") % (end - begin)

    def peer(self, node: int, number: int) -> int | None:
        """Peer of a node in a round; None if it rests."""
        turns, turn = self.turns, self.turn(number)
        if node == turns:  # the fixed place: 2i = turn, and half of turns + 1 is the inverse of 2
            return turn * (turns + 1) // 2 % turns
        other = (turn - node) % turns
        if other != node:
            return other
        return turns if turns < self.nodes else None

    def pairs(self, number: int) -> Iterator[tuple[int, int]]:
        """All pairs of a round, the smaller number first."""
        for node in range(self.nodes):
            peer = self.peer(node, number)
            if peer is not None and node < peer:
                yield node, peer


def round_robin(nodes: int, rounds: int | None, seed: int = 0) -> Plan:
    """rounds: None for all; more than there are become all. Raises ValueError."""
    if nodes < 2:
        raise ValueError(f"it takes two nodes to measure between, and here are {nodes}")
    if rounds is not None and rounds < 1:
        raise ValueError(f"rounds: {rounds} is not a number of rounds")
    turns = _turns(nodes)
    return Plan(nodes, turns if rounds is None else min(rounds, turns), seed)


def _turns(nodes: int) -> int:
    return nodes - 1 if nodes % 2 == 0 else nodes


def ordered(nodes: Mapping[str, str]) -> list[str]:
    """Names of the nodes in the order of the circle, with the nodes of one leaf next to each other.

    nodes: name → leaf, "" if unknown.
    """
    return sorted(nodes, key=lambda name: (natural(nodes[name]), natural(name)))


# -- leaves -----------------------------------------------------------------------------------

#: A quarter of the rounds is between nodes of one leaf: only these tell a slow node from slow uplinks. Two of
#: eight give each node four readings there.
_INSIDE = 4


def rounds_of(nodes: Mapping[str, str], rounds: int | None, seed: int = 0) -> list[list[tuple[str, str]]]:
    """Pairs of each round, the serving node first. No pair is repeated.

    nodes: name → leaf, "" if it is not known. With leaves, some rounds are inside of them. Raises ValueError.
    """
    names = ordered(nodes)
    plan = round_robin(len(names), rounds, seed)
    leaves = _leaves(names, nodes)
    inside = plan.rounds // _INSIDE if len(leaves) > 1 and plan.rounds < plan.turns else 0
    planned: list[list[tuple[str, str]]] = [_inside(leaves, number, inside, seed) for number in range(inside)]
    met = {frozenset(pair) for pairs in planned for pair in pairs}
    across = round_robin(len(names), plan.rounds - inside, seed)
    for number in range(across.rounds):
        pairs = ((names[node], names[partner]) for node, partner in across.pairs(number))
        planned.append([pair for pair in pairs if frozenset(pair) not in met])
    return [
        [
            (partner, name) if (number + place) % 2 else (name, partner)
            for place, (name, partner) in enumerate(pairs)
        ]
        for number, pairs in enumerate(planned)
    ]


def _leaves(names: Sequence[str], leaf: Mapping[str, str]) -> list[list[str]]:
    """Nodes of each leaf with two or more."""
    by_leaf = by_key((leaf[name], name) for name in names)
    by_leaf.pop("", None)
    return [mine for mine in by_leaf.values() if len(mine) > 1]


def _inside(leaves: Sequence[Sequence[str]], number: int, rounds: int, seed: int) -> list[tuple[str, str]]:
    pairs = []
    for mine in leaves:
        plan = round_robin(len(mine), rounds, seed)
        if number < plan.rounds:
            pairs += [(mine[node], mine[partner]) for node, partner in plan.pairs(number)]
    return pairs


# -- a second look ----------------------------------------------------------------------------

#: With so many nodes that are known to be good a suspect is tried again. One may lie behind a bad path, and
#: of two with different results neither is right; of three, two agree.
WITNESSES = 3

Pair = tuple[str, str]


class Again(NamedTuple):
    """Candidates for a second look. suspects: nodes, the most suspicious first. pairs: pairs to try again.
    good: nodes to try with, the best known first. met: measured pairs. leaf: by node."""

    suspects: Sequence[str]
    pairs: Sequence[Pair]
    good: Sequence[str]
    met: Iterable[Pair]
    leaf: Mapping[str, str]


def again(asked: Again, rounds: int) -> list[list[Pair]]:
    """Rounds, at most so many, in which suspects meet good nodes that they have not met, one of them on their
    own leaf, and pairs meet again. In each round a node is in one pair at most.

    Pairs that exceed the rounds are left out and keep their probability.
    """
    seen = {frozenset(pair) for pair in asked.met}
    wanted = [*asked.pairs]
    for number, suspect in enumerate(asked.suspects):
        wanted += [(suspect, name) for name in _witnesses(asked, seen, number, suspect)]
    plan: list[list[Pair]] = []
    busy: list[set[str]] = []
    for pair in dict.fromkeys(wanted):
        place = next(
            (round_number for round_number, names in enumerate(busy) if not names.intersection(pair)),
            len(busy),
        )
        if place == rounds:
            continue
        if place == len(busy):
            busy.append(set())
            plan.append([])
        busy[place].update(pair)
        plan[place].append(pair)
    return plan


def _witnesses(asked: Again, seen: set[frozenset[str]], number: int, suspect: str) -> list[str]:
    good = asked.good
    # Each suspect begins at another place, which spreads them over the good nodes.
    begin = number * WITNESSES % max(1, len(good))
    turned = [name for name in (*good[begin:], *good[:begin]) if name != suspect]
    turned.sort(key=lambda name: frozenset((suspect, name)) in seen)
    own = asked.leaf.get(suspect, "")
    near = [name for name in turned if own and asked.leaf.get(name) == own][:1]
    return near + [name for name in turned if name not in near][: WITNESSES - len(near)]
