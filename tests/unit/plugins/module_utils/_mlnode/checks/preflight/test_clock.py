# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from mlnode.checks.model import Verdict
from mlnode.checks.preflight import clock
from mlnode.linux import kernel_clock
from mlnode.linux.kernel_clock import KernelClock
from mlnode.model.errors import HostError


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
    def read() -> KernelClock:
        if known is None:
            raise HostError("read", "adjtimex(2)", 1)
        return known

    check = clock.check(read)
    assert check.verdict is verdict
    assert found in check.found


def test_this_machines_own_clock_can_be_read() -> None:
    known = kernel_clock.read()
    # kernel/time/ntp.c: what is not synchronised has the largest error that there is.
    assert 0 <= known.most_error_us <= 16_000_000
