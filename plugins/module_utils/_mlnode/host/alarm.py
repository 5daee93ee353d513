# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A time limit for any operation of the main thread."""

from __future__ import annotations

import signal
from contextlib import contextmanager
from typing import Iterator, NoReturn


@contextmanager
def limited(seconds: float, late: Exception) -> Iterator[None]:
    """Raises `late` once the time is over. A timer of the caller goes on afterwards."""

    def end(_number: int, _frame: object) -> NoReturn:
        raise late

    before = signal.signal(signal.SIGALRM, end)
    left = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, *left)
        signal.signal(signal.SIGALRM, before)
