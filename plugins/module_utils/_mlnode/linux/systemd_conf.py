# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Assignments in the files of systemd's manager and of its units, by the rules of systemd.unit(5) and
systemd-system.conf(5): the main file first, then all drop-ins in the order of their names."""

from __future__ import annotations

from typing import Iterator, Sequence

from ..host.host import Host
from ..model.record import NamedTuple

#: A name in an earlier folder hides the same in a later one; /lib counts only if it is not a link to /usr/lib
_CONF = ("/etc/systemd", "/run/systemd", "/usr/local/lib/systemd", "/usr/lib/systemd", "/lib/systemd")
UNITS = tuple(f"{folder}/system" for folder in _CONF)

_MASKED = "/dev/null"


class Assignment(NamedTuple):
    """A line that sets a key."""

    value: str
    file: str
    number: int

    @property
    def where(self) -> str:
        return f"{self.file}:{self.number}"


def manager(host: Host, key: str) -> list[Assignment]:
    """All of a key of [Manager], in the order in which they count. Raises HostError."""
    folders = _folders(host, _CONF)
    files = [f"{folder}/system.conf" for folder in folders if host.exists(f"{folder}/system.conf")]
    drop_ins = _drop_ins(host, [f"{folder}/system.conf.d" for folder in folders])
    return _assigned(host, [*files[:1], *drop_ins], "[Manager]", key)


def fragment(host: Host, unit: str) -> str:
    """The file of a unit; empty where there is none, or it is masked. Raises HostError."""
    for folder in _folders(host, UNITS):
        path = f"{folder}/{unit}"
        if _is_masked(host, path):
            return ""
        if host.exists(path):
            return path
    return ""


def _is_masked(host: Host, path: str) -> bool:
    return host.link_target(path) == _MASKED


def alias_of(host: Host, path: str) -> str:
    """The unit that a unit's file is only another name of, being a link to it; empty where it is its own."""
    target = host.link_target(path).rpartition("/")[2]
    return target if target != path.rpartition("/")[2] else ""


def service(host: Host, names: Sequence[str], key: str) -> list[Assignment]:
    """All of a key of [Service], in the order in which they count. names: all that the service has, its own
    first. Raises HostError."""
    # Drop-ins of a name hide those for all services, whatever their folders (shared/dropin.c).
    folders = [f"{one}/{name}.d" for name in [*names, "service"] for one in _folders(host, UNITS)]
    return _assigned(host, [fragment(host, names[0]), *_drop_ins(host, folders)], "[Service]", key)


def _folders(host: Host, folders: Sequence[str]) -> list[str]:
    return [folder for folder in folders if not (folder.startswith("/lib/") and host.is_link("/lib"))]


def _drop_ins(host: Host, folders: Sequence[str]) -> list[str]:
    files: dict[str, str] = {}
    for folder in folders:
        for name in host.names(folder):
            if name.endswith(".conf") and not name.startswith("."):
                files.setdefault(name, f"{folder}/{name}")
    return [files[name] for name in sorted(files)]


def _assigned(host: Host, paths: Sequence[str], section: str, key: str) -> list[Assignment]:
    assigned: list[Assignment] = []
    for path in filter(None, paths):
        assigned += [one for here, name, one in assignments(host, path) if (here, name) == (section, key)]
    return assigned


def assignments(host: Host, path: str) -> Iterator[tuple[str, str, Assignment]]:
    """Section such as [Unit], key and value of every line of a file; none of one that is masked. Raises
    HostError."""
    here = ""
    for number, line in _lines("" if _is_masked(host, path) else host.text(path)):
        if line.startswith("[") and line.endswith("]"):
            here = line
        name, equals, value = line.partition("=")
        if here and equals:
            yield here, name.rstrip(), Assignment(value.strip(), path, number)


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines without comments; a backslash at the end goes on with the next, and the number is the first's."""
    begun: list[str] = []
    first = 1
    for here, raw in enumerate(text.split("\n"), start=1):
        line = raw.strip(" \t\r")
        if line.startswith(("#", ";")):
            continue
        first = first if begun else here
        if line.endswith("\\"):
            begun.append(line[:-1])
            continue
        yield first, " ".join([*begun, line])
        begun = []
    if begun:  # nothing follows
        yield first, " ".join(begun)
