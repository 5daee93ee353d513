# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""From the answers of all nodes to a verdict on each pair, node, leaf and path, and how much was seen of the
fleet.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from ...module_utils._mlnode.checks.campaign import kinds
from ...module_utils._mlnode.checks.campaign.kind import Kind
from ...module_utils._mlnode.checks.model import Verdict
from . import columns, findings, loss, model, pairs, samples, whole
from .blame import LEAST_PARTNERS, PART, Certainty
from .columns import Fleet
from .findings import Alike, Between, Finding, Known
from .fit import POWER, fit
from .limits import Class, Spread
from .loss import Lossy
from .model import End, Node, Sample
from .numbers import median, share
from .samples import Stage, stage

__all__ = ["Judged", "Stage", "judge", "stage"]

#: Part of its rate that a node may lose and still pass, unless another one is asked for
LIMIT = 0.1


class Coverage(NamedTuple):
    """Extent of the measurement. possible: pairs of the whole fleet, counted on each rail that both have.
    nodes, rails: those without any measured pair."""

    measured: int
    planned: int
    possible: int
    nodes: tuple[str, ...]
    rails: tuple[End, ...]

    @property
    def verdict(self) -> Verdict:
        """unknown if a node or a rail was never measured. Not all pairs have to be: a plan says which."""
        return Verdict.UNKNOWN if self.nodes or self.rails or not self.measured else Verdict.PASS


class Power(NamedTuple):
    """Losses that the campaign would have seen with 95 %, as parts of a rate. asked: the loss that has to be
    found. node: at the worst of the nodes that pass; path: at a single path. None if not known. rounds: how
    many more it takes for the asked one at all nodes."""

    asked: float
    node: float | None
    path: float | None
    rounds: int


class LowPath(NamedTuple):
    """A pair that is low although nothing else explains it. loss: part of its level."""

    certainty: Certainty
    loss: float


class Blame(NamedTuple):
    """paths: pairs that are low by themselves."""

    ends: Mapping[End, Finding]
    paths: Mapping[tuple[End, End], LowPath]

    @property
    def slow(self) -> list[End]:
        """Ends that fail."""
        return [end for end, finding in self.ends.items() if finding.verdict is Verdict.FAIL]


class Judged(NamedTuple):
    """problems: node → reason why its answer could not be used, or is missing. fleet: findings about a whole
    class."""

    kind: Kind
    leaves: Mapping[str, str]
    samples: tuple[Sample, ...]
    nodes: Mapping[str, Node]
    problems: Mapping[str, str]
    classes: Mapping[Class, Spread]
    blame: Blame
    between: tuple[Between, ...]
    groups: tuple[Alike, ...]
    lossy: tuple[Lossy, ...]
    fleet: tuple[tuple[Verdict, str], ...]
    power: Power
    coverage: Coverage

    @property
    def paths(self) -> list[tuple[tuple[End, End], Certainty]]:
        return [(pair, path.certainty) for pair, path in self.blame.paths.items()]

    def node(self, name: str) -> Verdict:
        """Verdict on a node: the worst of its rails."""
        return model.worst(finding.verdict for end, finding in self.blame.ends.items() if end[0] == name)

    def nearness(self, name: str) -> float:
        """Standard errors by which the worst direction of a node is slower than its level."""
        return max(
            (finding.nearness for end, finding in self.blame.ends.items() if end[0] == name), default=0.0
        )

    @property
    def verdict(self) -> Verdict:
        """Verdict on the fleet: the worst of all that was found, of the pairs and of the coverage."""
        verdicts = [finding.verdict for finding in self.blame.ends.values()]
        verdicts += [uplink.verdict for uplink in self.between] + [group.verdict for group in self.groups]
        verdicts += [lossy.verdict for lossy in self.lossy]
        paths = [path_verdict(certainty) for _pair, certainty in self.paths]
        # A low pair has become a finding about a node, a leaf or a path.
        verdicts += [
            sample.verdict for sample in counting(self.samples) if sample.verdict is not Verdict.FAIL
        ]
        verdicts += [verdict for verdict, _why in self.fleet]
        return model.worst([*verdicts, *paths, self.coverage.verdict])


def counting(given: Sequence[Sample]) -> list[Sample]:
    """Samples of the first look. A pair without a result there has its sample of the second look."""
    later = {
        sample.ends: sample for sample in given if sample.again and sample.verdict is not Verdict.UNKNOWN
    }
    first = (sample for sample in given if not sample.again)
    return [
        later.get(sample.ends, sample) if sample.verdict is Verdict.UNKNOWN else sample for sample in first
    ]


def path_verdict(certainty: Certainty) -> Verdict:
    return Verdict.WARN if certainty is Certainty.CLEARED else Verdict.FAIL


def judge(
    kind: str,
    nodes: Mapping[str, Mapping[str, Any]],
    first: Stage,
    second: Stage | None = None,
    limit: float = LIMIT,
) -> Judged:
    """nodes: name → its addresses, one for each rail, and its leaf. limit: loss that a node must not have, as
    a part of its rate. Raises ValueError."""
    what = kinds.kind(kind)
    leaves = {name: str(about.get("leaf") or "") for name, about in nodes.items()}
    problems: dict[str, str] = {}
    seen, raw = samples.collected(what, first, problems, again=False)
    more, raw_again = samples.collected(what, second, problems, again=True) if second else ({}, [])
    ends = [(name, rail) for name, about in nodes.items() for rail in range(len(about["addresses"]))]
    fleet = Fleet(what, {**more, **seen}, leaves, {end: number for number, end in enumerate(ends)})
    taken = [whole.possible(fleet, sample) for sample in (*raw, *raw_again)]
    table = columns.tabulate(fleet, taken)
    taken, table, of_all, low = whole.whole(fleet, taken, table)
    of_leaf, leaf_names = fleet.leaf_numbers()
    fitted = fit(table.measured, of_leaf, table.floor, what.MARGIN)
    classes = pairs.classes(fleet, table, fitted)
    taken = pairs.judged(fleet, taken, table, fitted, classes)
    known = findings.known_of(fleet, table, fitted, taken, leaf_names)
    by_end = findings.of_ends(known, limit)
    alike = findings.groups(known, by_end)
    paths = _paths(known)
    by_end = _answered(_mostly_low(_more(known, by_end, alike, low), paths), problems)
    counted = counting(taken)
    return Judged(
        kind=what,
        leaves=leaves,
        samples=tuple(taken),
        nodes=fleet.nodes,
        problems=problems,
        classes=classes,
        blame=Blame(by_end, paths),
        between=tuple(findings.between(known)),
        groups=tuple(alike),
        lossy=tuple(loss.findings(fleet, taken, problems)),
        fleet=(*of_all, *whole.across(known, limit)),
        power=_power(known, by_end, limit),
        coverage=_coverage(ends, counted),
    )


# -- ends and paths ---------------------------------------------------------------------------------


def _more(
    known: Known, by_end: Mapping[End, Finding], groups: Sequence[Alike], low: Collection[int]
) -> dict[End, Finding]:
    """Findings with facts from outside the model: groups, rates, and classes that are low as a whole."""
    changed = dict(by_end)
    for group in groups:
        for end in group.ends if group.verdict is Verdict.UNKNOWN else ():
            changed[end] = changed[end]._replace(verdict=Verdict.UNKNOWN, certainty=None, reason=group.reason)
    for end, (verdict, why) in findings.negotiated(known.fleet).items():
        before = changed[end]
        worse = model.worst([before.verdict, verdict])
        certain = Certainty.CERTAIN if verdict is Verdict.FAIL else before.certainty
        changed[end] = before._replace(verdict=worse, reason=why, certainty=certain)
    for end, number in known.fleet.ends.items() if low else ():
        mine = known.sides.sends[number] + known.sides.takes[number]
        if mine and all(known.columns.measured.like[reading] in low for reading in mine):
            before = changed[end]
            if before.verdict is Verdict.PASS:
                why = "as slow as all nodes like it, which is less than their ports carry"
                changed[end] = before._replace(verdict=Verdict.UNKNOWN, reason=why)
    return changed


def _mostly_low(
    by_end: Mapping[End, Finding], paths: Mapping[tuple[End, End], LowPath]
) -> dict[End, Finding]:
    """An end cannot pass if at least half of its pairs are low on their own: another direction may be low in
    each."""
    low = Counter(
        end for pair, path in paths.items() if path.certainty is not Certainty.CLEARED for end in pair
    )
    changed = dict(by_end)
    for end, count in low.items():
        measured, before = by_end[end].tally.measured, by_end[end]
        if before.verdict is Verdict.PASS and count >= LEAST_PARTNERS and count >= PART * measured:
            why = f"low with {count} of {measured} partners, but not with all of them in one direction"
            changed[end] = before._replace(verdict=Verdict.UNKNOWN, reason=why)
    return changed


def _answered(by_end: Mapping[End, Finding], problems: Mapping[str, str]) -> dict[End, Finding]:
    """A node without its own answer cannot pass: its partners know of it only until it died."""
    return {
        end: finding._replace(verdict=Verdict.UNKNOWN, reason=problems[end[0]])
        if finding.verdict is Verdict.PASS and end[0] in problems
        else finding
        for end, finding in by_end.items()
    }


def _paths(known: Known) -> dict[tuple[End, End], LowPath]:
    """Paths of the model, and pairs under a limit in a direction that nothing else explains."""
    by_pair: dict[int, tuple[End, End]] = {}
    worst: dict[int, tuple[float, float, list[Sample]]] = {}
    rows = zip(known.columns.sample, known.columns.measured.pair, known.fit.low, known.fit.loss)
    for numbers, pair, low, explained in rows:
        looks = [known.samples[number] for number in numbers]
        by_pair.setdefault(pair, looks[0].ends)
        if pair not in worst or low > worst[pair][0]:
            worst[pair] = low, explained, looks
    paths = {path.pair: _path(path.looks, path.lows, path.loss) for path in known.fit.paths}
    for pair, (low, explained, looks) in worst.items():
        lows = sum(look.verdict is Verdict.FAIL for look in looks)
        if lows and not explained and low > 0:
            paths.setdefault(pair, _path(len(looks), lows, low))
    return {by_pair[pair]: path for pair, path in paths.items()}


def _path(looks: int, lows: int, loss: float) -> LowPath:
    if lows < looks:
        return LowPath(Certainty.CLEARED, share(loss))
    return LowPath(Certainty.CERTAIN if looks > 1 else Certainty.PROBABLE, share(loss))


def _power(known: Known, by_end: Mapping[End, Finding], limit: float) -> Power:
    fitted = known.fit
    if not fitted.variance:
        return Power(limit, None, None, 0)
    passed = [
        finding.seen
        for finding in by_end.values()
        if finding.verdict is Verdict.PASS and finding.seen is not None
    ]
    unseen = [
        finding.seen for finding in by_end.values() if finding.loss is None and finding.seen is not None
    ]
    usual = math.sqrt(median(fitted.variance))
    path = None
    if any(known.can_compare):
        path = share(max(known.fleet.kind.MARGIN, fitted.path_error * usual) + POWER * usual)
    rounds = len({sample.round for sample in known.samples if not sample.again})
    # An error falls with the root of the rounds.
    worst = max(unseen, default=0.0)
    turns = len(known.fleet.leaves) - 1
    more = math.ceil(rounds * (worst / limit) ** 2) - rounds if worst > limit and rounds < turns else 0
    return Power(limit, max(passed, default=None), path, more)


def _coverage(ends: Sequence[End], counted: Sequence[Sample]) -> Coverage:
    measured = [sample for sample in counted if sample.reading.value is not None]
    there = {end for sample in measured for end in sample.ends}
    on_rail = Counter(rail for _name, rail in ends)
    names = {name for name, _rail in there}
    missing = {name: None for name, _rail in ends if name not in names}
    return Coverage(
        measured=len(measured),
        planned=len(counted),
        possible=sum(number * (number - 1) // 2 for number in on_rail.values()),
        nodes=tuple(missing),
        rails=tuple(end for end in ends if end not in there and end[0] not in missing),
    )
