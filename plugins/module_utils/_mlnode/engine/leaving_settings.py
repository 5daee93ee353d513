# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Return of settings that leave a declaration to their origin, file by file, unless they are to be left.

Files of the boot layer need nothing here: they are rewritten without the settings.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Iterator, Mapping, Sequence

from ..host.host import Host
from ..model.errors import MlnodeError
from ..model.record import NamedTuple
from ..model.setting import Layer, Status
from .kind import Context, Kind, Row
from .origin import Entry, Origin, is_obsolete
from .plan import Kept, Plan, Request, context_of, evaluate, writes_of
from .restore import is_back
from .steps import KernelWrite, PutBack


class LeavingSettings(NamedTuple):
    """For one area: the steps that put back its leaving settings, and their entries in the origin.

    late: steps for after the area's files are written. stays: leaving settings that keep their value, with
    the reason.
    """

    steps: tuple[PutBack, ...] = ()
    late: tuple[PutBack, ...] = ()
    entries: tuple[Entry, ...] = ()
    stays: tuple[str, ...] = ()


class _Gone(NamedTuple):
    """For one area: kernel file → the write that would set its value of the old declaration."""

    writes: Mapping[str, KernelWrite] = MappingProxyType({})
    problem: str = ""


def by_area(
    host: Host, requests: Sequence[Request], plans: Sequence[Plan], known: Kept, kinds: Mapping[str, Kind]
) -> list[LeavingSettings]:
    """Settings that this run takes out of the declaration, area by area. Raises MlnodeError.

    kinds: areas that can be evaluated here. If others are declared too, a file goes back alone, without the
    files that its write moves.
    """
    own = {request.kind.KIND for request in requests}
    gone_by_area = [_gone(host, request, plan, known) for request, plan in zip(requests, plans)]
    if not any(gone.writes or gone.problem for gone in gone_by_area):
        return [LeavingSettings()] * len(gone_by_area)
    kept, problem = _kept(host, requests, plans, known, kinds)
    blind = not all(area in kinds or area in own for item in known.declarations for area in item.kinds)
    entries = [*reversed(Origin.for_look(host, alone=False).entries())]
    return [
        LeavingSettings(stays=(gone.problem or problem,))
        if gone.problem or (problem and gone.writes)
        else _put_back(context_of(host, request, known), request.kind, gone.writes, kept, entries, blind)
        for request, gone in zip(requests, gone_by_area)
    ]


def _gone(host: Host, request: Request, plan: Plan, known: Kept) -> _Gone:
    """The area's part of the declaration on the node, if it differs from the requested one."""
    if request.leave or {*request.layers} != {Layer.RUNTIME, Layer.BOOT}:
        return _Gone()
    area = request.kind.KIND
    old = next((item for item in known.declarations if item.name == request.name), None)
    if not old or not old.kinds.get(area) or old.kinds[area] == request.spec:
        return _Gone()
    try:
        rows = evaluate(host, request._replace(spec=old.checked_spec(area, request.kind.OPTIONS)), known).rows
    except MlnodeError as error:
        return _Gone(
            problem=f"settings that leave {area} of {request.name} cannot be read, and stay: {error}"
        )
    declared = {*_files(plan.rows)}
    writes = (write for row in rows for write in writes_of(row, row.reading.parts))
    return _Gone({write.file.path: write for write in writes if write.file.path not in declared})


def _kept(
    host: Host, requests: Sequence[Request], plans: Sequence[Plan], known: Kept, kinds: Mapping[str, Kind]
) -> tuple[frozenset[str], str]:
    """The kernel files declared after this run, by any area and declaration, as kinds share some; and why
    they are unknown."""
    paths = {path for plan in plans for path in _files(plan.rows)}
    own = {(request.name, request.kind.KIND) for request in requests}
    for declaration in known.declarations:
        for area in declaration.kinds:
            kind = next(
                (request.kind for request in requests if area == request.kind.KIND), None
            ) or kinds.get(area)
            if (declaration.name, area) in own or kind is None:
                continue
            try:
                spec = declaration.checked_spec(area, kind.OPTIONS)
                paths |= {*_files(evaluate(host, Request(declaration.name, kind, spec), known).rows)}
            except MlnodeError as error:
                doubt = f"whether {declaration.name} still declares settings of {area} is unknown"
                return frozenset(), f"{doubt}, and they keep their values: {error}"
    return frozenset(paths), ""


def _put_back(
    context: Context,
    kind: Kind,
    gone: Mapping[str, KernelWrite],
    kept: frozenset[str],
    origin: Sequence[Entry],
    blind: bool,
) -> LeavingSettings:
    """blind: some declared areas cannot be evaluated here, and may contain files that a write moves."""
    host = context.host
    steps: list[PutBack] = []
    late: list[PutBack] = []
    entries: list[Entry] = []
    stays: list[str] = []
    for whole in origin:
        path = str(whole["id"]).partition(":")[2]
        if "writes" not in whole or path not in gone or path in kept or is_obsolete(host, whole):
            continue
        # A moved file may be declared separately, such as vm.min_free_kbytes, which THP moves.
        writes = [[file, value] for file, value in whole["writes"] if file not in kept]
        # The counterpart of a ratio or of bytes is its way back, and moves nothing.
        alone = blind and any(file == path for file, _value in writes)
        entry = {**whole, "writes": [[file, value] for file, value in writes if not alone or file == path]}
        # The only record of a moved file's origin is here.
        done = [] if len(entry["writes"]) < len(writes) else [whole]
        if is_back(host, entry):
            entries += done
            continue
        write = gone[path]
        risk = kind.keeps(write.key, path, _value(entry, path), context) or _risk(write)
        if risk:
            stays.append(f"{entry['key']} left the declaration and stays {write.file.runtime}: {risk}")
            continue
        entries += done
        (late if write.file.late else steps).append(PutBack(entry, write))
    return LeavingSettings(tuple(steps), tuple(late), tuple(entries), tuple(stays))


def _value(entry: Entry, path: str) -> str:
    """The value as it is written, without the choices that some files show around it."""
    return next((str(value) for file, value in entry["writes"] if file == path), str(entry["value"]))


def _risk(write: KernelWrite) -> str:
    """Reason why a device keeps the value until the next boot. Only a run that changes the device for a
    declared setting has been asked for that risk, and may be confirmed."""
    unit = write.file.unit
    if unit is None:
        return ""
    return write.file.risk or (f"putting it back resets {unit.name}" if unit.resets else "")


def _files(rows: Sequence[Row]) -> Iterator[str]:
    """Files that these settings set, or may set: an unreadable setting is still declared."""
    for row in rows:
        yield from (write.file.path for write in writes_of(row, row.reading.parts))
        if row.status is Status.UNKNOWN:
            yield row.reading.path
