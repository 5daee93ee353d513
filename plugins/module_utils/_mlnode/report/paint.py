# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Terminal colours: Select Graphic Rendition of ECMA-48, limited to colours that all terminals have."""

from __future__ import annotations

from ..model.errors import paragraphs
from ..model.record import regex

_RED, _GREEN, _YELLOW, _CYAN, _FAINT = 31, 32, 33, 36, 2

#: Statuses of settings, and severities of checks. Red: needs repair. Yellow: pending, or less than declared.
#: Faint: no run can change it.
_CODES = {
    "ok": _GREEN,
    "changed": _CYAN,
    "drifted": _RED,
    "overridden": _RED,
    "refused": _RED,
    "unknown": _RED,
    "pending_reboot": _YELLOW,
    "clamped": _YELLOW,
    "managed": _FAINT,
    "unsupported": _FAINT,
    "high": _RED,
    "medium": _YELLOW,
}

#: Exactly the sequences that painted() produces
_SEQUENCE = regex(r"(\x1b\[(?:0|2|3[1-6])m)")


def painted(word: str) -> str:
    """A status or a severity in its colour; any other word unchanged."""
    code = _CODES.get(word.lower())
    return word if code is None else f"\x1b[{code}m{word}\x1b[0m"


def paragraphs_between(text: str) -> str:
    """Like errors.paragraphs(), but keeps these colours. All other control sequences are escaped."""
    return "".join(
        part if number % 2 else paragraphs(part) for number, part in enumerate(_SEQUENCE.split(text))
    )
