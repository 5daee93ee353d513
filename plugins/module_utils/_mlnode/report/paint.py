# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Colours of a terminal: Select Graphic Rendition of ECMA-48, with colours that all of them have."""

from __future__ import annotations

from ..model.errors import paragraphs
from ..model.record import regex

_RED, _GREEN, _YELLOW, _CYAN, _FAINT = 31, 32, 33, 36, 2

#: Statuses of settings, and severities of checks. Red: what has to be mended. Yellow: what waits, or is less
#: than was asked for. Faint: what no run can change.
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

#: What painted() makes, and no other sequence
_SEQUENCE = regex(r"(\x1b\[(?:0|2|3[1-6])m)")


def painted(word: str) -> str:
    """A status or a severity in its colour; any other word as it is."""
    code = _CODES.get(word.lower())
    return word if code is None else f"\x1b[{code}m{word}\x1b[0m"


def paragraphs_between(text: str) -> str:
    """As errors.paragraphs(), but the colours stay: all else that a terminal would obey is spelled."""
    return "".join(
        part if number % 2 else paragraphs(part) for number, part in enumerate(_SEQUENCE.split(text))
    )
