# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""CPUs, NUMA nodes and huge pages that a process may use, from /proc/PID/status (proc_pid_status(5))."""

from __future__ import annotations

import functools
import sys

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


#: Rows that are kept: a file has 1.5 KiB, and a node thousands of processes
_ROWS = ("Uid", "Gid", "Groups", "Cpus_allowed_list", "Mems_allowed_list", "THP_enabled")


def row(host: Host, pid: int, name: str) -> str:
    """Text after a name of _ROWS in the file; empty without this row. The file is read once for all subjects.
    Raises HostError."""
    return host.once(f"status of {pid}", lambda: _rows(host, pid))[_ROWS.index(name)]


def _rows(host: Host, pid: int) -> tuple[str, ...]:
    # The kernel spells line ends in the name of a program (fs/proc/array.c: proc_task_name).
    text = f"\n{host.read(_path(pid))}"
    after = (text.partition(f"\n{name}:")[2] for name in _ROWS)
    return tuple(sys.intern(line.partition("\n")[0].strip(" \t")) for line in after)


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
