# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""CPUs, NUMA nodes and huge pages that a process may use, from /proc/PID/status (proc_pid_status(5))."""

from __future__ import annotations

import functools

from ..host.host import Host
from ..model import cpulist
from ..model.errors import HostError
from ..model.record import NamedTuple


class Status(NamedTuple):
    """cpus: of the main thread. nodes: for its memory. huge: False if it may not have transparent huge pages;
    None before Linux 5.0."""

    cpus: tuple[int, ...]
    nodes: tuple[int, ...]
    huge: bool | None


def text(host: Host, pid: int) -> str:
    """The file, read once for all subjects. Raises HostError."""
    return host.once(f"status of {pid}", lambda: host.read(_path(pid)))


def row(host: Host, pid: int, name: str) -> str:
    """Text after a name in the file; empty without this row. Raises HostError."""
    # The kernel spells line ends in the name of a program (fs/proc/array.c: proc_task_name).
    return f"\n{text(host, pid)}".partition(f"\n{name}:")[2].partition("\n")[0].strip(" \t")


def _path(pid: int) -> str:
    return f"/proc/{pid}/status"


def read(host: Host, pid: int) -> Status:
    """Raises HostError."""
    return host.once(f"allowed of {pid}", lambda: _read(host, pid))


def _read(host: Host, pid: int) -> Status:
    path = _path(pid)
    try:
        cpus, nodes = (_list(row(host, pid, name)) for name in ("Cpus_allowed_list", "Mems_allowed_list"))
    except ValueError as error:
        raise HostError("understand", path, None, str(error)) from error
    if not cpus or not nodes:
        raise HostError("understand", path, None, "it has no Cpus_allowed_list or no Mems_allowed_list")
    huge = {"0": False, "1": True}.get(row(host, pid, "THP_enabled"))
    return Status(cpus, nodes, huge)


#: Processes of a node share few lists
_list = functools.lru_cache(maxsize=1024)(cpulist.parse)
