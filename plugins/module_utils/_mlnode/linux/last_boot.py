# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files as old as the last boot or older: their content existed when the machine started."""

from __future__ import annotations

import re
from typing import Iterable

from ..host.host import Host
from ..model.record import regex

_BOOT_TIME = regex(r"^btime ([0-9]{1,15})$", re.MULTILINE | re.ASCII)
#: Made by systemd at its start, and kept by its re-execution (src/core/manager.c: manager_setup_notify)
_EARLY = "/run/systemd/notify"


def is_older(host: Host, paths: Iterable[str]) -> bool:
    """True if none of these has been changed in this boot. False if that is unknown. Raises HostError.

    The kernel counts its boot time back from the present clock (proc_stat(5)): after a clock correction,
    files of this boot may look older. The time of a file made early in this boot moves with theirs, therefore
    an old file must be older than both.
    """
    match = _BOOT_TIME.search(host.text("/proc/stat"))
    if match is None:
        return False
    early = host.changed(_EARLY)
    started = min(float(match.group(1)), *([early] if early is not None else []), float("inf"))
    times = [host.changed(path) for path in paths]
    return all(time is None or time < started for time in times)
