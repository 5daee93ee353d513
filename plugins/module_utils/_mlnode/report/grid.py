# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plain columns for people: as wide as they need, the last one wrapped where a terminal ends."""

from __future__ import annotations

import re
from typing import Sequence

from ..model.errors import printable

_GAP = "  "
#: With fewer columns than this left, wrapping the last cell reads worse than what a terminal does itself
_LEAST = 20


def grid(head: Sequence[str], rows: Sequence[Sequence[str]], width: int | None) -> list[str]:
    """Lines of a table. width None: no terminal, so nothing is wrapped and grep finds whole rows."""
    rows = [[printable(cell) for cell in row] for row in rows]
    columns = [max(len(row[at]) for row in [head, *rows]) for at in range(len(head) - 1)]
    used = sum(columns) + len(_GAP) * len(columns)
    lines = []
    for row in [head, *rows]:
        first, *rest = wrapped(row[-1], None if width is None or width - used < _LEAST else width - used)
        padded = [cell.ljust(size) for cell, size in zip(row, columns)]
        lines += [_GAP.join([*padded, first]).rstrip(), *(" " * used + line for line in rest)]
    return lines


def wrapped(text: str, width: int | None) -> list[str]:
    """At blanks, and at commas, so that a list of CPUs can be wrapped; at least one line."""
    text = printable(text)
    if width is None or len(text) <= width:
        return [text]
    lines = [""]
    for piece in re.split(r"(?<=,)(?=\S)|(?<=\s)(?=\S)", text):
        if lines[-1] and len((lines[-1] + piece).rstrip()) > width:
            lines.append("")
        lines[-1] += piece
    return [line.rstrip() for line in lines]
