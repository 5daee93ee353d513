# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""State of a limit now and at the next boot, by source: PAM for logins, systemd for all services, or a
service's unit.
"""

from __future__ import annotations

from functools import cached_property
from typing import Iterable, Mapping, Sequence

from ...engine.kind import Context
from ...host.host import Host
from ...linux import daemons, systemd_conf
from ...model.errors import HostError
from ...model.record import NamedTuple, dataclass
from ...model.setting import Boot, Value
from . import floors, login, pending
from . import guards as limits_guards
from . import pam as limits_pam
from . import parse as limits_parse
from . import units as limits_units
from .floors import Floor
from .pam import Limits, Line
from .parse import ALL, FOLDERS, LOGIN, SERVICE_NAMES, Amount, Limit, Wanted, file_of
from .units import Assigned, Service

_PAM = FOLDERS[LOGIN]

#: Shown if nothing sets a limit
UNSET = "not set"
#: Shown as the place of a limit that no line of a file sets
UNSET_ANYWHERE = "no file sets it"
#: Shown after a daemon's limit if its files now say otherwise
LATE = ", until restarted"
_NO_SYSTEMD = "systemd does not run here"


@dataclass(frozen=True)
class Node:
    """Data shared by one run's settings. missing: declared units that are not installed."""

    context: Context
    pam: Limits
    services: tuple[Service, ...]
    missing: tuple[str, ...]
    seen: daemons.Running
    guards: limits_guards.Guards
    systemd: bool

    @property
    def host(self) -> Host:
        return self.context.host

    @cached_property
    def logins(self) -> login.Logins:
        """Files that decide the limits of logins. Raises HostError."""
        return login.load(self.host)


class Given(NamedTuple):
    """State of one limit.

    waits: a process has to be restarted. nowhere: the node has nothing with this limit. want: the limit to
    reach, if a part of the node is known to have more than declared. lowers: as in Reading.
    """

    runtime: Value
    boot: Boot
    note: str = ""
    waits: bool = False
    nowhere: bool = False
    want: str = ""
    lowers: str = ""


def shown(wants: Mapping[str, Wanted]) -> str:
    return limits_parse.shown({name: str(wanted.amount) for name, wanted in wants.items()})


# -- logins --------------------------------------------------------------------------------


def of_login(domain: str, limit: Limit, wanted: Wanted, node: Node) -> Given:
    """State of logins. PAM reads its files at each login, so now and the next boot are the same."""
    pam = node.pam
    if pam.unreadable:
        raise HostError("read", limits_pam.FOLDER, None, pam.unreadable)
    logins = node.logins
    limits = pam.login_limits(domain, limit.name)
    floor = Floor(wanted, floors.of_login(node.host, pam, domain, limit, node.systemd))
    want = floor.amount
    boot = _login_boot(domain, want, limits, f"{_PAM}/{file_of(node.context.name)}")
    if pam.unused and not logins.causes:
        return Given(Value(absent=pam.unused), boot)
    now = str(limits) if limits.lines else UNSET
    if limits.exempt is not None:
        now = "none at all"
    elif floors.completed(limits, floor) == want:
        # A login inherits missing limits from systemd's default.
        now = str(want)
        boot = Boot(Value(text=now), limits.lines[0].where if limits.lines else UNSET_ANYWHERE)
    given = Given(Value(text=now), boot, "", want=str(want), lowers=floor.lowers)
    overridden = login.overridden(pam, logins, domain, limit, wanted.amount)
    if overridden is None or now != str(want):
        notes = [_login_note(domain, limit, want, node), _more(floor.more)]
        return given._replace(note="; ".join(filter(None, notes)))
    if overridden.unknown:
        problem = Value(unreadable=overridden.words)
        return given._replace(runtime=problem, boot=Boot(problem, overridden.where))
    runtime = Value(text=f"less for {overridden.whom}, else {now}")
    return given._replace(
        runtime=runtime, boot=Boot(Value(absent=overridden.words), overridden.where, foreign=True)
    )


def _more(text: str) -> str:
    return f"{text} is more than declared" if text else ""


def _login_boot(domain: str, want: Amount, limits: limits_pam.Found, own: str) -> Boot:
    if limits.exempt is not None:
        return Boot(
            Value(absent=f"{limits.exempt.where} takes all limits from {domain}"), limits.exempt.where, True
        )
    if not limits.lines:
        return Boot(Value(absent=f"no line of {_PAM} gives it to {domain}"))
    wrong = [line for line in limits.lines if not _agrees(line, want)]
    deciding = (wrong or limits.lines)[0]
    folder, _slash, name = deciding.file.rpartition("/")
    # limits.conf is read before limits.d, whose files count by name across both folders.
    foreign = bool(wrong) and folder.endswith("/limits.d") and name > own.rpartition("/")[2]
    return Boot(Value(text=str(limits)), deciding.where, foreign and not floors.is_ours(deciding.file))


def _agrees(line: Line, want: Amount) -> bool:
    soft, hard = limits_parse.words(want)
    return (line.type == "hard" or line.amount == soft) and (line.type == "soft" or line.amount == hard)


def _login_note(domain: str, limit: Limit, want: Amount, node: Node) -> str:
    closer = [
        line for line in node.pam.closer(domain, limit.name) if not line.item or not _agrees(line, want)
    ]
    sources = [f"{line.where} says {line.text}" for line in closer if not floors.is_ours(line.file)]
    return "; ".join(sources)


# -- systemd -------------------------------------------------------------------------------


def of_manager(limit: Limit, wanted: Wanted, node: Node) -> Given:
    floor = Floor(wanted, floors.of_manager(node.host, limit, node.systemd))
    want = floor.amount
    assigned = limits_units.effective(limit, systemd_conf.manager(node.host, f"Default{limit.key}"))
    boot = _assigned_boot(f"Default{limit.key}", floor, assigned, node)
    if not node.systemd:
        return Given(Value(absent=_NO_SYSTEMD), boot)
    now = limits_units.manager_now(node.host, limit)
    if now == Value():  # A captured tree
        now = Value(text=str(assigned.amount) if assigned.amount else UNSET)
    return Given(now, boot, _more(floor.more), want=str(want), lowers=floor.lowers)


def _assigned_boot(name: str, floor: Floor, assigned: Assigned, node: Node) -> Boot:
    """Result of systemd's files at their next reading."""
    want = floor.amount
    if assigned.amount is None and floor.kept:
        return Boot(Value(text=str(want)), UNSET_ANYWHERE)
    if assigned.amount is None:
        return Boot(Value(absent=f"nothing sets {name}"))
    later = assigned.file.rpartition("/")[2] > file_of(node.context.name)
    in_drop_in = assigned.file.rpartition("/")[0].endswith(".d")
    foreign = assigned.amount != want and later and in_drop_in and not floors.is_ours(assigned.file)
    return Boot(Value(text=str(assigned.amount)), assigned.where, foreign)


def of_services(limit: Limit, wants: Mapping[str, Wanted], node: Node) -> Given:
    missing = f"not installed: {', '.join(node.missing)}" if node.missing else ""
    pairs = [
        (service, Floor(wanted, floors.of_service(node.host, limit, service, node.systemd)))
        for service, wanted in with_wants(node.services, wants)
    ]
    if not pairs:
        known = SERVICE_NAMES if ALL in wants else wants
        absent = missing or f"none of {', '.join(known)} is installed"
        return Given(Value(absent=absent), Boot(Value(absent=absent)), nowhere=True)
    boots = [_service_boot(service, limit, floor, node) for service, floor in pairs]
    wrong = [boot for boot, (_service, floor) in zip(boots, pairs) if boot.value.text != str(floor.amount)]
    more = _of_whom((floor.more, service) for service, floor in pairs)
    lowers = _of_whom((floor.lowers, service) for service, floor in pairs)
    all_of_them = shown(wants)
    if more:
        all_of_them = _of_whom((str(floor.amount), service) for service, floor in pairs)
    right = Boot(Value(text=all_of_them), boots[0].source)
    boot = next((boot for boot in wrong if boot.foreign), (wrong or [right])[0])
    if not node.systemd:
        return Given(Value(absent=_NO_SYSTEMD), boot)
    if node.seen.hidden:
        return Given(Value(unreadable=f"some processes are hidden: {node.seen.hidden}"), boot)
    now = [
        _service_now(service, limit, floor, own_boot, node)
        for (service, floor), own_boot in zip(pairs, boots)
    ]
    given = Given(Value(text=all_of_them), boot, missing, want=all_of_them, lowers=lowers)
    if now == [(str(floor.amount), "") for _service, floor in pairs]:
        notes = [missing, *_pending(limit, pairs, boots, node), _more(more)]
        return given._replace(note="; ".join(text for text in notes if text))
    texts: dict[tuple[str, str], list[str]] = {}
    for (service, _floor), limit_now in zip(pairs, now):
        texts.setdefault(limit_now, []).append(service.unit.partition(".")[0])
    summary = "; ".join(f"{text} ({', '.join(names)}{late})" for (text, late), names in texts.items())
    notes = [missing, _more(more)]
    return given._replace(
        runtime=Value(text=summary),
        note="; ".join(text for text in notes if text),
        waits=any(late for _text, late in texts),
    )


def _of_whom(pairs: Iterable[tuple[str, Service]]) -> str:
    """`unlimited (containerd); 1024:1048576 (kubelet)`, without empty texts."""
    return limits_parse.named((text, service.unit.partition(".")[0]) for text, service in pairs if text)


def with_wants(services: Sequence[Service], wants: Mapping[str, Wanted]) -> list[tuple[Service, Wanted]]:
    """Each service with its wanted amount, without services that are left alone."""
    pairs = []
    for service in services:
        names = [name.partition(".")[0] for name in service.names]
        own = next((wants[name] for name in names if name in wants), wants.get(ALL))
        if own is not None:
            pairs.append((service, own))
    return pairs


def _service_boot(service: Service, limit: Limit, floor: Floor, node: Node) -> Boot:
    assignments = systemd_conf.service(node.host, service.names, limit.key)
    assigned = limits_units.effective(limit, assignments)
    return _assigned_boot(f"{limit.key} of {service.unit}", floor, assigned, node)


def _service_now(service: Service, limit: Limit, floor: Floor, boot: Boot, node: Node) -> tuple[str, str]:
    """The limit of the running service, and words if only a restart would change it.

    A service that does not run will have the limit of its files.
    """
    processes = []
    if not _is_for_logins(service, node):
        processes = limits_units.of_processes(node.host, limit, service, node.seen)
    wrong = [now for now, raising in processes if not _is_right(now, floor, raising)]
    if wrong:
        return str(wrong[0]), LATE
    return str(floor.amount) if processes else boot.value.text or UNSET, ""


def _is_right(now: Amount, floor: Floor, raising: bool) -> bool:
    return floor.suffices(now) or limits_units.alike(now, floor.amount, raising)


def _pending(
    limit: Limit, pairs: Sequence[tuple[Service, Floor]], boots: Sequence[Boot], node: Node
) -> list[str]:
    """Daemons whose own limits affect no job, and which differ from their files."""
    return [
        pending.words(service.process, service.unit, str(now), str(floor.amount))
        for (service, floor), boot in zip(pairs, boots)
        if _is_for_logins(service, node) and boot.value.text == str(floor.amount)
        for now, raising in limits_units.of_processes(node.host, limit, service, node.seen)
        if not _is_right(now, floor, raising)
    ]


def _is_for_logins(service: Service, node: Node) -> bool:
    """True for sshd if logins are declared: its sessions have the limits of pam_limits(8), not its own."""
    return service.process == "sshd" and node.context.spec.get("domains") != []
