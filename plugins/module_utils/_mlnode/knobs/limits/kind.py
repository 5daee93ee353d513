# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kind limits: how many files a process may open, how much memory it may lock, and the like.

A process inherits its limits, so there are three who give them: PAM to logins, systemd to all services, and
systemd to a service that says otherwise. Files are read by the next login or start; a daemon that runs keeps
what it was started with, and is not restarted here, as its jobs would die.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Mapping, Sequence

from ...engine.handlers import UNITS
from ...engine.kind import Context, Facts, Row, Spec, never_kept, no_conflicts, no_facts
from ...engine.unit_drop_in import drop_in
from ...host.host import Host, Mounts
from ...linux import daemons, sysctl_d, systemd_conf
from ...model.errors import HostError
from ...model.record import NamedTuple, dataclass
from ...model.setting import Boot, BootFile, Reading, Setting, Value
from . import auto, login, pending
from . import guards as limits_guards
from . import info as limits_info
from . import pam as limits_pam
from . import parse as limits_parse
from . import schema as own
from . import units as limits_units
from .pam import Limits, Line
from .parse import ALL, FILE, FOLDERS, LOGIN, MANAGER, SERVICE_NAMES, Amount, Limit, file_of, taken_apart
from .schema import AUTO
from .units import Assigned, Service

KIND = limits_parse.KIND
OPTIONS = own.OPTIONS
MOUNTS: Mounts = {}

_PAM, _MANAGER = FOLDERS[LOGIN], FOLDERS[MANAGER]
_UNITS = systemd_conf.UNITS[0]

#: What is shown where nothing sets a limit
UNSET = "not set"

_LATE = ", until restarted"
_ONLY_BOOT = "limits are kept in files of the layer boot: declare that, too"
_NO_SYSTEMD = "systemd does not run here"


def parse(spec: Spec, facts: Facts | None) -> list[Setting]:
    """See limits_parse.parse."""
    del facts  # which services there are is asked in read()
    return limits_parse.parse(spec)


@dataclass(frozen=True)
class _Node:
    """Data shared by one run's settings. missing: units that were named and are not installed."""

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
        """Raises HostError."""
        return login.load(self.host)


def read(settings: Sequence[Setting], context: Context) -> list[Reading]:
    """One reading per setting; files and processes are looked for once."""
    try:
        node = _node(context)
    except HostError as error:
        problem = Value(unreadable=str(error))
        return [Reading(setting.path, problem, Boot(problem), setting.want) for setting in settings]
    return [_read_one(setting, node) for setting in settings]


def _node(context: Context) -> _Node:
    host = context.host
    services, missing = limits_units.installed(host, limits_parse.services(context.spec))
    names = {service.process for service in services}
    return _Node(
        context,
        limits_pam.load(host),
        tuple(services),
        tuple(missing),
        daemons.running(host, names) if context.runtime else daemons.Running(()),
        limits_guards.look(host, context.runtime, sysctl_d.load(host)),
        context.runtime and host.systemd_runs(),
    )


def _read_one(setting: Setting, node: _Node) -> Reading:
    _scope, _domain, limit = taken_apart(setting.key)
    try:
        wants = auto.resolved(setting, node.context)
    except HostError as error:
        problem = Value(unreadable=str(error))
        return Reading(setting.path, problem, Boot(problem))
    found = _found(setting, wants or {ALL: Amount(None, None)}, node)
    if not wants:
        return _left(setting, found.runtime, node)
    want, most = _shown(wants), max(wants.values(), key=_hard)
    ceiling, refusal = node.guards.ceiling(limit, most), node.guards.refusal(limit, most)
    runtime = _not_given(found.runtime, want) if ceiling or refusal else found.runtime
    if refusal and found.runtime.unreadable is not None:
        refusal = f"{refusal}; {found.runtime.unreadable}"
    return Reading(
        path=setting.path,
        runtime=runtime if node.context.runtime or found.nowhere else Value(),
        boot=found.boot,
        want=want,
        blocked=ceiling or ("" if node.context.boot or refusal else _ONLY_BOOT),
        refusal=refusal,
        native=True,
        note=found.note if node.context.runtime else "",
        # What a foreign file decides cannot be corrected here, nor what a process was started with.
        at_boot=found.waits or found.boot.foreign,
    )


def _found(setting: Setting, wants: Mapping[str, Amount], node: _Node) -> _Found:
    scope, domain, limit = taken_apart(setting.key)
    try:
        if scope == LOGIN:
            return _login(domain, limit, wants[ALL], node)
        if scope == MANAGER:
            return _manager(limit, wants[ALL], node)
        return _services(limit, wants, node)
    except HostError as error:
        problem = Value(unreadable=str(error))
        return _Found(problem, Boot(problem))


def _left(setting: Setting, now: Value, node: _Node) -> Reading:
    """`auto` where nothing needs it. In an image it is for the machine that boots it."""
    if not node.context.runtime:
        return Reading(setting.path, Value(), node.context.boot_by_agent(setting, None))
    if now.unreadable is None:
        now = Value(text=(now.text or UNSET).replace(_LATE, ""))
    return Reading(setting.path, now, Boot(now), note=auto.LEFT)


def _shown(wants: Mapping[str, Amount]) -> str:
    return limits_parse.shown({name: str(amount) for name, amount in wants.items()})


def _hard(amount: Amount) -> float:
    return math.inf if amount.hard is None else amount.hard


def _not_given(now: Value, want: str) -> Value:
    """A file may set what can no longer be given. That is never as declared: boot_files() leaves such a
    limit out, and would remove it behind a row that is ok."""
    if now.absent is not None:
        return now
    return Value(text=f"{now}, no longer given" if now.text == want else str(now))


class _Found(NamedTuple):
    """waits: a process has to be restarted. nowhere: nothing is here that could have it."""

    runtime: Value
    boot: Boot
    note: str = ""
    waits: bool = False
    nowhere: bool = False


# -- logins --------------------------------------------------------------------------------


def _login(domain: str, limit: Limit, want: Amount, node: _Node) -> _Found:
    """PAM reads its files at each login, so what they say is the present and the next boot at once."""
    pam = node.pam
    if pam.unreadable:
        raise HostError("read", limits_pam.FOLDER, None, pam.unreadable)
    logins = node.logins
    found = pam.of(domain, limit.name)
    boot = _login_boot(domain, want, found, f"{_PAM}/{file_of(node.context.name)}")
    if pam.unused and logins.sshd is None:
        return _Found(Value(absent=pam.unused), boot)
    now = str(found) if found.lines else UNSET
    if found.exempt is not None:
        now = "none at all"
    overridden = login.overridden(pam, logins, domain, limit, want)
    if overridden is None or now != str(want):
        return _Found(Value(text=now), boot, _login_note(domain, limit, want, pam))
    if overridden.unknown:
        return _Found(
            Value(unreadable=overridden.words), Boot(Value(unreadable=overridden.words), overridden.where)
        )
    runtime = Value(text=f"less for {overridden.whom}, else {now}")
    return _Found(runtime, Boot(Value(absent=overridden.words), overridden.where, foreign=True))


def _login_boot(domain: str, want: Amount, found: limits_pam.Found, own: str) -> Boot:
    if found.exempt is not None:
        return Boot(
            Value(absent=f"{found.exempt.where} takes all limits from {domain}"), found.exempt.where, True
        )
    if not found.lines:
        return Boot(Value(absent=f"no line of {_PAM} gives it to {domain}"))
    wrong = [line for line in found.lines if not _agrees(line, want)]
    deciding = (wrong or found.lines)[0]
    # The whole path, as limits.conf is read before limits.d.
    foreign = bool(wrong) and deciding.file.startswith(f"{_PAM}/") and deciding.file > own
    return Boot(Value(text=str(found)), deciding.where, foreign and not _is_ours(deciding.file))


def _agrees(line: Line, want: Amount) -> bool:
    soft, hard = limits_parse.words(want)
    return (line.type == "hard" or line.amount == soft) and (line.type == "soft" or line.amount == hard)


def _login_note(domain: str, limit: Limit, want: Amount, pam: Limits) -> str:
    closer = [line for line in pam.closer(domain, limit.name) if not line.item or not _agrees(line, want)]
    sources = [f"{line.where} says {line.text}" for line in closer if not _is_ours(line.file)]
    if pam.other:
        sources.append(f"{', '.join(pam.other)} has pam_limits read another file")
    return "; ".join(sources)


def _is_ours(path: str) -> bool:
    return path.rpartition("/")[2].startswith(FILE)


# -- systemd -------------------------------------------------------------------------------


def _manager(limit: Limit, want: Amount, node: _Node) -> _Found:
    assigned = limits_units.effective(limit, systemd_conf.manager(node.host, f"Default{limit.key}"))
    boot = _assigned_boot(f"Default{limit.key}", want, assigned, node)
    if not node.systemd:
        return _Found(Value(absent=_NO_SYSTEMD), boot)
    now = limits_units.manager_now(node.host, limit)
    if now == Value():  # a captured tree
        now = Value(text=str(assigned.amount) if assigned.amount else UNSET)
    return _Found(now, boot)


def _assigned_boot(name: str, want: Amount, assigned: Assigned, node: _Node) -> Boot:
    """Result of systemd's files when it reads them again."""
    if assigned.amount is None:
        return Boot(Value(absent=f"nothing sets {name}"))
    later = assigned.file.rpartition("/")[2] > file_of(node.context.name)
    in_drop_in = assigned.file.rpartition("/")[0].endswith(".d")
    foreign = assigned.amount != want and later and in_drop_in and not _is_ours(assigned.file)
    return Boot(Value(text=str(assigned.amount)), assigned.where, foreign)


def _services(limit: Limit, wants: Mapping[str, Amount], node: _Node) -> _Found:
    missing = f"not installed: {', '.join(node.missing)}" if node.missing else ""
    pairs = _with_wants(node.services, wants)
    if not pairs:
        known = SERVICE_NAMES if ALL in wants else wants
        absent = missing or f"none of {', '.join(known)} is installed"
        return _Found(Value(absent=absent), Boot(Value(absent=absent)), nowhere=True)
    boots = [_service_boot(service, limit, want, node) for service, want in pairs]
    wrong = [boot for boot, (_service, want) in zip(boots, pairs) if boot.value.text != str(want)]
    right = Boot(Value(text=_shown(wants)), boots[0].source)
    boot = next((one for one in wrong if one.foreign), (wrong or [right])[0])
    if not node.systemd:
        return _Found(Value(absent=_NO_SYSTEMD), boot)
    if node.seen.hidden:
        return _Found(Value(unreadable=f"some processes are hidden: {node.seen.hidden}"), boot)
    now = [_service_now(service, limit, want, found, node) for (service, want), found in zip(pairs, boots)]
    if now == [(str(want), "") for _service, want in pairs]:
        notes = [missing, *_pending(limit, pairs, boots, node)]
        return _Found(Value(text=_shown(wants)), boot, "; ".join(text for text in notes if text))
    texts: dict[tuple[str, str], list[str]] = {}
    for (service, _want), found_now in zip(pairs, now):
        texts.setdefault(found_now, []).append(service.unit.partition(".")[0])
    words = "; ".join(f"{text} ({', '.join(names)}{late})" for (text, late), names in texts.items())
    return _Found(Value(text=words), boot, missing, any(late for _text, late in texts))


def _with_wants(services: Sequence[Service], wants: Mapping[str, Amount]) -> list[tuple[Service, Amount]]:
    """Each service with the amount that it is to have, without those that are left alone."""
    found = []
    for service in services:
        names = [name.partition(".")[0] for name in service.names]
        own = next((wants[name] for name in names if name in wants), wants.get(ALL))
        if own is not None:
            found.append((service, own))
    return found


def _service_boot(service: Service, limit: Limit, want: Amount, node: _Node) -> Boot:
    assignments = systemd_conf.service(node.host, service.names, limit.key)
    assigned = limits_units.effective(limit, assignments)
    return _assigned_boot(f"{limit.key} of {service.unit}", want, assigned, node)


def _service_now(service: Service, limit: Limit, want: Amount, boot: Boot, node: _Node) -> tuple[str, str]:
    """The limit it runs with, and words where only a restart would change it. What does not run will have
    what its files say."""
    processes = []
    if not _is_for_logins(service, node):
        processes = limits_units.of_processes(node.host, limit, service, node.seen)
    wrong = [now for now, raising in processes if not limits_units.alike(now, want, raising)]
    if wrong:
        return str(wrong[0]), _LATE
    return str(want) if processes else boot.value.text or UNSET, ""


def _pending(
    limit: Limit, pairs: Sequence[tuple[Service, Amount]], boots: Sequence[Boot], node: _Node
) -> list[str]:
    """Daemons whose own limits affect no job, and that run with others than they will."""
    return [
        pending.words(service.process, service.unit, str(now), str(want))
        for (service, want), boot in zip(pairs, boots)
        if _is_for_logins(service, node) and boot.value.text == str(want)
        for now, raising in limits_units.of_processes(node.host, limit, service, node.seen)
        if not limits_units.alike(now, want, raising)
    ]


def _is_for_logins(service: Service, node: _Node) -> bool:
    """True for sshd if logins are declared: its sessions have the limits of pam_limits(8), not its own."""
    return service.process == "sshd" and node.context.spec.get("domains") != []


# -- files ---------------------------------------------------------------------------------


def boot_files(name: str, rows: Sequence[Row], context: Context) -> list[BootFile]:
    """Three kinds of file: for logins, for all services, and one for each service that is installed."""
    logins: list[str] = []
    manager: list[str] = []
    own: dict[str, list[str]] = {f"{known}.service": [] for known in SERVICE_NAMES}
    services: list[Service] | None = None
    stale = False
    for row in rows:
        if not _is_carried(row):
            continue
        scope, domain, limit = taken_apart(row.setting.key)
        wants = limits_parse.wanted(limit, row.reading.want or "")
        mark = auto.mark(row.setting, row.reading.want or "", context)
        if scope == LOGIN:
            logins += [line for line in mark if line not in logins]
            logins += [f"{domain} {kind} {limit.name} {text}" for kind, text in wants[ALL].in_pam(limit)]
        elif scope == MANAGER:
            manager += mark
            manager.append(f"Default{limit.key}={wants[ALL].in_systemd()}")
            stale = stale or _is_stale(row)
        else:
            if services is None:
                services = limits_units.installed(context.host, limits_parse.services(context.spec))[0]
            for service, want in _with_wants(services, wants):
                own[service.unit] += [*mark, f"{limit.key}={want.in_systemd()}"]
    file = file_of(name)
    return [
        BootFile(f"{_PAM}/{file}", _content(name, logins)),
        BootFile(f"{_MANAGER}/{file}", _content(name, manager, "[Manager]"), UNITS, stale),
        *(
            drop_in(context, unit, f"{_UNITS}/{unit}.d/{file}", _content(name, lines, "[Service]"))
            for unit, lines in own.items()
        ),
    ]


def _is_carried(row: Row) -> bool:
    """True if the files hold it; else its status says so: see _not_given()."""
    reading = row.reading
    left = reading.want is None or reading.runtime.absent is not None
    return not (reading.refusal or reading.blocked or left)


def _is_stale(row: Row) -> bool:
    """True if the files are right, and systemd has not read them since."""
    reading = row.reading
    now, at_boot = reading.runtime.text, reading.boot.value.text
    return now is not None and at_boot == reading.want and now != reading.want


def _content(name: str, lines: Sequence[str], section: str = "") -> bytes | None:
    if not lines:
        return None
    head = [
        f"# Written by mlnode.tuning for the declaration {name}; edits are overwritten.",
        f"# Declared in /etc/mlnode/declared.d/{name}.json; see: mlnode explain KEY",
        *([section] if section else []),
    ]
    return "\n".join([*head, *lines, ""]).encode("ascii")


# -- the rest of a kind --------------------------------------------------------------------


def boot_sources(key: str, host: Host) -> list[str]:
    """Every line that gives the limit, in the order in which they count. Raises HostError."""
    scope, _domain, limit = taken_apart(key)
    if scope == LOGIN:
        lines = limits_pam.load(host).lines
        return [f"{line.where}: {line.text}" for line in lines if line.item in ("", limit.name)]
    if scope == MANAGER:
        name = f"Default{limit.key}"
        return [f"{one.where}: {name}={one.value}" for one in systemd_conf.manager(host, name)]
    services, _missing = limits_units.installed(host, (AUTO,))
    return [
        f"{one.where}: {limit.key}={one.value}"
        for service in services
        for one in systemd_conf.service(host, service.names, limit.key)
    ]


#: Never: each limit stands for itself.
conflicts = no_conflicts
facts = no_facts
keeps = never_kept
info = limits_info.info
