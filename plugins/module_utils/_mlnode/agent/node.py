# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A whole node: all its declarations, checked or applied with the same engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable, Iterator, Sequence

from ..engine import confirm_store, declared, leftovers, lock
from ..engine.declared import Declaration
from ..engine.kind import Kind, Row
from ..engine.lock import WAIT_SECONDS, locked
from ..engine.origin import Origin, complete
from ..engine.plan import Request, evaluate, kept_by_node
from ..host import trust
from ..host.host import Host
from ..linux import systemd_show
from ..model.errors import (
    DeclarationError,
    HostError,
    LostOriginError,
    MlnodeError,
    UntrustedError,
    is_denial,
    listed,
)
from ..model.record import NamedTuple
from ..model.setting import Layer, Status
from ..topology import management
from . import rows as agent
from .registry import KINDS

if TYPE_CHECKING:
    from ..engine.engine import Outcome


class NodeRow(NamedTuple):
    """A row and the names that declare it."""

    row: Row
    declared_by: tuple[str, ...]


class Survey(NamedTuple):
    """The state of a node. errors: why parts of it could not be read or applied."""

    rows: tuple[NodeRow, ...]
    errors: tuple[str, ...]
    changed: bool = False

    @property
    def drifted(self) -> bool:
        return any(item.row.status.is_drift for item in self.rows)

    @property
    def compliant(self) -> bool:
        """True only if everything declared was seen and is right: an empty node is not."""
        return not self.errors and not self.drifted


def survey(host: Host, may_be_bare: bool = False, only: Sequence[str] = ()) -> Survey:
    """Read everything declared, or only the given kinds; writes nothing. may_be_bare: no error without
    declarations."""
    node, left = _look(host, may_be_bare, only)
    if left and lock.is_held(host):
        # A run writes the declaration before its files, so they do not match for a moment.
        left = []
    elif left:
        host.forget()
        node, left = _look(host, may_be_bare, only)
    errors = [*node.errors, *left, *trust.problems(host), *_closed(host, node.rows)]
    return node._replace(errors=tuple(dict.fromkeys(errors)))


def _closed(host: Host, rows: Sequence[NodeRow]) -> list[str]:
    """A message about settings that this user may not read: their state is unknown, so the result can be
    neither drift nor success."""
    if host.is_superuser():
        return []
    unknown = [item.row for item in rows if item.row.status is Status.UNKNOWN]
    keys = [row.setting.key for row in unknown if is_denial(row.reason)]
    return [f"root is needed to look at {listed(keys)}"] if keys else []


def _look(host: Host, may_be_bare: bool, only: Sequence[str]) -> tuple[Survey, list[str]]:
    """All rows, and leftovers of earlier declarations."""
    systemd_show.ask(host)
    errors: list[str] = []
    left: list[str] = []

    def look(request: Request) -> tuple[Sequence[Row], bool]:
        plan = evaluate(host, request, kept_by_node(host))
        about = f"{request.name}, {request.kind.KIND}"
        if host.is_superuser():  # who can read all sources of a file
            image = request._replace(layers=(Layer.BOOT,))
            stale = leftovers.outlived(plan.steps, lambda: evaluate(host, image).steps, request.name)
            left.extend(f"{about}: {word}" for word in stale)
            left.extend(leftovers.lost(host, plan.steps))
        return plan.rows, False

    node = each(host, look, errors, only, may_be_bare)
    return node, left if only else [*left, *leftovers.report(host)]


def apply_all(host: Host, only: Sequence[str] = (), wait_seconds: float = WAIT_SECONDS) -> Survey:
    """Apply everything declared, at boot or by hand, or only the given kinds. One failing part does not stop
    the others."""
    from ..engine import boot_run, confirm  # only here: a check changes nothing

    errors: list[str] = []
    done: list[Outcome] = []
    reason = ""

    def work(request: Request) -> tuple[Sequence[Row], bool]:
        outcome, failed = boot_run.apply_each(host, request, reason)
        done.extend([outcome] if outcome.changed else [])
        errors.extend(f"{request.name}, {request.kind.KIND}: {failure}" for failure in failed)
        return outcome.rows, outcome.changed

    # Hold the lock from the reading of the declarations on. A declaration that a playbook writes meanwhile
    # must not be overwritten with its older version.
    with locked(host, wait_seconds) as mended:
        host.forget()  # earlier readings may be outdated by another run
        try:
            confirm.resume(host)  # first of all, because it restores old declarations
            complete(host)
            reason = skip_reason(host, bool(only))
        except MlnodeError as error:
            errors.append(str(error))
            reason = "it is unknown whether that is safe"
        # A NIC may arrive without a declaration for it.
        node = each(host, work, errors, only, may_be_bare=bool(only))
        if done:
            from . import history  # only here: most runs change nothing

            problem = history.record(host, done)
            node = node._replace(errors=(*node.errors, *filter(None, [problem])))
        left = [] if only else leftovers.report(host)
        return node._replace(errors=(*node.errors, *left), changed=node.changed or bool(mended))


def skip_reason(host: Host, arrival: bool) -> str:
    """Reason why the management path is left alone; empty at a boot, without connections. Raises
    MlnodeError."""
    waiting = confirm_store.load_pending(host)
    if waiting is not None:
        return waiting.text
    if arrival:
        return "the arrival of a NIC does not justify it: a playbook does it, or the next boot"
    if management.connection(host):
        return "over a connection a playbook does it, which undoes it if the node is unreachable then"
    return ""


def each(
    host: Host,
    treat: Callable[[Request], tuple[Sequence[Row], bool]],
    errors: list[str],
    only: Sequence[str] = (),
    may_be_bare: bool = False,
) -> Survey:
    """Treat everything declared, or only the given kinds. errors: list of the caller, to which more are
    added. may_be_bare: as in survey()."""
    try:
        declarations = declared.load_all(host, errors)
    except MlnodeError as error:
        return Survey((), (str(error),))
    if not declarations and not errors and not may_be_bare:
        errors.append(f"nothing is declared on this node: {declared.FOLDER} holds no declaration")
    errors += _lost(host)
    rows_by_key: dict[str, NodeRow] = {}
    changed = False
    # Import all kinds before the first is read: systemd answers meanwhile.
    for declaration, kind in [*_declared(declarations, errors)]:
        if only and kind.KIND not in only:
            continue
        about = f"{declaration.name}, {kind.KIND}"
        wrong: list[str] = []
        try:
            rows, moved = treated(treat, declaration, kind, wrong)
        except UntrustedError as error:  # a complete message, which may be the same for all of them
            errors += [str(error)] if str(error) not in errors else []
            continue
        except MlnodeError as error:
            errors.append(f"{about}: {error}")
            continue
        finally:  # even if the rest fails
            errors += [f"{about}: {word}" for word in wrong]
        changed = changed or moved
        for row in rows:
            _merge(rows_by_key, declaration.name, row)
    of_agent = [] if only else agent_rows(host, declarations)
    return Survey((*of_agent, *rows_by_key.values()), tuple(errors), changed)


def treated(
    treat: Callable[[Request], tuple[Sequence[Row], bool]],
    declaration: Declaration,
    kind: Kind,
    wrong: list[str],
) -> tuple[Sequence[Row], bool]:
    """Treat a kind of a declaration, or the part of it that this version understands. wrong: list of the
    caller to which problems of the rest are added, even if this raises. Raises MlnodeError."""
    profile = frozenset(declaration.profile.get(kind.KIND, ()))
    try:
        spec = declaration.checked_spec(kind.KIND, kind.OPTIONS)
        request = Request(declaration.name, kind, spec, alone=True, profile=profile)
        return treat(request)
    except DeclarationError:
        from ..engine import partial  # only here: most files are understood

        spec, errors = partial.understood(kind, declaration.kinds[kind.KIND])
        if not errors:  # with settings declared elsewhere
            raise
    wrong += errors
    request = Request(declaration.name, kind, spec, alone=True, partial=True, profile=profile)
    return treat(request)


def agent_rows(host: Host, declarations: Sequence[Declaration]) -> list[NodeRow]:
    """Rows of the agent, once for the node: all declarations rely on it. Empty without declarations."""
    names = tuple(declaration.name for declaration in declarations)
    kinds = {kind for declaration in declarations for kind in declaration.kinds}
    return [NodeRow(row, names) for row in agent.rows(host, kinds)] if kinds else []


def _lost(host: Host) -> list[str]:
    """Report of a lost origin; empty for a user who may not read it."""
    try:
        Origin.load(host)
    except LostOriginError as error:
        return [str(error)]
    except (HostError, UntrustedError):  # trust reports it, and so does the code that needs it
        pass
    return []


def _declared(declarations: Sequence[Declaration], errors: list[str]) -> Iterator[tuple[Declaration, Kind]]:
    """In the order of the kinds, so dependent kinds can follow across declarations."""
    errors += [
        f"{declaration.path}: kind {kind!r} is unknown to this version of mlnode"
        for declaration in declarations
        for kind in declaration.kinds
        if kind not in KINDS
    ]
    for name in KINDS:
        for declaration in declarations:
            if declared.declares(declaration.kinds.get(name, {})):
                yield declaration, KINDS[name]


def _merge(rows_by_key: dict[str, NodeRow], name: str, row: Row) -> None:
    """Names that agree on a key share its row; the worse status stays."""
    known = rows_by_key.get(row.setting.key)
    if known is None:
        rows_by_key[row.setting.key] = NodeRow(row, (name,))
        return
    worse = row if known.row.status in (Status.OK, Status.CHANGED) else known.row
    worse = worse._replace(by_profile=known.row.by_profile and row.by_profile)
    rows_by_key[row.setting.key] = known._replace(row=worse, declared_by=(*known.declared_by, name))
