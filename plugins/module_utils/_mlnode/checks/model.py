# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Result of a read-only check: one verdict with its evidence, what to do, and when that is a failure."""

from __future__ import annotations

from enum import Enum
from typing import Any, Iterable

from ..model.record import dataclass


class Verdict(str, Enum):
    """pending: files have it right, and it takes effect with the restart or reboot that the advice names.
    skip: not applicable, or not there, with the reason. unknown: it could not be read.
    None of them ever counts as pass."""

    PASS = "pass"
    WARN = "warn"
    FAIL = "fail"
    PENDING = "pending"
    SKIP = "skip"
    UNKNOWN = "unknown"

    def __str__(self) -> str:
        return self.value


#: Not as expected, from the worst on: what is unknown may be a failure, and what is pending has its remedy
BAD = (Verdict.FAIL, Verdict.UNKNOWN, Verdict.PENDING, Verdict.WARN)

#: fail_on → the verdicts that fail: its own, and what is worse
FAIL_ON = {"fail": BAD[:1], "unknown": BAD[:2], "warn": BAD, "never": ()}


@dataclass(frozen=True)
class Check:
    """Verdict on one thing, with its evidence.

    name: of the check, such as rate. target: a device, port or interface, such as mlx5_0/1. expected, found:
    for people; found is the raw value where one was read. source: the file or command it is from. advice:
    what to do, empty if nothing. value: what nodes of a fleet have in common, where `found` has more words
    than that, or nothing says what it should be; None elsewhere.
    """

    name: str
    target: str
    verdict: Verdict
    expected: str
    found: str
    source: str
    advice: str = ""
    value: str | None = None

    def document(self) -> dict[str, Any]:
        value = {} if self.value is None else {"value": self.value}
        return {
            "name": self.name,
            "target": self.target,
            "verdict": str(self.verdict),
            "expected": self.expected,
            "found": self.found,
            "source": self.source,
            "advice": self.advice,
            **value,
        }

    def __str__(self) -> str:
        line = f"{self.target}: {self.name} {self.verdict}: {self.found}"
        line += f" (expected {self.expected})" if self.expected else ""
        return f"{line}; {self.advice}" if self.advice else line


def skip(name: str, target: str, why: str, source: str = "") -> Check:
    return Check(name, target, Verdict.SKIP, "", why, source)


def judged(
    name: str,
    target: str,
    good: bool,
    expected: str,
    found: str,
    source: str,
    advice: str = "",
    bad: Verdict = Verdict.FAIL,
) -> Check:
    """advice: where it is not good."""
    if good:
        return Check(name, target, Verdict.PASS, expected, found, source)
    return Check(name, target, bad, expected, found, source, advice)


def bad(checks: Iterable[Check]) -> list[Check]:
    """Those that are not as expected, the worst first."""
    return sorted((check for check in checks if check.verdict in BAD), key=lambda one: BAD.index(one.verdict))


def summary(checks: Iterable[Check]) -> dict[str, int]:
    """Number of checks in each verdict; verdicts without any are left out."""
    counts: dict[str, int] = {}
    for check in checks:
        counts[str(check.verdict)] = counts.get(str(check.verdict), 0) + 1
    return dict(sorted(counts.items()))
