# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an InfiniBand subnet was: kept below /var/lib/mlnode on the node that looks at it.

The topology stays until somebody accepts another one. Of counters two looks are kept, that one and the last.
The subnet goes on while this node boots, so that times are those of the clock on the wall.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import Any, Mapping

from .errors import StoreError
from .host import Host
from .subnet import KINDS, End, Fabric, Node

FOLDER = "/var/lib/mlnode"
FORMAT = 1

#: Counters of each port with a cable: GUID/number → name → value; those that are 0 are left out
Counts = Mapping[str, Mapping[str, int]]

_GUID = re.compile(r"[0-9a-f]{16}\Z", re.ASCII)
#: No counter has more bits
_MOST = 1 << 64


@dataclass(frozen=True)
class Look:
    """Counters at a time, in seconds since 1970."""

    at: float
    counts: Counts


@dataclass(frozen=True)
class Kept:
    """base, last: none where counters could not be read yet."""

    fabric: Fabric
    base: Look | None = None
    last: Look | None = None


def path(port: str) -> str:
    """Where it is kept: one file for each port that somebody names, as each may be in another subnet."""
    return f"{FOLDER}/ib-subnet{'-' if port else ''}{port.replace('/', '-')}.json"


def load(host: Host, file: str) -> Kept | None:
    """None where nothing is kept. Raises StoreError, HostError."""
    content = host.content(file)
    if content is None:
        return None
    try:
        document: Any = json.loads(content)
        if document["format"] != FORMAT:
            raise ValueError(f"its format is {document['format']!r} and not {FORMAT}")
        return Kept(_fabric(document), *(_look(document[kind]) for kind in ("base", "last")))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError) as error:
        words = f"{file} is damaged ({type(error).__name__}: {error}): baseline: reset takes a new one"
        raise StoreError(words) from error


def save(host: Host, file: str, kept: Kept) -> None:
    """Raises HostError."""
    document = {
        "format": FORMAT,
        "nodes": {guid: [node.kind, node.name] for guid, node in sorted(kept.fabric.nodes.items())},
        "cables": [[*one, *other] for one, other in kept.fabric.cables],
        **{kind: _words(look) for kind, look in (("base", kept.base), ("last", kept.last))},
    }
    host.write_file(file, (json.dumps(document, indent=1) + "\n").encode("ascii"), mode=0o644)


def _words(look: Look | None) -> list[Any] | None:
    return [look.at, {port: dict(counts) for port, counts in sorted(look.counts.items())}] if look else None


def _fabric(document: Any) -> Fabric:
    nodes = {}
    for guid, (kind, name) in document["nodes"].items():
        if not _GUID.match(guid) or kind not in KINDS.values() or not isinstance(name, str):
            raise ValueError(f"{guid!r} is no node")
        nodes[guid] = Node(kind, name)
    ends: dict[End, End] = {}
    for first, first_port, second, second_port in document["cables"]:
        one, other = End(first, first_port), End(second, second_port)
        if one == other:
            raise ValueError(f"{list(one)!r} is no cable")
        for end in (one, other):
            if end.node not in nodes or not _number(end.port, 1 << 8) or end in ends:
                raise ValueError(f"{list(end)!r} is no end of a cable")
        ends[one], ends[other] = other, one
    return Fabric(nodes, ends)


def _look(raw: Any) -> Look | None:
    if raw is None:
        return None
    at, ports = raw
    if isinstance(at, bool) or not isinstance(at, (int, float)) or not math.isfinite(at) or at < 0:
        raise ValueError(f"{at!r} is no time")
    for counts in ports.values():
        if not all(_number(value, _MOST) for value in counts.values()):
            raise ValueError(f"{counts!r} are no counters")
    return Look(float(at), ports)


def _number(value: Any, end: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < end
