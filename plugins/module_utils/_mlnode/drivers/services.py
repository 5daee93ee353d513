# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Services as virtual files: /service/UNIT/running contains `running` or `stopped`.

A service runs while its control group has processes, which a captured tree shows like a live host. A finished
one-shot service, such as cpupower.service, is `stopped`: it changes nothing any more.
"""

from __future__ import annotations

import errno
import re
import time

from ..host import systemctl
from ..host.host import Host
from ..model.errors import HostError, MissingError
from ..model.record import regex

TOP = "/service"

RUNNING, STOPPED = "running", "stopped"

#: Search path of systemd for units; the first match wins: systemd.unit(5)
FOLDERS = (
    "/etc/systemd/system",
    "/run/systemd/system",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
)
#: Folders of system services: cgroup v2, v1, and hybrid
_GROUPS = (
    "/sys/fs/cgroup/system.slice",
    "/sys/fs/cgroup/systemd/system.slice",
    "/sys/fs/cgroup/unified/system.slice",
)
_UNIT = regex(r"[A-Za-z0-9_.@-]{1,200}\.service\Z", re.ASCII)
_FILE = "running"

#: systemd reports a stop before it removes the group, which is empty by then: a short wait suffices. Seconds,
#: and number of looks
_PAUSE, _LOOKS = 0.1, 20


def file_of(unit: str) -> str:
    return f"{TOP}/{unit}/{_FILE}"


def fragment(host: Host, unit: str) -> str:
    """File of a unit: a unit file, a link that masks it, or a System V script that systemd converts.

    "" if it is not installed. Raises HostError.
    """
    paths = [*(f"{folder}/{unit}" for folder in FOLDERS), f"/etc/init.d/{unit[: -len('.service')]}"]
    return next((path for path in paths if host.is_link(path) or host.exists(path)), "")


def is_running(host: Host, unit: str) -> bool:
    """True if a service runs. Raises HostError if this is unknown."""
    for folder in _GROUPS:
        path = f"{folder}/{unit}/cgroup.procs"
        value = host.value(path)
        if value.unreadable is not None:
            raise HostError("determine whether it runs from", path, None, value.unreadable)
        if value.text:
            return True
    return False


# -- the files -----------------------------------------------------------------------------


def read(host: Host, path: str) -> bytes:
    unit = _unit("read", path)
    if is_running(host, unit):
        return f"{RUNNING}\n".encode("ascii")
    if not fragment(host, unit):
        raise MissingError("read", path, f"{unit} is not installed")
    return f"{STOPPED}\n".encode("ascii")


def write(host: Host, path: str, value: str) -> None:
    """Start or stop it; a read shows the result."""
    action = f"write {value!r} to"
    unit = _unit(action, path)
    if value not in (RUNNING, STOPPED):
        raise HostError(action, path, errno.EINVAL)
    if not fragment(host, unit):
        raise MissingError(action, path, f"{unit} is not installed")
    host.forget()  # units, too
    if value == RUNNING:
        # The drop-in that kept it stopped may be gone, but systemd has not noticed yet.
        systemctl.reload(host, "make systemd read its units again:")
        systemctl.job(host, "start", unit, f"start {unit}:")
        return
    systemctl.job(host, "stop", unit, f"stop {unit}:")
    for _look in range(_LOOKS):
        if not is_running(host, unit):
            return
        time.sleep(_PAUSE)


def names(host: Host, path: str) -> list[str]:
    """The file of one service. Only systemd can list all services."""
    parts = path.strip("/").split("/")
    return [_FILE] if len(parts) == 2 and exists(host, path) else []


def exists(host: Host, path: str) -> bool:
    parts = path.strip("/").split("/")
    if len(parts) == 1:
        return True
    known = len(parts) == 2 or (len(parts) == 3 and parts[2] == _FILE)
    return known and bool(_UNIT.match(parts[1])) and bool(fragment(host, parts[1]))


def blocked(host: Host, path: str) -> str:
    """Never blocked: systemd decides who may start and stop services."""
    del host, path
    return ""


def _unit(action: str, path: str) -> str:
    parts = path.strip("/").split("/")
    if len(parts) != 3 or parts[2] != _FILE or not _UNIT.match(parts[1]):
        raise MissingError(action, path, f"{path} does not exist")
    return parts[1]
