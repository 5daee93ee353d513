# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Campaigns of one kind over time: the series of each node, and the nodes that get worse."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ...module_utils._mlnode.model.errors import MlnodeError, printable
from ...module_utils._mlnode.model.version import VERSION
from ...module_utils._mlnode.report.grid import grid
from ..fleet_report.names import few, natural
from .change import SAME, UNKNOWN, WORDS, Change, Measure, change, measure, percent, sums, worst
from .compare import MOST, Difference, differences, percents, under
from .result import Result, Unit

#: Raised when a field changes its meaning or goes; new fields do not raise it.
FORMAT = 1

#: Heights of a bar, the lowest first (Unicode, Block Elements); a run without a value
_BARS, _GAP = "▁▂▃▄▅▆▇█", "·"
#: Newest runs in a line of 80 columns, with a name of 30, two values and a word
_RUNS = 20


class Point(NamedTuple):
    """As much of a campaign as is kept: the median of each node, and of all pairs; None without any."""

    run: Result
    nodes: Mapping[str, Measure]
    fleet: Measure | None


class Run(NamedTuple):
    """A campaign, and the conditions that changed since the one before."""

    file: str
    name: str
    started: str
    verdict: str
    under: tuple[Difference, ...]


class Series(NamedTuple):
    """Median of a node in each run; None if it was not measured. last: compared with the runs before."""

    values: tuple[float | None, ...]
    last: Change


class Trend(NamedTuple):
    kind: str
    unit: Unit
    runs: tuple[Run, ...]
    fleet: Series
    nodes: Mapping[str, Series]

    @property
    def verdict(self) -> str:
        return worst(series.last.word for series in self.nodes.values())


def point(run: Result) -> Point:
    """A run without its pairs, as a folder may have millions of them."""
    measured = [pair for pair in run.pairs.values() if pair.value is not None]
    nodes = {name: measure(pairs) for name, pairs in run.of_node.items()}
    return Point(run._replace(pairs={}, of_node={}), nodes, measure(measured) if measured else None)


def trend(points: Sequence[Point]) -> Trend:
    """Trend of one kind, in any order, with at least one point. Raises MlnodeError if units differ, or if a
    campaign occurs twice."""
    points = sorted(points, key=lambda campaign: campaign.run.started)
    runs = [_run(None, points[0].run)]
    for before, after in zip(points, points[1:]):
        runs.append(_run(before.run, after.run))
    unit = points[0].run.unit
    names = sorted({name for campaign in points for name in campaign.run.nodes}, key=natural)
    nodes = {name: _series([campaign.nodes.get(name) for campaign in points], unit) for name in names}
    fleet = _series([campaign.fleet for campaign in points], unit)
    return Trend(points[0].run.kind, unit, tuple(runs), fleet, nodes)


def _run(before: Result | None, run: Result) -> Run:
    if before and (before.name, before.started) == (run.name, run.started):
        raise MlnodeError(f"{before.file} and {run.file} are the same campaign {run.name}")
    if before and before.unit != run.unit:
        raise MlnodeError(f"{before.file} is in {before.unit.words}, and {run.file} in {run.unit.words}")
    under = differences(before.under, run.under) if before else ()
    return Run(run.file, run.name, run.started, str(run.verdict), under)


def _series(measures: Sequence[Measure | None], unit: Unit) -> Series:
    return Series(tuple(measurement and measurement.value for measurement in measures), _last(measures, unit))


def _last(measures: Sequence[Measure | None], unit: Unit) -> Change:
    """The last run against the median of those before, with the noise of the noisiest of them."""
    *earlier, last = measures
    known = [measurement for measurement in earlier if measurement is not None]
    if last is None:
        return Change(UNKNOWN, reason="not measured in the last one")
    if not known:
        return Change(UNKNOWN, after=last.value, reason="not measured before the last one")
    noises = [measurement.noise for measurement in known if measurement.noise is not None]
    median = statistics.median(measurement.value for measurement in known)
    before = Measure(median, min(measurement.pairs for measurement in known), max(noises, default=None))
    return change(before, last, unit)


# -- as JSON and as a table -----------------------------------------------------------------------


def document(kind_trend: Trend) -> dict[str, Any]:
    """A member of `trends` in docs/schema/trend.schema.json."""
    return {
        "kind": kind_trend.kind,
        "unit": kind_trend.unit.words,
        "verdict": kind_trend.verdict,
        "counts": dict(Counter(series.last.word for series in kind_trend.nodes.values())),
        "runs": [
            {
                **run._asdict(),
                "under": [{**changed._asdict(), "nodes": [*changed.nodes]} for changed in run.under],
            }
            for run in kind_trend.runs
        ],
        "fleet": _json(kind_trend.fleet),
        "nodes": [{"name": name, **_json(series)} for name, series in kind_trend.nodes.items()],
    }


def whole(trends: Iterable[Trend], unread: Sequence[str]) -> dict[str, Any]:
    """All kinds of a folder. unread: reasons why files of it cannot be used."""
    return {
        "format": FORMAT,
        "mlnode": VERSION,
        "trends": [document(kind_trend) for kind_trend in trends],
        "unread": [*unread],
    }


def _json(series: Series) -> dict[str, Any]:
    last = series.last
    return {
        "result": last.word,
        "medians": [*series.values],
        **percents(last),
        "reason": last.reason,
    }


def lines(kind_trend: Trend, width: int | None) -> list[str]:
    """A line for each node, those that get worse first; many that stay the same are a number."""
    first, last = kind_trend.runs[0], kind_trend.runs[-1]
    order = sorted(kind_trend.nodes.items(), key=lambda item: _rank(item[1].last))
    shown = [item for item in order if item[1].last.word != SAME] if len(order) > MOST else order
    low, high = _scale(kind_trend.nodes.values())
    rows = [
        _row("fleet", kind_trend.fleet, low, high),
        *(_row(name, series, low, high) for name, series in shown[:MOST]),
    ]
    rest = [name for name, _series in order if name not in dict(shown[:MOST])]
    dated = (
        difference._replace(what=f"{run.started[:10]} {difference.what}")
        for run in kind_trend.runs
        for difference in run.under
    )
    counts = sums(series.last.word for series in kind_trend.nodes.values())
    return [
        f"{kind_trend.kind}: {len(kind_trend.runs)} runs, {first.started[:10]} to {last.started[:10]}",
        f"{_BARS[0]} {low:.2f} and {_BARS[-1]} {high:.2f} of a node's own median",
        "",
        *grid(("NODE", f"LAST {kind_trend.unit.words}", "CHANGE", "RUNS", "RESULT"), rows, width),
        *([f"and {len(rest)} more: {few(rest, 6)}"] if rest else []),
        *under("Not measured under the same from one run to the next:", [*dated], width),
        "",
        f"{kind_trend.verdict}: {len(kind_trend.nodes)} nodes: {counts}",
    ]


def _rank(last: Change) -> tuple[int, float]:
    return WORDS.index(last.word), -abs(last.part or 0.0)


def _row(name: str, series: Series, low: float, high: float) -> tuple[str, ...]:
    last = series.last
    value = "" if last.after is None else f"{last.after:.4g}"
    result = f"{last.word}: {last.reason}" if last.reason else last.word
    return printable(name), value, percent(last.part), _bars(series, low, high), result


def _shares(series: Series) -> list[float | None]:
    """Each value as a part of the node's own median, to fit nodes with different links on one scale."""
    known = [value for value in series.values if value is not None]
    median = statistics.median(known) if known else 0.0
    return [value / median if value is not None and median else None for value in series.values]


def _scale(nodes: Iterable[Series]) -> tuple[float, float]:
    shares = [share for series in nodes for share in _shares(series) if share is not None]
    return min(shares, default=1.0), max(shares, default=1.0)


def _bars(series: Series, low: float, high: float) -> str:
    steps = (len(_BARS) - 1) / (high - low) if high > low else 0.0

    def step(share: float) -> str:
        return _BARS[round((min(max(share, low), high) - low) * steps)]

    return "".join(_GAP if share is None else step(share) for share in _shares(series)[-_RUNS:])
