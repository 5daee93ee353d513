# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Steps that carry out a declaration, and the state after them; writes nothing."""

from __future__ import annotations

from importlib import import_module
from typing import Mapping, Sequence, Tuple, TypeVar

from ..host import places, trust
from ..host.host import Host
from ..model import values
from ..model.cause import Cause
from ..model.errors import DeclarationError, HostError, MlnodeError
from ..model.record import NamedTuple
from ..model.schema import Checked
from ..model.setting import BOTH_LAYERS, BootFile, KnobFile, Layer, Reading, Setting, Severity, Status
from . import declared, lasting
from .answers import Answers, settled
from .declared import Declaration
from .judge import differs, judge, with_bar
from .kind import AGENT_FAULT, AGENT_IMAGE_FAULT, Context, Facts, Kind, Row
from .origin import Entry, Origin
from .steps import (
    FileWrite,
    KernelWrite,
    LinkWrite,
    LoadModule,
    Notify,
    Step,
    by_unit,
    kernel_writes,
    without,
)

S = TypeVar("S", bound=Step)


class Request(NamedTuple):
    """One kind of one declaration, and what may be done about it.

    alone: an agent's request for a file of the node's declarations, one of several. Faults in the files of
    other declarations are reported by their own requests and stop nothing here; the agent's faults have a
    separate row. partial: the file declares further settings, which are not understood. leave: settings that
    leave the declaration keep their value instead of getting back their origin.
    """

    name: str
    kind: Kind
    spec: Checked
    layers: tuple[Layer, ...] = BOTH_LAYERS
    alone: bool = False
    partial: bool = False
    leave: bool = False
    profile: frozenset[str] = frozenset()


class Plan(NamedTuple):
    """Every setting with its status, and the steps to make all of them right."""

    area: str
    rows: tuple[Row, ...]
    steps: tuple[Step, ...]


class Kept(NamedTuple):
    """State that the node keeps of earlier runs, read once for all areas.

    declarations: those on the node. origins: kernel file → its original value. agent_fault: why the next boot
    does not run the agent. agent_unread: why that cannot be read. agent_installed: the agent's files exist.
    """

    declarations: tuple[Declaration, ...]
    origins: Mapping[str, str]
    agent_fault: str
    agent_unread: str
    agent_installed: bool


def kept(host: Host, layers: Sequence[Layer], alone: bool = False) -> Kept:
    """Read the kept state. alone: as in Request. Raises MlnodeError."""
    declarations = declared.load_all(host, [] if alone else None)
    origins = Origin.for_look(host, alone).values()
    fault, unread, installed = "", "", False
    try:
        installed = alone and host.exists(places.AGENT)
        fault = host.read(AGENT_FAULT if Layer.RUNTIME in layers else AGENT_IMAGE_FAULT)
    except HostError as error:
        unread = str(error)
    return Kept(tuple(declarations), origins, fault, unread, installed)


def kept_by_node(host: Host) -> Kept:
    """As kept(), for the agent's own requests: read once for all of them, until something is changed. Origins
    that a run adds without a change equal the present values. Raises MlnodeError."""
    return host.once("state kept by the node", lambda: kept(host, BOTH_LAYERS, alone=True))


def evaluate(host: Host, request: Request, known: Kept | None = None) -> Plan:
    """Parse, read and plan one area. Raises MlnodeError.

    known: the result of kept(), if several areas are evaluated in a row.
    """
    known = known or kept(host, request.layers, request.alone)
    context = context_of(host, request, known)
    settings = request.kind.parse(request.spec, context.facts if context.runtime else None)
    claims = _claims(request, settings, known.declarations)
    _refuse_conflicts(request, settings, claims)
    on_disk = {key: claim for _declaration, of_one in claims for key, claim in of_one.items()}
    context = context._replace(on_disk=on_disk)
    rows = []
    known_answers = Answers(host) if context.runtime else None
    for setting, reading in zip(settings, request.kind.read(settings, context)):
        by_profile = setting.key in request.profile
        # Only a device can answer a write, and only a profile is for nodes without the setting.
        answered = any(part.taker or part.answer or part.mover for part in reading.parts)
        if known_answers and (by_profile or answered):
            reading = settled(reading, known_answers, by_profile)
        reading = with_bar(reading, context)
        status, causes = judge(setting, reading, context)
        info = request.kind.info_of(setting, reading.runtime)
        if reading.lowers and info.severity is Severity.LOW:
            info = info._replace(severity=Severity.MEDIUM)
        origin = reading.origin or context.origins.get(reading.path)
        rows.append(Row(setting, reading, status, causes, info, origin, by_profile))
    steps = _kernel_steps(rows, context)
    if context.boot and not request.partial:  # a file made of a part would lose the other lines
        files = request.kind.boot_files(request.name, rows, context)
        for file in files:
            steps += _file_steps(host, file, host.content(file.path), context)
        steps.sort(key=lambda step: not getattr(step, "first", False))
        rows = _with_masks(host, rows, files)
    rows = lasting.of_rows(rows, context)
    return Plan(request.kind.KIND, tuple(rows), tuple(steps))


#: A link to this path is an empty file
_NOTHING = "/dev/null"


def _with_masks(host: Host, rows: list[Row], files: Sequence[BootFile]) -> list[Row]:
    """Rows without a boot value name the declaration's file if it is a link to /dev/null."""
    paths = [file.path for file in files if file.content and host.link_target(file.path) == _NOTHING]
    if not paths:
        return rows
    cause = Cause(Layer.BOOT, "masked", paths[0], text="is a link to /dev/null: remove it")
    return [
        row._replace(causes=(*row.causes, cause)) if row.reading.boot.value.absent is not None else row
        for row in rows
    ]


def declaration_of(requests: Sequence[Request], known: Kept) -> Declaration | None:
    """The node's declaration of this name after the run; None if it is not written."""
    if not requests or Layer.BOOT not in requests[0].layers:
        return None
    name = requests[0].name
    new = next((item for item in known.declarations if item.name == name), None)
    for request in requests:
        new = declared.updated(new, name, request.kind.KIND, request.spec, request.profile)
    return new


def declaration_steps(host: Host, new: Declaration | None) -> list[Step]:
    """The step that writes the declaration. It comes first: after a power cut between two files, the agent
    finishes the work at boot."""
    if new is None:
        return []
    content = declared.to_write(new) if new.kinds else None
    old = host.content(new.path)
    wrong = content is not None and not trust.is_right(host, new.path)
    return [FileWrite(new.path, new.path, content, old)] if content != old or wrong else []


def _kernel_steps(rows: Sequence[Row], context: Context) -> list[Step]:
    """Writes in the order of the settings, but all writes of a device together."""
    if not context.runtime:
        return []
    steps: list[Step] = []
    of_units: list[KernelWrite] = []
    for row in rows:
        parts = _due(row)
        if not parts and (row.status is not Status.DRIFTED or not (differs(row.reading) or brings(row))):
            continue
        # A setting without a file is the module's own.
        stays = not row.reading.parts
        for module, *parameters in map(str.split, row.reading.load):
            steps.append(LoadModule(row.setting.key, module, stays, tuple(parameters)))
        for write in writes_of(row, parts):
            (of_units if write.file.unit else steps).append(write)
    return [*_once(steps), *by_unit(_once(of_units))]


def brings(row: Row) -> bool:
    """True for a setting whose file appears with a module that this run loads: it is read and written after
    that."""
    return row.reading.missing and bool(row.reading.load)


def _once(steps: Sequence[S]) -> list[S]:
    """One write for each file. Two rules may agree on it; a number counts against a lower floor."""
    greatest: dict[str, KernelWrite] = {}
    for step in steps:
        if isinstance(step, KernelWrite):
            other = greatest.setdefault(step.file.path, step)
            if values.reaches(other.file.want, step.file.want) and other.file.want != step.file.want:
                greatest[step.file.path] = step
    return [step for step in steps if not isinstance(step, KernelWrite) or greatest[step.file.path] is step]


def _due(row: Row) -> list[KnobFile]:
    """The parts to write. A part that is refused or unreadable does not prevent the others."""
    reading = row.reading
    whole = row.status is Status.DRIFTED
    if row.status is Status.UNKNOWN:
        whole = not (reading.blocked or reading.invalid or reading.refusal)
    if row.status is Status.REFUSED:
        whole = any(part.refusal for part in reading.parts)
    return [part for part in reading.parts if whole and part.differs and not part.refusal]


def writes_of(row: Row, parts: Sequence[KnobFile]) -> list[KernelWrite]:
    """The writes for these parts; empty if only a boot brings the value."""
    return [] if row.reading.at_boot else [KernelWrite(row.setting.key, part) for part in parts]


def _file_steps(host: Host, file: BootFile, old: bytes | None, context: Context) -> list[Step]:
    other_mode = file.mode is not None and host.mode(file.path) != file.mode
    wrong = (other_mode and file.content is not None) or not trust.is_right(host, file.path)
    if file.content != old or wrong:
        return [FileWrite(file.path, file.path, file.content, old, file.mode, file.notify, file.first)]
    return [Notify(file.path, file.notify, file.first)] if file.stale and context.runtime else []


def present(host: Host, plan: Plan) -> list[Entry]:
    """The origin of every knob that this area may ever write, even if it needs no change now."""
    if not host.is_superuser():  # nothing is changed then, and the origin could not be stored
        return []
    rows = (row for row in plan.rows if not row.reading.blocked and not lasting.is_brought(row))
    return [
        entry for row in rows for write in writes_of(row, row.reading.parts) for entry in write.entries(host)
    ]


def context_of(host: Host, request: Request, known: Kept) -> Context:
    """Context of an area, without the node's declarations. Raises MlnodeError."""
    return Context(
        host=host,
        facts=Facts(host),
        name=request.name,
        layers=request.layers,
        allow=tuple(request.spec.get("allow", ())),
        agent=not known.agent_fault and not known.agent_unread,
        agent_fault=known.agent_fault,
        agent_unread=known.agent_unread,
        agent_row=known.agent_installed,
        origins=known.origins,
        spec=request.spec,
    )


#: A declaration on the node, and key → claim for its settings of one kind
_Claims = Tuple[Declaration, Mapping[str, str]]


def _claims(
    request: Request, settings: Sequence[Setting], declarations: Sequence[Declaration]
) -> list[_Claims]:
    """Claims that the node keeps of the kind. settings: of the request. Raises DeclarationError naming the
    file, unless this run replaces that file. In a request of the agent, the rest of a faulty file counts: its
    own request reports the fault."""
    kind = request.kind
    claims: list[_Claims] = []
    for declaration in declarations:
        if kind.KIND not in declaration.kinds:
            continue
        own = declaration.name == request.name
        there = settings
        if not own or not (request.alone or declaration.kinds[kind.KIND] == request.spec):
            try:
                there = kind.parse(declaration.checked_spec(kind.KIND, kind.OPTIONS), None)
            except DeclarationError as error:
                if own:
                    continue
                if not request.alone:
                    raise DeclarationError(f"{declaration.path}: {error}") from error
                # Imported by name: a module does not package modules that only the agent needs.
                partial = import_module(".partial", __package__)
                there = partial.settings(kind, declaration.kinds[kind.KIND])
        claims.append((declaration, {setting.key: setting.claim for setting in there}))
    return claims


def _refuse_conflicts(request: Request, settings: Sequence[Setting], claims: Sequence[_Claims]) -> None:
    for other, theirs in claims:
        if other.name == request.name:
            continue
        for setting in settings:
            claim = theirs.get(setting.key)
            if claim is not None and claim != setting.claim:
                raise DeclarationError(
                    f"{setting.key}: declared as {setting.claim!r} by {request.name} and as {claim!r} "
                    f"by {other.name} ({other.path}): the two must agree, or one must leave it out"
                )
            _refuse_conflicting(request, setting.key, theirs, other)


def _refuse_conflicting(request: Request, key: str, theirs: Mapping[str, str], other: Declaration) -> None:
    for their_key in theirs:
        if their_key == key:
            continue
        if request.kind.conflicts(key, their_key) or request.kind.conflicts(their_key, key):
            raise DeclarationError(
                f"{key} (declared by {request.name}) and {their_key} (declared by {other.name}, "
                f"{other.path}) change each other: one name has to declare both, or only one of them"
            )


# -- the state after the steps -------------------------------------------------------------


def ended(plan: Plan, after: Plan) -> tuple[Plan, tuple[Row, ...], bool]:
    """The plan without writes that had no effect, as the device still answers with its old value; the present
    rows, with `changed` for repaired settings; and whether anything changed."""
    before = {row.setting.key: row for row in plan.rows}
    written = {write.key for write in kernel_writes(plan.steps)}
    rows = []
    moved = False
    for row in after.rows:
        old = before.get(row.setting.key, row)
        moved = moved or _seen(old.reading) != _seen(row.reading)
        if row.status is Status.OK and old.status is not Status.OK:
            answered = any(part.answer for part in row.reading.parts)
            row = row._replace(status=Status.CHANGED, causes=row.causes if answered else old.causes)
        elif row.setting.key in written and any(part.partial and part.differs for part in row.reading.parts):
            shortage = f"asked for {row.reading.want}, the kernel gave {row.reading.runtime}"
            shortage += ": no more memory is free in one piece"
            short = Cause(Layer.RUNTIME, str(Status.CLAMPED), text=shortage)
            row = row._replace(status=Status.CLAMPED, causes=(short,))
        rows.append(row)
    others = any(isinstance(step, _NO_VALUE) for step in plan.steps)
    lacking = {part.path for row in after.rows for part in row.reading.parts if part.answer}
    taken = plan._replace(steps=tuple(without(plan.steps, lacking))) if lacking else plan
    return taken, tuple(rows), moved or others


#: Steps whose effect shows in no value of a setting
_NO_VALUE = (FileWrite, LinkWrite, LoadModule, Notify)


def _seen(reading: Reading) -> tuple[object, ...]:
    return (reading.runtime, *(part.runtime for part in reading.parts))


def afterwards(error: MlnodeError, steps: Sequence[Step]) -> str:
    """Message for an error of the look after the changes: at this point nothing is rolled back."""
    keys = ", ".join(dict.fromkeys(step.key for step in steps))
    return (
        f"{error}. This was met after all changes had been made, and they stay: {keys}"
        if keys
        else str(error)
    )


class _Wish(NamedTuple):
    """The value that a setting of an area wants in a file."""

    area: str
    key: str
    want: str


def refuse_two_areas(plans: Sequence[Plan]) -> None:
    """Raises DeclarationError if two areas want different values in a kernel file, which every run would
    change twice. A least value also accepts a higher one."""
    wanted: dict[str, _Wish] = {}
    floors: list[tuple[str, _Wish]] = []
    for area, row in ((plan.area, row) for plan in plans for row in plan.rows):
        for part in () if row.reading.invalid or row.reading.refusal else row.reading.parts:
            floor = row.setting.floor or row.setting.want
            if row.setting.raise_only and floor:
                floors.append((part.path, _Wish(area, row.setting.key, floor)))
                continue
            wish = _Wish(area, row.setting.key, part.want)
            first = wanted.setdefault(part.path, wish)
            if first.area != wish.area and not values.same(first.want, wish.want):
                raise _two_areas(part.path, first, wish)
    for path, wish in floors:
        first = wanted.get(path, wish)
        if first.area != wish.area and not values.reaches(wish.want, first.want):
            raise _two_areas(path, first, wish._replace(want=f"{wish.want} or more"))


def _two_areas(path: str, first: _Wish, second: _Wish) -> DeclarationError:
    return DeclarationError(
        f"{first.key} ({first.area}) wants {path} to be {first.want}, and {second.key} ({second.area}) "
        f"{second.want}: declare it in one of the two areas"
    )
