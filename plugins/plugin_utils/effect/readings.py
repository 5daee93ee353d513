# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Readings of each metric in one phase, from the answers of all nodes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ...module_utils._mlnode.model.errors import printable
from .. import agent_answer
from ..campaign import judge
from ..campaign.model import Reading as Measured
from . import metrics
from .interval import HIGHER, LOWER
from .metrics import Metric, MetricError, Source

TCP = Metric("tcp", "bandwidth between two nodes, mean of both directions", "Gb/s", HIGHER)
COPY = Metric("memory", "memory copied by one core", "GB/s", HIGHER)
RANDOM = Metric("memory", "random read of memory", "ns", LOWER)


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

#: Metric → pair → its reading in one phase
Readings = dict[Metric, dict[str, Reading]]

#: Node and name of a metric → units that the command has printed after its numbers
Units = dict[tuple[str, str], set[str]]

#: Characters of the end of an output that are kept in a result
_KEPT = 2000


class Lost(NamedTuple):
    """Parts of one phase without a result. nodes: that did not take part → why. pairs: of the others."""

    nodes: dict[str, str]
    pairs: dict[str, str]


def lost(phase: Mapping[str, Any], plan: Mapping[str, Any]) -> Lost:
    """A metric of memory that no node has been able to measure is not lost. A command is not repeated: a
    second run that succeeds would hide the first. Raises ValueError."""
    nodes: dict[str, str] = {}
    pairs: dict[str, str] = {}
    if "tcp" in phase:
        nodes.update(_stage(phase, plan).reasons)
        [(_metric, readings)] = _tcp(phase, plan)
        pairs = {
            name: reading.reason
            for name, reading in readings.items()
            if reading.value is None and not nodes.keys() & reading.nodes
        }
    for host, result in phase.get("memory", {}).items():
        problem = _refused(agent_answer.of_task("look", result))
        if problem:
            nodes.setdefault(host, problem)
    for by_pair in phase.get("command", {}).values():
        for name, reading in by_pair.items():
            if reading.value is None:
                nodes.setdefault(name, reading.reason)
    return Lost(nodes, pairs)


# -- answers of nodes -----------------------------------------------------------------------------


def _tcp(phase: Mapping[str, Any], plan: Mapping[str, Any]) -> Iterator[tuple[Metric, dict[str, Reading]]]:
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


def _memory(phase: Mapping[str, Any]) -> Iterator[tuple[Metric, dict[str, Reading]]]:
    if "memory" not in phase:
        return
    for metric, field in ((COPY, "copied"), (RANDOM, "read")):
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
        yield metric, readings


def _refused(answer: Mapping[str, Any]) -> str:
    """Why a node did not measure its memory."""
    if "nodes" in answer:
        return ""
    return printable(str(answer.get("msg") or "no answer was collected"))


# -- commands --------------------------------------------------------------------------------------


class Commanded(NamedTuple):
    """One phase of a command. runs: for the document, with the node of each."""

    readings: Readings
    runs: list[dict[str, Any]]


def commanded(
    answers: Mapping[str, Any],
    names: Mapping[str, str],
    sources: Sequence[Source],
    units: Units | None = None,
) -> Commanded:
    """answers: node → result of the module timed_command. names: node → name of its pair. units: of earlier
    phases; this phase adds its own. The outputs are read here and cut: all outputs of a long run would
    fill the memory."""
    units = {} if units is None else units
    readings: Readings = {source.metric: {} for source in sources}
    runs = []
    for host, result in answers.items():
        answer = agent_answer.of_task("look", result)
        failed = answer.get("failed") or "runs" not in answer
        problem = printable(str(answer.get("msg") or "no answer was collected")) if failed else ""
        for source in sources:
            printed = units.setdefault((host, source.metric.name), set())
            readings[source.metric][names[host]] = _commanded(host, answer, problem, source, printed)
        runs += [
            {"node": host, "rc": run["rc"], "seconds": run["seconds"], "stdout": run["stdout"][-_KEPT:]}
            for run in answer.get("runs", ())
        ]
    return Commanded(readings, runs)


def _commanded(
    host: str, answer: Mapping[str, Any], problem: str, source: Source, units: set[str]
) -> Reading:
    if problem:
        return Reading(None, problem, nodes=(host,))
    try:
        tool = metrics.STATUS if source.measure == "exit" else "command"
        return Reading(metrics.value(source, answer["runs"], units), tool=tool, nodes=(host,))
    except MetricError as error:
        return Reading(None, f"{source.metric.name}: {error}", nodes=(host,))


def of_phase(phase: Mapping[str, Any], plan: Mapping[str, Any]) -> Readings:
    return {**dict((*_tcp(phase, plan), *_memory(phase))), **phase.get("command", {})}
