# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A drop-in of a systemd unit, and whether systemd has read it."""

from __future__ import annotations

from ..linux import systemd_show
from ..model.setting import BootFile
from .handlers import UNITS
from .kind import Context


def drop_in(context: Context, unit: str, path: str, content: bytes | None) -> BootFile:
    """A drop-in of a unit. Systemd is also notified of an unchanged drop-in that it has not read, left by a
    run for the next boot only, or by a killed run. Raises HostError."""
    host = context.host
    here = context.runtime and content is not None and host.content(path) == content
    stale = here and systemd_show.is_unread(systemd_show.units(host).get(unit, {}), path)
    return BootFile(path, content, UNITS, stale=stale)
