# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The clock that all nodes share: a node's offset from it, and waiting for one of its times."""

from __future__ import annotations

import os
import time
from typing import Callable

from ...model.record import NamedTuple

#: Seconds. Largest difference between two nodes' clocks in a round: half of its tolerance (kind.LEAD)
TOLERATED = 0.5


class Offset(NamedTuple):
    """Seconds by which a node's clock is ahead of the controller's; negative if it is behind.

    uncertain: possible error, in seconds.
    """

    seconds: float
    uncertain: float

    @property
    def least(self) -> float:
        """The certain part of the difference, without a sign."""
        return max(0.0, abs(self.seconds) - self.uncertain)

    @property
    def most(self) -> float:
        """The largest possible difference, without a sign."""
        return abs(self.seconds) + self.uncertain

    def __str__(self) -> str:
        way = "ahead of" if self.seconds > 0 else "behind"
        return f"{abs(self.seconds):.2f} s (+/- {self.uncertain:.2f} s) {way} the controller's clock"


def offset(asked: float, came: float, left: float, answered: float) -> Offset:
    """Offset from four times: the controller asked and was answered, and the question came and the answer
    left, each by the local clock.

    The delivery time cancels out; half of it is the uncertainty (RFC 5905, section 8).
    """
    delivery = (answered - asked) - (left - came)
    # An answer cannot leave before the question came: the measurement is invalid.
    uncertain = delivery / 2 if delivery >= 0 else float("inf")
    return Offset(((came - asked) + (left - answered)) / 2, uncertain)


#: Seconds. The process of a question is younger; an older one, of a lasting connection, proves nothing.
_OLDEST = 60.0


def _age() -> float:
    """Seconds since this process was started for the question; 0 if unknown.

    Python may have compiled for more than a second since then (proc(5), /proc/pid/stat: starttime).
    """
    try:
        with open("/proc/self/stat", "rb") as file:
            ticks = int(file.read().rpartition(b")")[2].split()[19])
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError, AttributeError):
        return 0.0
    return age if 0 <= age <= _OLDEST else 0.0


class Answering:
    """Times at which a question came to this node and its answer leaves, in seconds since 1970.

    Setting the clock in between has no effect.
    """

    def __init__(self) -> None:
        self._begin = time.monotonic()
        self._came = time.time() - _age()
        self._before = time.time() - self._came

    @property
    def times(self) -> list[float]:
        return [self._came, self._came + self._before + time.monotonic() - self._begin]


class Clock(NamedTuple):
    """wall: seconds since 1970, which an administrator or NTP may change. now: monotonic seconds."""

    wall: Callable[[], float] = time.time
    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    def monotonic(self, wall: float) -> float:
        """The value of now() at a wall time."""
        return self.now() + wall - self.wall()

    def wait(self, until: float) -> None:
        """Sleep until a value of now(). Returns at once if it has passed."""
        left = until - self.now()
        if left > 0:
            self.sleep(left)
