# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The audit as text: deviations with all details, a summary, and every other check on one line."""

from __future__ import annotations

from typing import Sequence

from ..checks.model import DEVIATIONS, Check, Verdict, total
from .grid import grid, wrapped
from .paint import painted

#: Indent of the lines below the first line of a check
_INDENT = " " * 10


def report(checks: Sequence[Check], width: int | None, colour: bool = False) -> str:
    """The report. width None: no terminal, so no line is wrapped."""
    parts = ["\n".join(_bad(check, width, colour)) for check in checks if check.verdict in DEVIATIONS]
    parts += _listed("NOT KNOWN", checks, Verdict.UNKNOWN, width)
    parts.append("\n".join(wrapped(total(checks), width)))
    # Half of all checks need no action; they follow the important ones.
    parts += _listed("NOT JUDGED", checks, Verdict.SKIP, width)
    return "\n\n".join(parts)


def _listed(title: str, checks: Sequence[Check], verdict: Verdict, width: int | None) -> list[str]:
    lines = [_line(check) for check in checks if check.verdict is verdict]
    return ["\n".join(grid((title, lines[0]), [("", line) for line in lines[1:]], width))] if lines else []


def _line(check: Check) -> str:
    return f"{check.name}, {check.target}: {check.found}"


def _bad(check: Check, width: int | None, colour: bool) -> list[str]:
    expected = f" (expected {check.expected})" if check.expected else ""
    rows = [
        (str(check.severity).upper(), f"{_line(check)}{expected}"),
        ("why", check.reason),
        ("do", check.advice),
        ("see", f"{check.source}; {check.reference}"),
    ]
    lines = []
    for name, text in rows:
        if text:
            room = None if width is None else max(20, width - len(_INDENT))
            first, *rest = wrapped(text, room)
            gap = " " * (len(_INDENT) - len(name))
            lines += [
                f"{painted(name) if colour else name}{gap}{first}",
                *(f"{_INDENT}{line}" for line in rest),
            ]
    return lines
