# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""From the answers of all nodes in the phases of a screening experiment to the effect of each area on each
metric, as one document and as lines for a terminal; docs/schema/screening.schema.json describes the document.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...module_utils._mlnode.model.errors import printable
from ...module_utils._mlnode.model.version import VERSION
from . import interval, metrics, report, screening
from .interval import HARMS, HELPS, HIGHER, NO_DIFFERENCE, NOT_DECIDED, UNKNOWN, VERDICTS
from .metrics import Metric
from .readings import Pairs
from .screening import Answer, AreaEffect, Screening
from .screening_design import Design

#: Raised when a field changes its meaning or goes; new fields do not raise it.
FORMAT = 1


def document(
    phases: Sequence[Mapping[str, Any]], plan: Mapping[str, Any], design: Design, about: Mapping[str, Any]
) -> dict[str, Any]:
    """phases: as for report.document(), in the order of the design. about: the fields `effect` of the
    document that are not of the design. Areas of each metric: the most urgent verdict first."""
    by_metric = report.by_metric(phases, plan)
    family = sum(any(map(report.is_measured, pairs.values())) for pairs in by_metric.values())
    about = {
        **about,
        "areas": [*design.areas],
        "phases": [[*design.applied(phase)] for phase in range(len(design.levels))],
        "measured": len(phases),
        "clear": design.folded,
        "design": design.words,
    }
    results = [_result(metric, pairs, design, about, max(1, family)) for metric, pairs in by_metric.items()]
    results.sort(key=lambda result: _urgency(result["areas"][0]))
    return {
        "format": FORMAT,
        "mlnode": VERSION,
        "effect": about,
        "results": results,
        "runs": report.runs(phases),
    }


def _urgency(area: Mapping[str, Any]) -> tuple[int, float]:
    value = area["effect"]["value_percent"] if area["effect"] else 0.0
    return VERDICTS.index(area["verdict"]), -abs(value)


def is_success(document: Mapping[str, Any]) -> bool:
    """The run was not stopped, and all pairs count for every metric."""
    results = document["results"]
    return bool(results) and all(area["verdict"] != UNKNOWN for result in results for area in result["areas"])


def harmed(document: Mapping[str, Any]) -> list[str]:
    """Each area that harms a metric, with its effect, for people."""
    return [
        printable(f"{result['name']}: {area['area']}: {area['words']}")
        for result in document["results"]
        for area in result["areas"]
        if area["verdict"] == HARMS
    ]


# -- conclusions --------------------------------------------------------------------------------


def _result(
    metric: Metric, pairs: Pairs, design: Design, about: Mapping[str, Any], family: int
) -> dict[str, Any]:
    least = about["least_percent"] / 100
    series = {name: [reading.value for reading in row] for name, row in pairs.items()}
    measured = [name for name, row in series.items() if len(row) == len(design.levels) and all(row)]
    # A phase or a pair that is missing may be missing because of an area.
    is_whole = not about["stopped"] and 0 < len(measured) == len(series)
    tools = sorted({reading.tool for row in pairs.values() for reading in row if reading.value})
    screened: Screening | None = None
    if is_whole:
        values = [math.exp(statistics.fmean(map(math.log, phase))) for phase in zip(*series.values())]
        step = 0.0 if tools == [metrics.STATUS] else interval.step(series, len(values))
        screened = screening.analyse(design, values, least, family, step)
    effects: Sequence[AreaEffect | None] = screened.effects if screened else [None] * len(design.areas)
    areas = [
        _area(number, design, effect, metric.better == HIGHER, least) for number, effect in enumerate(effects)
    ]
    return {
        **metric._asdict(),
        "tools": tools,
        "pairs_measured": len(measured),
        "noise_percent": report.percent(screened.noise) if screened else None,
        "notes": [*screened.notes] if screened else [],
        "areas": sorted(areas, key=_urgency),
        "pairs": [report.pair(name, row) for name, row in pairs.items()],
    }


def _area(
    number: int, design: Design, effect: AreaEffect | None, higher: bool, least: float
) -> dict[str, Any]:
    verdict = _verdict(effect, higher)
    return {
        "area": design.areas[number],
        "verdict": verdict,
        "words": _words(effect, verdict, least),
        "effect": effect
        and {
            f"{name}_percent": report.percent(value)
            for name, value in zip(("value", "low", "high", "seen"), effect[2:6])
        },
        "confounded": [
            {"areas": [first, second], "share": round(share, 3)}
            for first, second, share in design.confounded(number)
        ],
    }


def _verdict(effect: AreaEffect | None, higher: bool) -> str:
    if effect is None:
        return UNKNOWN
    if effect.answer in (Answer.MORE, Answer.LESS):
        return HELPS if (effect.answer == Answer.MORE) == higher else HARMS
    return NO_DIFFERENCE if effect.answer == Answer.NO_DIFFERENCE else NOT_DECIDED


def _words(effect: AreaEffect | None, verdict: str, least: float) -> str:
    if effect is None:
        return "unknown: not all phases have all results"
    reach = f"(95 % interval {100 * effect.low:+.2f} to {100 * effect.high:+.2f} %)"
    if verdict == NO_DIFFERENCE:
        return f"{verdict} above {100 * least:g} % {reach}"
    if verdict == NOT_DECIDED:
        return f"{verdict} {reach}, {effect.why or f'would have seen {interval.up(effect.seen)} % or more'}"
    return f"{verdict}: {100 * effect.change:+.2f} % {reach}"


# -- for people ---------------------------------------------------------------------------------


def plan_lines(design: str, left_out: Mapping[str, str]) -> list[str]:
    """design: its words. left_out: area → why."""
    return [design, *(f"left out: {area}: {why}" for area, why in left_out.items())]


def lines(document: Mapping[str, Any]) -> list[str]:
    """For a terminal: each metric with one line for each area."""
    about = document["effect"]
    left_out = {area["area"]: area["reason"] for area in about["left_out"]}
    texts = [line for result in document["results"] for line in _lines(result)]
    texts += [*plan_lines(about["design"], left_out), *report.ends(about)]
    return [printable(line) for line in texts]


def _lines(result: Mapping[str, Any]) -> Iterator[str]:
    noise = result["noise_percent"]
    units = "" if noise is None else f", {report.measured(result)}, noise of {noise:.2g} % a phase"
    yield f"{report.title(result, units)}:"
    for area in result["areas"]:
        yield f"  {area['area']}: {area['words']}{_confounded(area['confounded'])}"
    yield from (f"  {note}" for note in result["notes"])
    yield from report.missing(result)


def _confounded(pairs: Sequence[Mapping[str, Any]]) -> str:
    """The pairs whose interactions add most."""
    if not pairs:
        return ""
    most = abs(pairs[0]["share"])
    first = [" x ".join(pair["areas"]) for pair in pairs if abs(pair["share"]) == most]
    names = first[0] if len(first) == 1 else f"{len(first)} interactions such as {first[0]}"
    return f"; includes {100 * most:.0f} % of {names}"
