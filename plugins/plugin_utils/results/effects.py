# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Results of effect.yml: verdicts, and each interval as a small chart."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence
from typing import Any, NamedTuple

from ...module_utils._mlnode.model import strict_json
from ...module_utils._mlnode.model.errors import MlnodeError, printable
from ...module_utils._mlnode.model.version import VERSION
from ...module_utils._mlnode.report.grid import grid
from ..effect import interval
from ..effect.report import FORMAT as DOCUMENT

#: Format number of the JSON; new fields do not raise it
FORMAT = 1

#: Cells of a chart on each side of its middle
_HALF = 12


class Row(NamedTuple):
    """One metric. ends: low, value and high in percent; None without an interval."""

    name: str
    unit: str
    better: str
    verdict: str
    ends: tuple[float, float, float] | None


class Shown(NamedTuple):
    """One result. least: of effect_least, in percent."""

    file: str
    name: str
    before: str
    stopped: str
    least: float
    rows: tuple[Row, ...]


def read(fields: Any, path: pathlib.Path) -> Shown:
    """A document of effect.schema.json. Raises MlnodeError with the file and the reason."""
    try:
        number, about, results = strict_json.typed(fields, {"format": int, "effect": dict, "results": list})
        if number != DOCUMENT:
            raise ValueError(f"expected format {DOCUMENT}, got {number}; measure again")
        name, before, stopped, least = strict_json.typed(
            about, {"id": str, "before": str, "stopped": str, "least_percent": float}
        )
        return Shown(str(path), name, before, stopped, least, tuple(map(_row, results)))
    except ValueError as error:
        raise MlnodeError(f"{path}: expected a result of effect.yml: {error}") from error


def _row(fields: Any) -> Row:
    name, unit, better, verdict = strict_json.typed(
        fields, {"name": str, "unit": str, "better": str, "verdict": str}
    )
    if verdict not in interval.VERDICTS:
        raise ValueError(f"expected a verdict, got {strict_json.shown(verdict)}")
    effect = fields.get("effect")
    if effect is None:
        return Row(name, unit, better, verdict, None)
    names = ("low_percent", "value_percent", "high_percent")
    low, value, high = strict_json.typed(effect, dict.fromkeys(names, float))
    return Row(name, unit, better, verdict, (low, value, high))


def is_success(effects: Sequence[Shown]) -> bool:
    """Nothing is harmed or unknown."""
    bad = (interval.HARMS, interval.UNKNOWN)
    return all(effect.rows and not effect.stopped for effect in effects) and not any(
        row.verdict in bad for effect in effects for row in effect.rows
    )


def document(effects: Sequence[Shown]) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "mlnode": VERSION,
        "effects": [
            {
                "file": effect.file,
                "id": effect.name,
                "stopped": effect.stopped,
                "results": [_document(row) for row in effect.rows],
            }
            for effect in effects
        ],
    }


def _document(row: Row) -> dict[str, Any]:
    low, value, high = row.ends or (None, None, None)
    return {
        "name": row.name,
        "unit": row.unit,
        "better": row.better,
        "verdict": row.verdict,
        "low_percent": low,
        "value_percent": value,
        "high_percent": high,
    }


def lines(effects: Sequence[Shown], width: int | None) -> list[str]:
    return [line for effect in effects for line in (*_lines(effect, width), "")][:-1]


def _lines(effect: Shown, width: int | None) -> list[str]:
    reach = max([2 * effect.least, *(abs(end) for row in effect.rows for end in row.ends or ())])
    rows = sorted(effect.rows, key=lambda row: interval.VERDICTS.index(row.verdict))
    header = ("METRIC", "UNIT", "BETTER", "EFFECT", f"{-reach:.3g} TO {reach:+.3g} %", "VERDICT")
    stopped = [f"stopped: {printable(effect.stopped)}"] if effect.stopped else []
    return [
        f"{effect.file}: effect {printable(effect.name)}",
        *grid(header, [_cells(row, reach) for row in rows], width),
        *stopped,
    ]


def _cells(row: Row, reach: float) -> tuple[str, ...]:
    if row.ends is None:
        return row.name, row.unit, row.better, "", "", row.verdict
    return row.name, row.unit, row.better, f"{row.ends[1]:+.2f} %", chart(row.ends, reach), row.verdict


def chart(ends: tuple[float, float, float], reach: float) -> str:
    """An interval around its value between -reach and reach, with a line at 0."""
    low, value, high = (_HALF + round(_HALF * max(-1.0, min(end / reach, 1.0))) for end in ends)
    cells = ["·"] * (2 * _HALF + 1)
    cells[low : high + 1] = "─" * (high + 1 - low)
    cells[_HALF] = "│" if not low <= _HALF <= high else "┼"
    cells[value] = "●"
    return "".join(cells)
