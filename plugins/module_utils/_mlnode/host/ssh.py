# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""SSH connections from which a process was started. sudo and the like remove the variable from the
environment of their children only, so the parent processes are read, too."""

from __future__ import annotations

import errno
import re
from typing import Iterator

from ..model.errors import HostError
from ..model.record import NamedTuple, regex
from .host import Host

#: Started by the kernel or by a container runtime, not by a connection
_INIT = 1

_PARENT = regex(rb"^PPid:\s*([0-9]{1,10})$", re.MULTILINE)

_VARIABLE = b"SSH_CONNECTION="


class Process(NamedTuple):
    """connections: "client port server port", as sshd writes it. closed: why its environment is not known."""

    pid: int
    connections: tuple[str, ...]
    closed: str = ""


def processes(host: Host, pid: int | None) -> Iterator[Process]:
    """The process and its parents. Raises HostError if the next parent is unknown."""
    seen: list[int] = []
    while pid and pid != _INIT and pid not in seen:  # read one by one, they may make a circle
        seen.append(pid)
        try:
            entries = _file(host, pid, "environ").split(b"\0")
        except HostError as error:
            yield Process(pid, (), str(error))
        else:
            texts = [entry[len(_VARIABLE) :] for entry in entries if entry.startswith(_VARIABLE)]
            yield Process(pid, tuple(text.decode("utf-8", "surrogateescape") for text in texts))
        parent = _PARENT.search(_file(host, pid, "status"))
        pid = int(parent.group(1)) if parent else None


def _file(host: Host, pid: int, name: str) -> bytes:
    """Content of a file of a process; empty once the process is gone (fs/proc/base.c: ESRCH)."""
    try:
        return host.content(f"/proc/{pid}/{name}") or b""
    except HostError as error:
        if error.errno != errno.ESRCH:
            raise
        return b""
