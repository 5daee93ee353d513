# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Messages of the kernel since its start.

A ring holds them and forgets the oldest ones; the journal of systemd keeps them longer.
"""

from __future__ import annotations

from ..host.host import Host
from ..model.errors import HostError
from ..model.record import regex

_LOG = "/dev/kmsg"
#: The kernel log of a captured tree, as `dmesg` prints it
CAPTURED = f"{_LOG}.txt"
_JOURNAL = ("journalctl", "--dmesg", "--boot", "--output=cat", "--quiet", "--no-pager")
#: The journal of a boot is read in a fraction of that; no check waits longer for it
_SECONDS = 10.0

#: `PRIORITY,NUMBER,MICROSECONDS,FLAGS;MESSAGE`, with lines of properties after it (ABI/testing/dev-kmsg)
_RECORD = regex(r"[0-9]+,([0-9]+),[^;\n]*;([^\n]*)")
#: `<6>[    0.123456] `
_STAMP = regex(r"(?:<[0-9]{1,3}>)?(?:\[ *[0-9]+\.[0-9]+\](?:\[[^\]]*\])? )?")


def lines(host: Host) -> tuple[str, ...]:
    """Available messages of this boot; empty if they cannot be read."""
    return host.once("kernel log", lambda: _lines(host), of_files=True)


def _lines(host: Host) -> tuple[str, ...]:
    if not host.live:
        return tuple(_STAMP.sub("", line, count=1) for line in host.text(CAPTURED).split("\n") if line)
    records = [match for match in map(_RECORD.match, _records(host)) if match]
    begun = bool(records) and records[0].group(1) == "0"
    return (*(() if begun else _journal(host)), *(match.group(2) for match in records))


def _records(host: Host) -> list[str]:
    try:
        return host.kernel_log(_LOG)
    except HostError:  # closed to this user (kernel.dmesg_restrict)
        return []


def _journal(host: Host) -> list[str]:
    try:
        done = host.run(_JOURNAL, _SECONDS)
    except HostError:  # no systemd
        return []
    return done.out.split("\n") if done.rc == 0 else []
