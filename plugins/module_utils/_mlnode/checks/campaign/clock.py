# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The clock that all nodes share, and how a process waits for a time of it."""

from __future__ import annotations

import time
from typing import Callable

from ...model.record import NamedTuple

#: By how much a node's clock may be behind that of the controller, in seconds, before it is taken for wrong:
#: half of what the rounds of a campaign bear (part.LEAD)
BEHIND = 0.5

#: A connection may take so long to bring a question, in seconds, before the node's clock is taken to be wrong
SLOW = 30.0


def deviation(sent: float, now: float) -> float:
    """Seconds by which a node's clock is certainly behind that of the controller (below 0) or before it; 0
    where the time that the question took may be all of the difference.

    sent: when the controller sent it, by its clock; now: when it came, by the node's.
    """
    late = now - sent
    return late if late < -BEHIND or late > SLOW else 0.0


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
