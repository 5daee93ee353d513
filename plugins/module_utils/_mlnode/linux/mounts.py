# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the tables of mounts are, and the mounts of NFS in them."""

from __future__ import annotations

from ..host import mountinfo
from ..host.host import Host
from ..host.mountinfo import Mount
from ..model.errors import HostError

#: The system's: the boot service does not see what is mounted below /home
SYSTEM = "/proc/1/mountinfo"

_NFS = ("nfs", "nfs4")


def table(host: Host) -> str:
    """The system's, or the reader's own where that is hidden from all but root (hidepid) or not captured;
    empty where neither is there. Raises HostError."""
    try:
        text = host.text(SYSTEM)
    except HostError:
        text = ""
    return text or host.text(mountinfo.TABLE)


def nfs(text: str) -> dict[str, list[Mount]]:
    """Mounts of NFS by the number of their device, MAJOR:MINOR, which several of one export share."""
    found: dict[str, list[Mount]] = {}
    for mount in mountinfo.parse(text):
        if mount.kind in _NFS:
            found.setdefault(mount.device, []).append(mount)
    return found
