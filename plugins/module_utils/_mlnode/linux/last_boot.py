# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files that are as old as the last boot or older: what they say was there when the machine started."""

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

    The kernel counts its boot time back from the present clock (proc_stat(5)): a clock that was corrected
    since makes files of this boot look older. The time of a file that was made early in this boot moves with
    theirs, so that both have to be later.
    """
    match = _BOOT_TIME.search(host.text("/proc/stat"))
    if match is None:
        return False
    early = host.changed(_EARLY)
    started = min(float(match.group(1)), *([early] if early is not None else []), float("inf"))
    times = [host.changed(path) for path in paths]
    return all(time is None or time < started for time in times)
