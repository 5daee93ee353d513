# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who has to be told that a file has changed. Each is told once, after all files of a run are written."""

from __future__ import annotations

from typing import Any, Callable, Iterable, Mapping

from .agent_files import NIC_PATH_FILE, NIC_PATH_UNIT
from .host import Host


def _units(host: Host) -> None:
    """systemd reads its units again, and waits for NICs or no longer; where it does not run there is nobody
    to tell. udev notices changed rules by itself."""
    if not host.systemd_runs():
        return
    purpose = "make systemd read its units again:"
    host.must_run(["systemctl", "daemon-reload"], purpose)
    if host.exists(NIC_PATH_FILE):
        host.must_run(["systemctl", "start", NIC_PATH_UNIT], "start waiting for NICs:")
    elif host.run(["systemctl", "is-active", "--quiet", NIC_PATH_UNIT]).rc == 0:
        host.must_run(["systemctl", "stop", NIC_PATH_UNIT], "stop waiting for NICs:")


#: Name, as it is kept in a file's origin → what tells them. Raises HostError.
REFRESHES: Mapping[str, Callable[[Host], None]] = {
    "units": _units,
}


def of(steps: Iterable[Any]) -> list[str]:
    """The names that steps or origin entries' files ask for, each once, in their order."""
    names = (getattr(step, "refresh", "") for step in steps)
    return list(dict.fromkeys(name for name in names if name))


def run(host: Host, name: str) -> None:
    """Raises HostError where they cannot be told, or say that the file is wrong."""
    REFRESHES[name](host)
