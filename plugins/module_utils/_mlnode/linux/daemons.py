# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Running daemons and their limits, from /proc."""

from __future__ import annotations

import re
from typing import Collection, Mapping

from ..host.host import Host
from ..model.errors import HostError
from ..model.record import NamedTuple, regex

_PID = regex(r"[0-9]{1,10}\Z", re.ASCII)
_STATUS = regex(r"^(Name|PPid|Uid):\t(\S+)", re.MULTILINE)
#: Hierarchy with its controllers, and the path in it; v2 is hierarchy 0 without any: cgroups(7)
_GROUP = regex(r"^([0-9]{1,10}:[^:\n]*):(/.*)$", re.MULTILINE | re.ASCII)
_INIT = "/init.scope"
_BOOT_TIME = regex(r"^btime ([0-9]{1,15})$", re.MULTILINE | re.ASCII)


class Daemon(NamedTuple):
    pid: int
    name: str
    parent: int

    @property
    def limits(self) -> str:
        """The file with its limits."""
        return f"/proc/{self.pid}/limits"


class Running(NamedTuple):
    """hidden: why some processes are invisible; empty if all are visible. none: no process is visible."""

    daemons: tuple[Daemon, ...]
    hidden: str = ""
    none: bool = False

    def named(self, name: str) -> list[Daemon]:
        """Without their children of that name, such as sessions of sshd with their users' limits."""
        by_pid = {daemon.pid: daemon for daemon in self.daemons if daemon.name == name}
        return [daemon for daemon in by_pid.values() if daemon.parent not in by_pid]


def running(host: Host, names: Collection[str]) -> Running:
    """Processes of root with these names: any user may call a process slurmd. Names are cut to 15 characters
    (TASK_COMM_LEN). Raises HostError if /proc cannot be listed."""
    pids = sorted(int(name) for name in host.names("/proc") if _PID.match(name))
    daemons: list[Daemon] = []
    hidden = ""
    for pid in pids:
        try:
            fields = dict(_STATUS.findall(host.text(f"/proc/{pid}/status")))
        except HostError as error:
            hidden = hidden or str(error)
            continue
        name, parent = fields.get("Name", ""), fields.get("PPid", "")
        if name in names and fields.get("Uid") == "0" and _PID.match(parent):
            daemons.append(Daemon(pid, name, int(parent)))
    return Running(tuple(daemons), hidden, none=not pids)


def started(host: Host, pid: int) -> float | None:
    """Time at which a process was started, in seconds of the present clock; None if it has ended or that is
    not known. Raises HostError.

    Field 22 of proc_pid_stat(5), in hundredths of a second since the boot: USER_HZ is 100 on all
    architectures but alpha and ia64 (include/asm-generic/param.h).
    """
    boot = _BOOT_TIME.search(host.text("/proc/stat"))
    # The second field is the name, and may contain anything.
    fields = host.text(f"/proc/{pid}/stat").rpartition(")")[2].split()
    if boot is None or len(fields) < 20 or not fields[19].isdigit():
        return None
    return float(boot.group(1)) + int(fields[19]) / 100


def belongs(host: Host, pid: int, units: Collection[str]) -> bool:
    """True if a process is in the control group of one of these units, in any hierarchy; also True if its
    groups cannot be read."""
    groups = _groups(host, pid)
    if not groups:
        return True
    init = _groups(host, 1)
    return any(_unit(path, init.get(hierarchy, "")) in units for hierarchy, path in groups.items())


def _groups(host: Host, pid: int) -> Mapping[str, str]:
    try:
        return dict(_GROUP.findall(host.text(f"/proc/{pid}/cgroup")))
    except HostError:
        return {}


def _unit(path: str, init: str) -> str:
    """The unit of a control group: the part after the slices. Groups in a container have its scope or folder
    as a prefix. All groups have it if systemd itself is in a container, and they are shown from outside."""
    root = (init[: -len(_INIT)] if init.endswith(_INIT) else init).rstrip("/")
    if not path.startswith(f"{root}/"):
        return ""
    parts = path[len(root) + 1 :].split("/")
    return next((part for part in parts if not part.endswith(".slice")), "")


def limit(text: str, row: str, unit: str) -> tuple[str, str] | None:
    """Soft and hard limit of a row of /proc/PID/limits, such as `Max open files` in files, or None."""
    amount = "([0-9]{1,20}|unlimited)"
    match = re.search(f"^{re.escape(row)} +{amount} +{amount} +{unit} *$", text, re.MULTILINE)
    return (match.group(1), match.group(2)) if match else None
