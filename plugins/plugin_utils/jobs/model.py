# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Answers of node_job, and the ranks in them. docs/schema/job.schema.json describes an answer."""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ...module_utils._mlnode.checks.model import Verdict
from ..answer_forms import Maybe, Table, count, fields, line, lines, list_of, names, or_null, word

#: Namespace of a place that shares the node's own
HOST = "host"

#: Text for a value that a rank does not have
ABSENT = "not set"
#: Between the values of a rank and its workers
_AND = " | "

#: Name in `unknown` of an environment that was not read, or not all of it
ENVIRONMENT = "environment"
#: Name in `unknown` of a source that was not read → beginnings of the names of its values. The environment
#: overrides the files of NCCL.
_SOURCES = {
    ENVIRONMENT: ("env ", "nccl ", "world size"),
    "nccl files": ("nccl ",),
    "hugetlb limit": ("hugetlb ",),
}


def is_unknown(name: str, unknown: Container[str]) -> bool:
    """True if a value, or the source of its name, is in unknown."""
    return name in unknown or any(
        source in unknown and name.startswith(beginnings) for source, beginnings in _SOURCES.items()
    )


_texts = names(line, line)

_JOB: Table = {"kind": word("[a-z_]{1,32}"), **dict.fromkeys(("id", "container", "runtime"), line)}

_PROCESS: Table = {
    "pid": count,
    "name": line,
    "devices": lines,
    **dict.fromkeys(("rank", "world", "local_rank"), or_null(count)),
    "values": _texts,
    "unknown": Maybe(_texts),
}

_processes = list_of(fields(_PROCESS))


def _some(where: str, value: Any) -> list[dict[str, Any]]:
    """Processes of a place, one at least."""
    processes: list[dict[str, Any]] = _processes(where, value)
    if not processes:
        raise ValueError(f"{where.lstrip('.')} must be a list with a process, got []")
    return processes


_PLACE: Table = {
    "job": fields(_JOB),
    **dict.fromkeys(("network", "mount", "pid", "cgroup"), line),
    "user": or_null(count),
    "processes": _some,
    "values": _texts,
    "unknown": _texts,
}

#: Form of the places in an answer
PLACES = list_of(fields(_PLACE))


class Rank(NamedTuple):
    """A rank of a job, or a process without a rank number. place: of its node. pids: a rank's workers hold
    its GPU as well, with its number. unknown: name of a value → the reason."""

    node: str
    place: int
    pids: tuple[int, ...]
    number: int | None
    world: int | None
    local: int | None
    values: Mapping[str, str]
    unknown: Mapping[str, str]

    @property
    def is_unread(self) -> bool:
        """True if its variables are unknown: not all of its environment was read."""
        return ENVIRONMENT in self.unknown


class Place(NamedTuple):
    """Processes of a job in the same namespaces, of one user. number: on its node."""

    node: str
    number: int
    kind: str
    id: str
    ranks: tuple[Rank, ...]


class Job(NamedTuple):
    """name: for readers, unique in a report. doubt: why its places may belong to several jobs, or to a larger
    one; empty if they do not."""

    name: str
    kind: str
    id: str
    places: tuple[Place, ...]
    doubt: str = ""

    @property
    def nodes(self) -> list[str]:
        return [*dict.fromkeys(place.node for place in self.places)]

    @property
    def ranks(self) -> list[Rank]:
        return [rank for place in self.places for rank in place.ranks]


class Finding(NamedTuple):
    """A deviation of a job. kind: one of `kind` in docs/schema/jobs.schema.json. value: name of the compared
    value, if it is about one. found: of these ranks. others, of: value of the other ranks, and their number.
    who: ranks or nodes for readers. text: for readers, without them."""

    verdict: Verdict
    severity: str
    kind: str
    value: str
    ranks: tuple[Rank, ...]
    nodes: tuple[str, ...]
    who: str
    text: str
    found: str = ""
    others: str = ""
    of: int = 0
    advice: str = ""


def places(node: str, answer: Sequence[Mapping[str, Any]]) -> Iterator[Place]:
    """Places of a validated answer."""
    for number, place in enumerate(answer):
        job = place["job"]
        yield Place(node, number, job["kind"], job["id"] or job["container"], _ranks(node, number, place))


def _ranks(node: str, number: int, place: Mapping[str, Any]) -> tuple[Rank, ...]:
    """Processes with the same rank number are one rank."""
    alike: dict[Any, list[Mapping[str, Any]]] = {}
    for at, process in enumerate(place["processes"]):
        own = process["rank"]
        alike.setdefault(("pid", at) if own is None else own, []).append(process)
    common = {**_shared(place), **place["values"]}
    return tuple(_rank(node, number, some, common, place["unknown"]) for some in alike.values())


def _shared(place: Mapping[str, Any]) -> dict[str, str]:
    """Properties of the place itself, as values."""
    own = {
        f"{name} namespace": HOST if place[name] == HOST else "its own"
        for name in ("network", "mount", "pid")
    }
    user = {} if place["user"] is None else {"user": str(place["user"])}
    return {**own, **user, "runtime": place["job"]["runtime"] or "none"}


def _rank(
    node: str,
    place: int,
    processes: Sequence[Mapping[str, Any]],
    common: Mapping[str, str],
    unknown: Mapping[str, str],
) -> Rank:
    texts: dict[str, dict[str, None]] = {name: {text: None} for name, text in common.items()}
    own: dict[str, dict[str, None]] = {}
    closed = dict(unknown)
    for process in processes:
        closed.update(process.get("unknown", {}))
        size = {} if process["world"] is None else {"world size": str(process["world"])}
        for name, text in {**process["values"], **size}.items():
            own.setdefault(name, {})[text] = None
    values = {name: _joined(some) for name, some in {**texts, **own}.items() if not is_unknown(name, closed)}
    first = processes[0]
    pids = tuple(sorted(process["pid"] for process in processes))
    return Rank(node, place, pids, first["rank"], first["world"], first["local_rank"], values, closed)


def _joined(texts: Iterable[str]) -> str:
    """Values of a rank and its workers as one text, which is another one for other values: a value that looks
    like several, or like none, is in quotes."""
    return _AND.join(
        json.dumps(text, ensure_ascii=False)
        if _AND in text or text == ABSENT or text.startswith('"')
        else text
        for text in sorted(texts)
    )
