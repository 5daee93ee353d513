# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which of the declared settings a service sets to something else."""

from __future__ import annotations

import re
from typing import Any, Iterator, Mapping, NamedTuple

from .. import declared, service_files, sysctl_d, values
from ..errors import HostError, MlnodeError
from ..host import Host
from . import services_tuned, sysctl_parse
from .services_known import SERVICES, TUNED, Service
from .services_tuned import Line

#: As many as fit into a line that people still read; `mlnode explain` has them all
_MOST = 4
#: tuned sets only what raises or lowers a value: `vm.max_map_count=>1048576` (tuned.conf(5))
_MODIFIED = re.compile(r"([<>])\s*([0-9]{1,20})\Z", re.ASCII)


class Rivalry(NamedTuple):
    """words: what is set to something else, and where. where: the first place. note: what is worth knowing
    though nothing is. problem: why nobody can tell."""

    words: str = ""
    where: str = ""
    note: str = ""
    problem: str = ""


def look(host: Host, service: Service) -> Rivalry:
    """Never raises."""
    try:
        wanted = {key: (name, raw) for name, key, raw in wishes(host)}
        if service is SERVICES[TUNED]:
            return _tuned(host, wanted)
    except MlnodeError as error:
        return Rivalry(problem=str(error))
    found = [f"{key} (declared by {wanted[key][0]})" for key in service.moves if key in wanted]
    if found:
        return Rivalry(f"{service.unit} may set {_listed(found)}: declare stop")
    return Rivalry(note=f"it {service.reason}")


def mentions(host: Host, service: Service) -> list[str]:
    """Every line of tuned's profile that sets something in our names."""
    if service is not SERVICES[TUNED]:
        return []
    profile = services_tuned.read(host)
    return [f"{line.where}: {line.key} = {line.value}" for line in profile.lines]


# -- what is declared ----------------------------------------------------------------------


def wishes(host: Host) -> Iterator[tuple[str, str, Any]]:
    """Declaration, key and what is declared, of the kinds that others set too. Raises MlnodeError."""
    for declaration in declared.expected(host):
        for kind in ("thp", "cpu"):
            for key, raw in _flat(kind, declaration.kinds.get(kind, {})):
                yield declaration.name, key, raw
        settings = declaration.kinds.get("sysctl", {}).get("settings")
        for key, raw in settings.items() if isinstance(settings, Mapping) else ():
            if raw is not None:
                yield declaration.name, sysctl_d.dotted(sysctl_d.slashed(str(key))), raw


def _flat(prefix: str, section: Any) -> Iterator[tuple[str, Any]]:
    for name, raw in section.items() if isinstance(section, Mapping) else ():
        if isinstance(raw, Mapping):
            yield from _flat(f"{prefix}.{name}", raw)
        elif raw is not None:
            yield f"{prefix}.{name}", raw


# -- tuned ---------------------------------------------------------------------------------


def _tuned(host: Host, wanted: Mapping[str, tuple[str, Any]]) -> Rivalry:
    """Raises MlnodeError."""
    profile = services_tuned.read(host)
    if profile.problem:
        return Rivalry(problem=profile.problem)
    if not profile.name:
        if not profile.recommended or not wanted:
            return Rivalry(note="no profile is active")
        words = "no profile is active, so that tuned starts with the one that it recommends for this machine"
        return Rivalry(f"{words}: choose one with tuned-adm profile, or tuned-adm off, or declare stop")
    found = [line for line in profile.lines if _beats(host, line, wanted)]
    if not found:
        script = ", beside a script that nobody can read" if profile.script else ""
        words = f"its profile {profile.name} sets nothing to other values than declared{script}"
        return Rivalry(note="; ".join([words, *_later(host, profile, wanted)]))
    words = _listed([f"{line.key} to {line.value} ({line.where})" for line in found])
    return Rivalry(f"the profile {profile.name} sets {words}: declare stop, or take that out", found[0].where)


def _later(host: Host, profile: services_tuned.Profile, wanted: Mapping[str, tuple[str, Any]]) -> list[str]:
    """What tuned does against the declaration once its profile is another one. Raises HostError."""
    found = []
    mine = dict.fromkeys(line.key for line in profile.lines if line.key in wanted)
    if mine and service_files.is_running(host, SERVICES[TUNED].unit):
        # _instance_unapply_static(): each option gets what it had when its profile was applied.
        words = (
            f"another profile, or a stop of tuned, puts {_listed([*mine])} back to what it found at its start"
        )
        found.append(f"{words}: run mlnode apply after that")
    if profile.recommended:
        found.append("at its next start tuned takes the profile that it recommends then")
    return found


def _beats(host: Host, line: Line, wanted: Mapping[str, tuple[str, Any]]) -> bool:
    """Whether a line sets something declared to another value, or what sets it back. Raises HostError."""
    if any(key in wanted for key in sysctl_parse.rivals(line.key)):
        return not _set_again(host, next(key for key in sysctl_parse.rivals(line.key) if key in wanted))
    if line.key not in wanted:
        return False
    return not _agrees(line.value, wanted[line.key][1]) and not _set_again(host, line.key)


def _set_again(host: Host, key: str) -> bool:
    """Whether tuned itself sets what sysctl.d says of a key after its own values. Raises HostError."""
    if key.startswith(("thp.", "cpu.")) or not services_tuned.keeps_sysctl_files(host):
        return False
    config = host.once("sysctl.d for tuned", lambda: sysctl_d.load(host))
    if config.unreadable:
        raise HostError("read", "sysctl.d", None, config.unreadable[0])
    line = config.winner(sysctl_d.slashed(key))
    return line is not None and line.value is not None and line.file.startswith(("/etc/", "/run/"))


def _agrees(value: str, raw: Any) -> bool:
    """What only the node can compute (`auto`) agrees with nothing."""
    floor = raw.get("at_least") if isinstance(raw, Mapping) else None
    modified = _MODIFIED.match(value)
    if modified:
        return modified.group(1) == ">" and (floor is not None or _within(raw, int(modified.group(2))))
    if floor is not None:
        return values.reaches(_text(floor), value)
    return values.same(value, _text(raw))


def _within(raw: Any, least: int) -> bool:
    """True where what is declared is already as much, so that tuned leaves it alone."""
    number = values.number(_text(raw))
    return number is not None and number >= least


def _text(raw: Any) -> str:
    if isinstance(raw, bool):
        return "on" if raw else "off"
    return str(raw)


def _listed(items: list[str]) -> str:
    more = f" and {len(items) - _MOST} more" if len(items) > _MOST else ""
    return f"{', '.join(items[:_MOST])}{more}"
