# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Errors in the kernel's log: lines, causes, and events."""

from __future__ import annotations

from .record import NamedTuple
from .setting import Severity

#: Seconds. Older errors are reported and never fail: NVIDIA's catalog counts repeats per day (Xid 149), and a
#: persistent fault has a newer message or fails another check
WINDOW_S = 24 * 3600


class Cause(NamedTuple):
    """Cause of an error, and the advice for it."""

    name: str
    severity: Severity
    reason: str
    advice: str


class Line(NamedTuple):
    """A message without its time. age: seconds, None if the log has no times."""

    text: str
    age: int | None


class Event(NamedTuple):
    """title: as in the log, such as Xid 79. name: its meaning; "" if the title explains itself."""

    title: str
    name: str
    cause: Cause
    age: int | None

    @property
    def is_old(self) -> bool:
        return self.age is not None and self.age > WINDOW_S
