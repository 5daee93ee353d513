# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Values that systemd-sysctl will set at the next boot, and the file and line of each.

The rules are those of sysctl.d(5) and systemd-sysctl(8): files of all folders are read in the order
of their names; a name in an earlier folder hides the same name in a later one; the last
assignment of a key wins; a glob yields to any explicit assignment or `-key` exclusion.
"""

from __future__ import annotations

import fnmatch
from typing import Callable, Iterable, Optional, Sequence

from ..host.host import Host
from ..model.record import NamedTuple
from . import drop_ins, sysctl_aliases

FOLDERS = tuple(f"{top}/sysctl.d" for top in drop_ins.TOPS)

#: What systemd strips around keys and values (basic/string-util.h: WHITESPACE)
_BLANK = " \t\n\r"


class Line(NamedTuple):
    """One statement. value None: `-key`, which keeps globs away from the key."""

    key: str
    value: str | None
    file: str
    number: int

    @property
    def where(self) -> str:
        return f"{self.file}:{self.number}"

    @property
    def text(self) -> str:
        name = dotted(self.key)
        return f"-{name}" if self.value is None else f"{name} = {self.value}"

    @property
    def is_glob(self) -> bool:
        return any(sign in self.key for sign in "*?[")

    def names(self, key: str) -> bool:
        """True if it speaks of a key (path form)."""
        return self.key == key or (self.is_glob and _glob_matches(self.key, key))


def slashed(key: str) -> str:
    """The path below /proc/sys of a key in either spelling.

    The first separator decides (sysctl.d(5)): net.ipv4.conf.eth0/100.x and net/ipv4/conf/eth0.100/x
    are one key, because an interface name may hold dots.
    """
    first = next((sign for sign in key if sign in "./"), "/")
    if first == "/":
        return key.strip("/")
    return key.translate(str.maketrans("./", "/.")).strip("/")


def dotted(path: str) -> str:
    """The usual spelling of a path below /proc/sys: the inverse of slashed()."""
    return path.translate(str.maketrans("./", "/."))


def parse(text: str, file: str) -> list[Line]:
    """All statements of one file. Lines systemd ignores are ignored here; never raises."""
    lines = []
    for number, raw in enumerate(text.split("\n"), start=1):
        line = raw.strip(_BLANK)
        if not line or line[0] in "#;":
            continue
        key, equals, value = line.partition("=")
        key = key.strip(_BLANK)
        excludes = key.startswith("-")
        key = slashed(key[1:].strip(_BLANK) if excludes else key)
        if not key or not (equals or excludes):
            continue
        lines.append(Line(key, value.strip(_BLANK) if equals else None, file, number))
    return lines


#: Key (in the usual spelling) and text of a line → value that its file shows then; None where it is refused
Taken = Callable[[str, str], Optional[str]]


class Effect(NamedTuple):
    """Value of a file after all lines, and the line that decides it: for this name, or for another whose
    write moves the file. value: None where that line sets nothing, as it excludes the key or is refused;
    sysctl_aliases.UNKNOWN where it is not known."""

    line: Line
    value: str | None
    name: str


class BootConfig(NamedTuple):
    """Every statement of every file, in the order in which they count."""

    lines: tuple[Line, ...]
    unreadable: tuple[str, ...] = ()

    def winner(self, key: str) -> Line | None:
        """The statement that decides a key (path form) at boot, or None where no file speaks of it.

        Its value is None where the last word is an exclusion, so that nothing sets the key.
        """
        matching = []
        for line in _last_of_each(self.lines):
            if not line.is_glob and line.key == key:
                return line
            if line.is_glob and line.value is not None and _glob_matches(line.key, key):
                matching.append(line)
        return matching[-1] if matching else None

    def effect(self, key: str, taken: Taken) -> Effect | None:
        """The value of a file (path form) once systemd-sysctl is done, whatever the names in the lines; None
        where no line moves it."""
        return effect(_last_of_each(self.lines), key, taken)

    def statements(self, key: str) -> list[Line]:
        """Every line that speaks of a key, by whatever name, for an explanation; the winner is among them."""
        names = [source.name for source in sysctl_aliases.sources(key)]
        return [line for line in self.lines if any(line.names(name) for name in names)]


def effect(lines: Sequence[Line], key: str, taken: Taken) -> Effect | None:
    """Value of a file after these lines were written, one after the other; None where none moves it."""
    explicit = {line.key for line in lines if not line.is_glob}
    sources = sorted(sysctl_aliases.sources(key))  # as glob(3) has them
    shown: dict[str, str] = {}
    found: Effect | None = None
    idle: Effect | None = None
    for line in lines:
        for name, shows, _one in sources:
            if not line.names(name) or (line.is_glob and (line.value is None or name in explicit)):
                continue
            value = None if line.value is None else taken(dotted(name), line.value)
            if value is None:
                idle = Effect(line, None, name) if name == key else idle
                continue
            variable = sysctl_aliases.variable(name)
            moved = shows(value, shown.get(variable, ""))
            shown[variable] = value
            found = found if moved is None else Effect(line, moved, name)
    return found or idle


def _last_of_each(lines: Iterable[Line]) -> list[Line]:
    """systemd keeps one entry per key or pattern: a repeated one moves to the end, with one exception:
    the same value again leaves the first where it was."""
    kept: dict[str, Line] = {}
    for line in lines:
        before = kept.get(line.key)
        if before is not None and before.value == line.value:
            continue
        kept.pop(line.key, None)
        kept[line.key] = line
    return list(kept.values())


def _glob_matches(pattern: str, key: str) -> bool:
    parts, names = pattern.split("/"), key.split("/")
    return len(parts) == len(names) and all(
        fnmatch.fnmatchcase(name, part.replace("[^", "[!")) for part, name in zip(parts, names)
    )


def load(host: Host, without: str = "") -> BootConfig:
    """Read every folder. A file that cannot be read is listed, as it may set anything.

    without: begin of the paths that are taken for absent, so that they hide nothing either.
    """
    unreadable: list[str] = []
    lines: list[Line] = []
    for path, text in drop_ins.texts(host, FOLDERS, unreadable, without=without):
        lines += parse(text, path)
    return BootConfig(tuple(lines), tuple(unreadable))
