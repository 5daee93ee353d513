# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The status table: as wide as the terminal; without a terminal, as wide as necessary."""

from __future__ import annotations

from typing import Any, Sequence

from ..model.errors import printable, shown

_HEAD = ("PARAMETER", "DECLARED", "RUNTIME", "BOOT", "STATUS", "WHY")
_GAP = "  "
#: With fewer columns for it, a reason is hard to read next to its row and goes below it
_LEAST_REASON = 24
_INDENT = "    "
#: Columns with values, which may be cut to fit a terminal; `mlnode explain` shows them whole
_VALUES = (1, 2, 3)
_LEAST_VALUE = 10
_CUT = "..."
_STATUS = 4


def render(settings: Sequence[dict[str, Any]], width: int | None, colour: bool = False) -> str:
    """The table. colour: colour the statuses.

    width None: no terminal, so nothing is wrapped and grep finds whole lines.
    """
    body = [_cells(item) for item in settings]
    if width is not None:
        body = _fitted(body, width)
    columns = [max(len(row[at]) for row in [_HEAD, *body]) for at in range(5)]
    if width is not None:
        # A longer name gets a line for itself.
        columns[0] = max(len(_HEAD[0]), min(columns[0], width - sum(columns[1:]) - len(_GAP) * 4))
    used = sum(columns) + len(_GAP) * 5
    beside = width is None or width - used >= _LEAST_REASON
    lines = [_line(_HEAD[:5], columns, "WHY" if beside else "")]
    for row in body:
        if len(row[0]) > columns[0]:
            lines.append(row[0])
            row = ["", *row[1:]]
        lines += _row(row, columns, used, width, beside, colour)
    return "\n".join(lines)


def _cells(item: dict[str, Any]) -> Sequence[str]:
    cells = (
        item["key"],
        shown(item["declared"]),
        shown(item["runtime"]),
        shown(item["boot"]),
        item["status"],
        item["reason"],
    )
    return [printable(cell) for cell in cells]


def _fitted(body: list[Sequence[str]], width: int) -> list[Sequence[str]]:
    """Values cut to the width of the terminal, so that one long list does not widen every row."""
    fixed = sum(max(len(row[at]) for row in [_HEAD, *body]) for at in (0, 4)) + len(_GAP) * 4
    longest = [max(len(row[at]) for row in [_HEAD, *body]) for at in _VALUES]
    most = max(longest)
    while most > _LEAST_VALUE and fixed + sum(min(size, most) for size in longest) > width:
        most -= 1
    return [[_cut(cell, most) if at in _VALUES else cell for at, cell in enumerate(row)] for row in body]


def _cut(cell: str, most: int) -> str:
    return cell if len(cell) <= most else cell[: most - len(_CUT)] + _CUT


def _row(
    row: Sequence[str], columns: Sequence[int], used: int, width: int | None, beside: bool, colour: bool
) -> list[str]:
    reason = row[5]
    if width is None or not reason:
        return [_line(row[:5], columns, reason, colour)]
    # Imported only here: output to a file is never wrapped.
    import textwrap

    if not beside:
        under = textwrap.wrap(
            reason, max(20, width), initial_indent=_INDENT, subsequent_indent=_INDENT, break_on_hyphens=False
        )
        return [_line(row[:5], columns, "", colour), *under]
    first, *rest = textwrap.wrap(reason, width - used, break_on_hyphens=False)
    return [_line(row[:5], columns, first, colour), *(" " * used + line for line in rest)]


def _line(cells: Sequence[str], columns: Sequence[int], last: str, colour: bool = False) -> str:
    padded = [cell.ljust(size) for cell, size in zip(cells, columns)]
    if colour:
        from .paint import painted

        status = cells[_STATUS]
        padded[_STATUS] = painted(status) + padded[_STATUS][len(status) :]
    return _GAP.join([*padded, last]).rstrip()
