# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one path from a declaration to an outcome; check mode is the same path without `apply`."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Callable, Mapping, Sequence

from . import boot_service, confirm, declared, held, partial, transaction, trust
from .confirm import Pending
from .declared import Declaration
from .errors import DeclarationError, HostError, MlnodeError, RefusedError
from .facts import Facts
from .host import Host
from .judge import differs, judge, with_bar
from .kind import Context, Kind, Row, Spec
from .lock import WAIT_SECONDS, locked
from .origin import Entry, Origin, complete
from .setting import BOTH_LAYERS, BootFile, Layer, Part, Reading, Setting
from .status import Status
from .transaction import FileWrite, KernelWrite, LinkWrite, LoadModule, Refresh, Step

#: udev gives a NIC its name a moment after it has arrived, and one may arrive while we are at work: then
#: what was read is under another name at the writing. The name comes with the first event of the NIC, so
#: that a second is long; a third look is for another one that has come meanwhile.
_LOOKS_AGAIN = 2
_LOOK_SECONDS = 1.0


@dataclass(frozen=True)
class Request:
    """One kind of one declaration, and what may be done about it.

    alone: the agent's, one of all requests of a node, which applies what it understands of a file. What is
    wrong with the files of other declarations is reported by their own requests, and stops nothing here; and
    what is wrong with the agent has a row of its own.
    """

    name: str
    kind: Kind
    spec: Spec
    layers: tuple[Layer, ...] = BOTH_LAYERS
    alone: bool = False


@dataclass(frozen=True)
class Plan:
    """Every setting with its status, and the steps that would make them right. errors: of settings that are
    not understood."""

    rows: tuple[Row, ...]
    steps: tuple[Step, ...]
    errors: tuple[str, ...] = ()


@dataclass(frozen=True)
class Outcome:
    """What was planned, and what every setting is now. waits: what undoes it unless it is confirmed."""

    plan: Plan
    rows: tuple[Row, ...]
    changed: bool
    waits: Pending | None = None


def evaluate(host: Host, request: Request) -> Plan:
    """Parse, read and plan; writes nothing. Raises MlnodeError."""
    declared.check_name(request.name)
    declared.check_spec(request.kind.KIND, request.spec)
    spec, errors = partial.understood(request.kind, request.spec) if request.alone else (request.spec, [])
    request = replace(request, spec=spec)
    on_disk = declared.load_all(host, [] if request.alone else None)
    origin = Origin.for_look(host, request.alone)
    context = _context(host, request, on_disk, origin)
    settings = request.kind.parse(request.spec, context.facts if context.runtime else None)
    _refuse_conflicts(request, settings, on_disk)
    rows = []
    for setting, found in zip(settings, request.kind.read(settings, context)):
        reading = with_bar(found, context)
        status, reason = judge(setting, reading, context)
        info = request.kind.info(setting.key, reading.runtime)
        before = reading.origin if reading.parts else context.origins.get(reading.path)
        rows.append(Row(setting, reading, status, reason, info, before))
    files = _boot_files(host, request, rows, context, on_disk) if context.boot else []
    steps = _kernel_steps(rows, context)
    if not errors:  # a file made of a part would lose the lines of the rest
        steps += [step for file, old in files for step in _file_steps(host, file, old, context)]
    return Plan(tuple(rows), tuple(steps), tuple(errors))


def admit(plan: Plan) -> None:
    """Raises an error for what must not or cannot be, before anything is written.

    The gate of a run that somebody watches; a boot has none, see apply_each().
    """
    invalid = [row for row in plan.rows if row.reading.invalid]
    if invalid:
        raise DeclarationError(f"{_words(invalid)}; nothing was changed")
    refused = [row for row in plan.rows if row.status is Status.REFUSED]
    if refused:
        raise RefusedError(f"refused, and nothing was changed: {_words(refused)}")


def apply(
    host: Host,
    request: Request,
    gate: Callable[[Plan], None] = admit,
    wait_seconds: float = WAIT_SECONDS,
    confirm_seconds: int = 0,
) -> Outcome:
    """Make it so, all or nothing. Raises MlnodeError; TransactionError says what was rolled back.

    confirm_seconds: after which a change that may cut off the connection over which it is made is undone,
    unless it is confirmed over a new one; 0 makes it for good.
    """
    with locked(host, wait_seconds) as mended:
        confirm.refuse_while_pending(host)
        complete(host)
        live = Layer.RUNTIME in request.layers
        if live:
            held.release(host)
        plan = evaluate(host, request)
        gate(plan)
        _needs_root(host, plan)
        risks = [write for write in transaction.kernel_writes(plan.steps) if write.risk]
        waits: list[Pending] = []

        def arm(entries: Sequence[Entry], fresh: Sequence[Entry]) -> None:
            if risks and confirm_seconds:
                words = "; ".join(f"{write.key} from {write.before} to {write.value}" for write in risks)
                waits.append(confirm.arm(host, request.name, confirm_seconds, entries, fresh, words))

        try:
            transaction.run(host, Origin.load(host), plan.steps, _present(host, plan), arm, live)
        except BaseException as error:
            # What could not be put back is tried once more when the time is over.
            if waits and not getattr(error, "stuck", ()):
                _disarm(host)
            raise
        try:
            outcome = _outcome(plan, evaluate(host, request))
            changed = outcome.changed or bool(mended)
            return replace(outcome, changed=changed, waits=next(iter(waits), None))
        except MlnodeError as error:
            words = [_afterwards(error, plan), *(pending.text for pending in waits)]
            raise MlnodeError("; ".join(words)) from error


def _afterwards(error: MlnodeError, plan: Plan) -> str:
    """An error of the look at what has become of it: by then nothing is rolled back any more."""
    keys = ", ".join(dict.fromkeys(step.key for step in plan.steps))
    return (
        f"{error}. This was met after all changes had been made, and they stay: {keys}"
        if keys
        else str(error)
    )


def _disarm(host: Host) -> None:
    """All is back, so that a restore which comes nevertheless finds nothing to do."""
    try:
        confirm.cancel(host)
    except MlnodeError:
        pass


def apply_each(host: Host, request: Request, unrisked: str = "") -> tuple[Outcome, list[str]]:
    """As apply(), but setting by setting, for a boot: what one of them is denied must not leave the rest of
    the node untuned. For a caller that holds the node's lock. Returns what went wrong, too.

    unrisked: why nothing is done that may cut somebody off; empty if it is, as nobody is connected yet.
    """
    plan = first = evaluate(host, request)
    errors, gone = _run_each(host, plan, unrisked)
    for _look in range(_LOOKS_AGAIN):
        if not gone:
            break
        time.sleep(_LOOK_SECONDS)
        host.forget()
        plan = evaluate(host, request)
        first = replace(first, steps=(*first.steps, *plan.steps))
        more, gone = _run_each(host, plan, unrisked)
        errors += [words for words in more if words not in errors]
    try:
        return _outcome(first, evaluate(host, request)), [*plan.errors, *errors, *gone]
    except MlnodeError as error:
        words = [*plan.errors, *errors, *gone, _afterwards(error, first)]
        raise MlnodeError("; ".join(words)) from error


def _run_each(host: Host, plan: Plan, unrisked: str) -> tuple[list[str], list[str]]:
    """What went wrong, and what did because something is no longer where it was seen."""
    _needs_root(host, plan)
    origin = Origin.for_look(host, alone=True)
    groups: dict[str, list[Step]] = {}
    errors: list[str] = []
    gone: list[str] = []
    for step in transaction.single(plan.steps):
        if unrisked and isinstance(step, transaction.UnitWrite) and step.risky:
            errors.append(f"{step.key}: not done, as it is on the management path; {unrisked}")
            continue
        groups.setdefault("" if isinstance(step, FileWrite) else step.key, []).append(step)
    transaction.run(host, origin, [], _present(host, plan))
    for steps in groups.values():
        try:
            transaction.run(host, origin, steps)
        except MlnodeError as error:
            cause = error.__cause__
            if isinstance(cause, HostError) and cause.absent and not getattr(error, "stuck", ()):
                gone.append(str(error))
                continue
            errors.append(str(error))
            _hold(host, steps, str(error))
    return errors, gone


def _hold(host: Host, steps: Sequence[Step], words: str) -> None:
    for step in steps:
        if isinstance(step, transaction.UnitWrite):
            held.hold(host, step.unit.name, transaction.kernel_writes([step]), words)


def _needs_root(host: Host, plan: Plan) -> None:
    if plan.steps and not host.is_superuser():
        raise HostError("change", plan.steps[0].key, None, "root is needed")


def _words(rows: Sequence[Row]) -> str:
    return "; ".join(f"{row.setting.key}: {row.reading.invalid or row.reason}" for row in rows)


def _kernel_steps(rows: Sequence[Row], context: Context) -> list[Step]:
    """In the order of the settings, except that a device is changed as a whole before the next one is."""
    if not context.runtime:
        return []
    found: list[Step] = []
    of_units: list[KernelWrite] = []
    for row in rows:
        parts = _due(row)
        if not parts and (row.status is not Status.DRIFTED or not differs(row.reading)):
            continue
        # The setting may be the module itself.
        stays = row.setting.path.startswith("/sys/module/")
        found += [LoadModule(row.setting.key, module, stays) for module in row.reading.load]
        for write in _writes(row, parts):
            (of_units if write.unit else found).append(write)
    return [*found, *transaction.by_unit(of_units)]


def _due(row: Row) -> list[Part]:
    """The parts that can be set right. One that is refused or cannot be read keeps none of the others."""
    reading = row.reading
    whole = row.status is Status.DRIFTED
    if row.status is Status.UNKNOWN:
        whole = not (reading.blocked or reading.invalid or reading.refusal)
    if row.status is Status.REFUSED:
        whole = any(part.refusal for part in reading.parts)
    return [part for part in reading.parts if whole and part.differs and not part.refusal]


def _writes(row: Row, parts: Sequence[Part]) -> list[KernelWrite]:
    """The writes for these parts, or that of the row's only file."""
    reading = row.reading
    if reading.at_boot:
        return []
    if reading.parts:
        return [KernelWrite.of(row.setting.key, part) for part in parts]
    if not reading.undo:
        return []
    return [
        KernelWrite(
            key=row.setting.key,
            path=reading.path,
            value=reading.target or "",
            before=reading.runtime.text or "",
            undo=reading.undo,
            partial=reading.partial,
        )
    ]


def _file_steps(host: Host, file: BootFile, old: bytes | None, context: Context) -> list[Step]:
    other_mode = file.mode is not None and host.mode(file.path) != file.mode
    wrong = (other_mode and file.content is not None) or not trust.is_right(host, file.path)
    if file.content != old or wrong:
        return [FileWrite(file.path, file.path, file.content, old, file.mode, file.refresh)]
    return [Refresh(file.path, file.refresh)] if file.stale and context.runtime else []


def _present(host: Host, plan: Plan) -> list[Entry]:
    """The origin of every knob that could ever be written, whether or not it has to be now."""
    if not host.is_superuser():  # who changes nothing then, and could not keep it
        return []
    rows = (row for row in plan.rows if not row.reading.blocked)
    return [
        entry for row in rows for write in _writes(row, row.reading.parts) for entry in write.entries(host)
    ]


def _context(host: Host, request: Request, on_disk: Sequence[Declaration], origin: Origin) -> Context:
    stopped, unread, row = "", "", False
    try:
        row = request.alone and boot_service.installed(host)
        stopped = boot_service.stopped(host, Layer.RUNTIME in request.layers)
    except HostError as error:
        unread = str(error)
    return Context(
        host=host,
        facts=Facts(host),
        name=request.name,
        layers=request.layers,
        allow=_allowed(request.spec),
        agent=not stopped and not unread,
        agent_fault=stopped,
        agent_unread=unread,
        agent_row=row,
        on_disk=_claims(request, on_disk),
        origins=origin.values(),
        spec=request.spec,
    )


def _allowed(spec: Spec) -> tuple[str, ...]:
    """What is no list of names is for the kind's own parser to refuse."""
    allow = spec.get("allow") or ()
    return tuple(str(name) for name in allow) if isinstance(allow, (list, tuple)) else ()


def _claims(request: Request, declarations: Sequence[Declaration]) -> dict[str, str]:
    """Key → claim of what is kept on the node. Raises DeclarationError naming the file, except where this run
    writes that file anew, or where a mistake in it is reported by its own request."""
    kind = request.kind
    found: dict[str, str] = {}
    for declaration in declarations:
        if kind.KIND in declaration.kinds:
            try:
                spec = declaration.kinds[kind.KIND]
                settings = kind.parse(partial.understood(kind, spec)[0] if request.alone else spec, None)
            except DeclarationError as error:
                if request.alone or declaration.name == request.name:
                    continue
                raise DeclarationError(f"{declaration.path}: {error}") from error
            found.update({setting.key: setting.claim for setting in settings})
    return found


def _refuse_conflicts(request: Request, mine: Sequence[Setting], on_disk: Sequence[Declaration]) -> None:
    for other in on_disk:
        if other.name == request.name:
            continue
        theirs = _claims(request, [other])
        for setting in mine:
            claim = theirs.get(setting.key)
            if claim is not None and claim != setting.claim:
                raise DeclarationError(
                    f"{setting.key}: declared as {setting.claim!r} by {request.name} and as {claim!r} "
                    f"by {other.name} ({other.path}): the two must agree, or one must leave it out"
                )
            _refuse_rivals(request, setting.key, theirs, other)


def _refuse_rivals(request: Request, key: str, theirs: Mapping[str, str], other: Declaration) -> None:
    for their_key in theirs:
        if their_key == key:
            continue
        if request.kind.rivals(key, their_key) or request.kind.rivals(their_key, key):
            raise DeclarationError(
                f"{key} (declared by {request.name}) and {their_key} (declared by {other.name}, "
                f"{other.path}) change each other: one name has to declare both, or only one of them"
            )


def _boot_files(
    host: Host,
    request: Request,
    rows: Sequence[Row],
    context: Context,
    on_disk: Sequence[Declaration],
) -> list[tuple[BootFile, bytes | None]]:
    """Each file with its present content. The declaration is first: should the power fail between two
    files, the agent finishes the work at boot."""
    files = request.kind.boot_files(request.name, rows, context)
    if not request.alone:  # which reads the file, and may be older than what wrote it
        old = next((item for item in on_disk if item.name == request.name), None)
        new = declared.updated(old, request.name, request.kind.KIND, request.spec)
        files = [BootFile(new.path, declared.render(new) if new.kinds else None), *files]
    return [(file, host.content(file.path)) for file in files]


def _outcome(plan: Plan, after: Plan) -> Outcome:
    """The rows as they are now; what was mended says `changed`."""
    before = {row.setting.key: row for row in plan.rows}
    written = {write.key for write in transaction.kernel_writes(plan.steps)}
    rows = []
    moved = False
    for row in after.rows:
        old = before[row.setting.key]
        moved = moved or _seen(old.reading) != _seen(row.reading)
        if row.status is Status.OK and old.status is not Status.OK:
            row = replace(row, status=Status.CHANGED, reason=old.reason)
        elif row.reading.partial and differs(row.reading) and row.setting.key in written:
            words = f"asked for {row.reading.target}, the kernel gave {row.reading.runtime}"
            words += ": no more memory is free in one piece"
            row = replace(row, status=Status.CLAMPED, reason=words)
        rows.append(row)
    others = any(isinstance(step, _NO_VALUE) for step in plan.steps)
    return Outcome(plan, tuple(rows), changed=moved or others)


#: Steps whose effect no value of a setting shows
_NO_VALUE = (FileWrite, LinkWrite, LoadModule, Refresh)


def _seen(reading: Reading) -> tuple[object, ...]:
    return (reading.runtime, *(part.now for part in reading.parts))
