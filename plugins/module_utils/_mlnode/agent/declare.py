# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A declaration as a playbook hands it over: applied or checked, and what became of each area."""

from __future__ import annotations

from importlib import import_module
from types import MappingProxyType
from typing import Any, Callable, Iterable, Mapping, Sequence

from ..engine import declared, engine, origin
from ..engine.declared import Spec
from ..engine.engine import NOTHING, First, Outcome, Outcomes
from ..engine.judge import waits_for_boot
from ..engine.kind import AGENT_UNDONE, Kind, Row
from ..engine.plan import Plan, Request
from ..host import places
from ..host.host import Host
from ..model.errors import DeclarationError, MlnodeError, RiskError, paragraphs, printable, several
from ..model.record import NamedTuple, dataclass, field
from ..model.setting import BOTH_LAYERS, Layer, Status
from ..report.diff import closed, diff

#: Keys in one message; the result has all of them
_NAMED = 3


def _not_kept(_host: Host, _outcomes: Sequence[Outcome]) -> str:
    """Only the agent keeps a history."""
    return ""


class Order(NamedTuple):
    """Request of a playbook.

    areas: area → its specification; an empty one removes the area from the declaration. selected: the areas
    that may be changed, in the order of application. whole: also remove selected areas that `areas` lacks.
    leave: removed settings keep their value instead of their origin being restored. first, risky: as in
    engine.apply_together(). diff: return changes as before/after pairs, too. after: called once a run has
    changed the node; returns a warning or "". profile: area → the part of its specification that comes from a
    profile; the operator has declared the rest.
    """

    name: str
    kinds: Mapping[str, Kind]
    areas: Mapping[str, Spec]
    selected: tuple[str, ...]
    layers: tuple[Layer, ...] = BOTH_LAYERS
    on_unsupported: str = "warn"
    whole: bool = False
    leave: bool = False
    check: bool = False
    confirm_seconds: int = 0
    first: First = NOTHING
    risky: bool = True
    diff: bool = True
    after: Callable[[Host, Sequence[Outcome]], str] = _not_kept
    profile: Mapping[str, Spec] = MappingProxyType({})


@dataclass
class Result:
    """Result that Ansible shows.

    areas: area → the result of the module for it alone. unsupported: the warnings about settings that the
    node lacks. unsupported_overrides: see overrides(). risks: why nothing was done, if order.risky is False.
    """

    changed: bool = False
    areas: dict[str, dict[str, Any]] = field(default_factory=dict)
    diff: list[dict[str, str]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    unsupported: list[str] = field(default_factory=list)
    unsupported_overrides: list[str] = field(default_factory=list)
    reboot_required: bool = False
    confirm: dict[str, Any] = field(default_factory=dict)
    failed: bool = False
    msg: str = ""
    risks: str = ""


def run(host: Host, order: Order) -> Result:
    """Check or apply a declaration. Never raises: what went wrong is in `msg`."""
    result = Result()
    try:
        if order.check:
            outcomes = engine.preview(host, requests(host, order), _gate(order), order.first, order.kinds)
        else:
            outcomes = engine.apply_together(
                host,
                lambda: requests(host, order),
                _gate(order),
                confirm_seconds=order.confirm_seconds,
                first=order.first,
                risky=order.risky,
                kinds=order.kinds,
            )
            # An image build must not read the state of its machine, such as the boot ID.
            if outcomes.changed and Layer.RUNTIME in order.layers:
                problem = order.after(host, outcomes.outcomes)
                result.warnings += [printable(problem)] if problem else []
        _fill(result, host, order, outcomes)
    except RiskError as error:
        result.risks = str(error)
        return result
    except MlnodeError as error:
        area = getattr(error, "area", "") or getattr(error.__cause__, "area", "")
        result.failed, result.msg = True, paragraphs(f"{area} {order.name}".strip() + f": {error}")
    result.warnings += undone(host, order.check)
    return result


def requests(host: Host, order: Order) -> list[Request]:
    """The areas that this is about, in the order in which they are applied. Raises MlnodeError."""
    old = declared.load(host, declared.check_name(order.name))
    before = old.kinds if old and order.whole else {}
    asked = []
    for area in order.selected:
        if area not in before and area not in order.areas:
            continue
        kind = order.kinds[area]
        try:
            spec = kind.checked(order.areas.get(area, {}))
        except DeclarationError as error:
            error.area = area
            raise
        # A playbook that has a variable for each area names all of them, and most are empty on most nodes.
        if spec or area in before or not order.whole:
            profile = _keys(kind, order.profile.get(area, {}))
            asked.append(Request(order.name, kind, spec, order.layers, leave=order.leave, profile=profile))
    return asked


def _keys(kind: Kind, spec: Spec) -> frozenset[str]:
    """The settings of a profile's part of a specification."""
    if not spec:
        return frozenset()
    # Imported by name: a module of one area does not ship it.
    keys: frozenset[str] = import_module("..engine.partial", __package__).keys(kind, spec)
    return keys


def _gate(order: Order) -> Callable[[Plan], None]:
    def gate(plan: Plan) -> None:
        engine.admit(plan)
        if order.on_unsupported == "fail":
            lacking = [row for row in plan.rows if _lacks(row)]
            causes = [row for row in lacking if not row.reading.refers]
            if lacking:
                raise MlnodeError(f"unsupported, and nothing was changed: {_words(causes)}")

    return gate


def _lacks(row: Row) -> bool:
    """True if the kernel or a device has no such setting, although the declaration is for it."""
    return (row.status is Status.UNSUPPORTED and not row.reading.elsewhere) or row.reading.missing


def _fill(result: Result, host: Host, order: Order, outcomes: Outcomes) -> None:
    result.changed = outcomes.changed
    # First, as what cannot be shown is confirmed all the same.
    if outcomes.waits:
        result.confirm = {"id": outcomes.waits.id, "seconds": outcomes.waits.left}
    result.warnings += outcomes.unfinished
    steps = [*outcomes.shared, *(step for outcome in outcomes.outcomes for step in outcome.steps)]
    hidden = closed(host, steps) if order.diff else set()
    result.diff = diff(outcomes.shared, hidden=hidden) if order.diff else []
    stays: list[str] = []
    for outcome in outcomes.outcomes:
        area = outcome.plan.area
        facts = order.kinds[area].facts(host, outcome.rows)
        waits = waits_for_boot(outcome.rows)
        result.areas[area] = {
            "changed": outcome.changed,
            "settings": [row.document() for row in outcome.rows],
            "reboot_required": waits,
            **facts,
        }
        if order.diff:
            result.diff += diff(outcome.steps, area if len(outcomes.outcomes) > 1 else "", hidden)
        before = f"{area}: " if len(outcomes.outcomes) > 1 else ""
        stays += [before + text for text in outcome.leaving.stays]
        result.reboot_required = result.reboot_required or waits
    rows = [row for outcome in outcomes.outcomes for row in outcome.rows]
    loud = [(status, printable(text)) for status, text in _loud(order, rows)]
    result.warnings += [*(text for _status, text in loud), *map(printable, stays)]
    result.unsupported_overrides = overrides(rows)
    result.unsupported = [text for status, text in loud if status is Status.UNSUPPORTED]
    lacking = [row for row in rows if _lacks(row)]
    if lacking and order.on_unsupported == "fail":  # as a device has shown in this run
        result.failed = True
        result.msg = paragraphs(f"{order.name}: unsupported: {_words(lacking)}; all else is applied")
    if outcomes.refused:
        done = "is applied" if not order.check else "would be applied"
        result.failed = True
        result.msg = paragraphs(f"{order.name}: refused: {_words(outcomes.refused)}; all else {done}")


def overrides(rows: Iterable[Row]) -> list[str]:
    """`KEY: reason` of each setting that an operator declared and the node has not: a profile may ask for
    more than each node has, and what an inventory asks for by name was expected there."""
    own = (row for row in rows if row.status is Status.UNSUPPORTED and not row.by_profile)
    return [printable(f"{row.setting.key}: {row.reason}") for row in own]


def _loud(order: Order, rows: Sequence[Row]) -> list[tuple[Status, str]]:
    """A message for each setting that deviates from its declaration, or cannot be set; settings with one
    cause share a message."""
    loud = {Status.OVERRIDDEN, Status.CLAMPED, Status.DRIFTED, Status.UNKNOWN}
    if order.check:
        loud.discard(Status.DRIFTED)  # check mode exists to show it, and the diff contains it
    if order.on_unsupported == "warn":
        loud.add(Status.UNSUPPORTED)
    return _messages(
        row
        for row in rows
        if (row.status in loud or row.reading.missing) and not (row.reading.refers or row.reading.elsewhere)
    )


def _messages(rows: Iterable[Row]) -> list[tuple[Status, str]]:
    """One message for each status and cause. The path of the setting is not part of the cause."""
    alike: dict[tuple[Status, str], list[Row]] = {}
    for row in rows:
        path = row.reading.path
        cause = row.reason.replace(path, "its file") if path else row.reason
        alike.setdefault((row.status, cause), []).append(row)
    return [(status, _message(status, cause, of_cause)) for (status, cause), of_cause in alike.items()]


def _message(status: Status, cause: str, rows: Sequence[Row]) -> str:
    if len(rows) == 1:
        return f"{rows[0].setting.key} is {status}: {rows[0].reason}"
    keys = [row.setting.key for row in rows]
    return f"{several(keys, _NAMED)} are {status}: {cause}"


def undone(host: Host, check: bool) -> list[str]:
    """The message about a change that undid itself: given by the next run, once; a damaged store by each."""
    undone_change = host.value(AGENT_UNDONE).text
    warnings = [printable(text) for text in (origin.note(host), undone_change) if text]
    if undone_change and not check and host.is_superuser():
        try:
            host.remove_file(places.UNDONE)
            host.remove_folder_if_empty(places.UNDONE.rpartition("/")[0], may_stay=True)
        except MlnodeError as error:
            warnings.append(printable(str(error)))
    return warnings


def _words(rows: Sequence[Row]) -> str:
    return "; ".join(f"{row.setting.key}: {row.reason}" for row in rows)
