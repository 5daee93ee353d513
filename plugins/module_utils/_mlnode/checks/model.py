# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Result of a read-only check: one verdict with its evidence, and what to do."""

from __future__ import annotations

from enum import Enum
from typing import Any, Iterable

from ..model.record import dataclass


class Verdict(str, Enum):
    """skip: not applicable, or not there, with the reason. unknown: it could not be read.
    Neither of them ever counts as pass."""

    PASS = "pass"
    WARN = "warn"
    FAIL = "fail"
    SKIP = "skip"
    UNKNOWN = "unknown"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True)
class Check:
    """One finding about one thing.

    name: of the check, such as rate. target: a device, port or interface, such as mlx5_0/1. expected, found:
    for people; found is the raw value where one was read. source: the file or command it is from. advice:
    what to do, empty if nothing.
    """

    name: str
    target: str
    verdict: Verdict
    expected: str
    found: str
    source: str
    advice: str = ""

    def document(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "target": self.target,
            "verdict": str(self.verdict),
            "expected": self.expected,
            "found": self.found,
            "source": self.source,
            "advice": self.advice,
        }

    def __str__(self) -> str:
        words = f"{self.target}: {self.name} {self.verdict}: {self.found}"
        words += f" (expected {self.expected})" if self.expected else ""
        return f"{words}; {self.advice}" if self.advice else words


def summary(checks: Iterable[Check]) -> dict[str, int]:
    """Number of checks in each verdict; verdicts without any are left out."""
    counts: dict[str, int] = {}
    for check in checks:
        counts[str(check.verdict)] = counts.get(str(check.verdict), 0) + 1
    return dict(sorted(counts.items()))
