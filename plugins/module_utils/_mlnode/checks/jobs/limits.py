# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Declared resource limits, as the processes of a job have them (getrlimit(2))."""

from __future__ import annotations

from typing import Iterator, Sequence

from ...engine.kind import Context, Facts
from ...knobs.containers.parse import ULIMITS
from ...knobs.limits import auto, parse, schema
from ...knobs.limits.kind import kind
from ...knobs.limits.parse import ALL, LIMITS, LOGIN, MANAGER, SERVICES, Amount, Limit, Wanted
from ...linux import cgroup_names, daemons
from ...model import values
from ...model.errors import HostError, MlnodeError, printable
from ...model.setting import Value
from ..model import Check, Verdict
from . import remedy
from .model import Node, Place, Process

NAME = "job_limit"
_UNLIMITED = Amount(None, None)
#: Names of the soft and the hard limit in the document
_KEYS = {name: (f"limit {name} soft", f"limit {name} hard") for name in LIMITS}

#: Runtime of a container → the service that its limits come from. Podman has no daemon: the limits of its
#: caller count, such as a login or the unit of Quadlet.
_SERVICES = {"docker": "docker", "containerd": "containerd", "crio": "crio"}
#: Runtimes whose containers a service of systemd starts
_MACHINES = ("lxc", "nspawn")


def checks(place: Place, node: Node) -> Iterator[Check]:
    wants = _wanted(place, node)
    rows = {process.pid: _rows(node, process) for process in place.processes}
    if not any(rows.values()):
        return  # all of its processes have ended
    if not wants:
        subject = place.subject(NAME, source=f"/proc/{place.first.pid}/limits")
        yield node.undeclared(subject, f"no limit is declared for {_words(place)}")
        problems = (value.problem for row in rows.values() for value in row.values() if value.text is None)
        yield from map(subject.unknown, [*problems][:1])  # the other ranks may have other limits
        return
    for name, want in wants.items():
        yield from _limit(place, LIMITS[name], want, rows)


def _rows(node: Node, process: Process) -> dict[str, Value]:
    """Limit → its text; empty for a process that has ended."""
    path = f"/proc/{process.pid}/limits"
    try:
        text = node.host.read(path)
    except HostError as error:
        if node.has_ended(process.about):
            return {}
        text, problem = "", str(error)
    else:
        problem = ""
    # Most processes of a node have the same limits.
    pairs, known = node.host.once(f"limits in {text}", lambda: _parsed(text))
    process.values.update(pairs)
    rows = {**known}
    for name in LIMITS.keys() - known.keys():
        why = problem or f"{path} has no {LIMITS[name].row}"
        rows[name] = Value(unreadable=why)
        process.unknown.update(dict.fromkeys(_KEYS[name], printable(why)))
    return rows


def _parsed(text: str) -> tuple[dict[str, str], dict[str, Value]]:
    """Values for the document, and limit → its text."""
    pairs = {name: daemons.limit(text, limit.row, limit.unit) for name, limit in LIMITS.items()}
    read = {name: pair for name, pair in pairs.items() if pair}
    keyed = {key: word for name, pair in read.items() for key, word in zip(_KEYS[name], pair)}
    return keyed, {name: Value(text=":".join(pair)) for name, pair in read.items()}


def _limit(place: Place, limit: Limit, want: Wanted, rows: dict[int, dict[str, Value]]) -> Iterator[Check]:
    """Checks of one limit: one for the processes with the same amount."""
    by_text: dict[Value, list[Process]] = {}
    for process in place.processes:
        if rows[process.pid]:
            by_text.setdefault(rows[process.pid][limit.name], []).append(process)
    info = kind.info(f"{parse.KIND}.{SERVICES}.{limit.name}", Value())
    expected = str(want.amount) if want.exact or want.amount == _UNLIMITED else f">= {want.amount}"
    for value, processes in by_text.items():
        subject = place.subject(
            NAME, source=f"/proc/{processes[0].pid}/limits", expected=expected, severity=info.severity,
            reason=info.reason, reference=info.source,
        )  # fmt: skip
        target = place.target(processes)
        if value.text is None:
            yield subject.unknown(f"{limit.name}: {value.problem}", target=target)
            continue
        amount = _amount(value.text)
        verdict = Verdict.PASS if _fits(amount, want) else Verdict.FAIL
        advice = remedy.limit(place, limit, _remedy(amount, want)) if verdict is Verdict.FAIL else ""
        yield subject.made(verdict, f"{limit.name} {amount}", target=target, advice=advice)


def _amount(text: str) -> Amount:
    """Soft and hard limit as the kernel prints them, which may be less than a declaration may ask for."""
    soft, hard = (values.number(word) for word in text.split(":"))
    return Amount(soft, hard)


def _remedy(amount: Amount, want: Wanted) -> Amount:
    """The declared amount, which lowers no limit unless it is exact."""
    if want.exact:
        return want.amount
    pairs = zip(amount, want.amount)
    return Amount(*(least if parse.is_within(number, least) else number for number, least in pairs))


def _fits(amount: Amount, want: Wanted) -> bool:
    if want.exact:
        return amount == want.amount
    pairs = ((want.amount.soft, amount.soft), (want.amount.hard, amount.hard))
    return all(parse.is_within(least, number) for least, number in pairs)


def _wanted(place: Place, node: Node) -> dict[str, Wanted]:
    """Limit → its declared amount for this job."""
    scope, service = _scope(place)
    domains = _domains(place, scope)
    key = f"declared limits of {scope} {service} {domains}"
    return {**node.host.once(key, lambda: _declared(node, scope, service, domains)), **place.defaults.ulimits}


def _declared(node: Node, scope: str, service: str, domains: Sequence[str]) -> dict[str, Wanted]:
    amounts_wanted: dict[str, Wanted] = {}
    for declaration in node.declarations:
        try:
            spec = declaration.checked_spec(parse.KIND, schema.OPTIONS)
            context = Context(node.host, Facts(node.host), declaration.name, spec=spec)
            for setting in parse.parse(spec):
                of_scope, domain, limit = parse.taken_apart(setting.key)
                if of_scope == scope and domain in domains:
                    amounts = auto.resolved(setting, context)
                    amount = amounts.get(service, amounts.get(ALL))
                    if amount is not None:
                        amounts_wanted[limit.name] = amount
        except MlnodeError as error:
            node.unclear(declaration, kind.KIND, error)
    return amounts_wanted


def _domains(place: Place, scope: str) -> tuple[str, ...]:
    """Domains of logins that surely count; * is not for root (limits.conf(5))."""
    if scope != LOGIN:
        return ("",)
    return ("root",) if place.first.ids.user == 0 else ("*",)


def _scope(place: Place) -> tuple[str, str]:
    """Scope of the declaration that a job's limits come from, and its service."""
    job = place.first.job
    if job.kind == cgroup_names.SLURM:
        return SERVICES, "slurmd"
    if job.kind == cgroup_names.POD:
        return SERVICES, _SERVICES.get(job.runtime, "containerd")
    if job.runtime in _SERVICES:
        return SERVICES, _SERVICES[job.runtime]
    if ULIMITS in place.defaults.topics:
        return SERVICES, ""
    # systemd starts services; the processes of a scope have the limits of their caller (systemd.scope(5)).
    is_service = job.kind == cgroup_names.UNIT and not job.id.endswith(".scope")
    by_manager = is_service or job.runtime in _MACHINES or cgroup_names.is_in_service(place.first.group.path)
    return (MANAGER, "") if by_manager else (LOGIN, "")


def _words(place: Place) -> str:
    scope, service = _scope(place)
    return f"the service {service}" if service else "logins" if scope == LOGIN else "services"
