# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Synchronisation of the node's clock. plugin_utils/node_clock.py compares it with the controller's."""

from __future__ import annotations

from typing import Callable

from ...linux import kernel_clock
from ...linux.kernel_clock import KernelClock
from ...model.errors import HostError
from ..model import NODE, Check, Subject, Verdict

#: Advice for a clock that is not synchronised
SYNC = "enable chronyd or systemd-timesyncd, and see that it reaches a server (chronyc tracking, timedatectl)"


def check(read: Callable[[], KernelClock] = kernel_clock.read) -> Check:
    subject = Subject("clock_sync", NODE, "adjtimex(2)", "synchronised", SYNC, Verdict.WARN)
    try:
        clock = read()
    except HostError as error:
        return subject.unknown(str(error), advice=SYNC)
    evidence = "nothing synchronises the clock, or the kernel is not informed (chronyd without rtcsync)"
    if clock.synchronised:
        evidence = f"synchronised, wrong by {clock.most_error_us / 1000:.3g} ms at most"
    return subject.judged(clock.synchronised, evidence)
