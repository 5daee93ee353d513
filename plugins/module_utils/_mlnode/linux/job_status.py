# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""CPUs, NUMA nodes and huge pages that a process may use, from /proc/PID/status (proc_pid_status(5))."""

from __future__ import annotations

import re

from ..host.host import Host
from ..model import cpulist
from ..model.errors import HostError
from ..model.record import NamedTuple, regex

_ROWS = regex(r"^(Cpus_allowed_list|Mems_allowed_list|THP_enabled):[ \t]*(\S*)[ \t]*$", re.MULTILINE)


class Status(NamedTuple):
    """cpus: of the main thread. nodes: for its memory. huge: False if it may not have transparent huge pages;
    None before Linux 5.0."""

    cpus: tuple[int, ...]
    nodes: tuple[int, ...]
    huge: bool | None


def text(host: Host, pid: int) -> str:
    """The file, read once for all subjects. Raises HostError."""
    return host.once(f"status of {pid}", lambda: host.read(_path(pid)))


def _path(pid: int) -> str:
    return f"/proc/{pid}/status"


def read(host: Host, pid: int) -> Status:
    """Raises HostError."""
    return host.once(f"allowed of {pid}", lambda: _read(host, pid))


def _read(host: Host, pid: int) -> Status:
    path = _path(pid)
    rows = dict(_ROWS.findall(text(host, pid)))
    try:
        cpus = cpulist.parse(rows.get("Cpus_allowed_list", ""))
        nodes = cpulist.parse(rows.get("Mems_allowed_list", ""))
    except ValueError as error:
        raise HostError("understand", path, None, str(error)) from error
    if not cpus or not nodes:
        raise HostError("understand", path, None, "it has no Cpus_allowed_list or no Mems_allowed_list")
    huge = {"0": False, "1": True}.get(rows.get("THP_enabled", ""))
    return Status(cpus, nodes, huge)
