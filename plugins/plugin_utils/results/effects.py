# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Results of effect.yml, read and shown."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence
from typing import Any

from ...module_utils._mlnode.model import strict_json
from ...module_utils._mlnode.model.errors import MlnodeError, printable
from ...module_utils._mlnode.model.version import VERSION
from ...module_utils._mlnode.report.grid import grid
from ..effect import interval, report, screening_report
from ..fleet_report import effects
from ..fleet_report.model import Effect, Metric

#: Format number of the JSON; new fields do not raise it
FORMAT = 1


def read(fields: Any, path: pathlib.Path) -> Effect:
    """A document of effect.schema.json or screening.schema.json. Raises MlnodeError with the file and the
    reason."""
    try:
        number, about, results = strict_json.typed(fields, {"format": int, "effect": dict, "results": list})
        by_area = "areas" in about
        known = screening_report.FORMAT if by_area else report.FORMAT
        if number != known:
            raise ValueError(f"expected format {known}, got {number}; measure again")
        name, nodes, stopped, least = strict_json.typed(
            about, {"id": str, "nodes": list, "stopped": str, "least_percent": float}
        )
        metrics = [
            metric for result in results for metric in (_areas(result) if by_area else [_metric(result)])
        ]
        _validate(least, metrics)
        notes = tuple(_notes(about)) if by_area else ()
        return Effect(str(path), name, tuple(map(str, nodes)), stopped, least, tuple(metrics), notes)
    except ValueError as error:
        raise MlnodeError(f"{path}: expected a result of effect.yml: {error}") from error


def _validate(least: float, metrics: Sequence[Metric]) -> None:
    """Raises ValueError unless each verdict follows from its interval."""
    if least <= 0:
        raise ValueError(f"expected least_percent above 0, got {least:g}")
    for metric in metrics:
        if metric.better not in (interval.HIGHER, interval.LOWER):
            raise ValueError(f"expected better: higher or lower, got {strict_json.shown(metric.better)}")
        low, value, high = metric.ends or (0.0, 0.0, 0.0)
        is_more, is_less = low >= 0, high <= 0
        helps, harms = (is_more, is_less) if metric.better == interval.HIGHER else (is_less, is_more)
        follows = {
            interval.HELPS: helps,
            interval.HARMS: harms,
            # With effect_precision, an interval around 0 may be wider.
            interval.NO_DIFFERENCE: low <= 0 <= high or -least <= low <= high <= least,
        }.get(metric.verdict, True)
        is_known = metric.ends is not None or metric.verdict == interval.UNKNOWN
        if not (follows and is_known and low <= value <= high):
            raise ValueError(f"{metric.name}: {metric.verdict} does not follow from its interval")


def _notes(about: Any) -> list[str]:
    """The design, and areas that are not compared. Raises ValueError."""
    design, left_out = strict_json.typed(about, {"design": str, "left_out": list})
    fields = [strict_json.typed(item, {"area": str, "reason": str}) for item in left_out]
    return screening_report.plan_lines(design, dict(fields))


def _areas(fields: Any) -> list[Metric]:
    """Effects of all areas on one metric. Raises ValueError."""
    [areas] = strict_json.typed(fields, {"areas": list})
    names = [strict_json.typed(area, {"area": str})[0] for area in areas]
    return [_metric({**fields, **area})._replace(area=name) for area, name in zip(areas, names)]


def _metric(fields: Any) -> Metric:
    name, unit, better, verdict = strict_json.typed(
        fields, {"name": str, "unit": str, "better": str, "verdict": str}
    )
    if verdict not in interval.VERDICTS:
        raise ValueError(f"expected a verdict, got {strict_json.shown(verdict)}")
    effect = fields.get("effect")
    if effect is None:
        return Metric(name, unit, better, verdict, None)
    names = ("low_percent", "value_percent", "high_percent")
    low, value, high = strict_json.typed(effect, dict.fromkeys(names, float))
    return Metric(name, unit, better, verdict, (low, value, high))


def is_success(given: Sequence[Effect]) -> bool:
    """Nothing is harmed or unknown."""
    bad = (interval.HARMS, interval.UNKNOWN)
    return all(effect.metrics and not effect.stopped for effect in given) and not any(
        metric.verdict in bad for effect in given for metric in effect.metrics
    )


def document(given: Sequence[Effect]) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "mlnode": VERSION,
        "effects": [
            {
                "file": effect.file,
                "id": effect.name,
                "stopped": effect.stopped,
                "results": [_document(metric) for metric in effect.metrics],
            }
            for effect in given
        ],
    }


def _document(metric: Metric) -> dict[str, Any]:
    low, value, high = metric.ends or (None, None, None)
    return {
        "area": metric.area,
        "name": metric.name,
        "unit": metric.unit,
        "better": metric.better,
        "verdict": metric.verdict,
        "low_percent": low,
        "value_percent": value,
        "high_percent": high,
    }


def lines(given: Sequence[Effect], width: int | None) -> list[str]:
    return [line for effect in given for line in (*_lines(effect, width), "")][:-1]


def _lines(effect: Effect, width: int | None) -> list[str]:
    return [
        f"{effect.file}: effect {printable(effect.name)}",
        *grid(effects.header(effect), effects.rows(effect), width),
        *map(printable, effects.remarks(effect)),
    ]
