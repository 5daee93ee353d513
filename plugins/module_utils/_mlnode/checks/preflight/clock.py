# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The node's clock: whether something keeps it, and whether it agrees with the controller's."""

from __future__ import annotations

from typing import Callable, Iterator

from ...linux import kernel_clock
from ...linux.kernel_clock import KernelClock
from ...model.errors import HostError
from ..campaign.clock import BEHIND, SLOW, deviation
from ..model import Check, Verdict

#: In seconds. munge(7) refuses what seems to be older than its default TTL, and Kerberos what differs by more
#: than its default clockskew (krb5.conf(5)): 300 both.
_REFUSED = 300.0

_SYNC = (
    "enable chronyd or systemd-timesyncd, and see that it reaches a server (chronyc tracking, timedatectl)"
)


def checks(
    sent: float | None, now: float, read: Callable[[], KernelClock] = kernel_clock.read
) -> Iterator[Check]:
    """sent: when the controller sent its question, in seconds since 1970, and now: when it had come."""
    yield _kept(read)
    if sent is not None:
        yield _compared(sent, now)


def _kept(read: Callable[[], KernelClock]) -> Check:
    name, expected, source = "clock_sync", "synchronised", "adjtimex(2)"
    try:
        clock = read()
    except HostError as error:
        return Check(name, "node", Verdict.UNKNOWN, expected, str(error), source, _SYNC)
    if not clock.synchronised:
        found = "nothing synchronises the clock, or the kernel is not informed (chronyd without rtcsync)"
        return Check(name, "node", Verdict.WARN, expected, found, source, _SYNC)
    found = f"synchronised, wrong by {clock.most_error_us / 1000:.3g} ms at most"
    return Check(name, "node", Verdict.PASS, expected, found, source)


def _compared(sent: float, now: float) -> Check:
    name, expected = "clock_offset", f"not behind the controller by {BEHIND:g} s, nor {SLOW:g} s before it"
    off = deviation(sent, now)
    if not off:
        found = f"the question came {now - sent:.2f} s after it was sent"
        return Check(name, "node", Verdict.PASS, expected, found, "the controller's clock")
    way = "behind" if off < 0 else "before"
    found = f"{abs(off):.1f} s {way} the controller's clock"
    verdict = Verdict.FAIL if abs(off) > _REFUSED else Verdict.WARN
    advice = f"{_SYNC}; where all nodes differ alike, it is the controller's clock"
    return Check(name, "node", verdict, expected, found, "the controller's clock", advice)
