# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""From the answers of all nodes in all phases to the effect on each metric and the verdict about it, as one
document and as lines for a terminal; docs/schema/effect.schema.json describes the document.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ...module_utils._mlnode.model.errors import printable
from ...module_utils._mlnode.model.version import VERSION
from ..fleet_report.names import few
from . import interval, metrics, readings
from .interval import BLOCK, HARMS, HELPS, LOWER, UNKNOWN, Effect
from .metrics import Metric
from .readings import Lost, Pairs, Reading, Readings

#: Raised when a field changes its meaning or goes; new fields do not raise it.
FORMAT = 3

#: An effect below this does not matter, in percent: repeated runs of one pair scatter by 1.5 % (the noise of
#: tests/simulation/fleet.py), and a step of training gains less from its links than they do
LEAST_PERCENT = 1.0

#: States of phases in blocks; the last block may be unfinished
_IN_BLOCKS = re.compile("(?:ABBA|BAAB)*(?:A|AB|ABB|ABBA|B|BA|BAA|BAAB)")

#: Significant digits of a value, and decimals of a percentage: enough for a hundredth of a percent
_DIGITS = 6

#: Ends of a run after which its last look keeps the error rate of a last one: no metric has chosen them by
#: its middle. Others ended it early or at its last block.
_LAST = ("precision", "budget", "stopped")


def document(
    phases: Sequence[Mapping[str, Any]], plan: Mapping[str, Any], about: Mapping[str, Any]
) -> dict[str, Any]:
    """phases: in their order, each with its `state`, A or B, the nodes' answers as `tcp` and `memory`, and
    readings.Commanded as `command` and `runs`. Phases of an unfinished block are in the document, but in no
    interval. A metric that the change harms comes first. Raises ValueError."""
    states = "".join(str(phase["state"]) for phase in phases)
    if not _IN_BLOCKS.fullmatch(states):
        raise ValueError(f"phases: expected blocks of ABBA or BAAB, got {states or 'none'}; keep their order")
    about = {
        "stopped": "",
        "repeated": [],
        "blocks_planned": len(states) // BLOCK,
        "least_percent": LEAST_PERCENT,
        "precision_percent": None,
        "command": None,
        "end": "blocks",
        **about,
        "order": states,
    }
    metrics = by_metric(phases, plan)
    family = sum(any(map(is_measured, pairs.values())) for pairs in metrics.values())
    results = [_result(metric, pairs, about, max(1, family)) for metric, pairs in metrics.items()]
    results.sort(key=lambda result: result["verdict"] != HARMS)
    return {
        "format": FORMAT,
        "mlnode": VERSION,
        "effect": about,
        "results": results,
        "runs": runs(phases),
    }


def runs(phases: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Counted runs of the command, with the number of their phase."""
    return [
        {"phase": number, **run} for number, phase in enumerate(phases, 1) for run in phase.get("runs", ())
    ]


def by_metric(phases: Sequence[Mapping[str, Any]], plan: Mapping[str, Any]) -> dict[Metric, Pairs]:
    """Readings of the pairs in each phase. Raises ValueError."""
    known: list[Readings] = [readings.of_phase(phase, plan) for phase in phases]
    measured = dict.fromkeys(metric for phase in known for metric in phase)
    return {metric: _rows([phase.get(metric, {}) for phase in known]) for metric in measured}


def is_measured(pair: Sequence[Reading]) -> bool:
    return any(reading.value for reading in pair)


def _rows(phases: Sequence[Mapping[str, Reading]]) -> Pairs:
    """A node that refused has one reading, which counts for each of its NUMA nodes in the other phases."""
    names = {name: reading.nodes for phase in phases for name, reading in phase.items()}
    divided = {nodes[0] for name, nodes in names.items() if nodes != (name,)}
    silent = Reading(None, "no answer was collected")
    return {
        name: [phase.get(name) or phase.get(nodes[0]) or silent for phase in phases]
        for name, nodes in names.items()
        if name not in divided
    }


def is_success(document: Mapping[str, Any]) -> bool:
    """The run was not stopped, and all pairs are in the interval of every metric."""
    results = document["results"]
    return bool(results) and all(result["verdict"] != UNKNOWN for result in results)


def harmed(document: Mapping[str, Any]) -> list[str]:
    """Each metric that the change harms, with its effect, for people."""
    return [
        printable(f"{result['name']}: {result['words']}")
        for result in document["results"]
        if result["verdict"] == HARMS
    ]


def ended(document: Callable[[str], Mapping[str, Any]], precision: float | None, harms: bool) -> str:
    """Why no more blocks are necessary, as the document's `end`; "" if they are. document: makes the document
    for an end. precision: asked for, in percent. harms: a certain harm ends the run."""
    early = document("")
    if harms and harmed(early):
        return "decided"
    if precision is None:
        return "decided" if _all_have("decided", early) else ""
    return "precision" if _all_have("narrow", document("precision")) else ""


def _all_have(field: str, document: Mapping[str, Any]) -> bool:
    """For all metrics with an interval, if there are any."""
    effects = [result["effect"] for result in document["results"] if result["effect"]]
    return bool(effects) and all(effect[field] for effect in effects)


def loss(lost: Lost) -> list[str]:
    """For people, a line for each reason."""
    return [printable(line) for line in _by_reason({**lost.nodes, **lost.pairs})]


def _by_reason(reasons: Mapping[str, str]) -> Iterator[str]:
    names: dict[str, list[str]] = {}
    for name, reason in reasons.items():
        names.setdefault(reason or "no result", []).append(name)
    for reason, those in names.items():
        yield f"{few(those)}: {reason}"


# -- conclusions --------------------------------------------------------------------------------


def _result(metric: Metric, pairs: Pairs, about: Mapping[str, Any], family: int) -> dict[str, Any]:
    states = about["order"]
    blocks, least = len(states) // BLOCK, about["least_percent"] / 100
    series = {name: [reading.value for reading in row] for name, row in pairs.items()}
    # A run that was stopped looks once more, at its end, as it had been its last block: no metric stops it.
    most = blocks if about["end"] in _LAST or about["stopped"] else max(blocks, about["blocks_planned"])
    tools = sorted({reading.tool for row in pairs.values() for reading in row if reading.value})
    effect = interval.estimate(series, states[: BLOCK * blocks], most, family, tools == [metrics.STATUS])
    measured = len(interval.complete(series, blocks))
    gaps = {state: _lost_in(state, states, series) for state in "AB"}
    # A change that cuts a pair off has an effect that the others do not show.
    is_whole = not about["stopped"] and not any(gaps.values())
    asked = about["precision_percent"]
    precision = None if asked is None else asked / 100
    verdict = interval.verdict(effect, least, metric.better, precision) if is_whole else UNKNOWN
    words = interval.words(effect, blocks, least, precision)
    if verdict in (HELPS, HARMS):
        words = f"{verdict}: {words}"
    if effect and not is_whole:
        words = f"unknown; {measured} of {len(pairs)} pairs in {blocks} blocks: {words}"
    return {
        **metric._asdict(),
        "tools": tools,
        "verdict": verdict,
        "words": words,
        "effect": effect and _numbers(effect, least, precision),
        "pairs_measured": measured,
        "cpu_bound": sum(reading.cpu_bound for row in pairs.values() for reading in row),
        "lost": gaps,
        "pairs": [pair(name, row) for name, row in pairs.items()],
    }


def _numbers(effect: Effect, least: float, precision: float | None) -> dict[str, Any]:
    percents = {name: percent(getattr(effect, name)) for name in ("value", "low", "high", "seen")}
    return {
        **{f"{name}_percent": value for name, value in percents.items()},
        "blocks": len(effect.differences),
        "block_percents": [percent(math.expm1(difference)) for difference in effect.differences],
        "blocks_needed": effect.blocks_for(least),
        "decided": effect.is_decided(least),
        "narrow": precision is not None and effect.is_narrow(precision),
    }


def percent(part: float) -> float:
    return round(100 * part, _DIGITS)


def _lost_in(state: str, states: str, series: Mapping[str, interval.Series]) -> int:
    """Measurements in this state that have no result."""
    return sum(
        not value
        for values in series.values()
        for phase_state, value in zip(states, values)
        if phase_state == state
    )


def pair(name: str, row: Sequence[Reading]) -> dict[str, Any]:
    return {
        "name": name,
        "values": [None if reading.value is None else _rounded(reading.value) for reading in row],
        "reasons": sorted({reading.reason for reading in row if reading.value is None}),
    }


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")


def lines(document: Mapping[str, Any]) -> list[str]:
    """For a terminal: one line for each metric, and the missing measurements."""
    texts = [line for result in document["results"] for line in _lines(result)]
    texts += [*_wide(document), *ends(document["effect"])]
    return [printable(line) for line in texts or ["unknown: nothing was measured"]]


def _wide(document: Mapping[str, Any]) -> Iterator[str]:
    """Metrics that have not become as narrow as asked for, after the last block or the budget."""
    about = document["effect"]
    wide = [result["name"] for result in document["results"] if not (result["effect"] or {}).get("narrow")]
    if about["precision_percent"] is not None and about["end"] in ("blocks", "budget") and wide:
        limits = "effect_blocks" if about["end"] == "blocks" else "effect_budget"
        yield f"{few(wide)}: wider than ±{about['precision_percent']:g} %; raise {limits}"


def ends(about: Mapping[str, Any]) -> Iterator[str]:
    """Phases that were measured twice, and the lost phase."""
    if about["repeated"]:
        twice = ", ".join(map(str, about["repeated"]))
        yield f"measured twice, as pairs had no result the first time: phase {twice}"
    if about["stopped"]:
        yield f"stopped: {about['stopped']}"


#: Kind → noun for its measurements
_NOUNS = {"tcp": "pair", "memory": "NUMA node", "command": "node"}


def measured(result: Mapping[str, Any]) -> str:
    number = result["pairs_measured"]
    if result["kind"] == "command" and len(result["pairs"]) == 1:
        return str(result["pairs"][0]["name"])
    return f"{number} {_NOUNS[result['kind']]}{'' if number == 1 else 's'}"


def title(result: Mapping[str, Any], units: str) -> str:
    """The metric. units: text about its measurements, which begins with a comma, or empty."""
    tools = ", ".join(result["tools"]) or "no tool"
    lower = ", lower is better" if result["better"] == LOWER else ""
    unit = f"{result['unit']}, " if result["unit"] else ""
    return f"{result['name']} ({unit}{tools}{units}{lower})"


def missing(result: Mapping[str, Any]) -> Iterator[str]:
    """Why pairs have no results."""
    lacking = {pair["name"]: pair["reasons"][0] for pair in result["pairs"] if pair["reasons"]}
    yield from (f"  {line}" for line in _by_reason(lacking))


def _lines(result: Mapping[str, Any]) -> Iterator[str]:
    effect = result["effect"]
    units = f", {measured(result)}, {effect['blocks']} blocks" if effect else ""
    yield f"{title(result, units)}: {result['words']}"
    lost = result["lost"]
    if lost["A"] or lost["B"]:
        yield f"  measurements without a result: {lost['A']} in A, {lost['B']} in B"
        yield from missing(result)
    if result["cpu_bound"]:
        total = len(result["pairs"]) * len(result["pairs"][0]["values"])
        yield f"  the cores were the limit in {result['cpu_bound']} of {total} measurements"
