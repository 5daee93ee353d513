# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""From the answers of all nodes in all phases to the effect on each figure, as one document and as lines for
a terminal; docs/schema/effect.schema.json describes the document.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ...module_utils._mlnode.model.errors import printable
from ...module_utils._mlnode.model.version import VERSION
from .. import agent_answer
from ..campaign import judge
from ..campaign.model import Reading as Measured
from ..fleet_report.names import few
from . import interval
from .interval import ORDER, Effect

#: Raised when a field changes its meaning or goes; new fields do not raise it.
FORMAT = 1

#: As many pairs without a result as are named in the table; the document has all of them
_NAMED = 6

#: After the point of Gb/s, so that a hundredth of a percent of 100 Mb/s is seen
_DIGITS = 6


class Figure(NamedTuple):
    """A figure that is measured. better: `more` or `less`."""

    kind: str
    name: str
    unit: str
    better: str


TCP = Figure("tcp", "bandwidth between two nodes, mean of both directions", "Gb/s", "more")
COPY = Figure("memory", "memory copied by one core", "GB/s", "more")
RANDOM = Figure("memory", "random read of memory", "ns", "less")


class Reading(NamedTuple):
    """Of one pair in one phase; None where there is none, and reason then has why. nodes: its two."""

    value: float | None
    reason: str = ""
    tool: str = ""
    cpu_bound: bool = False
    nodes: tuple[str, ...] = ()


#: Pair → its readings, one for each phase
Pairs = dict[str, list[Reading]]


def document(
    phases: Sequence[Mapping[str, Any]], plan: Mapping[str, Any], about: Mapping[str, Any]
) -> dict[str, Any]:
    """phases: in their order, each with its `state`, A or B, and as `tcp` and `memory` what the nodes have
    answered. Raises ValueError."""
    states = "".join(str(phase["state"]) for phase in phases)
    if not states or states != ORDER * (len(states) // len(ORDER)):
        raise ValueError(f"the phases are {states or 'none'}, and not {ORDER} once or several times")
    figures: dict[Figure, Pairs] = {}
    for phase in phases:
        for figure, found in (*_tcp(phase, plan), *_memory(phase)):
            for name, reading in found.items():
                figures.setdefault(figure, {}).setdefault(name, []).append(reading)
    results = [_result(figure, pairs, len(phases)) for figure, pairs in figures.items()]
    return {
        "format": FORMAT,
        "mlnode": VERSION,
        "effect": {**about, "order": states},
        "results": results,
    }


def is_success(document: Mapping[str, Any]) -> bool:
    """There is an interval for every figure, and every pair has its part in it."""
    results = document["results"]
    return bool(results) and all(
        one["outcome"] != "unknown" and one["pairs_measured"] == len(one["pairs"]) for one in results
    )


# -- what nodes have answered ---------------------------------------------------------------------


def _tcp(phase: Mapping[str, Any], plan: Mapping[str, Any]) -> Iterator[tuple[Figure, dict[str, Reading]]]:
    if "tcp" not in phase:
        return
    answers = phase["tcp"]
    stage = judge.stage(plan["slots"], answers["started"], answers["collected"])
    found = {}
    for sample in judge.judge(plan["kind"], plan["nodes"], stage).samples:
        rail = f" rail {sample.rail}" if len(plan["nodes"][sample.nodes[0]]["addresses"]) > 1 else ""
        one = sample.reading
        found[f"{' - '.join(sample.nodes)}{rail}"] = Reading(
            _both(one), one.reason, "iperf3", cpu_bound=one.cpu_bound, nodes=sample.nodes
        )
    yield TCP, found


def _both(one: Measured) -> float | None:
    """The mean of both directions. The slower one, by which a campaign finds faults, is also the one that a
    disturbance has met: of 10 pairs with the noise of tests/simulation it takes 3 % for no effect three times
    as often."""
    forward, backward = one.amounts.get("forward_gbits"), one.amounts.get("backward_gbits")
    if forward is None or backward is None:
        return None
    return math.sqrt(forward * backward)


def _memory(phase: Mapping[str, Any]) -> Iterator[tuple[Figure, dict[str, Reading]]]:
    if "memory" not in phase:
        return
    for figure, field in ((COPY, "copied"), (RANDOM, "read")):
        found = {}
        for host, result in phase["memory"].items():
            answer = agent_answer.of_task("look", result)
            if "nodes" not in answer:
                found[host] = Reading(None, printable(str(answer.get("msg") or "no answer was collected")))
            for node in answer.get("nodes", ()):
                one = node[field]
                found[f"{host} node {node['node']}"] = Reading(one["value"], one["reason"], one["tool"])
        yield figure, found


# -- what follows from it -----------------------------------------------------------------------


def _result(figure: Figure, pairs: Pairs, phases: int) -> dict[str, Any]:
    # A pair that is not in all phases cannot be put in their order.
    whole = {name: readings for name, readings in pairs.items() if len(readings) == phases}
    series = {name: [one.value for one in readings] for name, readings in whole.items()}
    effect = interval.of(series, {name: readings[0].nodes for name, readings in whole.items()})
    return {
        **figure._asdict(),
        "tools": sorted({one.tool for readings in pairs.values() for one in readings if one.value}),
        "outcome": _outcome(effect),
        "words": interval.words(effect),
        "effect": effect and _numbers(effect),
        "pairs_measured": sum(any(one is not None for one in interval.differences(values))
                              for values in series.values()),
        "cpu_bound": sum(one.cpu_bound for readings in pairs.values() for one in readings),
        "pairs": [_pair(name, readings) for name, readings in pairs.items()],
    }  # fmt: skip


def _outcome(effect: Effect | None) -> str:
    if effect is None:
        return "unknown"
    return "effect" if effect.is_certain else "no difference"


def _numbers(effect: Effect) -> dict[str, Any]:
    percents = ("value", "low", "high", "bound")
    return {
        **{f"{name}_percent": round(100 * getattr(effect, name), _DIGITS) for name in percents},
        "differences": effect.differences,
        "of_each": effect.unit,
    }


def _pair(name: str, readings: Sequence[Reading]) -> dict[str, Any]:
    values = [one.value for one in readings]
    return {
        "name": name,
        "values": [None if value is None else round(value, _DIGITS) for value in values],
        "reasons": sorted({one.reason for one in readings if one.value is None}),
    }


def lines(document: Mapping[str, Any]) -> list[str]:
    """For a terminal: one line for each figure, and what is missing."""
    return [printable(line) for one in document["results"] for line in _lines(one)] or [
        "unknown: nothing was measured"
    ]


def _lines(result: Mapping[str, Any]) -> Iterator[str]:
    tools = ", ".join(result["tools"]) or "no tool"
    effect = result["effect"]
    units = f", {effect['differences']} {effect['of_each']}s" if effect else ""
    less = ", less is better" if result["better"] == "less" else ""
    yield f"{result['name']} ({result['unit']}, {tools}{units}{less}): {result['words']}"
    planned, measured = len(result["pairs"]), result["pairs_measured"]
    if measured < planned:
        lacking = [pair for pair in result["pairs"] if pair["reasons"]]
        yield f"  measured in all phases of a block: {measured} of {planned}"
        reasons: dict[str, list[str]] = {}
        for pair in lacking:
            reasons.setdefault(pair["reasons"][0], []).append(pair["name"])
        for reason, names in reasons.items():
            yield f"  {few(names, _NAMED)}: {reason}"
    if result["cpu_bound"]:
        total = planned * len(result["pairs"][0]["values"])
        yield f"  the cores were the limit in {result['cpu_bound']} of {total} measurements"
