# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Result of every module with checks, and whether it fails."""

from __future__ import annotations

from typing import Any, Sequence

from ..model.errors import DeclarationError, paragraphs, printable, shortened
from ..model.schema import Option, Table
from .model import FAIL_ON, Check, bad, summary

#: As many as fit on a screen with their advice; the result contains all
NAMED = 8


def fail_on(default: str) -> Table:
    """The option `fail_on`, documented in the fragment of this name."""
    return {"fail_on": Option("str", choices=tuple(FAIL_ON), default=default)}


def between(name: str, number: float | None, least: float, most: float, unit: str = "") -> None:
    """Raises DeclarationError for a number outside the range, or NaN. None: the option is omitted."""
    if number is not None and not least <= number <= most:
        raise DeclarationError(f"{name}: {number} is not between {least} and {most}{unit and f' {unit}'}")


def result(name: str, checks: Sequence[Check], failing_on: str, **more: Any) -> dict[str, Any]:
    """Result of the module `name`. more: additional fields."""
    fatal, worse = FAIL_ON[failing_on], bad(checks)
    failing = [check for check in worse if check.verdict in fatal]
    fields = {
        "changed": False,
        "checks": [check.document() for check in checks],
        "failures": [str(check) for check in worse],
        "summary": summary(checks),
        **more,
    }
    if failing:
        title = f"{name}: {len(failing)} of {len(checks)} checks are not as expected:"
        return {**fields, "failed": True, "msg": paragraphs("\n".join([title, *_named(failing)]))}
    return {**fields, "warnings": [printable(line) for line in _named(worse)] if fatal else []}


def _named(checks: Sequence[Check]) -> list[str]:
    return shortened([*map(str, checks)], NAMED)
