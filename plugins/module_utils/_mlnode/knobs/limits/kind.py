# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kind limits: number of open files, locked memory and other limits of a process.

A process inherits its limits from one of three sources: PAM for logins, systemd's default for services, or a
service's own unit. They apply from the next login or start. A running daemon keeps its limits, and is not
restarted here, as its jobs would die.
"""

from __future__ import annotations

import math
from typing import Any, Callable, Mapping, Sequence

from ...engine.handlers import UNITS
from ...engine.kind import Context, Facts, Info, Kind, Row
from ...engine.unit_drop_in import drop_in
from ...host.host import Host
from ...linux import daemons, sysctl_d, systemd_conf
from ...model.errors import HostError
from ...model.schema import Checked, Option
from ...model.setting import EXACTLY, Boot, BootFile, Reading, Setting, Severity, Value
from .. import own_file
from . import auto, floors, scopes
from . import guards as limits_guards
from . import info as limits_info
from . import pam as limits_pam
from . import parse as limits_parse
from . import schema as own
from . import units as limits_units
from .floors import Floor
from .parse import ALL, FOLDERS, LOGIN, MANAGER, SERVICE_NAMES, Amount, Limit, Wanted, file_of, taken_apart
from .schema import AUTO
from .units import Service

_PAM, _MANAGER = FOLDERS[LOGIN], FOLDERS[MANAGER]
_UNITS = systemd_conf.UNITS[0]

_ONLY_BOOT = "limits are kept in files of the layer boot: declare that, too"


def _given(setting: Setting, wants: Mapping[str, Wanted], node: scopes.Node) -> scopes.Given:
    scope, domain, limit = taken_apart(setting.key)
    try:
        if scope == LOGIN:
            return scopes.of_login(domain, limit, wants[ALL], node)
        if scope == MANAGER:
            return scopes.of_manager(limit, wants[ALL], node)
        return scopes.of_services(limit, wants, node)
    except HostError as error:
        problem = Value(unreadable=str(error))
        return scopes.Given(problem, Boot(problem))


def _left(setting: Setting, now: Value, node: scopes.Node) -> Reading:
    """The reading of `auto` if nothing needs it. In an image, the machine that boots it decides."""
    if not node.context.runtime:
        return Reading(setting.path, Value(), node.context.boot_by_agent(setting, None))
    if now.unreadable is None:
        now = Value(text=(now.text or scopes.UNSET).replace(scopes.LATE, ""))
    return Reading(setting.path, now, Boot(now), note=auto.LEFT)


def _hard(amount: Amount) -> float:
    return math.inf if amount.hard is None else amount.hard


def _not_given(now: Value, want: str) -> Value:
    """Runtime of a limit in mlnode's file that can no longer be given. It never matches the declaration:
    boot_files() omits the limit, and must not remove it while the row is ok.
    """
    if now.absent is not None:
        return now
    return Value(text=f"{now}, no longer given" if now.text == want else str(now))


# -- files ---------------------------------------------------------------------------------


def _in_pam(floor: Floor, limit: Limit) -> list[tuple[str, str]]:
    """Lines for logins. The node's own, higher limits are not repeated: systemd may cap a number that
    pam_limits would then refuse, and every login with it.
    """
    soft, hard = floor.kept_parts
    if soft == hard:
        return [] if soft else floor.amount.in_pam(limit)
    return [floor.amount.lines(limit)[0 if hard else 1]]


def _floor(wanted: Wanted, base: Callable[..., Amount], *where: Any) -> Floor:
    """Limit to write and its base. If a file cannot be read, the row is unknown and the file keeps the
    declared amount.
    """
    try:
        return Floor(wanted, base(*where))
    except HostError:
        return Floor(wanted, floors.NOTHING)


def _all_wants(rows: Sequence[Row], limit: Limit, context: Context) -> list[Wanted]:
    """All declared amounts of one limit, for logins and services."""
    settings = (row.setting for row in rows if taken_apart(row.setting.key)[2] == limit)
    return [wanted for setting in settings for wanted in auto.resolved(setting, context).values()]


def _is_carried(row: Row) -> bool:
    """True if the files hold it; otherwise its status explains why, see _not_given()."""
    reading = row.reading
    left = reading.want is None or reading.runtime.absent is not None
    return not (reading.refusal or reading.blocked or left)


def _is_stale(row: Row) -> bool:
    """True if the files are right, but systemd has not read them since."""
    reading = row.reading
    now, at_boot = reading.runtime.text, reading.boot.value.text
    return now is not None and at_boot == reading.want and now != reading.want


class LimitsKind(Kind):
    KIND = limits_parse.KIND
    OPTIONS = own.OPTIONS

    def parse(self, given: Checked, facts: Facts | None) -> list[Setting]:
        return limits_parse.parse(given)

    def look(self, settings: Sequence[Setting], context: Context) -> scopes.Node:
        """Files and processes."""
        host = context.host
        services, missing = limits_units.installed(host, limits_parse.services(context.spec))
        names = {service.process for service in services}
        return scopes.Node(
            context,
            limits_pam.load(host),
            tuple(services),
            tuple(missing),
            daemons.running(host, names) if context.runtime else daemons.Running(()),
            limits_guards.look(host, context.runtime, sysctl_d.load(host)),
            context.runtime and host.systemd_runs(),
        )

    def read_one(self, setting: Setting, node: scopes.Node) -> Reading:
        _scope, _domain, limit = taken_apart(setting.key)
        wants = auto.resolved(setting, node.context)
        given = _given(setting, wants or {ALL: Wanted(Amount(None, None))}, node)
        if not wants:
            return _left(setting, given.runtime, node)
        want = given.want or scopes.shown(wants)
        most = max((wanted.amount for wanted in wants.values()), key=_hard)
        ceiling, refusal = node.guards.ceiling(limit, most), node.guards.refusal(limit, most)
        runtime = _not_given(given.runtime, want) if ceiling or refusal else given.runtime
        if refusal and given.runtime.unreadable is not None:
            refusal = f"{refusal}; {given.runtime.unreadable}"
        return Reading(
            path=setting.path,
            runtime=runtime if node.context.runtime or given.nowhere else Value(),
            boot=given.boot,
            want=want,
            blocked=ceiling or ("" if node.context.boot or refusal else _ONLY_BOOT),
            refusal=refusal,
            note=given.note if node.context.runtime else "",
            # A foreign file's setting cannot be corrected here, nor can the limits of a running process.
            at_boot=given.waits or given.boot.foreign,
            lowers=f"{given.lowers}, {EXACTLY}" if given.lowers else "",
        )

    def boot_files(self, name: str, rows: Sequence[Row], context: Context) -> list[BootFile]:
        """Three kinds of files: one for logins, one for all services, and one for each installed service."""
        logins: list[str] = []
        manager: list[str] = []
        own: dict[str, list[str]] = {f"{known}.service": [] for known in SERVICE_NAMES}
        services: list[Service] | None = None
        stale = False
        live = context.runtime and context.host.systemd_runs()
        pam = limits_pam.load(context.host) if rows else limits_pam.Limits(())
        for row in rows:
            if not _is_carried(row):
                continue
            scope, domain, limit = taken_apart(row.setting.key)
            wants, mark = auto.resolved(row.setting, context), auto.mark(row.setting, context)
            if scope == LOGIN:
                floor = _floor(wants[ALL], floors.of_login, context.host, pam, domain, limit, live)
                lines = [f"{domain} {kind} {limit.name} {text}" for kind, text in _in_pam(floor, limit)]
                logins += [line for line in mark if lines and line not in logins] + lines
            elif scope == MANAGER:
                floor = _floor(wants[ALL], floors.of_manager, context.host, limit, live)
                if not floor.kept:
                    manager += [*mark, *floors.mark(limit, floor.base, _all_wants(rows, limit, context))]
                    manager.append(f"Default{limit.key}={floor.amount.in_systemd()}")
                stale = stale or _is_stale(row)
            else:
                if services is None:
                    services = limits_units.installed(context.host, limits_parse.services(context.spec))[0]
                for service, wanted in scopes.with_wants(services, wants):
                    floor = _floor(wanted, floors.of_service, context.host, limit, service, live)
                    if not floor.kept:
                        own[service.unit] += [*mark, f"{limit.key}={floor.amount.in_systemd()}"]
        file = file_of(name)
        return [
            BootFile(f"{_PAM}/{file}", own_file.content(name, logins)),
            BootFile(f"{_MANAGER}/{file}", own_file.content(name, manager, "[Manager]"), UNITS, stale),
            *(
                drop_in(
                    context, unit, f"{_UNITS}/{unit}.d/{file}", own_file.content(name, lines, "[Service]")
                )
                for unit, lines in own.items()
            ),
        ]

    def boot_sources(self, key: str, host: Host) -> list[str]:
        """Every line that sets the limit, in order of precedence. Raises HostError."""
        scope, _domain, limit = taken_apart(key)
        if scope == LOGIN:
            lines = limits_pam.load(host).lines
            return [f"{line.where}: {line.text}" for line in lines if line.item in ("", limit.name)]
        if scope == MANAGER:
            name = f"Default{limit.key}"
            return [f"{line.where}: {name}={line.value}" for line in systemd_conf.manager(host, name)]
        services, _missing = limits_units.installed(host, (AUTO,))
        return [
            f"{line.where}: {limit.key}={line.value}"
            for service in services
            for line in systemd_conf.service(host, service.names, limit.key)
        ]

    def option(self, key: str) -> Option:
        return self.OPTIONS[taken_apart(key)[2].name]

    def info(self, key: str, runtime: Value) -> Info:
        """Severity and reason; a limit that suffices for most programs lowers the severity."""
        info, (scope, _domain, limit) = super().info(key, runtime), taken_apart(key)
        enough = limit.name == "nofile" and limits_info.has_files(scope, runtime.text or "")
        return info._replace(severity=Severity.LOW) if enough else info


kind = LimitsKind()
