# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parsed files of sysfs. A missing or unreadable file is noted, and reading continues."""

from __future__ import annotations

import posixpath
import re

from ..host.host import Host
from ..model import cpulist
from ..model.errors import HostError
from ..model.record import regex
from ..model.setting import Value
from .model import Problem

_INT = regex(r"-?[0-9]{1,18}\Z", re.ASCII)
#: Output of some kernels for an empty set of CPUs (lib/vsprintf.c, for a mask that was never allocated)
_NO_CPUS = ("", "(null)")


class Reader:
    """A host, and the problems met on it so far."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.problems: list[Problem] = []

    def note(self, path: str, what: str, missing: bool = False) -> None:
        self.problems.append(Problem(path, what, missing))

    def text(self, path: str, needed: bool = True) -> str | None:
        """Content of a file without its line end. needed: a missing file is a problem too."""
        value = self.host.value(path)
        if value.text is None:
            self._explain(path, value, needed)
        return value.text

    def quiet(self, path: str) -> str:
        """Like text(), for files whose errors mean "does not apply", such as the speed of a down link."""
        return self.host.value(path).text or ""

    def number(self, path: str, needed: bool = True) -> int | None:
        text = self.text(path, needed)
        if text is None:
            return None
        number = integer(text)
        if number is None:
            self.note(path, f"{path}: {text[:60]!r} is not a number")
        return number

    def cpus(self, path: str, needed: bool = True) -> tuple[int, ...]:
        text = self.text(path, needed)
        if text is None or text.strip() in _NO_CPUS:
            return ()
        try:
            return cpulist.parse(text.strip())
        except ValueError as error:
            self.note(path, f"{path}: {error}")
            return ()

    def names(self, path: str, needed: bool = True) -> list[str]:
        """Names in a folder, sorted."""
        try:
            names = self.host.names(path)
            if not names and needed and not self.host.exists(path):
                self.note(path, f"{path} does not exist", missing=True)
        except HostError as error:
            self.note(path, str(error))
            return []
        return names

    def exists(self, path: str) -> bool:
        try:
            return self.host.exists(path)
        except HostError as error:
            self.note(path, str(error))
            return False

    def link(self, path: str) -> str:
        """Target of a link, as a path of the machine; "" if there is none."""
        try:
            target = self.host.link_target(path)
        except HostError as error:
            self.note(path, str(error))
            return ""
        if not target:
            if self.host.exists(path):
                self.note(path, f"{path} is not a link")
            return ""
        return posixpath.normpath(posixpath.join(posixpath.dirname(path), target))

    def _explain(self, path: str, value: Value, needed: bool) -> None:
        if value.unreadable is not None or needed:
            self.note(path, value.problem, missing=value.unreadable is None)


def integer(text: str) -> int | None:
    """A number as the kernel prints it, or None. A plain strip() would remove other blanks, too."""
    return int(text) if _INT.match(text.strip(" \t\n")) else None


def natural(name: str) -> list[tuple[int, str]]:
    """Sort key that puts mlx5_2 before mlx5_10."""
    parts = re.split(r"([0-9]+)", name, flags=re.ASCII)  # every second one is a number
    return [(int(part), "") if at % 2 else (0, part) for at, part in enumerate(parts)]
