# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ranks that others wait for, by the time of each iteration on each process (nccl-tests from 2.19.1 on, -I).

In an all-reduce all wait for the last one, whose own time is the shortest. So both ends are named.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ...module_utils._mlnode.checks.model import Verdict
from .read import Reading

#: Bytes. With smaller messages, the operation is faster than processes begin it one by one.
LEAST = 1 << 20
#: Mean time of the slowest process as a multiple of the fastest: more is not noise of 20 iterations.
RATIO = 2.0
#: The longest iteration against the mean of all: one of 20 then takes more than a quarter of the whole time.
PEAK = 5.0


class Finding(NamedTuple):
    """broke: `ratio` if one process takes longer than another; `peak` if one iteration does."""

    size: int
    broke: str
    reason: str


class Stragglers(NamedTuple):
    verdict: Verdict
    reason: str
    findings: tuple[Finding, ...] = ()


def judge(reading: Reading) -> Stragglers:
    rows = [(row.size, times) for row in reading.rows for times in row.processes if row.size >= LEAST]
    if not rows:
        return Stragglers(Verdict.UNKNOWN, "this nccl-tests wrote no times of its processes (option -I)")
    if any(len(times) != len(reading.devices) for _size, times in rows):
        return Stragglers(Verdict.UNKNOWN, "times of some processes are missing")
    findings = tuple(finding for size, times in rows for finding in _findings(size, times, reading))
    if any(finding.broke == "ratio" for finding in findings):
        return Stragglers(Verdict.FAIL, _worst(findings, "ratio"), findings)
    if findings:
        return Stragglers(Verdict.WARN, _worst(findings, "peak"), findings)
    return Stragglers(Verdict.PASS, "")


def _findings(size: int, times: Sequence[Sequence[float]], reading: Reading) -> Iterator[Finding]:
    means = [statistics.fmean(own) for own in times]
    slow, fast = max(means), min(means)
    if slow > RATIO * fast:
        named = [_name(reading, means.index(extreme)) for extreme in (slow, fast)]
        reason = f"{size} bytes: {named[0]} takes {slow:.4g} µs, {named[1]} {fast:.4g} µs"
        yield Finding(size, "ratio", reason)
    longest = [max(own) for own in zip(*times)]
    mean = statistics.fmean(longest)
    if max(longest) > PEAK * mean:
        own = max(range(len(times)), key=lambda place: max(times[place]))
        took = f"takes {max(longest):.4g} µs, the mean {mean:.4g} µs"
        reason = f"{size} bytes: one iteration of {_name(reading, own)} {took}"
        yield Finding(size, "peak", reason)


def _name(reading: Reading, place: int) -> str:
    device = reading.devices[place]
    return f"rank {device.rank} on {device.hostname}"


def _worst(findings: Sequence[Finding], broke: str) -> str:
    reasons = [finding.reason for finding in findings if finding.broke == broke]
    return reasons[0] if len(reasons) == 1 else f"{reasons[0]}; and {len(reasons) - 1} more"
