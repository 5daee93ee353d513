# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The clock that all nodes share, and how a process waits for a time of it."""

from __future__ import annotations

import time
from typing import Callable

from ...model.record import NamedTuple


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
