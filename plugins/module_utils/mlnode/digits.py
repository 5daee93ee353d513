# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whole numbers as the kernel prints them. str.isdigit(), str.strip() and int() each have another opinion of
what a digit and a blank is, and int() refuses thousands of digits."""

from __future__ import annotations

import re

#: No number of 64 bits has more digits
_NUMBER = re.compile(r"[ \t\n]*([0-9]{1,20})[ \t\n]*\Z", re.ASCII)


def number(text: str | None) -> int | None:
    """None for anything else, such as a number below 0."""
    found = _NUMBER.match(text or "")
    return int(found.group(1)) if found else None
