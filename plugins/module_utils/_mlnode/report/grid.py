# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plain columns for people: as wide as necessary, with the last one wrapped at the terminal's width."""

from __future__ import annotations

import re
from typing import Any, Sequence

from ..model.errors import listed, printable

_GAP = "  "
#: With fewer columns left, the last cell reads better below its row
_LEAST = 20
_INDENT = "    "


def grid(head: Sequence[str], table: Sequence[Sequence[Any]], width: int | None) -> list[str]:
    """Lines of a table of texts, numbers and tuples of names; None and () are shown as a dash.

    width None: no terminal, so nothing is wrapped and grep finds whole rows.
    """
    rows = [[printable(_text(cell)) for cell in row] for row in table]
    columns = [max(len(row[at]) for row in [head, *rows]) for at in range(len(head) - 1)]
    used = sum(columns) + len(_GAP) * len(columns)
    if width is not None and width < used + min(_LEAST, max(len(row[-1]) for row in [head, *rows])):
        return _folded(head, rows, columns, width)
    lines = []
    for row in [head, *rows]:
        first, *rest = wrapped(row[-1], None if width is None else width - used)
        padded = [cell.ljust(size) for cell, size in zip(row, columns)]
        lines += [_GAP.join([*padded, first]).rstrip(), *(" " * used + line for line in rest)]
    return lines


def _text(cell: Any) -> str:
    if isinstance(cell, tuple):
        cell = listed(cell) or None
    return "-" if cell is None else str(cell)


def _folded(
    head: Sequence[str], rows: Sequence[Sequence[str]], columns: Sequence[int], width: int
) -> list[str]:
    """As many columns as fit; the other cells below their row, with their names."""
    beside = 1
    while beside < len(columns) and sum(columns[: beside + 1]) + len(_GAP) * beside <= width:
        beside += 1

    def line(row: Sequence[str]) -> str:
        return _GAP.join(cell.ljust(size) for cell, size in zip(row[:beside], columns)).rstrip()

    lines = [line(head)]
    for row in rows:
        rest = [f"{name} {cell}".strip() for name, cell in zip(head[beside:], row[beside:]) if cell]
        under = wrapped("; ".join(rest), width - len(_INDENT)) if rest else []
        lines += [line(row), *(_INDENT + part for part in under)]
    return lines


def wrapped(text: str, width: int | None) -> list[str]:
    """Wrap at blanks and at commas, so that a list of CPUs can be wrapped; at least one line."""
    text = printable(text)
    if width is None or len(text) <= width:
        return [text]
    lines = [""]
    for piece in re.split(r"(?<=,)(?=\S)|(?<=\s)(?=\S)", text):
        if lines[-1] and len((lines[-1] + piece).rstrip()) > width:
            lines.append("")
        lines[-1] += piece
    return [line.rstrip() for line in lines]


def hanging(text: str, width: int | None) -> list[str]:
    """Like wrapped(), but continuation lines are indented below the first."""
    first, *rest = wrapped(text, width)
    if width is None or not rest:
        return [first]
    indent = " " * (len(text) - len(text.lstrip())) + _INDENT
    return [first, *(indent + line for line in wrapped(" ".join(rest), width - len(indent)))]
