# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Declared settings that a service may change."""

from __future__ import annotations

from typing import Any, Iterator, Mapping

from ...engine import declared
from ...host.host import Host
from ...linux import sysctl_d
from ...model.errors import MlnodeError, printable
from ...model.record import NamedTuple
from .known import SERVICES, TUNED, Service, Switch

ACTIVE_PROFILE = "/etc/tuned/active_profile"
#: Contains `manual` if an administrator has chosen the profile, or no profile: tuned/daemon/daemon.py,
#: _get_startup_profile()
_MODE = "/etc/tuned/profile_mode"
#: The words for false of an INI file in Go (gopkg.in/ini.v1: parseBool), in lower or upper case
_OFF = ("0", "f", "false", "n", "no", "off")
#: Areas with rules for settings; a service that changes any of them lists the area
_RULED = ("irq", "nic", "storage")


class Rivalry(NamedTuple):
    """words: settings that may change. note: a remark if no declared setting is concerned. problem: why it is
    unknown.
    """

    words: str = ""
    note: str = ""
    problem: str = ""


def look(host: Host, service: Service) -> Rivalry:
    """Settings that a service may change. Never raises.

    tuned sets values only at its start and when a profile is chosen. The agent runs after its start, and a
    later profile shows as drift of the setting.
    """
    tuned = service is SERVICES[TUNED]
    try:
        wanted = dict(_wishes(host))
        actor = _tuned(host) if tuned else service.unit
    except MlnodeError as error:
        return Rivalry(problem=str(error))
    if not actor:
        return Rivalry(note="no profile is active")
    if tuned:
        return Rivalry(note=f"{actor}: a value that it changes shows as drift of that setting")
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
    """Value of the last of several lines; "" if the section has none, or the text has another format."""
    section, value = "", ""
    for line in map(str.strip, text.splitlines()):
        if line.startswith("[") and line.endswith("]"):
            section = line[1:-1].strip()
        name, equals, given = line.partition("=")
        # Both are case-insensitive (cfg.go of the guest agent: Insensitive).
        wanted = section.lower() == switch.section.lower() and name.strip().lower() == switch.option
        value = given.strip() if equals and wanted else value
    return value


def boot_sources(host: Host, service: Service) -> list[str]:
    """The file that chooses tuned's profile. Raises HostError."""
    actor = _tuned(host) if service is SERVICES[TUNED] else ""
    return [f"{ACTIVE_PROFILE}: {actor}"] if actor else []


def _tuned(host: Host) -> str:
    """tuned with its profile; empty if it has none, and chooses none itself. Raises HostError."""
    names = " ".join(host.text(ACTIVE_PROFILE).split())
    if names:
        return printable(f"{SERVICES[TUNED].unit} with the profile {names}")
    if host.text(_MODE).strip() == "manual":
        return ""
    return f"{SERVICES[TUNED].unit} with the profile that it recommends at its start"


def _wishes(host: Host) -> Iterator[tuple[str, str]]:
    """Key and declaration, for kinds that these services set as well. Raises MlnodeError."""
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
