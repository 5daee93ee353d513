# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A drop-in of a systemd unit, and whether systemd has read it."""

from __future__ import annotations

from ..host.host import Host
from ..linux import systemd_show
from ..model.setting import BootFile
from .handlers import UNITS
from .kind import Context


def drop_in(context: Context, unit: str, path: str, content: bytes | None) -> BootFile:
    """A drop-in of a unit. Systemd is notified of one that is right already if it has not read it: a run for
    the next boot only has written it, or one that was killed. Raises HostError."""
    host = context.host
    here = context.runtime and content is not None and host.content(path) == content
    return BootFile(path, content, UNITS, stale=here and _is_unread(host, unit, path))


def _is_unread(host: Host, unit: str, path: str) -> bool:
    """False where systemd does not run, or cannot be asked."""
    shown = systemd_show.units(host).get(unit, {})
    # What is masked needs a reload whenever it has drop-ins, also after one (systemd issue 33672).
    if shown.get("LoadState") != ("loaded",):
        return False
    # Some versions do not see that a drop-in is new (systemd issue 31752), but show which they have read.
    return shown.get("NeedDaemonReload") == ("yes",) or path not in shown.get("DropInPaths", (path,))
