# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One value on all ranks of a job: which few ranks differ from the rest.

A rank is odd if at least two thirds of the ranks with a known value have another one. A fault often covers a
whole node, and a majority of nodes needs three. A smaller share would call nearly half of a job odd; a larger
one would miss a bad node among three.

Without such a majority, ranks with the same local rank are compared, as devices of a rank depend on it. A
value differs by design if at least half of the ranks share theirs with no other node, as a path with a node's
name. All other values have groups, without a judgement.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from .model import ABSENT, Rank, is_unknown
from .names import is_number

#: Numerator and denominator of the majority, for a comparison of whole numbers
_PART, _OF = 2, 3

#: Nodes or ranks from which on a value can differ by design. Two values may be a fault of one.
_LEAST = 3

#: Sizes that the kernel derives from the memory of a node. Nodes of one model differ by the memory that
#: firmware and kernel reserve; one missing module of 32 is 3 percent.
_OF_MEMORY = ("memory limit", "memory high", "memory swap limit", "shm size")
_TOLERANCE = 0.02


class Odd(NamedTuple):
    """Ranks with the same deviation. others: value of so many other ranks, with this local rank if one is
    given."""

    ranks: tuple[int, ...]
    text: str
    others: str
    of: int
    local: int | None = None


class Groups(NamedTuple):
    """Value → its ranks, the most frequent first."""

    groups: tuple[tuple[str, tuple[int, ...]], ...]


class Unlike(NamedTuple):
    """Number of values that differ by design."""

    values: int


Result = Groups | Unlike | list[Odd]

#: Value → places of its ranks among all ranks
_Groups = dict[str, list[int]]


def compare(name: str, ranks: Sequence[Rank], texts: Mapping[int, str], unknown: frozenset[int]) -> Result:
    """texts: place of a rank → its value. A rank that is neither here nor in unknown does not have the value.
    An empty list: all known values are alike."""
    groups = _grouped(name, texts)
    known = len(ranks) - len(unknown)
    absent = known - len(texts)
    # Only listed if they are few: a node may invent values that no other node has.
    if absent * _OF >= known * _PART:
        return [Odd(tuple(members), text, ABSENT, absent) for text, members in groups.items()]
    if absent:
        lacking = (at for at in range(len(ranks)) if at not in texts and at not in unknown)
        groups.setdefault(ABSENT, []).extend(lacking)
    if len(groups) < 2:
        return []
    odd = _odd(groups, known)
    if odd is None:
        odd = _by_local_rank(groups, ranks)
    if odd is not None:
        return odd
    if _is_by_design(groups, ranks):
        return Unlike(len(groups))
    ranked = sorted(groups.items(), key=lambda item: (-len(item[1]), item[1]))
    return Groups(tuple((text, tuple(members)) for text, members in ranked))


def _grouped(name: str, texts: Mapping[int, str]) -> _Groups:
    alike = _close({*texts.values()}, texts) if name in _OF_MEMORY else {}
    groups: _Groups = {}
    for at, text in texts.items():
        groups.setdefault(alike.get(text, text), []).append(at)
    return groups


def _close(values: set[str], texts: Mapping[int, str]) -> dict[str, str]:
    """Number → the number that stands for all that are close to it: first the median, then the least of the
    others."""
    numbers = sorted(int(text) for text in texts.values() if is_number(text))
    anchor = numbers[len(numbers) // 2] if numbers else 0
    alike: dict[str, str] = {}
    least = ""
    for text in sorted(filter(is_number, values), key=int):
        if abs(int(text) - anchor) <= anchor * _TOLERANCE:
            alike[text] = str(anchor)
            continue
        if not least or int(text) > int(least) * (1 + _TOLERANCE):
            least = text
        alike[text] = least
    return alike


def _odd(groups: _Groups, known: int, local: int | None = None) -> list[Odd] | None:
    """Ranks outside of the majority; None without one."""
    most = max(groups, key=lambda text: len(groups[text]))
    size = len(groups[most])
    if size * _OF < known * _PART:
        return None
    return [Odd(tuple(members), text, most, size, local) for text, members in groups.items() if text != most]


def _by_local_rank(groups: _Groups, ranks: Sequence[Rank]) -> list[Odd] | None:
    """As _odd(), among the ranks with the same local rank; None if these have no majority either."""
    classes: dict[int, _Groups] = {}
    for text, members in groups.items():
        for at in members:
            local = ranks[at].local
            if local is None:
                return None
            classes.setdefault(local, {}).setdefault(text, []).append(at)
    if len(classes) < 2:
        return None
    odd: list[Odd] = []
    for local, some in classes.items():
        known = sum(map(len, some.values()))
        here = _odd(some, known, local) if known >= _LEAST else None
        if here is None:
            return None
        odd += here
    return odd


def _is_by_design(groups: _Groups, ranks: Sequence[Rank]) -> bool:
    """Half of the ranks share their value with no other rank or node, and the largest group is a third at
    most. Two bad nodes of four are therefore groups."""
    sizes = [len(members) for members in groups.values()]
    nodes = [{ranks[at].node for at in members} for members in groups.values()]
    has_nodes = len(set().union(*nodes)) >= _LEAST
    alone = sum(size for size, some in zip(sizes, nodes) if size == 1 or (has_nodes and len(some) == 1))
    return len(groups) >= _LEAST and max(sizes) * _LEAST <= sum(sizes) <= 2 * alone


def values(ranks: Sequence[Rank]) -> Iterator[tuple[str, dict[int, str], frozenset[int]]]:
    """Each value with its texts, and the places of the ranks on which it is unknown."""
    texts: dict[str, dict[int, str]] = {}
    for at, rank in enumerate(ranks):
        for name, text in rank.values.items():
            texts.setdefault(name, {})[at] = text
    for name, some in texts.items():
        yield name, some, frozenset(at for at, rank in enumerate(ranks) if is_unknown(name, rank.unknown))
