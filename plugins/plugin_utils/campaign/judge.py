# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""From the answers of all nodes to a verdict on each pair, node and path, and how much was seen of the
fleet.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ...module_utils._mlnode.checks.campaign import kinds
from ...module_utils._mlnode.checks.campaign.kind import Kind
from ...module_utils._mlnode.checks.model import Verdict
from ...module_utils._mlnode.model.errors import printable
from .. import agent_answer
from ..fleet_report.names import natural
from . import limits, model
from .blame import Blame, Certainty, Pair, State, blame
from .limits import Class, Spread
from .model import End, Facts, Limit, Node, Reading, Sample

#: As many low paths between two leaves are one finding. A single one may be a cable's or a port's.
LEAST_PATHS = 2

#: What is said of a node whose answer is missing
_SILENT = "no answer was collected"


class Stage(NamedTuple):
    """Part of a campaign. slots: node → JSON of its slots, as the node has them. answers: node → the JSON
    that it answered. reasons: node → why it did not, or not to the end."""

    slots: Mapping[str, str]
    answers: Mapping[str, str]
    reasons: Mapping[str, str] = {}


def stage(slots: Mapping[str, str], started: Mapping[str, Any], collected: Mapping[str, Any]) -> Stage:
    """From the slots of a plan, which are JSON, and the results of the module campaign on all nodes."""
    answers, reasons = {}, {}
    for name in slots:
        begin, end = (agent_answer.of_task("look", results.get(name)) for results in (started, collected))
        if end.get("answer"):
            answers[name] = end["answer"]
        refused = "" if "ends" in begin else begin.get("msg")
        reason = refused or end.get("problem") or end.get("msg")
        if reason:
            reasons[name] = printable(" ".join(str(reason).split()))
    return Stage(slots, answers, reasons)


class Coverage(NamedTuple):
    """How much was seen. possible: pairs of the whole fleet, counted on each rail that both have. nodes,
    rails:
    those of which not one pair was measured."""

    measured: int
    planned: int
    possible: int
    nodes: tuple[str, ...]
    rails: tuple[End, ...]

    @property
    def verdict(self) -> Verdict:
        """unknown where a node or a rail was never measured. Not all pairs have to be: a plan says which."""
        return Verdict.UNKNOWN if self.nodes or self.rails or not self.measured else Verdict.PASS


class LeafPath(NamedTuple):
    """Finding about the way between two leaves on a rail: so many of the measured paths are low."""

    leaves: tuple[str, str]
    rail: int
    low: int
    measured: int
    certainty: Certainty


class Judged(NamedTuple):
    """problems: node → reason why its answer, or none of it, could be used."""

    kind: Kind
    leaves: Mapping[str, str]
    samples: tuple[Sample, ...]
    nodes: Mapping[str, Node]
    problems: Mapping[str, str]
    classes: Mapping[Class, Spread]
    blame: Blame[End]
    coverage: Coverage

    @property
    def leaf_paths(self) -> list[LeafPath]:
        """Pairs of leaves with several paths that are low while all else of their nodes is well."""
        ways: dict[tuple[str, str, int], list[Certainty]] = {}
        for pair, certainty in self.paths:
            known = all(self.node(name) is Verdict.PASS for name, _rail in pair)
            way = self.way(pair)
            if way and known and path_verdict(certainty) is Verdict.FAIL:
                ways.setdefault(way, []).append(certainty)
        if not any(len(found) >= LEAST_PATHS for found in ways.values()):
            return []
        measured = Counter(
            self.way(sample.ends) for sample in counting(self.samples) if sample.reading.value is not None
        )
        return [
            LeafPath((way[0], way[1]), way[2], len(found), measured[way], _of_several(found))
            for way, found in ways.items()
            if len(found) >= LEAST_PATHS
        ]

    def way(self, pair: tuple[End, End]) -> tuple[str, str, int] | None:
        """The leaves between which a pair is, in their order, and its rail; None where they are not known or
        are one."""
        one, other = sorted((self.leaves.get(name, "") for name, _rail in pair), key=natural)
        return (one, other, pair[0][1]) if one and one != other else None

    @property
    def paths(self) -> list[tuple[tuple[End, End], Certainty]]:
        return [*self.blame.paths.items()]

    def node(self, name: str) -> Verdict:
        """Verdict on a node: the worst of its rails."""
        return model.worst(found.verdict for end, found in self.blame.ends.items() if end[0] == name)

    @property
    def verdict(self) -> Verdict:
        """Verdict on the fleet: the worst of all nodes, paths and pairs, and of the coverage."""
        ends = [found.verdict for found in self.blame.ends.values()]
        paths = [path_verdict(certainty) for certainty in self.blame.paths.values()]
        # What is low has become a finding about a node or a path.
        pairs = [one.verdict for one in counting(self.samples) if one.verdict is not Verdict.FAIL]
        return model.worst([*ends, *paths, *pairs, self.coverage.verdict])


def counting(samples: Sequence[Sample]) -> list[Sample]:
    """Those of the first look; of a pair without a result there, what the second look has found."""
    later = {
        sample.ends: sample for sample in samples if sample.again and sample.verdict is not Verdict.UNKNOWN
    }
    first = (sample for sample in samples if not sample.again)
    return [later.get(one.ends, one) if one.verdict is Verdict.UNKNOWN else one for one in first]


def _of_several(found: Sequence[Certainty]) -> Certainty:
    certain = sum(one is Certainty.CERTAIN for one in found)
    return Certainty.CERTAIN if certain >= LEAST_PATHS else Certainty.PROBABLE


def path_verdict(certainty: Certainty) -> Verdict:
    return Verdict.WARN if certainty is Certainty.CLEARED else Verdict.FAIL


def judge(
    kind: str, nodes: Mapping[str, Mapping[str, Any]], first: Stage, second: Stage | None = None
) -> Judged:
    """nodes: name → its addresses, one for each rail, and its leaf. Raises ValueError."""
    what = kinds.of(kind)
    leaves = {name: str(about.get("leaf") or "") for name, about in nodes.items()}
    problems: dict[str, str] = {}
    seen, raw = _collected(what, first, problems, again=False)
    more, raw_again = _collected(what, second, problems, again=True) if second else ({}, [])
    known = {**more, **seen}
    classes = _classes(what, raw, known, leaves)
    samples = [_judged(what, one, known, classes, leaves) for one in (*raw, *raw_again)]
    ends = [(name, rail) for name, about in nodes.items() for rail in range(len(about["addresses"]))]
    counted = counting(samples)
    # A pair that was only measured the second time was not tried twice.
    once = {id(one) for one in counted}
    again = [one for one in samples if one.again and id(one) not in once]
    findings = blame(ends, _pairs(counted), _pairs(again))
    coverage = _coverage(ends, counted)
    return Judged(what, leaves, tuple(samples), known, problems, classes, findings, coverage)


# -- what nodes have answered -------------------------------------------------------------------


def _collected(
    kind: Kind, stage: Stage, problems: dict[str, str], again: bool
) -> tuple[dict[str, Node], list[Sample]]:
    nodes: dict[str, Node] = {}
    taken: dict[str, Mapping[tuple[int, int], Reading]] = {}
    refused: dict[str, Mapping[tuple[int, int], str]] = {}
    for name in stage.slots:
        text = stage.answers.get(name)
        if name in stage.reasons or not text:
            problems[name] = stage.reasons.get(name, _SILENT)
        if not text:
            continue
        try:
            answer = agent_answer.document(text)
            node, mine, theirs = model.node(answer), model.readings(kind, answer), model.refusals(answer)
        except ValueError as error:
            problems[name] = printable(f"its answer is not one: {error}")
            continue
        nodes[name], taken[name], refused[name] = node, mine, theirs
    return nodes, [*_samples(stage, taken, refused, problems, again)]


def _samples(
    stage: Stage,
    taken: Mapping[str, Mapping[tuple[int, int], Reading]],
    refused: Mapping[str, Mapping[tuple[int, int], str]],
    problems: Mapping[str, str],
    again: bool,
) -> Iterator[Sample]:
    """One for each slot of each node that measures, with a result or the reason for its absence."""
    for name, slots in stage.slots.items():
        for slot in json.loads(slots):
            peer = str(slot["peer"])
            for rail in () if slot["serves"] else range(len(slot["rails"])):
                place = (int(slot["round"]), rail)
                reading = taken.get(name, {}).get(place) or Reading(
                    reason=f"{name}: {problems.get(name) or 'its answer lacks this slot'}"
                )
                doubt = refused.get(peer, {}).get(place)
                if doubt:
                    reading = Reading(reason=f"{peer}: {doubt}", evidence=reading.evidence)
                yield Sample(place[0], ((name, rail), (peer, rail)), reading, again)


# -- what it had to be ---------------------------------------------------------------------------


def _facts(end: End, nodes: Mapping[str, Node]) -> Facts:
    name, rail = end
    rails = nodes[name].rails if name in nodes else ()
    return rails[rail] if rail < len(rails) else Facts()


def _class(sample: Sample, nodes: Mapping[str, Node], leaves: Mapping[str, str]) -> Class:
    one, other = (leaves.get(name, "") for name in sample.nodes)
    near = one == other if one and other else None
    return limits.class_of(_facts(sample.ends[0], nodes), _facts(sample.ends[1], nodes), near)


def _classes(
    kind: Kind, samples: Sequence[Sample], nodes: Mapping[str, Node], leaves: Mapping[str, str]
) -> dict[Class, Spread]:
    values: dict[Class, list[float]] = {}
    for sample in samples:
        if sample.reading.value is not None:
            values.setdefault(_class(sample, nodes, leaves), []).append(sample.reading.value)
    found = {one: limits.spread(kind, measured) for one, measured in values.items()}
    return {one: spread for one, spread in found.items() if spread is not None}


def _judged(
    kind: Kind,
    sample: Sample,
    nodes: Mapping[str, Node],
    classes: Mapping[Class, Spread],
    leaves: Mapping[str, str],
) -> Sample:
    spread = classes.get(_class(sample, nodes, leaves))
    by_fleet = [spread.limit] if spread else []
    weakest = limits.least(limits.of_hardware(kind, [(end[0], _facts(end, nodes)) for end in sample.ends]))
    by_hardware = [weakest] if weakest else []
    asked: tuple[Limit, ...] = (*by_hardware, *by_fleet)
    reading = sample.reading
    value = reading.value
    if value is None:
        return sample._replace(limits=asked, reason=reading.reason)
    of_host = limits.of_host(reading.amounts)
    # What the cores could not feed says nothing about the port.
    counting = by_fleet if reading.cpu_bound else asked
    broke = [one.name for one in counting if limits.is_broken(kind, value, one)]
    if of_host:
        limit, is_under = of_host
        asked = counting = (limit, *asked)
        broke += [limit.name] if is_under else []
    if reading.amounts.get("hole", 1.0) < limits.HOLE:
        broke.append("hole")
    verdict = Verdict.FAIL if broke else Verdict.PASS
    if reading.amounts.get("p99_usec", 0.0) > limits.TAIL * value:
        broke.append("tail")
        verdict = verdict if verdict is Verdict.FAIL else Verdict.WARN
    if broke:
        reason = _why(kind, reading, asked, broke)
        return sample._replace(limits=asked, broke=tuple(broke), verdict=verdict, reason=reason)
    if not counting:
        return sample._replace(limits=asked, reason=_incomparable(kind, reading))
    note = "the cores were the limit, so that it is judged by the fleet alone" if reading.cpu_bound else ""
    return sample._replace(limits=asked, verdict=Verdict.PASS, reason=note)


def _why(kind: Kind, reading: Reading, asked: Sequence[Limit], broke: Sequence[str]) -> str:
    unit = kind.UNIT
    way = "over" if unit.lower else "under"
    parts = [f"{way} {one.value:.4g} {unit.words}, {one.source}" for one in asked if one.name in broke]
    if "hole" in broke:
        parts.append(f"its least second has {reading.amounts['hole']:.0%} of the median one")
    if "tail" in broke:
        parts.append(f"{reading.amounts['p99_usec']:.4g} {unit.words} are not exceeded by 99 of 100 only")
    return f"{_shown(kind, reading)}: {'; '.join(parts)}"


def _incomparable(kind: Kind, reading: Reading) -> str:
    why = "the cores were the limit" if reading.cpu_bound else "no port has a rate"
    if kind.SHARE is None:
        why = "the rate of a port says nothing about it"
    return f"{_shown(kind, reading)}: {why}, and fewer than {limits.LEAST_PAIRS} pairs are like this one"


def _shown(kind: Kind, reading: Reading) -> str:
    return f"{reading.value:.4g} {kind.UNIT.words}"


# -- what it means ---------------------------------------------------------------------------------

_STATES = {Verdict.PASS: State.GOOD, Verdict.WARN: State.GOOD, Verdict.FAIL: State.LOW}


def _pairs(samples: Sequence[Sample]) -> list[Pair[End]]:
    return [Pair(*sample.ends, _STATES.get(sample.verdict, State.UNKNOWN)) for sample in samples]


def _coverage(ends: Sequence[End], samples: Sequence[Sample]) -> Coverage:
    measured = [sample for sample in samples if sample.reading.value is not None]
    there = {end for sample in measured for end in sample.ends}
    on_rail: dict[int, int] = {}
    for _name, rail in ends:
        on_rail[rail] = on_rail.get(rail, 0) + 1
    names = {name for name, _rail in there}
    missing = {name: None for name, _rail in ends if name not in names}
    return Coverage(
        measured=len(measured),
        planned=len(samples),
        possible=sum(number * (number - 1) // 2 for number in on_rail.values()),
        nodes=tuple(missing),
        rails=tuple(end for end in ends if end not in there and end[0] not in missing),
    )
