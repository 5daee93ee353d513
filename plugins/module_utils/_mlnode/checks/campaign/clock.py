# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The clock that all nodes share, how far a node's is from it, and how a process waits for a time of it."""

from __future__ import annotations

import os
import time
from typing import Callable

from ...model.record import NamedTuple

#: Seconds by which the clocks of two nodes may differ that run rounds together: half of what a round bears
#: (kind.LEAD)
TOLERATED = 0.5


class Offset(NamedTuple):
    """How far a node's clock is ahead of the controller's, in seconds; below 0, it is behind. uncertain: by
    how much that may be wrong."""

    seconds: float
    uncertain: float

    @property
    def least(self) -> float:
        """The difference that is certain, without a sign."""
        return max(0.0, abs(self.seconds) - self.uncertain)

    @property
    def most(self) -> float:
        """The largest difference that there may be, without a sign."""
        return abs(self.seconds) + self.uncertain

    def __str__(self) -> str:
        way = "ahead of" if self.seconds > 0 else "behind"
        return f"{abs(self.seconds):.2f} s (+/- {self.uncertain:.2f} s) {way} the controller's clock"


def offset(asked: float, came: float, left: float, answered: float) -> Offset:
    """From when the controller sent a question and had the answer, and when the node had the question and
    sent the answer, each by its own clock: the time of delivery does not count, and half of it is what is
    not known (RFC 5905, section 8)."""
    delivery = (answered - asked) - (left - came)
    # An answer cannot have left before it came: something else was measured, and nothing is known.
    uncertain = delivery / 2 if delivery >= 0 else float("inf")
    return Offset(((came - asked) + (left - answered)) / 2, uncertain)


#: Seconds. The process of a question is younger; an older one, of a connection that stays, says nothing
#: about it.
_OLDEST = 60.0


def _age() -> float:
    """Seconds since this process was started for the question; 0 if that is not known. Python may have
    compiled for more than a second since then (proc(5), /proc/pid/stat: starttime)."""
    try:
        with open("/proc/self/stat", "rb") as file:
            ticks = int(file.read().rpartition(b")")[2].split()[19])
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError, AttributeError):
        return 0.0
    return age if 0 <= age <= _OLDEST else 0.0


class Answering:
    """When a question came to this node, and when its answer leaves, in seconds since 1970. A clock that is
    set meanwhile does not count."""

    def __init__(self) -> None:
        self._begin = time.monotonic()
        self._came = time.time() - _age()
        self._before = time.time() - self._came

    @property
    def times(self) -> list[float]:
        return [self._came, self._came + self._before + time.monotonic() - self._begin]


class Clock(NamedTuple):
    """wall: seconds since 1970, which an administrator or NTP may move at any time. now: seconds that only
    run.
    """

    wall: Callable[[], float] = time.time
    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    def of(self, wall: float) -> float:
        """The time of now() at which it will be so late."""
        return self.now() + wall - self.wall()

    def wait(self, until: float) -> None:
        """Until a time of now(). One that has passed is not waited for."""
        left = until - self.now()
        if left > 0:
            self.sleep(left)
