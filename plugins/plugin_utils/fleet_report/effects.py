# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Effects in a report: a row for each metric, with its interval as a small chart."""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree.ElementTree import Element

from ..effect import interval
from .elements import make, table
from .model import Effect, Metric

#: Cells of a chart on each side of its middle
_HALF = 12

#: Verdict → name of its colour on the page
_LOOKS = {interval.HARMS: "high", interval.UNKNOWN: "none", interval.NOT_DECIDED: "low"}


def header(effect: Effect) -> tuple[str, ...]:
    reach = _reach(effect)
    area = ("AREA",) if _by_area(effect) else ()
    return *area, "METRIC", "UNIT", "BETTER", "EFFECT", f"{-reach:.3g} TO {reach:+.3g} %", "VERDICT"


def _by_area(effect: Effect) -> bool:
    return any(metric.area for metric in effect.metrics)


def rows(effect: Effect) -> list[tuple[str, ...]]:
    """Cells of each metric under header(), the most urgent verdict first."""
    reach, area = _reach(effect), _by_area(effect)
    return [(*((metric.area,) if area else ()), *_cells(metric, reach)) for metric in _ordered(effect)]


def remarks(effect: Effect) -> list[str]:
    """Lines below the rows."""
    return [*effect.notes, *([f"stopped: {effect.stopped}"] if effect.stopped else [])]


def _ordered(effect: Effect) -> list[Metric]:
    return sorted(effect.metrics, key=lambda metric: interval.VERDICTS.index(metric.verdict))


def _reach(effect: Effect) -> float:
    """Percent at both ends of the charts."""
    ends = (abs(end) for metric in effect.metrics for end in metric.ends or ())
    return max(2 * effect.least, *ends, 0.0)


def _cells(metric: Metric, reach: float) -> tuple[str, ...]:
    value, drawn = (f"{metric.ends[1]:+.2f} %", chart(metric.ends, reach)) if metric.ends else ("", "")
    return metric.name, metric.unit, metric.better, value, drawn, metric.verdict


def chart(ends: tuple[float, float, float], reach: float) -> str:
    """An interval around its value between -reach and reach, with a line at 0."""
    low, value, high = (_HALF + round(_HALF * max(-1.0, min(end / reach, 1.0))) for end in ends)
    cells = ["·"] * (2 * _HALF + 1)
    cells[low : high + 1] = "─" * (high + 1 - low)
    cells[_HALF] = "┼" if low <= _HALF <= high else "│"
    cells[value] = "●"
    return "".join(cells)


def section(effect: Effect) -> Element:
    """For the page."""
    title = f"Effect {effect.name}"
    return make(
        "section",
        make("h2", title),
        *(make("p", remark, class_="faint") for remark in remarks(effect)),
        make(
            "div",
            table(map(str.lower, header(effect)), _elements(effect)),
            class_="wide",
            tabindex=0,
            role="region",
            aria_label=title,
        ),
    )


def _elements(effect: Effect) -> Iterator[Element]:
    for *cells, drawn, verdict in rows(effect):
        tag = make("span", verdict, class_=f"tag {_LOOKS.get(verdict, 'ok')}")
        yield make(
            "tr",
            *(make("td", cell) for cell in cells),
            make("td", make("code", drawn)),
            make("td", tag),
        )
