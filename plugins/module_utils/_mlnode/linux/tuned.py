# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Values that the active profile of tuned sets, with the line of each (tuned-profiles(7), tuned.conf(5))."""

from __future__ import annotations

from typing import Iterator

from ..host.host import Host
from ..model.record import NamedTuple
from . import sysctl_d

ACTIVE_PROFILE = "/etc/tuned/active_profile"
#: The first that has a profile counts; since 2.23 they lie in a folder of their own
#: (tuned/consts.py: LOAD_DIRECTORIES)
_FOLDERS = ("/etc/tuned/profiles", "/etc/tuned", "/usr/lib/tuned/profiles", "/usr/lib/tuned")

#: Profiles that include each other, as deep as any known chain and twice that
_DEEPEST = 8

#: What is declared here → section and option of tuned
_OPTIONS = {
    "thp.enabled": ("vm", ("transparent_hugepages", "transparent_hugepage")),
    "thp.defrag": ("vm", ("transparent_hugepage.defrag",)),
    "cpu.governor": ("cpu", ("governor",)),
    "cpu.energy_performance_preference": ("cpu", ("energy_performance_preference",)),
    "cpu.energy_perf_bias": ("cpu", ("energy_perf_bias",)),
}


class Line(NamedTuple):
    """An option of a profile."""

    value: str
    where: str


def sets(host: Host, kind: str, key: str) -> Line | None:
    """The line of the active profile that sets a key, the last one of several. Raises HostError."""
    section, options = _OPTIONS.get(key, (kind, (key,)))
    if section not in ("sysctl", "vm", "cpu"):
        return None
    found = None
    for profile in host.text(ACTIVE_PROFILE).split():
        for line_section, name, line in _lines(host, profile, 0):
            if line_section == section and name in options:
                found = line
    return found


def sysctls(host: Host) -> Iterator[sysctl_d.Line]:
    """The sections [sysctl] of the active profile, in their order. Raises HostError."""
    for profile in host.text(ACTIVE_PROFILE).split():
        for section, name, line in _lines(host, profile, 0):
            if section == "sysctl" and name:
                file, _colon, number = line.where.rpartition(":")
                yield sysctl_d.Line(sysctl_d.slashed(name), line.value, file, int(number))


def _lines(host: Host, profile: str, depth: int) -> Iterator[tuple[str, str, Line]]:
    """Section, option and line; first those of what it includes, which it may set otherwise."""
    path = next((path for path in _paths(profile) if host.exists(path)), "")
    if not path or "/" in profile or depth > _DEEPEST:
        return
    section = ""
    own: list[tuple[str, str, Line]] = []
    for number, raw in enumerate(host.text(path).splitlines(), start=1):
        text = raw.strip()
        if text.startswith(("#", ";")) or not text:
            continue
        if text.startswith("[") and text.endswith("]"):
            section = text[1:-1]
            continue
        name, _equals, value = (part.strip() for part in text.partition("="))
        if section == "main" and name == "include":
            for included in value.replace(",", " ").split():
                yield from _lines(host, included, depth + 1)
        own.append((section, name, Line(value.strip("\"'"), f"{path}:{number}")))
    yield from own


def _paths(profile: str) -> Iterator[str]:
    return (f"{folder}/{profile}/tuned.conf" for folder in _FOLDERS)
