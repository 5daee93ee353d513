# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tables of mounts, and their NFS mounts."""

from __future__ import annotations

from ..host import mountinfo
from ..host.host import Host
from ..host.mountinfo import Mount
from ..model.errors import HostError
from ..model.values import by_key

#: The system's: the boot service does not see mounts below /home
SYSTEM = "/proc/1/mountinfo"

_NFS = ("nfs", "nfs4")


def table(host: Host) -> str:
    """The system's table, or the reader's own if that is hidden from users (hidepid) or not captured; empty
    if both are absent. Raises HostError."""
    try:
        text = host.text(SYSTEM)
    except HostError:
        text = ""
    return text or host.text(mountinfo.TABLE)


def nfs(text: str) -> dict[str, list[Mount]]:
    """NFS mounts by the number of their device, MAJOR:MINOR, which several mounts of one export share."""
    return by_key((mount.device, mount) for mount in mountinfo.parse(text) if mount.kind in _NFS)
