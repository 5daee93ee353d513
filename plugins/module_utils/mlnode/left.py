# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What leaves a declaration goes back to its origin, file by file, unless it is to be left.

Files of the boot layer need nothing here: they are written anew without it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Mapping, Sequence

from . import partial
from .errors import MlnodeError
from .host import Host
from .kind import Row
from .origin import Entry, Origin, is_back, is_obsolete
from .plan import Kept, Plan, Request, evaluate
from .setting import Layer, Part
from .transaction import PutBack


@dataclass(frozen=True)
class Leaving:
    """Of one area: the steps that put back what leaves it, and their entries in the origin. stays: what
    leaves and keeps its value, and why."""

    steps: tuple[PutBack, ...] = ()
    entries: tuple[Entry, ...] = ()
    stays: tuple[str, ...] = ()


def leaving(host: Host, request: Request, known: Kept, plan: Plan) -> Leaving:
    """What this run takes out of the declaration. Raises MlnodeError."""
    if request.leave or {*request.layers} != {Layer.RUNTIME, Layer.BOOT}:
        return Leaving()
    kind = request.kind.KIND
    old = next((item.kinds.get(kind) for item in known.declarations if item.name == request.name), None)
    if not old or old == request.spec:
        return Leaving()
    gone = _files(_rows(host, replace(request, spec=old), known))
    kept = {*_files(plan.rows)}
    for other in known.declarations:
        if other.name != request.name and kind in other.kinds:
            kept |= {*_files(_rows(host, Request(other.name, request.kind, other.kinds[kind]), known))}
    return _put_back(host, {path: part for path, part in gone.items() if path not in kept})


def _put_back(host: Host, gone: Mapping[str, Part | None]) -> Leaving:
    steps: list[PutBack] = []
    entries: list[Entry] = []
    stays: list[str] = []
    for entry in reversed(Origin.load(host).entries() if gone else []):
        path = str(entry["id"]).partition(":")[2]
        if "writes" not in entry or path not in gone or is_obsolete(host, entry):
            continue
        part, now = gone[path], host.value(path).text
        risk = part and part.unit and (part.risk or (part.unit.resets and f"it resets {part.unit.name}"))
        if now is not None and risk and not is_back(host, entry):
            stays.append(f"{entry['key']} left the declaration and stays {now} until the next boot: {risk}")
            continue
        entries.append(entry)
        if now is not None and not is_back(host, entry):
            steps.append(PutBack(entry, now))
    return Leaving(tuple(steps), tuple(entries), tuple(stays))


def forget(host: Host, entries: Sequence[Entry]) -> None:
    """What is back has no origin any more, as a later first change has to find a later one. One that moves
    another knob, or is moved by one, is kept while that one has an origin. Raises MlnodeError."""
    ids = {str(entry["id"]) for entry in entries}
    store = Origin.load(host)
    others = {path for entry in store.entries() if str(entry["id"]) not in ids for path in _moved(entry)}
    store.forget([entry for entry in entries if not _moved(entry) & others])


def _moved(entry: Entry) -> set[str]:
    """The kernel files that its origin is about."""
    if "writes" not in entry:
        return set()
    return {str(entry["id"]).partition(":")[2], *(str(path) for path, _value in entry["writes"])}


def _rows(host: Host, request: Request, known: Kept) -> Sequence[Row]:
    """Of a declaration that may have been written by another version."""
    try:
        spec, _errors = partial.understood(request.kind, request.spec)
        return evaluate(host, replace(request, spec=spec, alone=True), known).rows
    except MlnodeError:  # what cannot be understood any more is left as it is
        return ()


def _files(rows: Sequence[Row]) -> dict[str, Part | None]:
    """Kernel file → the part of a setting that it is, as far as it is one of many."""
    found: dict[str, Part | None] = {}
    for row in rows:
        if row.reading.parts:
            found.update({part.path: part for part in row.reading.parts})
        else:
            found[row.reading.path] = None
    return found
