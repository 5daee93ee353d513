# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Places of all nodes, joined into jobs.

Only the id of a Slurm job is the same on all of its nodes. Each pod and container has its own id, and ids of
two nodes may be equal by chance. Their ranks are one job if they share the user, the world size and the
rendezvous, MASTER_ADDR and MASTER_PORT of PyTorch. Without a rendezvous, they are one job if all rank numbers
differ. Pods of one job may have different users, as those with user namespaces.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from . import names
from .model import Job, Place, Rank

SLURM = "slurm"
_POD, _OTHER = "pod", "other"

_ADDRESS, _PORT = "env MASTER_ADDR", "env MASTER_PORT"
#: Names of this machine, which connect no nodes (RFC 6761, 6.3; RFC 1122, 3.2.1.3; /etc/hosts of Debian and
#: Fedora)
_LOOPBACK = re.compile(
    r"(?:.+\.)?localhost[46]?(?:\.localdomain[46]?)?|ip6-(?:localhost|loopback)|127(?:\.[0-9]+){1,3}|0\.0\.0\.0"
    r"|\[?::1?\]?",
    re.ASCII | re.IGNORECASE,
)

#: Ids of 36 or 64 characters, and the digits that docker and podman show; LXC has names
_LONG, _SHOWN = re.compile(r"[0-9a-f-]{32,64}\Z", re.ASCII), 12

#: Least share of its world in a part that is a separate job: the majority of odd.py
_PART, _OF = 2, 3


class _Together(NamedTuple):
    """Common properties of the ranks of a job, if their ids differ. node: of a rendezvous within one node."""

    kind: str
    user: str
    world: int
    rendezvous: tuple[str, str]
    node: str


def jobs(places: Iterable[Place]) -> list[Job]:
    """Each place is in one job."""
    by_id: dict[tuple[str, str, str], list[Place]] = {}
    parts: dict[_Together, list[Place]] = {}
    for place in places:
        together = None if place.kind == SLURM else _together(place)
        if together is None:
            by_id.setdefault((place.kind, place.id, _where(place)), []).append(place)
        else:
            parts.setdefault(together, []).append(place)
    with_id = (job for some in by_id.values() for job in _of_one_id(some))
    of_parts = (job for together, some in parts.items() for job in _of_parts(together, some))
    return _unique([*with_id, *of_parts])


def _where(place: Place) -> str:
    """Extent of a place's id. Processes outside of any job may be of several."""
    if place.kind == SLURM:
        return ""
    return f"{place.node} {place.number}" if place.kind == _OTHER else place.node


def world(ranks: Iterable[Rank]) -> int:
    """Most frequent world size; 0 if none is known."""
    sizes = Counter(rank.world for rank in ranks if rank.world is not None and rank.number is not None)
    return sizes.most_common(1)[0][0] if sizes else 0


def rendezvous(ranks: Iterable[Rank]) -> tuple[str, str]:
    """Most frequent address and port at which ranks meet; empty texts if none is known."""
    read = (rank.values for rank in ranks if not rank.is_unread)
    met = Counter((values.get(_ADDRESS, ""), values.get(_PORT, "")) for values in read)
    return met.most_common(1)[0][0] if met else ("", "")


def _meeting_node(place: Place) -> str:
    """Node of a rendezvous within one node; empty for any other."""
    return place.node if _LOOPBACK.fullmatch(rendezvous(place.ranks)[0]) else ""


def repeated(places: Sequence[Place]) -> dict[int, list[Rank]]:
    """Rank numbers in more than one place, with their ranks. Ranks of a world of 1 are separate programs."""
    by_number: dict[int, list[Rank]] = {}
    for place in places:
        for rank in place.ranks:
            if rank.number is not None and rank.world != 1:
                by_number.setdefault(rank.number, []).append(rank)
    return {number: ranks for number, ranks in by_number.items() if len(ranks) > 1}


def _numbers(places: Sequence[Place]) -> set[int]:
    return {rank.number for place in places for rank in place.ranks if rank.number is not None}


def _together(place: Place) -> _Together | None:
    """None for a place that has all ranks of its job, or no rank numbers."""
    size = world(place.ranks)
    if size < 2 or len(_numbers([place])) >= size:
        return None
    user = "" if place.kind == _POD else place.ranks[0].values.get("user", "")
    return _Together(place.kind, user, size, rendezvous(place.ranks), _meeting_node(place))


# -- jobs with one id ------------------------------------------------------------------------------


def _of_one_id(places: Sequence[Place]) -> list[Job]:
    first = places[0]
    short = first.id[:_SHOWN] if _LONG.match(first.id) else first.id
    name = first.id if first.kind == SLURM else f"{short} on {first.node}"
    parts = _starts(places) if first.kind == SLURM else [places]
    numbers = [f" ({at} of {len(parts)})" if parts[1:] else "" for at in range(1, len(parts) + 1)]
    return [
        Job(f"{first.kind} {name}{number}", first.kind, first.id, tuple(part))
        for number, part in zip(numbers, parts)
    ]


def _starts(places: Sequence[Place]) -> list[Sequence[Place]]:
    """Several jobs with one id, as two clusters may have, or steps of one job: each has its own rendezvous or
    world size and most of its ranks, and their rank numbers are the same. Otherwise all is one job."""
    parts: dict[tuple[int, tuple[str, str], str], list[Place]] = {}
    for place in places:
        start = world(place.ranks), rendezvous(place.ranks), _meeting_node(place)
        parts.setdefault(start, []).append(place)
    if len(parts) < 2 or not all(
        size > 1 and len(_numbers(part)) * _OF >= size * _PART for (size, *_where), part in parts.items()
    ):
        return [places]
    return [*parts.values()] if repeated(places) else [places]


# -- jobs without a common id ----------------------------------------------------------------------


def _of_parts(together: _Together, places: Sequence[Place]) -> Iterator[Job]:
    if together.node:
        yield _joined(together, places, f" on {together.node}")
    elif together.rendezvous[0]:
        yield _joined(together, places, f", rendezvous {':'.join(filter(None, together.rendezvous))}")
    else:
        yield from _of_numbers(together, places)


def _of_numbers(together: _Together, places: Sequence[Place]) -> Iterator[Job]:
    """Jobs without a rendezvous: nodes with all ranks of a world, and the rest if its rank numbers differ."""
    by_node: dict[str, list[Place]] = {}
    for place in places:
        by_node.setdefault(place.node, []).append(place)
    rest: list[Place] = []
    for node, some in by_node.items():
        if len(_numbers(some)) == together.world and not repeated(some):
            yield _joined(together, some, f" on {node}")
        else:
            rest += some
    if not rest:
        return
    if not repeated(rest):
        yield _joined(together, rest, ", by rank numbers alone")
        return
    why = (
        f"{len(rest)} places have the same rank numbers of a world of {together.world} and no MASTER_ADDR: "
        f"it is unknown which of them are one job"
    )
    for place in rest:
        [job] = _of_one_id([place])
        yield job._replace(doubt=why)


def _joined(together: _Together, places: Sequence[Place], where: str) -> Job:
    first = places[0]
    if len(places) == 1:
        return _of_one_id(places)[0]
    count = len({(place.node, place.id) for place in places})
    noun = "place" if together.kind == _OTHER else together.kind
    name = f"{count} {noun}s, world size {together.world}{where}"
    return Job(name, together.kind, first.id, tuple(places))


def _unique(joined: Sequence[Job]) -> list[Job]:
    """A name that several jobs have gets a number. MASTER_ADDR in a name may be any text, such as a name with
    a number."""
    often = Counter(names.short(job.name) for job in joined)
    taken = {name for name, number in often.items() if number == 1}
    seen: Counter[str] = Counter()
    named = []
    for job in joined:
        name = names.short(job.name)
        seen[name] += 1
        number = f"{seen[name]} of {often[name]}"
        own = name if often[name] == 1 else f"{name} ({number})"
        while often[name] > 1 and own in taken:
            own = f"{own} ({number})"
        taken.add(own)
        named.append(job._replace(name=own))
    return named
