# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A check of the audit: with the reason why it matters, how much, and where that is written."""

from __future__ import annotations

from typing import Any

from ...model.errors import HostError
from ...model.record import dataclass
from ...model.setting import Severity, Value
from ..model import Check, Verdict

#: Verdicts of what is not as it should be
DEVIATIONS = (Verdict.FAIL, Verdict.PENDING, Verdict.WARN)

#: What a check is about where it is about the machine as a whole
NODE = "node"


@dataclass(frozen=True)
class Topic:
    """Subject of a check. severity, reason, reference: those of the setting's kind, where it is one."""

    name: str
    severity: Severity
    reason: str
    reference: str
    advice: str = ""


@dataclass(frozen=True)
class AuditCheck(Check):
    """severity, reason, reference: as in Topic."""

    severity: Severity = Severity.LOW
    reason: str = ""
    reference: str = ""

    def document(self) -> dict[str, Any]:
        more = {"severity": str(self.severity), "reason": self.reason, "reference": self.reference}
        return {**super().document(), **more}

    def __str__(self) -> str:
        return f"{self.severity}: {super().__str__()}"


def made(
    topic: Topic,
    verdict: Verdict,
    found: str,
    source: str,
    expected: str = "",
    target: str = NODE,
    advice: str = "",
) -> AuditCheck:
    """Advice is for what is bad only; the topic's, where no other is given."""
    bad = verdict in DEVIATIONS
    advice = (advice or topic.advice) if bad else ""
    return AuditCheck(
        topic.name, target, verdict, expected, found, source, advice,
        severity=topic.severity, reason=topic.reason, reference=topic.reference,
    )  # fmt: skip


def judged(
    topic: Topic, good: bool, found: str, source: str, expected: str, target: str = NODE, advice: str = ""
) -> AuditCheck:
    """A deviation fails where its severity is high, and else is a warning."""
    bad = Verdict.FAIL if topic.severity is Severity.HIGH else Verdict.WARN
    return made(topic, Verdict.PASS if good else bad, found, source, expected, target, advice)


def told(topic: Topic, found: str, source: str, target: str = NODE) -> AuditCheck:
    """A fact that is neither good nor bad, or a reason why there is nothing to judge."""
    return made(topic, Verdict.SKIP, found, source, "", target)


def unknown(topic: Topic, why: str, source: str, target: str = NODE) -> AuditCheck:
    return made(topic, Verdict.UNKNOWN, why, source, "", target)


def unasked(topic: Topic, error: HostError) -> AuditCheck:
    """A tool that is not installed leaves nothing to judge; one that fails leaves it unknown."""
    if error.absent:
        return told(topic, f"{error.path} is not installed", error.path)
    return unknown(topic, str(error), error.path)


def missing(topic: Topic, value: Value, source: str, target: str = NODE) -> AuditCheck:
    """A file that is not there is reported; one that cannot be read leaves it unknown."""
    if value.unreadable is not None:
        return unknown(topic, value.unreadable, source, target)
    return told(topic, value.absent or f"{source} is empty", source, target)
