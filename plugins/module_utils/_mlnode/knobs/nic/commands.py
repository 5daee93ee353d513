# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Commands that have the same effect: ethtool(8) and ip-link(8)."""

from __future__ import annotations

import shlex
from typing import Iterable

from ...engine.kind import Row
from ...model.setting import KnobFile

#: Group of files → ethtool's option that sets it; the arguments are the words of the files
_OPTIONS = {
    "private-flag": "--set-priv-flags",
    "channels": "-L",
    "ring": "-G",
    "coalesce": "-C",
    "pause": "-A",
    "fec": "--set-fec",
    "feature": "-K",
}
_IP = {"mtu": "mtu", "tx_queue_len": "txqueuelen"}


def command_lines(rows: Iterable[Row]) -> list[str]:
    """One command for each NIC and write, whether or not a change is needed, in the order of application."""
    parts: dict[str, dict[str, list[KnobFile]]] = {}
    for row in rows:
        for part in row.reading.parts:
            # One command for each write.
            parts.setdefault(_place(part)[0], {}).setdefault(part.joined or part.path, []).append(part)
    return [
        _command(interface, _place(joined[0])[1], joined)
        for interface, writes in parts.items()
        for joined in writes.values()
    ]


def _place(part: KnobFile) -> tuple[str, str]:
    pieces = part.path.strip("/").split("/")
    if pieces[0] == "ethtool":
        return pieces[1], pieces[2]
    return pieces[3], pieces[4]  # sys/class/net/eth0/mtu


def _command(interface: str, group: str, parts: list[KnobFile]) -> str:
    if group in _IP:
        words = ["ip", "link", "set", "dev", interface, _IP[group], parts[0].want]
    else:
        words = ["ethtool", _OPTIONS[group], interface]
        for part in parts:
            words += [part.path.rpartition("/")[2], *part.want.split()]
    return " ".join(shlex.quote(word) for word in words)
