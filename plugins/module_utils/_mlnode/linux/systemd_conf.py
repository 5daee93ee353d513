# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Assignments in the files of systemd's manager and of its units, by the rules of systemd.unit(5) and
systemd-system.conf(5): the main file first, then all drop-ins in the order of their names."""

from __future__ import annotations

from typing import Iterable, Iterator, Mapping, Sequence

from ..host.host import Host
from ..model.record import NamedTuple
from . import drop_ins

_CONF = tuple(f"{top}/systemd" for top in drop_ins.TOPS)
UNITS = tuple(f"{folder}/system" for folder in _CONF)

#: The words of a switch, in lower case, and the digit that the kernel has for each (basic/parse-util.c:
#: parse_boolean)
BOOLEAN: Mapping[str, str] = {
    **dict.fromkeys(("1", "yes", "y", "true", "t", "on"), "1"),
    **dict.fromkeys(("0", "no", "n", "false", "f", "off"), "0"),
}
YES, NO = (tuple(word for word, digit in BOOLEAN.items() if digit == meaning) for meaning in "10")


class Line(NamedTuple):
    """An assignment of a file. section: such as [Unit]."""

    section: str
    key: str
    value: str
    file: str
    number: int

    @property
    def where(self) -> str:
        return f"{self.file}:{self.number}"

    @property
    def text(self) -> str:
        return f"{self.key}={self.value}"


def configuration(host: Host, name: str) -> list[Line]:
    """Lines of a daemon's configuration, in their effective order. Raises HostError."""
    files = [path for path in (f"{folder}/{name}" for folder in _CONF) if host.exists(path)]
    more = drop_ins.paths(host, [f"{folder}/{name}.d" for folder in _CONF])
    return [line for path in (*files[:1], *more) for line in assignments(host, path)]


def manager(host: Host, key: str) -> list[Line]:
    """All lines of a key of [Manager], in their effective order. Raises HostError."""
    lines = host.once("lines of the manager", lambda: configuration(host, "system.conf"), of_files=True)
    return _with_key(lines, "[Manager]", key)


def fragment(host: Host, unit: str) -> str:
    """The file of a unit; empty if there is none, or if it is masked. Raises HostError."""
    for path in (f"{folder}/{unit}" for folder in UNITS if drop_ins.counts(host, folder)):
        if drop_ins.is_masked(host, path):
            return ""
        if host.exists(path):
            return path
    return ""


def alias_of(host: Host, path: str) -> str:
    """The target unit of a link, which makes the link's name an alias; empty if the names are equal."""
    target = host.link_target(path).rpartition("/")[2]
    return target if target != path.rpartition("/")[2] else ""


def service(host: Host, names: Sequence[str], key: str) -> list[Line]:
    """All lines of a key of [Service], in their effective order. names: all names of the service, the main
    one first. Raises HostError."""
    # Drop-ins of a name hide those for all services, in any folder (shared/dropin.c).
    folders = [f"{folder}/{name}.d" for name in [*names, "service"] for folder in UNITS]
    paths = filter(None, [fragment(host, names[0]), *drop_ins.paths(host, folders)])
    return _with_key((line for path in paths for line in assignments(host, path)), "[Service]", key)


def _with_key(lines: Iterable[Line], section: str, key: str) -> list[Line]:
    return [line for line in lines if (line.section, line.key) == (section, key)]


def assignments(host: Host, path: str) -> Iterator[Line]:
    """Every line of a file that sets a key; empty for a masked file. Raises HostError."""
    return of_text(drop_ins.text(host, path), path)


def of_text(text: str, path: str) -> Iterator[Line]:
    """As assignments(), from the text of a file."""
    here = ""
    for number, line in _lines(text):
        if line.startswith("[") and line.endswith("]"):
            here = line
        name, equals, value = line.partition("=")
        if here and equals:
            yield Line(here, name.rstrip(), value.strip(), path, number)


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines without comments, joined after a backslash at the end; the number is the first line's."""
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
    if begun:  # the text ends here
        yield first, " ".join(begun)
