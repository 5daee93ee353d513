# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""From the answers of all nodes in all phases to the effect on each figure, as one document and as lines for
a terminal; docs/schema/effect.schema.json describes the document.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ...module_utils._mlnode.model.errors import printable
from ...module_utils._mlnode.model.version import VERSION
from .. import agent_answer
from ..campaign import judge
from ..campaign.model import Reading as Measured
from ..fleet_report.names import few
from . import interval
from .interval import BLOCK, Effect

#: Raised when a field changes its meaning or goes; new fields do not raise it.
FORMAT = 2

#: An effect below this does not matter, in percent: repeated runs of one pair scatter by 1.5 % (the noise of
#: tests/simulation/fleet.py), and a step of training gains less from its links than they do
LEAST_PERCENT = 1.0

#: States of phases in blocks; the last block may be unfinished
_IN_BLOCKS = re.compile("(?:ABBA|BAAB)*(?:A|AB|ABB|ABBA|B|BA|BAA|BAAB)")

#: Decimals of Gb/s: enough for a hundredth of a percent of 100 Mb/s
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
    """Result of one pair in one phase; None if missing, with the reason. nodes: the two of the pair, or the
    single node of a memory measurement."""

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
    """phases: in their order, each with its `state`, A or B, and the nodes' answers as `tcp` and `memory`.
    Phases of an unfinished block are in the document, but in no interval. Raises ValueError."""
    states = "".join(str(phase["state"]) for phase in phases)
    if not _IN_BLOCKS.fullmatch(states):
        raise ValueError(f"phases: expected blocks of ABBA or BAAB, got {states or 'none'}; keep their order")
    about = {
        "stopped": "",
        "repeated": [],
        "blocks_planned": len(states) // BLOCK,
        "least_percent": LEAST_PERCENT,
        **about,
        "order": states,
    }
    readings = [dict((*_tcp(phase, plan), *_memory(phase))) for phase in phases]
    figures = dict.fromkeys(figure for by_figure in readings for figure in by_figure)
    results = [
        _result(figure, _rows([by_figure.get(figure, {}) for by_figure in readings]), about)
        for figure in figures
    ]
    return {"format": FORMAT, "mlnode": VERSION, "effect": about, "results": results}


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
    """The run was not stopped, and all pairs are in the interval of every figure."""
    results = document["results"]
    return bool(results) and all(result["outcome"] != "unknown" for result in results)


def is_decided(document: Mapping[str, Any]) -> bool:
    """More blocks would not change the answer of any figure that has one."""
    decided = [result["effect"]["decided"] for result in document["results"] if result["effect"]]
    return bool(decided) and all(decided)


class Lost(NamedTuple):
    """Parts of one phase without a result. nodes: that did not take part → why. pairs: of the others."""

    nodes: dict[str, str]
    pairs: dict[str, str]


def lost(phase: Mapping[str, Any], plan: Mapping[str, Any]) -> Lost:
    """A figure that no node has been able to measure is not lost. Raises ValueError."""
    nodes: dict[str, str] = {}
    pairs: dict[str, str] = {}
    if "tcp" in phase:
        nodes.update(_stage(phase, plan).reasons)
        [(_figure, readings)] = _tcp(phase, plan)
        pairs = {
            name: reading.reason
            for name, reading in readings.items()
            if reading.value is None and not nodes.keys() & reading.nodes
        }
    for host, result in phase.get("memory", {}).items():
        problem = _refused(agent_answer.of_task("look", result))
        if problem:
            nodes.setdefault(host, problem)
    return Lost(nodes, pairs)


def loss(lost: Lost) -> list[str]:
    """For people, a line for each reason."""
    return [printable(line) for line in _by_reason({**lost.nodes, **lost.pairs})]


def _by_reason(reasons: Mapping[str, str]) -> Iterator[str]:
    names: dict[str, list[str]] = {}
    for name, reason in reasons.items():
        names.setdefault(reason or "no result", []).append(name)
    for reason, those in names.items():
        yield f"{few(those)}: {reason}"


# -- answers of nodes -----------------------------------------------------------------------------


def _tcp(phase: Mapping[str, Any], plan: Mapping[str, Any]) -> Iterator[tuple[Figure, dict[str, Reading]]]:
    if "tcp" not in phase:
        return
    readings = {}
    for sample in judge.judge(plan["kind"], plan["nodes"], _stage(phase, plan)).samples:
        rail = f" rail {sample.rail}" if len(plan["nodes"][sample.nodes[0]]["addresses"]) > 1 else ""
        reading, value = sample.reading, _both(sample.reading)
        reason = "nothing arrived" if value == 0 else reading.reason
        readings[f"{' - '.join(sample.nodes)}{rail}"] = Reading(
            value or None, reason, "iperf3", cpu_bound=reading.cpu_bound, nodes=sample.nodes
        )
    yield TCP, readings


def _stage(phase: Mapping[str, Any], plan: Mapping[str, Any]) -> judge.Stage:
    answers = phase["tcp"]
    stage = judge.stage(plan["slots"], answers["started"], answers["collected"])
    silent = {
        name: "no answer was collected"
        for name, slots in plan["slots"].items()
        if name not in stage.answers and slots
    }
    return stage._replace(reasons={**silent, **stage.reasons})


def _both(reading: Measured) -> float | None:
    """Mean of both directions. The slower one, which a campaign uses, is also the direction that a
    disturbance has hit: of 10 pairs with the noise of tests/simulation, it reports 3 % as no effect three
    times as often."""
    forward, backward = reading.amounts.get("forward_gbits"), reading.amounts.get("backward_gbits")
    if forward is None or backward is None:
        return None
    return math.sqrt(forward * backward)


def _memory(phase: Mapping[str, Any]) -> Iterator[tuple[Figure, dict[str, Reading]]]:
    if "memory" not in phase:
        return
    for figure, field in ((COPY, "copied"), (RANDOM, "read")):
        readings = {}
        for host, result in phase["memory"].items():
            answer = agent_answer.of_task("look", result)
            problem = _refused(answer)
            if problem:
                readings[host] = Reading(None, problem, nodes=(host,))
            for node in answer.get("nodes", ()):
                measurement = node[field]
                name = f"{host} node {node['node']}"
                readings[name] = Reading(
                    measurement["value"], measurement["reason"], measurement["tool"], nodes=(host,)
                )
        yield figure, readings


def _refused(answer: Mapping[str, Any]) -> str:
    """Why a node did not measure its memory."""
    if "nodes" in answer:
        return ""
    return printable(str(answer.get("msg") or "no answer was collected"))


# -- conclusions --------------------------------------------------------------------------------


def _result(figure: Figure, pairs: Pairs, about: Mapping[str, Any]) -> dict[str, Any]:
    states = about["order"]
    blocks, least = len(states) // BLOCK, about["least_percent"] / 100
    series = {name: [reading.value for reading in readings] for name, readings in pairs.items()}
    # A run that was stopped looks once more, at its end, as it had been its last block: no figure stops it.
    most = blocks if about["stopped"] else max(blocks, about["blocks_planned"])
    effect = interval.estimate(series, states[: BLOCK * blocks], most)
    measured = len(interval.complete(series, blocks))
    gaps = {state: _lost_in(state, states, series) for state in "AB"}
    words = interval.words(effect, blocks, least)
    # A change that cuts a pair off has an effect that the others do not show.
    is_whole = not about["stopped"] and not any(gaps.values())
    if effect and not is_whole:
        words = f"unknown; {measured} of {len(pairs)} pairs in {blocks} blocks: {words}"
    return {
        **figure._asdict(),
        "tools": sorted(
            {reading.tool for readings in pairs.values() for reading in readings if reading.value}
        ),
        "outcome": _outcome(effect) if is_whole else "unknown",
        "words": words,
        "effect": effect and _numbers(effect, least),
        "pairs_measured": measured,
        "cpu_bound": sum(reading.cpu_bound for readings in pairs.values() for reading in readings),
        "lost": gaps,
        "pairs": [_pair(name, readings) for name, readings in pairs.items()],
    }


def _outcome(effect: Effect | None) -> str:
    if effect is None:
        return "unknown"
    return "effect" if effect.is_certain else "no difference"


def _numbers(effect: Effect, least: float) -> dict[str, Any]:
    percents = {name: _percent(getattr(effect, name)) for name in ("value", "low", "high", "seen")}
    return {
        **{f"{name}_percent": value for name, value in percents.items()},
        "blocks": len(effect.differences),
        "block_percents": [_percent(math.expm1(difference)) for difference in effect.differences],
        "blocks_needed": effect.blocks_for(least),
        "decided": effect.is_decided(least),
    }


def _percent(part: float) -> float:
    return round(100 * part, _DIGITS)


def _lost_in(state: str, states: str, series: Mapping[str, interval.Series]) -> int:
    """Measurements in this state that have no result."""
    return sum(
        not value
        for values in series.values()
        for phase_state, value in zip(states, values)
        if phase_state == state
    )


def _pair(name: str, readings: Sequence[Reading]) -> dict[str, Any]:
    values = [reading.value for reading in readings]
    return {
        "name": name,
        "values": [None if value is None else round(value, _DIGITS) for value in values],
        "reasons": sorted({reading.reason for reading in readings if reading.value is None}),
    }


def lines(document: Mapping[str, Any]) -> list[str]:
    """For a terminal: one line for each figure, and the missing measurements."""
    texts = [line for result in document["results"] for line in _lines(result)]
    about = document["effect"]
    if about["repeated"]:
        twice = ", ".join(map(str, about["repeated"]))
        texts.append(f"measured twice, as pairs had no result the first time: phase {twice}")
    if about["stopped"]:
        texts.append(f"stopped: {about['stopped']}")
    return [printable(line) for line in texts or ["unknown: nothing was measured"]]


def _lines(result: Mapping[str, Any]) -> Iterator[str]:
    tools = ", ".join(result["tools"]) or "no tool"
    effect = result["effect"]
    planned = len(result["pairs"])
    measured = result["pairs_measured"]
    pairs = "1 pair" if measured == 1 else f"{measured} pairs"
    units = f", {pairs}, {effect['blocks']} blocks" if effect else ""
    less = ", less is better" if result["better"] == "less" else ""
    yield f"{result['name']} ({result['unit']}, {tools}{units}{less}): {result['words']}"
    lost = result["lost"]
    if lost["A"] or lost["B"]:
        yield f"  measurements without a result: {lost['A']} in A, {lost['B']} in B"
        lacking = {pair["name"]: pair["reasons"][0] for pair in result["pairs"] if pair["reasons"]}
        yield from (f"  {line}" for line in _by_reason(lacking))
    if result["cpu_bound"]:
        total = planned * len(result["pairs"][0]["values"])
        yield f"  the cores were the limit in {result['cpu_bound']} of {total} measurements"
