# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Result of a read-only check: a verdict with its evidence and advice, and the rules for failure."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from enum import Enum
from typing import Any, Callable, Iterable, Iterator, Sequence, Union

from .errors import HostError, MlnodeError
from .record import dataclass, replace
from .setting import Severity, Value


class Verdict(str, Enum):
    """pending: the files are correct, and take effect with the restart or reboot in the advice.

    skip: not applicable, or not present, with the reason. unknown: unreadable. None of these counts as pass.
    """

    PASS = "pass"
    WARN = "warn"
    FAIL = "fail"
    PENDING = "pending"
    SKIP = "skip"
    UNKNOWN = "unknown"

    def __str__(self) -> str:
        return self.value


#: Not as expected, worst first: unknown may hide a failure, and pending already has its remedy
BAD = (Verdict.FAIL, Verdict.UNKNOWN, Verdict.PENDING, Verdict.WARN)

#: Verdicts of known deviations
DEVIATIONS = (Verdict.FAIL, Verdict.PENDING, Verdict.WARN)

#: Target of a check of the whole machine
NODE = "node"

#: fail_on → the verdicts that fail: its own, and all worse ones
FAIL_ON = {"fail": BAD[:1], "unknown": BAD[:2], "warn": BAD, "never": ()}


@dataclass(frozen=True)
class Check:
    """Verdict on one thing, with its evidence.

    name: the check, such as rate. target: a device, port or interface, such as mlx5_0/1. expected, found: for
    people; found is the raw value if one was read. source: the file or command. advice: what to do, "" if
    nothing. value: for comparison between nodes of a fleet, if `found` contains more text or nothing is
    expected; otherwise None. severity, reason, reference: for a check of the audit its importance, the
    reason, and the documentation.
    """

    name: str
    target: str
    verdict: Verdict
    expected: str
    found: str
    source: str
    advice: str = ""
    value: str | None = None
    severity: Severity | None = None
    reason: str = ""
    reference: str = ""

    def document(self) -> dict[str, Any]:
        more = {} if self.value is None else {"value": self.value}
        if self.severity is not None:
            more = {"severity": str(self.severity), "reason": self.reason, "reference": self.reference}
        return {
            "name": self.name,
            "target": self.target,
            "verdict": str(self.verdict),
            "expected": self.expected,
            "found": self.found,
            "source": self.source,
            "advice": self.advice,
            **more,
        }

    def __str__(self) -> str:
        line = f"{self.target}: {self.name} {self.verdict}: {self.found}"
        line += f" (expected {self.expected})" if self.expected else ""
        line += f"; {self.advice}" if self.advice else ""
        return line if self.severity is None else f"{self.severity}: {line}"


class Nothing(MlnodeError):  # noqa: N818  # no error: a look ends with it
    """There is nothing to judge; the message has the reason. source: the file or command."""

    def __init__(self, why: str, source: str) -> None:
        super().__init__(why)
        self.source = source


@dataclass(frozen=True)
class Subject:
    """A check before its verdict. Every finding is made from one; the methods accept fields to override.

    advice: for a deviation. bad: verdict of a deviation; None means fail, or warn if the severity is not
    high. severity, reason, reference: as in Check.
    """

    name: str
    target: str = NODE
    source: str = ""
    expected: str = ""
    advice: str = ""
    bad: Verdict | None = None
    value: str | None = None
    severity: Severity | None = None
    reason: str = ""
    reference: str = ""

    def made(self, verdict: Verdict, evidence: str, **fields: Any) -> Check:
        about = replace(self, **{"advice": self.advice if verdict in DEVIATIONS else "", **fields})
        return Check(
            about.name, about.target, verdict, about.expected, evidence, about.source, about.advice,
            about.value, about.severity, about.reason, about.reference,
        )  # fmt: skip

    def judged(self, good: bool, evidence: str, **fields: Any) -> Check:
        if good:
            return self.made(Verdict.PASS, evidence, **{**fields, "advice": ""})
        usual = Verdict.FAIL if self.severity in (None, Severity.HIGH) else Verdict.WARN
        return self.made(fields.get("bad") or self.bad or usual, evidence, **fields)

    def skip(self, why: str, **fields: Any) -> Check:
        return self.made(Verdict.SKIP, why, **{"expected": "", **fields})

    def unknown(self, why: str, **fields: Any) -> Check:
        return self.made(Verdict.UNKNOWN, why, **fields)

    def missing(self, value: Value, **fields: Any) -> Check:
        """Finding for an unread value: unknown if unreadable, or absent although declared; else skip."""
        about = replace(self, **fields)
        unknown = value.unreadable is not None or bool(about.expected)
        return about.made(Verdict.UNKNOWN if unknown else Verdict.SKIP, value.problem)

    def told(self, evidence: str, key: str) -> Check:
        """A value without a declaration: reported, not judged."""
        return self.skip(evidence, advice=f"declare {key} to have it judged", value=evidence)

    def compared(self, value: Value, key: str, advice: str) -> Check:
        """Finding for a value, compared if this key is declared."""
        if value.text is None:
            return self.missing(value)
        if not self.expected:
            return self.told(value.text, key)
        return self.judged(value.text == self.expected, value.text, advice=advice)

    def ended(self, error: MlnodeError) -> Check:
        """Finding of a look that ended early."""
        if isinstance(error, Nothing):
            return self.skip(str(error), source=error.source)
        path = error.path if isinstance(error, HostError) else ""
        # For a program, the subject has the whole command.
        known = path[:1] != "/" and self.source.startswith(path)
        return self.unknown(str(error), source=self.source if known else path)


#: A function that returns findings about its subjects, or raises Nothing or another MlnodeError
Look = Callable[[], Union[Check, Iterable[Check]]]


def findings(subjects: Sequence[Subject], look: Look) -> Iterator[Check]:
    """Findings of a look at these subjects.

    An error becomes the finding of each subject without one, or of the last subject if all have one.
    """
    said: set[str] = set()
    try:
        answer = look()
        for check in [answer] if isinstance(answer, Check) else answer:
            said.add(check.name)
            yield check
    except MlnodeError as error:
        silent = [subject for subject in subjects if subject.name not in said]
        yield from (subject.ended(error) for subject in silent or subjects[-1:])


@contextmanager
def if_installed() -> Iterator[None]:
    """Context for a call of an optional program. Raises Nothing if it is not installed."""
    try:
        yield
    except HostError as error:
        if error.absent:
            raise Nothing(f"{error.path} is not installed", error.path) from error
        raise


def bad(checks: Iterable[Check]) -> list[Check]:
    """Checks that are not as expected, the worst first."""
    return sorted(
        (check for check in checks if check.verdict in BAD), key=lambda check: BAD.index(check.verdict)
    )


def summary(checks: Iterable[Check]) -> dict[str, int]:
    """Number of checks per verdict; verdicts without checks are left out."""
    return dict(sorted(Counter(str(check.verdict) for check in checks).items()))


def counts(checks: Sequence[Check]) -> str:
    """Text such as `1 fail, 3 pass`."""
    return ", ".join(f"{number} {verdict}" for verdict, number in summary(checks).items())


def total(checks: Sequence[Check]) -> str:
    """Text such as `4 checks: 1 fail, 3 pass`."""
    return f"{len(checks)} check{'' if len(checks) == 1 else 's'}: {counts(checks)}"
