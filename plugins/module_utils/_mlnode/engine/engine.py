# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one path from a declaration to an outcome; check mode is the same path without the writes.

All areas of a declaration are one transaction. Each is evaluated before anything is written, so that what can
be known to be wrong is refused, and again at its turn, as what an earlier area has done may have moved it.
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
from . import declared, left, lock
from .kind import AGENT_PENDING, Kind, Row
from .left import Leaving
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
from .steps import LoadModule, Notify, Step, kernel_writes
from .transaction import Transaction, Waiting

__all__ = ["Outcome", "Outcomes", "Plan", "Request", "admit", "apply_together", "evaluate", "preview"]


class Outcome(NamedTuple):
    """Of one area: what was planned, and what every setting is now. waits: what undoes it unless it is
    confirmed."""

    plan: Plan
    rows: tuple[Row, ...]
    changed: bool
    waits: Waiting | None = None
    leaving: Leaving = Leaving()

    @property
    def steps(self) -> tuple[Step, ...]:
        """All that is done in the area, in its order."""
        return (*self.leaving.steps, *self.plan.steps, *self.leaving.late)


class Outcomes(NamedTuple):
    """Of a declaration. outcomes: in the order of the requests. shared: the steps for the file of the
    declaration, which belong to no area alone. waits: what undoes all of it unless it is confirmed.
    unfinished: messages about earlier runs that were killed."""

    outcomes: tuple[Outcome, ...]
    shared: tuple[Step, ...]
    changed: bool
    waits: Waiting | None = None
    unfinished: tuple[str, ...] = ()

    @property
    def refused(self) -> list[Row]:
        """The settings that a guard has stopped, or a device that the operator has declared them for."""
        return [row for outcome in self.outcomes for row in outcome.rows if row.status is Status.REFUSED]


#: The reader of the agent's units: handlers.UNITS
_UNITS = places.READERS[0]


class First(NamedTuple):
    """Steps before all areas, of the agent. check: called once the steps are done; what it raises undoes
    them. live: daemons are notified of it, whatever areas there are."""

    steps: Callable[[], Sequence[Step]]
    check: Callable[[Sequence[Step]], None]
    live: bool = False


def _unchecked(_steps: Sequence[Step]) -> None:
    """Each step has read back what it wrote."""


#: Where only areas are applied
NOTHING = First(tuple, _unchecked)


#: Where nothing is known of other areas than those asked for
NO_KINDS: Mapping[str, Kind] = MappingProxyType({})


def admit(plan: Plan) -> None:
    """The gate of a run that is watched: raises DeclarationError for a declaration that is wrong for this
    node, before anything is written. At a boot it costs that row alone, which is refused: see
    boot_run.apply_each()."""
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
    """Make it so, all or nothing. Raises MlnodeError; TransactionError says what was rolled back.

    ask: the areas of one declaration, asked for once this run has the node's lock. confirm_seconds: after
    which a change that may cut off the connection over which it is made is undone, unless it is confirmed
    over a new one; 0 makes it for good. risky: False raises RiskError where there is such a
    change, before anything is written. kinds: those besides the requests' own, of which something may be
    declared on the node that keeps what leaves this declaration.
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
            # A module that is loaded on the way may bring what is missing now, which is judged at its turn.
            loads = any(isinstance(step, LoadModule) for plan in plans for step in plan.steps)
            plans.append(self._plan(request, self._before, admit if loads else self._gate))
        refuse_two_areas(plans)
        leaving = left.leaving(self._host, self._requests, plans, self._before, self._kinds)
        return [
            Outcome(plan, plan.rows, bool(plan.steps or one.steps or one.late), leaving=one)
            for plan, one in zip(plans, leaving)
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
                work.foresee(steps, [entry for one in foreseen for entry in present(self._host, one.plan)])
                if agent:
                    work.perform(agent, check=lambda: first.check(agent), settled=True, notify=False)
                # Before the declaration, so that a run which is killed here finds what leaves once more.
                moved = False
                for outcome in reversed(foreseen):
                    moved = work.perform(outcome.leaving.steps) or moved
                # While a change waits to be confirmed, a power cut must find the declaration that was before;
                # and so must the run after one that was killed before a late step.
                is_last = bool(risks) or any(one.leaving.late for one in foreseen)
                if not is_last:
                    work.perform(shared)
                known = self._before._replace(origins=origin.values())
                plans = self._stages(work, foreseen, known, moved, risky=bool(risks))
                if is_last:
                    work.perform(shared)
                # After the areas, one of which may raise a limit that a unit needs, and the declaration,
                # without which a timer's first check ends at once.
                late = [*agent, *(step for plan in plans for step in plan.steps if is_last)]
                work.perform(_notices(late, _UNITS))
                gone = [str(entry["id"]) for one in foreseen for entry in one.leaving.entries]
                if self._waits:
                    self._waits = _confirm().restart(self._host, self._waits, gone)
                else:
                    forget_left(self._host, gone)
        except BaseException as error:
            # What could not be put back is tried once more when the time is over.
            if self._waits and not getattr(error, "stuck", ()):
                self._disarm()
            raise
        # With the rows as they were before this run, and what was really done.
        done = [
            outcome._replace(plan=outcome.plan._replace(steps=plan.steps))
            for outcome, plan in zip(foreseen, plans)
        ]
        return self._outcomes(done, [*agent, *shared])

    def _stages(
        self, work: Transaction, foreseen: Sequence[Outcome], known: Kept, moved: bool, risky: bool
    ) -> list[Plan]:
        """Perform each area, and return what was done in each. known: with the origin as it becomes. moved: a
        value was put back before, so that each area is planned again at its turn, as it is after an area that
        has written something."""
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
        """All is back, so that a restore which comes nevertheless finds nothing to do."""
        try:
            _confirm().cancel(self._host)
        except MlnodeError:
            pass

    def _outcomes(self, done: Sequence[Outcome], shared: Sequence[Step]) -> Outcomes:
        """With the rows as they are now. By then nothing is rolled back any more."""
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
    """The module confirm, by its name: most areas have nothing to confirm, and need not bring it along."""
    return import_module(".confirm", __package__)


def _refuse_while_pending(host: Host) -> None:
    """Leave an earlier change that waits to the agent, where it cannot be undone here. Raises MlnodeError."""
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
    """A message for each change that may cut off the connection over which it is made."""
    writes = [write for write in kernel_writes(steps) if write.file.risk]
    return [f"{write.key} from {write.file.runtime} to {write.file.want}" for write in writes]


def _words(rows: Sequence[Row]) -> str:
    return "; ".join(f"{row.setting.key}: {row.reading.invalid or row.reason}" for row in rows)


def _try_again(host: Host) -> None:
    """A user watches, so that changes which the agent has given up may be made. Raises HostError."""
    for name in host.names(places.FAILED_CHANGES):
        host.remove_file(f"{places.FAILED_CHANGES}/{name}")
