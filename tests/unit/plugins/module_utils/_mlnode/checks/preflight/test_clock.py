# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from mlnode.checks.campaign.clock import deviation
from mlnode.checks.model import Check, Verdict
from mlnode.checks.preflight import clock
from mlnode.linux import kernel_clock
from mlnode.linux.kernel_clock import KernelClock
from mlnode.model.errors import HostError


def look(known: KernelClock | None, sent: float | None = None, now: float = 0) -> dict[str, Check]:
    def read() -> KernelClock:
        if known is None:
            raise HostError("read", "adjtimex(2)", 1)
        return known

    return {check.name: check for check in clock.checks(sent, now, read)}


@pytest.mark.parametrize(
    ("known", "verdict", "found"),
    [
        (KernelClock(True, 1500), Verdict.PASS, "synchronised, wrong by 1.5 ms at most"),
        (KernelClock(False, 16_000_000), Verdict.WARN, "nothing synchronises the clock"),
        (None, Verdict.UNKNOWN, "EPERM"),
    ],
)
def test_the_kernel_knows_whether_something_keeps_the_clock(
    known: KernelClock | None, verdict: Verdict, found: str
) -> None:
    check = look(known)["clock_sync"]
    assert check.verdict is verdict
    assert found in check.found


@pytest.mark.parametrize(
    ("late", "verdict", "found"),
    [
        (0.7, Verdict.PASS, "the question came 0.70 s after it was sent"),
        (29.9, Verdict.PASS, "29.90 s after"),
        (-0.4, Verdict.PASS, "-0.40 s after"),
        (-0.6, Verdict.WARN, "0.6 s behind the controller's clock"),
        (31.0, Verdict.WARN, "31.0 s before the controller's clock"),
        (-301.0, Verdict.FAIL, "301.0 s behind"),
        (3600.0, Verdict.FAIL, "3600.0 s before"),
    ],
)
def test_the_controllers_clock(late: float, verdict: Verdict, found: str) -> None:
    check = look(KernelClock(True, 1), 1000.0, 1000.0 + late)["clock_offset"]
    assert check.verdict is verdict
    assert found in check.found
    assert bool(deviation(1000.0, 1000.0 + late)) == (verdict is not Verdict.PASS)


def test_what_was_not_sent_is_not_compared() -> None:
    assert [*look(KernelClock(True, 1))] == ["clock_sync"]


def test_this_machines_own_clock_can_be_read() -> None:
    known = kernel_clock.read()
    # kernel/time/ntp.c: what is not synchronised has the largest error that there is.
    assert 0 <= known.most_error_us <= 16_000_000
