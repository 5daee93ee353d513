# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Declared settings that a service may set to something else."""

from __future__ import annotations

from typing import Any, Iterator, Mapping

from ...engine import declared
from ...host.host import Host
from ...linux import sysctl_d
from ...model.errors import MlnodeError, printable
from ...model.record import NamedTuple
from .known import SERVICES, TUNED, Service, Switch

ACTIVE_PROFILE = "/etc/tuned/active_profile"
#: `manual` where an administrator has chosen, also to have no profile: tuned/daemon/daemon.py,
#: _get_startup_profile()
_MODE = "/etc/tuned/profile_mode"
#: The words for false of an INI file in Go (gopkg.in/ini.v1: parseBool), of any case
_OFF = ("0", "f", "false", "n", "no", "off")
#: Areas whose settings are rules, of which a service that moves any is named with the area
_RULED = ("irq", "nic", "storage")


class Rivalry(NamedTuple):
    """words: what may be set to something else. note: worth knowing though no declared setting is concerned.
    problem: why it is unknown."""

    words: str = ""
    note: str = ""
    problem: str = ""


def look(host: Host, service: Service) -> Rivalry:
    """Never raises. tuned sets values at its start and when a profile is chosen, not all the time: the agent
    runs after it at boot, and what a newly chosen profile sets is drift of that setting."""
    tuned = service is SERVICES[TUNED]
    try:
        wanted = dict(_wishes(host))
        actor = _tuned(host) if tuned else service.unit
    except MlnodeError as error:
        return Rivalry(problem=str(error))
    if not actor:
        return Rivalry(note="no profile is active")
    if tuned:
        return Rivalry(note=f"{actor}: what it sets otherwise than declared is drift of that setting")
    keys = [key for key in service.moves if key in wanted]
    if keys:
        listing = ", ".join(f"{key} (declared by {wanted[key]})" for key in keys)
        todo = f"set {service.switch.words}" if service.switch is not None else "declare stop"
        return Rivalry(f"{actor} may set {listing}: {todo}")
    return Rivalry(note=f"it {service.reason}")


def is_off(host: Host, switch: Switch) -> bool:
    """True if the files of a service switch its tuning part off. Raises HostError."""
    value = ""
    for path in switch.files:
        value = _option(host.text(path), switch) or value
    return value.lower() in _OFF


def _option(text: str, switch: Switch) -> str:
    """Of several lines the last; "" where the section has none, or is not of this format."""
    section, value = "", ""
    for line in map(str.strip, text.splitlines()):
        if line.startswith("[") and line.endswith("]"):
            section = line[1:-1].strip()
        name, equals, given = line.partition("=")
        # Both are read whatever their case (cfg.go of the guest agent: Insensitive).
        wanted = section.lower() == switch.section.lower() and name.strip().lower() == switch.option
        value = given.strip() if equals and wanted else value
    return value


def boot_sources(host: Host, service: Service) -> list[str]:
    """The file that chooses tuned's profile. Raises HostError."""
    actor = _tuned(host) if service is SERVICES[TUNED] else ""
    return [f"{ACTIVE_PROFILE}: {actor}"] if actor else []


def _tuned(host: Host) -> str:
    """tuned with its profile; empty where it has none, and takes none by itself. Raises HostError."""
    names = " ".join(host.text(ACTIVE_PROFILE).split())
    if names:
        return printable(f"{SERVICES[TUNED].unit} with the profile {names}")
    if host.text(_MODE).strip() == "manual":
        return ""
    return f"{SERVICES[TUNED].unit} with the profile that it recommends at its start"


def _wishes(host: Host) -> Iterator[tuple[str, str]]:
    """Key and declaration, of the kinds that these services set, too. Raises MlnodeError."""
    for declaration in declared.expected(host):
        for kind in ("thp", "cpu"):
            for key in _flat(kind, declaration.kinds.get(kind, {})):
                yield key, declaration.name
        for kind in _RULED:
            if declaration.kinds.get(kind, {}).get("rules"):
                yield kind, declaration.name
        settings = declaration.kinds.get("sysctl", {}).get("settings")
        for key, raw in settings.items() if isinstance(settings, Mapping) else ():
            if raw is not None:
                yield sysctl_d.dotted(sysctl_d.slashed(str(key))), declaration.name


def _flat(prefix: str, section: Any) -> Iterator[str]:
    for name, raw in section.items() if isinstance(section, Mapping) else ():
        if isinstance(raw, Mapping):
            yield from _flat(f"{prefix}.{name}", raw)
        elif raw is not None:
            yield f"{prefix}.{name}"
