# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Mounted file systems: a row of proc_pid_mountinfo(5) for each mount. host/mountinfo.py is about those over
files of the kernel."""

from __future__ import annotations

import re
from typing import Iterator

from ..host import mountinfo
from ..host.host import Host
from ..model.errors import HostError
from ..model.record import NamedTuple, regex

#: The system's: the boot service does not see what is mounted below /home
SYSTEM = "/proc/1/mountinfo"

_NFS = ("nfs", "nfs4")
_NUMBER = regex(r"[0-9]{1,10}:[0-9]{1,10}\Z", re.ASCII)


class Mount(NamedTuple):
    """number: MAJOR:MINOR of its file system. kind: its type. options: those of the mount and those of the
    file system."""

    number: str
    point: str
    kind: str
    options: tuple[str, ...]

    def covers(self, path: str) -> bool:
        return path == self.point or path.startswith(f"{self.point.rstrip('/')}/")

    def option(self, name: str) -> str:
        """Text behind `name=`; empty where there is none."""
        return next((one[len(name) + 1 :] for one in self.options if one.startswith(f"{name}=")), "")


def parse(text: str) -> Iterator[Mount]:
    for line in text.split("\n"):
        mounted, _dash, source = line.partition(" - ")
        fields, (kind, *behind) = mounted.split(" "), source.split(" ")
        if len(fields) > 5 and _NUMBER.match(fields[2]):
            options = [*fields[5].split(","), *(behind[1] if len(behind) > 1 else "").split(",")]
            yield Mount(fields[2], mountinfo.plain(fields[4]), kind, tuple(options))


def table(host: Host) -> str:
    """The system's, or the reader's own where that is hidden from all but root (hidepid) or not captured;
    empty where neither is there. Raises HostError."""
    try:
        text = host.text(SYSTEM)
    except HostError:
        text = ""
    return text or host.text(mountinfo.TABLE)


def nfs(text: str) -> dict[str, list[Mount]]:
    """Mounts of NFS by the number of their device, which several of one export share."""
    found: dict[str, list[Mount]] = {}
    for mount in parse(text):
        if mount.kind in _NFS:
            found.setdefault(mount.number, []).append(mount)
    return found
