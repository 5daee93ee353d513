# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one path from a declaration to an outcome; check mode is the same path without the writes.

All areas of a declaration are one transaction. Every area is evaluated before anything is written, to refuse
errors that can be detected beforehand. It is evaluated again at its turn, as an earlier area may have changed
its values.
"""

from __future__ import annotations

from contextlib import nullcontext
from importlib import import_module
from types import MappingProxyType
from typing import Any, Callable, Mapping, Sequence

from ..host import places
from ..host.host import Host
from ..model.errors import DeclarationError, HostError, MlnodeError, RefusedError, RiskError
from ..model.record import NamedTuple
from ..model.setting import Layer, Status
from . import declared, leaving_settings, lock
from .kind import AGENT_PENDING, Kind, Row
from .leaving_settings import LeavingSettings
from .lock import WAIT_SECONDS, is_held, locked
from .origin import Entry, Origin, complete, forget_left
from .plan import (
    Kept,
    Plan,
    Request,
    afterwards,
    brings,
    declaration_of,
    declaration_steps,
    ended,
    evaluate,
    kept,
    present,
    refuse_two_areas,
)
from .steps import LoadModule, Notify, Step, kernel_writes, refuse_read_only
from .transaction import Transaction, Waiting

__all__ = ["Outcome", "Outcomes", "Plan", "Request", "admit", "apply_together", "evaluate", "preview"]


class Outcome(NamedTuple):
    """Result of one area: its plan, and the present state of every setting. waits: the pending undo of a
    change that must be confirmed."""

    plan: Plan
    rows: tuple[Row, ...]
    changed: bool
    waits: Waiting | None = None
    leaving: LeavingSettings = LeavingSettings()

    @property
    def steps(self) -> tuple[Step, ...]:
        """All steps of the area, in their order."""
        return (*self.leaving.steps, *self.plan.steps, *self.leaving.late)


class Outcomes(NamedTuple):
    """Result of a declaration. outcomes: in the order of the requests. shared: the steps for the declaration
    file, which belongs to no single area. waits: the pending undo of the whole run, if it must be confirmed.
    unfinished: messages about earlier runs that were killed."""

    outcomes: tuple[Outcome, ...]
    shared: tuple[Step, ...]
    changed: bool
    waits: Waiting | None = None
    unfinished: tuple[str, ...] = ()

    @property
    def refused(self) -> list[Row]:
        """Settings refused by a guard, or by the device they are declared for."""
        return [row for outcome in self.outcomes for row in outcome.rows if row.status is Status.REFUSED]


#: The reader of the agent's units: handlers.UNITS
_UNITS = places.READERS[0]


class First(NamedTuple):
    """The agent's own steps, before all areas. check: called once the steps are done; an exception from it
    undoes them. live: notify daemons even if no area is live."""

    steps: Callable[[], Sequence[Step]]
    check: Callable[[Sequence[Step]], None]
    live: bool = False


def _unchecked(_steps: Sequence[Step]) -> None:
    """Do nothing: each step reads back its own write."""


#: For a run over areas only
NOTHING = First(tuple, _unchecked)


#: For a run that knows only the requested areas
NO_KINDS: Mapping[str, Kind] = MappingProxyType({})


def admit(plan: Plan) -> None:
    """Gate of an interactive run. Raises DeclarationError before anything is written if the declaration is
    wrong for this node. At boot only the row at fault is refused: see boot_run.apply_each()."""
    invalid = [row for row in plan.rows if row.reading.invalid]
    if invalid:
        raise DeclarationError(f"{_words(invalid)}; nothing was changed")


def preview(
    host: Host,
    requests: Sequence[Request],
    gate: Callable[[Plan], None] = admit,
    first: First = NOTHING,
    kinds: Mapping[str, Kind] = NO_KINDS,
) -> Outcomes:
    """Outcome that apply_together() would have now; writes nothing. Raises MlnodeError."""
    run = _Run(host, requests, gate, 0, kinds)
    with declared.expecting(host, run.new):
        outcomes = run.foresee()
    shared = [*first.steps(), *declaration_steps(host, run.new)]
    refuse_read_only(host, [*shared, *(step for outcome in outcomes for step in outcome.steps)], store=True)
    changed = bool(shared) or any(outcome.changed for outcome in outcomes)
    before = () if is_held(host) else tuple(note.text for note in lock.read_notes(host))
    return Outcomes(tuple(outcomes), tuple(shared), changed, unfinished=before)


def apply_together(
    host: Host,
    ask: Callable[[], Sequence[Request]],
    gate: Callable[[Plan], None] = admit,
    wait_seconds: float = WAIT_SECONDS,
    confirm_seconds: int = 0,
    first: First = NOTHING,
    risky: bool = True,
    kinds: Mapping[str, Kind] = NO_KINDS,
) -> Outcomes:
    """Apply a declaration, all or nothing. Raises MlnodeError; TransactionError lists the rollback.

    ask: returns the areas of one declaration; called once this run holds the node's lock. confirm_seconds: a
    change that may cut off its own connection is undone after this time unless it is confirmed over a new
    connection; 0 makes it permanent. risky: False raises RiskError before anything is written if there is
    such a change. kinds: further kinds on the node, whose declarations may still need a value that leaves
    this one.
    """
    with locked(host, wait_seconds) as mended:
        _refuse_while_pending(host)
        complete(host)
        requests = ask()
        if _is_live(requests):
            _try_again(host)
        run = _Run(host, requests, gate, confirm_seconds, kinds)
        with declared.expecting(host, run.new):
            outcomes = run.carry_out(first, risky)
        before = tuple(lock.take_notes(host))
        return outcomes._replace(changed=outcomes.changed or bool(mended), unfinished=before)


class _Run:
    """One run over the areas of a declaration, under the node's lock."""

    def __init__(
        self,
        host: Host,
        requests: Sequence[Request],
        gate: Callable[[Plan], None],
        confirm_seconds: int,
        kinds: Mapping[str, Kind],
    ) -> None:
        self._host = host
        self._requests = requests
        self._gate = gate
        self._seconds = confirm_seconds
        self._kinds = kinds
        self._before = _kept(host, requests)
        self.new = declaration_of(requests, self._before)
        self._risks: list[str] = []
        self._waits: Waiting | None = None

    def foresee(self) -> list[Outcome]:
        """Plan of each area as the node is now."""
        plans: list[Plan] = []
        for request in self._requests:
            # A module to be loaded may provide a missing file. Such an area is judged at its turn.
            loads = any(isinstance(step, LoadModule) for plan in plans for step in plan.steps)
            plans.append(self._plan(request, self._before, admit if loads else self._gate))
        refuse_two_areas(plans)
        leaving_by_area = leaving_settings.by_area(
            self._host, self._requests, plans, self._before, self._kinds
        )
        return [
            Outcome(plan, plan.rows, bool(plan.steps or leaving.steps or leaving.late), leaving=leaving)
            for plan, leaving in zip(plans, leaving_by_area)
        ]

    def _plan(self, request: Request, known: Kept, gate: Callable[[Plan], None]) -> Plan:
        try:
            plan = evaluate(self._host, request, known)
            gate(plan)
        except MlnodeError as error:
            error.area = request.kind.KIND
            raise
        return plan

    def carry_out(self, first: First, may_risk: bool) -> Outcomes:
        foreseen = self.foresee()
        shared = declaration_steps(self._host, self.new)
        agent = first.steps()
        steps = [*agent, *shared, *(step for outcome in foreseen for step in outcome.steps)]
        if steps and not self._host.is_superuser():
            raise HostError("change", steps[0].key, None, "root is needed")
        risks = [risk for outcome in foreseen for risk in _risks(outcome.plan.steps)]
        if risks and not may_risk:
            raise RiskError("; ".join(risks))
        try:
            origin, live = Origin.load(self._host), first.live or _is_live(self._requests)
            name = self._requests[0].name if self._requests else "the agent"
            mark = lock.marked(self._host, name) if steps else nullcontext()
            with mark, Transaction(self._host, origin, self._arm, live, gone_ends=False) as work:
                work.foresee(
                    steps, [entry for outcome in foreseen for entry in present(self._host, outcome.plan)]
                )
                if agent:
                    work.perform(agent, check=lambda: first.check(agent), settled=True, notify=False)
                # Before the declaration: the next run after a kill still finds the settings to put back.
                moved = False
                for outcome in reversed(foreseen):
                    moved = work.perform(outcome.leaving.steps) or moved
                # Until a change is confirmed, the old declaration must survive a power cut. It must also
                # survive a kill before a late step.
                is_last = bool(risks) or any(outcome.leaving.late for outcome in foreseen)
                if not is_last:
                    work.perform(shared)
                known = self._before._replace(origins=origin.values())
                plans = self._stages(work, foreseen, known, moved, risky=bool(risks))
                if is_last:
                    work.perform(shared)
                # After the areas and the declaration: an area may raise a limit that a unit needs, and a
                # timer's first check exits at once without a declaration.
                late = [*agent, *(step for plan in plans for step in plan.steps if is_last)]
                work.perform(_notices(late, _UNITS))
                gone = [str(entry["id"]) for outcome in foreseen for entry in outcome.leaving.entries]
                if self._waits:
                    self._waits = _confirm().restart(self._host, self._waits, gone)
                else:
                    forget_left(self._host, gone)
        except BaseException as error:
            # The armed undo tries stuck entries once more when the time is over.
            if self._waits and not getattr(error, "stuck", ()):
                self._disarm()
            raise
        # Rows from before this run, steps as they were performed
        done = [
            outcome._replace(plan=outcome.plan._replace(steps=plan.steps))
            for outcome, plan in zip(foreseen, plans)
        ]
        return self._outcomes(done, [*agent, *shared])

    def _stages(
        self, work: Transaction, foreseen: Sequence[Outcome], known: Kept, moved: bool, risky: bool
    ) -> list[Plan]:
        """Perform each area and return the performed plans. known: with the updated origin. moved: a value
        was put back, and every area is planned again at its turn. An area that writes has the same effect on
        the later ones."""
        done = []
        for request, outcome in zip(self._requests, foreseen):
            plan = outcome.plan
            if moved:
                plan = self._plan(request, known, self._gate)
            self._risks = _risks(plan.steps)
            if self._risks and not risky:
                raise MlnodeError(
                    f"{'; '.join(self._risks)}: this was not foreseeable before the other areas were "
                    "applied: run it again"
                )
            try:
                wrote = work.perform(plan.steps, present(self._host, plan))
                if any(map(brings, plan.rows)):
                    more = self._plan(request, known, self._gate)
                    work.perform(more.steps, present(self._host, more))
                    plan = plan._replace(steps=(*plan.steps, *more.steps))
                wrote = work.perform(outcome.leaving.late) or wrote
            except MlnodeError as error:
                error.area = request.kind.KIND
                raise
            moved = moved or wrote
            done.append(plan)
        return done

    def _arm(self, entries: Sequence[Entry], fresh: Sequence[Entry]) -> bool:
        if self._waits:
            self._waits = _confirm().extend(self._host, self._waits, entries, fresh)
        elif self._risks and self._seconds:
            name, risks = self._requests[0].name, "; ".join(self._risks)
            self._waits = _confirm().arm(self._host, name, self._seconds, entries, fresh, risks)
        return self._waits is not None

    def _disarm(self) -> None:
        """Cancel the restore. If that fails, a late restore finds nothing to do."""
        try:
            _confirm().cancel(self._host)
        except MlnodeError:
            pass

    def _outcomes(self, done: Sequence[Outcome], shared: Sequence[Step]) -> Outcomes:
        """Outcomes with the present rows. Nothing is rolled back after this point."""
        steps = [*shared, *(step for outcome in done for step in outcome.steps)]
        if not steps:
            return Outcomes(tuple(done), (), changed=False)
        try:
            known = _kept(self._host, self._requests)
            outcomes = tuple(
                _ended(before, evaluate(self._host, request, known))
                for request, before in zip(self._requests, done)
            )
        except MlnodeError as error:
            messages = [afterwards(error, steps), *([self._waits.text] if self._waits else [])]
            raise MlnodeError("; ".join(messages)) from error
        changed = bool(shared) or any(item.changed for item in outcomes)
        return Outcomes(outcomes, tuple(shared), changed, self._waits)


def _confirm() -> Any:
    """The module confirm, imported on demand: most areas have nothing to confirm and do not package it."""
    return import_module(".confirm", __package__)


def _refuse_while_pending(host: Host) -> None:
    """Refuse to run while an earlier change waits; without the module confirm, the agent decides on it.
    Raises MlnodeError."""
    try:
        confirm = _confirm()
    except ImportError:
        if waiting := host.text(AGENT_PENDING):
            raise RefusedError(waiting) from None
    else:
        confirm.refuse_while_pending(host)


def _ended(before: Outcome, after: Plan) -> Outcome:
    plan, rows, changed = ended(before.plan, after)
    left_steps = (*before.leaving.steps, *before.leaving.late)
    return Outcome(plan, rows, changed or bool(left_steps), leaving=before.leaving)


def _kept(host: Host, requests: Sequence[Request]) -> Kept:
    return kept(host, requests[0].layers if requests else ())


def _notices(steps: Sequence[Step], reader: str) -> list[Step]:
    """The step that notifies a reader of these steps, if one of them is for it."""
    keys = [step.key for step in steps if getattr(step, "notify", "") == reader]
    return [Notify(key, reader) for key in keys[-1:]]


def _is_live(requests: Sequence[Request]) -> bool:
    return any(Layer.RUNTIME in request.layers for request in requests)


def _risks(steps: Sequence[Step]) -> list[str]:
    """A message for each change that may cut off its own connection."""
    writes = [write for write in kernel_writes(steps) if write.file.risk]
    return [f"{write.key} from {write.file.runtime} to {write.file.want}" for write in writes]


def _words(rows: Sequence[Row]) -> str:
    return "; ".join(f"{row.setting.key}: {row.reading.invalid or row.reason}" for row in rows)


def _try_again(host: Host) -> None:
    """Allow changes again that the agent has given up, as a user watches this run. Raises HostError."""
    for name in host.names(places.FAILED_CHANGES):
        host.remove_file(f"{places.FAILED_CHANGES}/{name}")
