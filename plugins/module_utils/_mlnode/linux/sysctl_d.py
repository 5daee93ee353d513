# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Values that systemd-sysctl will set at the next boot, and the file and line of each.

By the rules of sysctl.d(5) and systemd-sysctl(8): files of all folders are read in the order of their names,
and a name in an earlier folder hides the same name in a later one. The last assignment of a key wins. A glob
yields to any explicit assignment or `-key` exclusion.
"""

from __future__ import annotations

import functools
from posixpath import normpath
from typing import Callable, Iterable, Optional, Sequence

from ..host.host import Host
from ..model.record import NamedTuple, regex
from ..model.values import number
from . import drop_ins, glob3, sysctl_aliases

FOLDERS = tuple(f"{top}/sysctl.d" for top in drop_ins.TOPS)

#: Between the two spellings of a key
_SWAPPED = str.maketrans("./", "/.")

#: Characters that systemd strips around keys and values (basic/string-util.h: WHITESPACE)
_BLANK = " \t\n\r"

#: systemd's line ends: any one of these, or two or three different ones in a row (basic/fileio.c:
#: read_line_full)
_LINE_END = regex("\n(?:\r\0?|\0\r?)?|\r(?:\n\0?|\0\n?)?|\0(?:\n\r?|\r\n?)?")


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
        """True if the line names a key (path form)."""
        return self.key == key or (self.is_glob and glob3.matches(self.key, key)) or self._climbs_to(key)

    def _climbs_to(self, key: str) -> bool:
        """True if it sets a key through another path to its file. An exclusion by such a path has no effect,
        as systemd compares names."""
        return (
            self.value is not None
            and "/../" in self.key
            and normpath(f"/proc/sys/{self.key}") == f"/proc/sys/{key}"
        )


def slashed(key: str) -> str:
    """The path below /proc/sys of a key in either spelling.

    The first separator decides (sysctl.d(5)): net.ipv4.conf.eth0/100.x and net/ipv4/conf/eth0.100/x are one
    key, because an interface name may hold dots. Empty parts and single dots are left out (path_simplify).
    """
    return "/".join(part for part in parts(key) if part not in ("", "."))


def parts(key: str) -> list[str]:
    """The folders and the name of a key in either spelling, unchanged."""
    first = next((sign for sign in key if sign in "./"), "/")
    path = key if first == "/" else key.translate(_SWAPPED)
    return path.strip("/").split("/")


def dotted(path: str) -> str:
    """The usual spelling of a path below /proc/sys: the inverse of slashed()."""
    return path.translate(_SWAPPED)


def parse(text: str, file: str) -> list[Line]:
    """All statements of one file, without the lines that systemd ignores; never raises."""
    lines = []
    for at, raw in enumerate(_LINE_END.split(text), start=1):
        line = raw.strip(_BLANK)
        if not line or line[0] in "#;":
            continue
        key, equals, value = line.partition("=")
        key = key.strip(_BLANK)
        excludes = key.startswith("-")
        key = slashed(key[1:].strip(_BLANK) if excludes else key)
        if not key or not (equals or excludes):
            continue
        lines.append(Line(key, value.strip(_BLANK) if equals else None, file, at))
    return lines


class Effect(NamedTuple):
    """Result of a write. text: shown by the file afterwards; None if unchanged or unknown. refused: the
    kernel returns an error and changes nothing. unknown: why the result is unknown."""

    text: str | None = None
    refused: bool = False
    unknown: str = ""


#: Arguments: key (in the usual spelling), text of a line, and the file's text before it, if known
Writes = Callable[[str, str, Optional[str]], Effect]


class Decision(NamedTuple):
    """The line that decides a file's value after all lines, through its own name or through another name that
    moves the file. effect: on this file; empty if the line excludes the key."""

    line: Line
    name: str
    effect: Effect


class BootConfig(NamedTuple):
    """Every statement of every file, in their effective order."""

    lines: tuple[Line, ...]
    unreadable: tuple[str, ...] = ()

    def winner(self, key: str) -> Line | None:
        """The statement that decides a key (path form) at boot, or None if no file names it.

        If an exclusion decides, the statement has no value, and the key stays unset.
        """
        matching = []
        for line in _last_of_each(self.lines):
            if not line.is_glob and line.key == key:
                return line
            if line.is_glob and line.value is not None and glob3.matches(line.key, key):
                matching.append(line)
        return matching[-1] if matching else None

    def decided(self, key: str, writes: Writes) -> Decision | None:
        """State of a file (path form) after systemd-sysctl, for any of its names in the lines; None if no
        line moves it."""
        return decided(_last_of_each(self.lines), key, writes)

    def statements(self, key: str) -> list[Line]:
        """Every line that names a key, through any of its names, for an explanation; includes the winner."""
        names = [source.name for source in sysctl_aliases.sources(key)]
        return [line for line in self.lines if any(line.names(name) for name in names)]


def decided(lines: Sequence[Line], key: str, writes: Writes) -> Decision | None:
    """The deciding one of lines that are written in sequence; None if none moves the file."""
    explicit = {line.key for line in lines if not line.is_glob}
    sources = sorted(sysctl_aliases.sources(key))  # in the order of glob(3)
    shown: dict[str, str] = {}
    decision: Decision | None = None
    idle: Decision | None = None
    for line in lines:
        for name, shows, _shared in sources:
            if not line.names(name) or (line.is_glob and (line.value is None or name in explicit)):
                continue
            variable = sysctl_aliases.variable(name)
            before = shown.get(variable)
            effect = Effect() if line.value is None else writes(dotted(name), line.value, before)
            effect = _doubted(effect, line, lines, name)
            if effect.text is None and not effect.unknown:
                idle = Decision(line, name, effect) if name == key else idle
                continue
            moved = effect if effect.text is None else _moved(shows(effect.text, before or ""))
            shown.pop(variable, None)
            if effect.text is not None:
                shown[variable] = effect.text
            decision = decision if moved is None else Decision(line, name, moved)
    return decision or idle


def _doubted(effect: Effect, line: Line, lines: Sequence[Line], name: str) -> Effect:
    """The effect of a line; unknown if it depends on values that other lines set."""
    if "/../" in line.key:
        return Effect(unknown=f"its key has a `..`, and may be {dotted(name)}")
    needed, usual = sysctl_aliases.NEEDS.get(name, ("", 0))
    for other in lines if needed and effect.text is not None else ():
        value = number((other.value or "").split(" ")[0]) if other.names(needed) else 0
        if value is None or value > usual:
            return Effect(unknown=f"{other.where} sets {dotted(needed)}, on which it depends")
    return effect


def _moved(shown: str | None) -> Effect | None:
    if shown == sysctl_aliases.UNKNOWN:
        return Effect(unknown="the same variable in another unit")
    return None if shown is None else Effect(shown)


def _last_of_each(lines: Iterable[Line]) -> list[Line]:
    """Last statement of each key or pattern. systemd keeps one entry for each: a repetition moves to the end,
    but a repetition of the same value keeps the first place."""
    kept: dict[str, Line] = {}
    for line in lines:
        before = kept.get(line.key)
        if before is not None and before.value == line.value:
            continue
        kept.pop(line.key, None)
        kept[line.key] = line
    return list(kept.values())


def load(host: Host, without: str = "") -> BootConfig:
    """Read every folder. A file that cannot be read is listed, as it may set anything.

    without: prefix of paths to ignore, which also hide nothing.
    """
    unreadable: list[str] = []
    lines: list[Line] = []
    for path, text in drop_ins.texts(host, FOLDERS, unreadable, without=without):
        lines += _parsed(text, path)
    return BootConfig(tuple(lines), tuple(unreadable))


@functools.lru_cache(maxsize=64)
def _parsed(text: str, file: str) -> Sequence[Line]:
    """Statements of a file, cached: a run asks for all files half a dozen times, as they may have changed."""
    return tuple(parse(text, file))
