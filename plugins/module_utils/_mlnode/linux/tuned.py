# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Values that the active profile of tuned sets, with their lines (tuned-profiles(7), tuned.conf(5))."""

from __future__ import annotations

from typing import Iterator, Mapping

from ..host.host import Host
from ..model.record import NamedTuple, regex
from . import sysctl_d

ACTIVE_PROFILE = "/etc/tuned/active_profile"
#: The first folder with a profile counts; since 2.23 they are in subfolders
#: (tuned/consts.py: LOAD_DIRECTORIES)
_FOLDERS = ("/etc/tuned/profiles", "/etc/tuned", "/usr/lib/tuned/profiles", "/usr/lib/tuned")

#: Limit for nested profiles and variables: twice the depth of any known chain
_DEEPEST = 8

#: Options that concern a unit and not its plugin (tuned/profiles/unit.py, tuned/plugins/base.py)
_OF_UNITS = (
    *("type", "enabled", "replace", "drop", "priority", "devices", "devices_udev_regex"),
    *("script_pre", "script_post", "uname_regex", "cpuinfo_regex"),
)
#: Options that restrict a unit to some machines
_MATCHING = ("uname_regex", "cpuinfo_regex")
_YES = ("1", "true", "True")

#: A # after a blank begins a comment (tuned/profiles/loader.py: inline_comment_prefixes)
_COMMENT = regex(r"(?:^|\s)#.*")
_VARIABLE = regex(r"(?<!\\)\$\{(\w+)\}")

#: Declared key → section and option of tuned
_OPTIONS = {
    "thp.enabled": ("vm", ("transparent_hugepages", "transparent_hugepage")),
    "thp.defrag": ("vm", ("transparent_hugepage.defrag",)),
    "cpu.governor": ("cpu", ("governor",)),
    "cpu.energy_performance_preference": ("cpu", ("energy_performance_preference",)),
    "cpu.energy_perf_bias": ("cpu", ("energy_perf_bias",)),
}


class Line(NamedTuple):
    """An option of a profile. value: None if tuned computes it on the machine, from a function or from a
    variable without a file."""

    value: str | None
    where: str


def sets(host: Host, kind: str, key: str) -> Line | None:
    """The last line of the active profile that sets a key. Raises HostError."""
    section, options = _OPTIONS.get(key, (kind, (key,)))
    if section not in ("sysctl", "vm", "cpu"):
        return None
    last = None
    for name, line in _lines(host, section):
        last = line if name in options else last
    return last


def sysctls(host: Host) -> Iterator[sysctl_d.Line]:
    """Lines of sysctl units, in their order. A value that begins with `>` or `<` is set only if it is
    greater, or less, than the present one (tuned/plugins/base.py: _process_assignment_modifiers). Raises
    HostError."""
    for name, line in _lines(host, "sysctl"):
        file, _colon, number = line.where.rpartition(":")
        yield sysctl_d.Line(sysctl_d.slashed(name), line.value, file, int(number))


def _lines(host: Host, kind: str) -> Iterator[tuple[str, Line]]:
    """Option and line of every unit of a type in the merged active profile."""
    units = _merged(host)
    variables = _variables(host, units.get("variables", {}))
    for name, options in units.items():
        if _word(options, "type", name) != kind or _word(options, "enabled", "true") not in _YES:
            continue
        some = any(option in options for option in _MATCHING)
        for option, line in options.items():
            if option and option not in _OF_UNITS:
                yield option, line._replace(value=None if some else _expanded(line.value or "", variables))


def _word(options: Mapping[str, Line], name: str, default: str) -> str:
    return options[name].value or "" if name in options else default


def _merged(host: Host) -> dict[str, dict[str, Line]]:
    """Section → options: each profile adds to the included ones, unless it replaces them
    (tuned/profiles/merger.py). Raises HostError."""
    units: dict[str, dict[str, Line]] = {}
    for profile in host.text(ACTIVE_PROFILE).split():
        for sections in _profiles(host, profile, 0):
            for name, options in sections.items():
                if _word(options, "replace", "") in _YES:
                    units[name] = {}
                units.setdefault(name, {}).update(options)
    return units


def _profiles(host: Host, profile: str, depth: int) -> Iterator[dict[str, dict[str, Line]]]:
    """The sections of a profile, after the sections of its included profiles."""
    path = next((path for path in _paths(profile) if host.exists(path)), "")
    if not path or "/" in profile or depth > _DEEPEST:
        return
    sections = _sections(host, path)
    included = _expanded(
        _word(sections.get("main", {}), "include", ""), _variables(host, sections.get("variables", {}))
    )
    for name in (included or "").replace(",", " ").replace(";", " ").split():
        yield from _profiles(host, name, depth + 1)
    yield sections


def _sections(host: Host, path: str) -> dict[str, dict[str, Line]]:
    """Raises HostError."""
    sections: dict[str, dict[str, Line]] = {}
    here = sections.setdefault("", {})
    for number, raw in enumerate(host.text(path).splitlines(), start=1):
        text = "" if raw.lstrip().startswith(";") else _COMMENT.sub("", raw).strip()
        if text.startswith("[") and text.endswith("]"):
            here = sections.setdefault(text[1:-1], {})
        elif text:
            name, _equals, value = (part.strip() for part in text.partition("="))
            here.pop(name, None)  # the last of a name counts, at its place
            here[name] = Line(value.strip("\"'"), f"{path}:{number}")
    return sections


def _variables(host: Host, given: Mapping[str, Line]) -> dict[str, str | None]:
    """Values by name, including those from files (tuned/profiles/variables.py). Raises HostError."""
    values: dict[str, str | None] = {}
    for name, line in given.items():
        path = line.value or ""
        if name != "include":
            values[name] = _expanded(path, values)
        elif path.startswith("/") and host.exists(path):
            for section in _sections(host, path).values():
                values.update((key, _expanded(its.value or "", values)) for key, its in section.items())
    return values


def _expanded(text: str, variables: Mapping[str, str | None]) -> str | None:
    """A text with its variables expanded; None if one is unknown or computed by a function."""
    for _depth in range(_DEEPEST):
        name = _VARIABLE.search(text)
        value = variables.get(name[1]) if name else None
        if name is None or value is None:
            break
        text = f"{text[: name.start()]}{value}{text[name.end() :]}"
    return None if "${" in text else text


def _paths(profile: str) -> Iterator[str]:
    return (f"{folder}/{profile}/tuned.conf" for folder in _FOLDERS)
