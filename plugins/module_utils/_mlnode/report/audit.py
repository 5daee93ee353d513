# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The audit as text: what is bad with all there is to know of it, the rest in a line each."""

from __future__ import annotations

from typing import Sequence

from ..checks.audit.model import Finding
from ..checks.model import Verdict, summary
from .grid import grid, wrapped

#: Below a finding
_INDENT = " " * 10


def report(findings: Sequence[Finding], width: int | None) -> str:
    """width None: no terminal, so no line is wrapped."""
    parts = ["\n".join(_bad(finding, width)) for finding in findings if _is_bad(finding)]
    for title, verdict in (("NOT KNOWN", Verdict.UNKNOWN), ("NOT JUDGED", Verdict.SKIP)):
        rest = [_line(finding) for finding in findings if finding.verdict is verdict]
        if rest:
            parts.append("\n".join(grid((title, rest[0]), [("", line) for line in rest[1:]], width)))
    counts = ", ".join(f"{number} {verdict}" for verdict, number in summary(findings).items())
    parts.append(f"{len(findings)} checks: {counts}")
    return "\n\n".join(parts)


def _is_bad(finding: Finding) -> bool:
    return finding.verdict in (Verdict.FAIL, Verdict.WARN)


def _line(finding: Finding) -> str:
    return f"{finding.name}, {finding.target}: {finding.found}"


def _bad(finding: Finding, width: int | None) -> list[str]:
    expected = f" (expected {finding.expected})" if finding.expected else ""
    rows = [
        (str(finding.severity).upper(), f"{_line(finding)}{expected}"),
        ("costs", finding.cost),
        ("do", finding.advice),
        ("see", f"{finding.source}; {finding.reference}"),
    ]
    lines = []
    for name, text in rows:
        if text:
            room = None if width is None else max(20, width - len(_INDENT))
            first, *rest = wrapped(text, room)
            lines += [f"{name:<{len(_INDENT)}}{first}", *(f"{_INDENT}{line}" for line in rest)]
    return lines
