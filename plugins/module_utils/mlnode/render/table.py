# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The status table: as wide as the terminal, or as wide as it needs where there is none."""

from __future__ import annotations

import textwrap
from typing import Any, Sequence

from .document import shown

_HEAD = ("PARAMETER", "DECLARED", "RUNTIME", "BOOT", "STATUS", "WHY")
_GAP = "  "
#: Below this many columns a reason beside its row is no longer readable and goes under it
_LEAST_REASON = 24
_INDENT = "    "


def render(settings: Sequence[dict[str, Any]], width: int | None) -> str:
    """The table. width None: no terminal, so nothing is ever wrapped and grep finds whole lines."""
    body = [_cells(item) for item in settings]
    columns = [max(len(row[at]) for row in [_HEAD, *body]) for at in range(5)]
    used = sum(columns) + len(_GAP) * 5
    beside = width is None or width - used >= _LEAST_REASON
    lines = [_line(_HEAD[:5], columns, "WHY" if beside else "")]
    for row in body:
        lines += _row(row, columns, used, width, beside)
    return "\n".join(lines)


def _cells(item: dict[str, Any]) -> Sequence[str]:
    return (
        item["key"],
        shown(item["declared"]),
        shown(item["runtime"]),
        shown(item["boot"]),
        item["status"],
        item["reason"],
    )


def _row(row: Sequence[str], columns: Sequence[int], used: int, width: int | None, beside: bool) -> list[str]:
    reason = row[5]
    if width is None or not reason:
        return [_line(row[:5], columns, reason)]
    if not beside:
        under = textwrap.wrap(
            reason, max(20, width), initial_indent=_INDENT, subsequent_indent=_INDENT, break_on_hyphens=False
        )
        return [_line(row[:5], columns, ""), *under]
    first, *rest = textwrap.wrap(reason, width - used, break_on_hyphens=False)
    return [_line(row[:5], columns, first), *(" " * used + line for line in rest)]


def _line(cells: Sequence[str], columns: Sequence[int], last: str) -> str:
    padded = [cell.ljust(size) for cell, size in zip(cells, columns)]
    return _GAP.join([*padded, last]).rstrip()
