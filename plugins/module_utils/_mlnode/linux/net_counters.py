# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Counters of the network: packets of interfaces, and counters of protocols. They start with the interface or
the network namespace."""

from __future__ import annotations

import re
from typing import Mapping

from ..host.host import Host
from ..model import values
from ..model.errors import HostError
from ..model.record import NamedTuple

DEV, SNMP = "/proc/net/dev", "/proc/net/snmp"
_MISSED = "/sys/class/net/{}/statistics/rx_missed_errors"

#: Above one in ten thousand TCP is slower than the link (Mathis, Semke, Mahdavi, Ott 1997: MSS / RTT /
#: sqrt(loss)): 72 Gb/s with 9000 bytes and a round trip of 100 us
LOSS = 1e-4


class Traffic(NamedTuple):
    """Packets of an interface. full: no room in the ring. unwanted: no reader, such as an unknown
    protocol."""

    received: int
    errors: int
    full: int
    unwanted: int
    sent: int
    send_errors: int
    send_drops: int

    @property
    def receive_lost(self) -> int:
        return self.errors + self.full

    @property
    def send_lost(self) -> int:
        return self.send_errors + self.send_drops


def rows(text: str) -> Mapping[str, str]:
    """Interface → its numbers in /proc/net/dev."""
    return dict(re.findall(r"^ *([^\s:]{1,15}):(.*)$", text, re.MULTILINE))


def traffic(host: Host, name: str, row: str) -> Traffic:
    """Packets of an interface. row: from rows(). Raises HostError.

    `drop` counts both packets without room in the ring (rx_missed_errors, as most drivers of fast NICs report
    it) and packets without a reader. Frame errors are already among the errors (rtnl_link_stats64)."""
    counted = [values.number(word) for word in row.split()]
    numbers = [number for number in counted if number is not None]
    if len(numbers) != 16 or len(counted) != 16:
        raise HostError("understand", DEV, None, f"expected 16 numbers for {name}, got {len(numbers)}")
    path = _MISSED.format(name)
    missed = values.number(host.text(path)) or 0
    packets, errors, drops, full, frame = numbers[1:6]
    return Traffic(packets, max(errors, frame), max(full, missed), max(0, drops - missed), *numbers[9:12])


def group(text: str, name: str) -> Mapping[str, int]:
    """A group of /proc/net/snmp or netstat: a line of names and one of numbers, both with this prefix. Empty
    if there is none."""
    lines = [line.split()[1:] for line in text.splitlines() if line.startswith(f"{name}: ")]
    if len(lines) != 2 or len(lines[0]) != len(lines[1]):
        return {}
    pairs = ((key, values.number(word)) for key, word in zip(*lines))
    return {key: number for key, number in pairs if number is not None}
