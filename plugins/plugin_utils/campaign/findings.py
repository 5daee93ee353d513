# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Verdicts on ends, leaves and paths, from the model."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ...module_utils._mlnode.checks.model import Verdict
from . import limits, suspects
from .blame import Certainty, Tally
from .columns import Columns, Fleet
from .fit import SURELY, Fit
from .model import End, Sample
from .numbers import median, share
from .rivals import Rival
from .suspects import LEAF, LINK, NODE, PATH, Sides

#: Least probability of a suspect that is named alone
ALONE = 0.9
#: Probability of a certain suspect, after measurements with so many more partners
_CERTAIN, _WITNESSES = 0.99, 2

#: Nodes from which on they are compared with each other
_COMPARED = 4

#: Ends that are slow alike are a group if they are of so many nodes, and this part of all.
_GROUP, _GROUP_SHARE = 5, 0.1
#: Losses of a group are within this of each other: nodes of one generation are alike, faults are not.
_ALIKE = 0.06
#: Loss from which a group may be another generation, if ports tell no rate: 40 of 50 Gb/s are the nearest two
#: rates of Ethernet.
_GENERATION = 0.2


class Suspicion(NamedTuple):
    """One explanation, as words for people."""

    what: str
    chance: float


class Finding(NamedTuple):
    """Verdict on an end. loss: part that it is under its level, if it is slow. seen: least part that would
    have been found with 95 %, and that it has at most; None if it is not known. way: both directions, sending
    or receiving. again: of the second look. nearness: standard errors under its level."""

    verdict: Verdict
    tally: Tally
    certainty: Certainty | None = None
    again: Tally | None = None
    reason: str = ""
    loss: float | None = None
    seen: float | None = None
    way: str = ""
    suspects: tuple[Suspicion, ...] = ()
    nearness: float = 0.0


class Between(NamedTuple):
    """Finding about the uplinks of a leaf on a rail, or the way between two leaves."""

    leaves: tuple[str, ...]
    rail: int
    way: str
    loss: float
    verdict: Verdict
    certainty: Certainty
    low: int
    measured: int
    suspects: tuple[Suspicion, ...]


class Alike(NamedTuple):
    """Ends that are slow alike: too many for faults of each. loss: part under the level of the others.
    common: a shared trait, such as `rail 3`; empty if unknown."""

    ends: tuple[End, ...]
    of: int
    loss: float
    verdict: Verdict
    common: str
    reason: str = ""


class Known(NamedTuple):
    """Input of all findings. can_compare: of each end; of three nodes, two may be slow, and the third
    one is low in all of its pairs as well."""

    fleet: Fleet
    columns: Columns
    fit: Fit
    samples: Sequence[Sample]
    leaf_names: Sequence[tuple[str, int]]
    sides: Sides
    ends: list[End]
    can_compare: list[bool]

    def seen(self, number: int, limit: float) -> float | None:
        """Least loss of an end that would have been seen: by the other ends, or by the rate of its port."""
        bound = self.fit.bound(number) if self.can_compare[number] else math.inf
        if share(bound) > limit:
            bound = min(bound, _by_port(self, number))
        return None if math.isinf(bound) else share(bound)


def known_of(
    fleet: Fleet,
    columns: Columns,
    fit: Fit,
    samples: Sequence[Sample],
    leaf_names: Sequence[tuple[str, int]],
) -> Known:
    measured, ends = columns.measured, [*fleet.ends]
    sides = suspects.sides(measured)
    kins = [
        {measured.kin[measured.like[reading]] for reading in (*sends, *takes)}
        for sends, takes in zip(sides.sends, sides.takes)
    ]
    nodes: dict[int, set[str]] = {}
    for end, own in enumerate(kins):
        for kin in own:
            nodes.setdefault(kin, set()).add(ends[end][0])
    can_compare = [any(len(nodes[kin]) >= _COMPARED for kin in own) for own in kins]
    return Known(fleet, columns, fit, samples, leaf_names, sides, ends, can_compare)


def _by_port(known: Known, number: int) -> float:
    """Greatest loss of an end that its port and PCIe links allow."""
    share_of = known.fleet.kind.SHARE
    weakest = limits.least(
        limits.of_hardware(known.fleet.kind, [("", known.fleet.facts(known.ends[number]))])
    )
    if weakest is None or share_of is None:
        return math.inf
    most = math.log(weakest.value / share_of)
    table, worst = known.columns, -math.inf
    for mine in (known.sides.sends[number], known.sides.takes[number]):
        if not mine or any(table.floor[reading] == -math.inf for reading in mine):
            return math.inf
        lost = [max(0.0, most - table.measured.rate[reading]) for reading in mine]
        errors = [math.sqrt(known.fit.variance[reading]) for reading in mine]
        # A rate that an end has reached once proves its capacity, though partners may be slow.
        once = min(loss + SURELY * error for loss, error in zip(lost, errors))
        worst = max(worst, min(once, median(lost) + SURELY * median(errors) / math.sqrt(len(mine))))
    return worst


def words(known: Known, rival: Rival) -> str:
    """A suspect for people."""
    if rival.sort == NODE:
        name, rail = known.ends[rival.where[0]]
        return f"{name} rail {rail}" if _has_rails(known.fleet) else name
    if rival.sort == PATH:
        return "its paths, each for itself"
    names = [known.leaf_names[leaf][0] for leaf in rival.where]
    return f"uplinks of leaf {names[0]}" if rival.sort == LEAF else f"between leaves {' and '.join(names)}"


def _has_rails(fleet: Fleet) -> bool:
    return any(rail for _name, rail in fleet.ends)


def suspicions(known: Known, rivals: Sequence[Rival]) -> tuple[Suspicion, ...]:
    """One for each thing, the likeliest first; the directions of one add up."""
    chances: dict[str, float] = {}
    for rival in rivals:
        what = words(known, rival)
        chances[what] = chances.get(what, 0.0) + rival.chance
    return tuple(
        Suspicion(what, chance) for what, chance in sorted(chances.items(), key=lambda item: -item[1])
    )


def certainty(chance: float, low: int, measured: int) -> Certainty:
    """low, measured: measurements of the second look. Fewer than half of them low confirm nothing."""
    sure = chance >= _CERTAIN and measured >= _WITNESSES and 2 * low >= measured
    return Certainty.CERTAIN if sure else Certainty.PROBABLE


def of_ends(known: Known, limit: float) -> dict[End, Finding]:
    """limit: loss that has to be found, as a part."""
    fit, ends = known.fit, known.ends
    named = {
        culprit.suspect.where[0]: (culprit, rivals)
        for culprit, rivals in zip(fit.named, fit.rivals)
        if culprit.suspect.sort == NODE
    }
    slow = {ends[number]: culprit.loss for number, (culprit, _rivals) in named.items()}
    tallies, again = _tallies(known, slow, again=False), _tallies(known, slow, again=True)
    findings: dict[End, Finding] = {}
    for number, end in enumerate(ends):
        seen = known.seen(number, limit)
        second = again[end] if again[end].measured else None
        if number in named:
            culprit, rivals = named[number]
            suspects = suspicions(known, rivals)
            chance = next(
                suspicion.chance for suspicion in suspects if suspicion.what == words(known, rivals[0])
            )
            is_it = chance >= ALONE
            findings[end] = Finding(
                Verdict.FAIL if is_it else Verdict.UNKNOWN, tallies[end],
                certainty(chance, *((second.low, second.measured) if second else (0, 0))) if is_it else None,
                second,
                loss=share(culprit.loss), seen=seen, way=culprit.suspect.way, suspects=suspects,
            )  # fmt: skip
            continue
        verdict = Verdict.PASS if seen is not None and seen <= limit else Verdict.UNKNOWN
        near = max((side.loss / side.error for side in fit.sides[number] if side.counts), default=0.0)
        findings[end] = Finding(verdict, tallies[end], None, second, seen=seen, nearness=near)
    return findings


def _tallies(known: Known, slow: Mapping[End, float], again: bool) -> dict[End, Tally]:
    """slow: named ends → logarithm of their loss. A pair of theirs is low from half of it on."""
    worst = _worst(known)
    counts = {end: [0, 0, 0, 0] for end in known.fleet.ends}
    for number, sample in enumerate(known.samples):
        if sample.again is not again:
            continue
        for end, peer in (sample.ends, sample.ends[::-1]):
            count = counts[end]
            count[0] += 1
            count[1] += sample.reading.value is not None
            loss = slow.get(end)
            is_low = sample.verdict is Verdict.FAIL if loss is None else worst.get(number, 0.0) >= loss / 2
            count[2] += is_low
            count[3] += peer in slow
    return {end: Tally(*count) for end, count in counts.items()}


def _worst(known: Known) -> dict[int, float]:
    """Number of a sample → how far its worse direction is under the level."""
    worst: dict[int, float] = {}
    for numbers, low, rate, looks in zip(
        known.columns.sample, known.fit.low, known.columns.measured.rate, known.columns.measured.looks
    ):
        for number, look in zip(numbers, looks):
            worst[number] = max(worst.get(number, -math.inf), low + rate - look)
    return worst


def between(known: Known) -> list[Between]:
    """Findings about leaves."""
    uplinks = []
    for culprit, rivals in zip(known.fit.named, known.fit.rivals):
        own = culprit.suspect
        if own.sort not in (LEAF, LINK):
            continue
        suspects = suspicions(known, rivals)
        chance = next(suspicion.chance for suspicion in suspects if suspicion.what == words(known, rivals[0]))
        of_reading = known.columns.sample
        seen = {number for reading in own.readings for number in of_reading[reading]}
        low = {
            number
            for reading in own.readings
            if known.fit.low[reading] >= culprit.loss / 2
            for number in of_reading[reading]
        }
        again = [number for number in seen if known.samples[number].again]
        sure = certainty(chance, sum(number in low for number in again), len(again))
        names = [known.leaf_names[number] for number in own.where]
        uplinks.append(Between(
            tuple(name for name, _rail in names), names[0][1], own.way, share(culprit.loss),
            Verdict.FAIL if chance >= ALONE else Verdict.UNKNOWN, sure,
            len(low), len(seen), suspects,
        ))  # fmt: skip
    return uplinks


# -- groups -----------------------------------------------------------------------------------------


def groups(known: Known, findings: Mapping[End, Finding]) -> list[Alike]:
    """Ends that are slow alike, the largest group first."""
    fit, ends = known.fit, known.ends
    losses = sorted(
        (culprit.loss, ends[culprit.suspect.where[0]])
        for culprit in fit.named
        if culprit.suspect.sort == NODE and findings[ends[culprit.suspect.where[0]]].loss is not None
    )
    least = max(_GROUP, math.ceil(_GROUP_SHARE * len(ends)))
    alike = []
    while len(losses) >= least:
        begin, end = _densest(losses)
        if end - begin < least or len({member[0] for _loss, member in losses[begin:end]}) < _GROUP:
            break
        inside = losses[begin:end]
        losses = losses[:begin] + losses[end:]
        members = tuple(member for _loss, member in inside)
        loss = share(sum(member_loss for member_loss, _member in inside) / len(inside))
        rated = all(known.fleet.facts(member).speed_mbit for member in members)
        verdict = Verdict.FAIL if rated or loss < _GENERATION else Verdict.UNKNOWN
        reason = "" if verdict is Verdict.FAIL else "another generation, or slow: no port reports its rate"
        good = [end for end in ends if findings[end].verdict is Verdict.PASS]
        common = _common(known.fleet, members, good)
        alike.append(Alike(members, len(ends), loss, verdict, common, reason))
    return alike


def _densest(losses: Sequence[tuple[float, End]]) -> tuple[int, int]:
    """Range of the values, in ascending order, with the most values within the width of a group."""
    best, begin = (0, 0), 0
    for end, (loss, _member) in enumerate(losses):
        while loss - losses[begin][0] > _ALIKE:
            begin += 1
        if end + 1 - begin > best[1] - best[0]:
            best = begin, end + 1
    return best


def _common(fleet: Fleet, members: Sequence[End], good: Sequence[End]) -> str:
    """Trait that all members share and no good end has. Ends of the same kind that met only members prove
    nothing."""
    for what in ("rail", "leaf", "driver", "firmware", "kernel"):
        values = {_trait(fleet, what, end) for end in members}
        others = {_trait(fleet, what, end) for end in good}
        if len(values) <= _TRAITS and "" not in values and values.isdisjoint(others):
            return f"{what} {' and '.join(sorted(values))}"
    return ""


#: Most values that a trait may have
_TRAITS = 2


def _trait(fleet: Fleet, what: str, end: End) -> str:
    facts = fleet.facts(end)
    node = fleet.nodes.get(end[0])
    return {
        "rail": str(end[1]),
        "leaf": fleet.leaves.get(end[0], ""),
        "driver": facts.driver,
        "firmware": facts.firmware,
        "kernel": node.kernel if node else "",
    }[what]


# -- rates ------------------------------------------------------------------------------------------

#: Rates of one model of port differ by lanes and by generations of the other side: beyond a fourth it is a
#: fault.
_FAULT = 4


def negotiated(fleet: Fleet) -> dict[End, tuple[Verdict, str]]:
    """Ends whose port negotiated less than its twins: ports of the same driver behind the same PCIe link, on
    the same rail."""
    twins: dict[tuple[object, ...], list[End]] = {}
    for end in fleet.ends:
        facts = fleet.facts(end)
        if facts.speed_mbit:
            own = [(link.gigatransfers, link.lanes) for link in facts.pcie[:1]]
            twins.setdefault((end[1], facts.driver, *own), []).append(end)
    verdicts = {}
    for key, ends in twins.items():
        best = max(fleet.facts(end).speed_mbit or 0 for end in ends)
        full = sum(fleet.facts(end).speed_mbit == best for end in ends)
        for end in ends:
            rate = fleet.facts(end).speed_mbit or 0
            if rate >= best:
                continue
            is_model = len(key) > 2 and bool(key[1])
            is_fault = is_model or best > _FAULT * rate
            why = (
                f"its port negotiated {rate / 1000:g} of {best / 1000:g} Gb/s, which {full} of its twins have"
            )
            rest = "" if is_fault else ": another model, or a fault; its PCIe link is not known"
            verdicts[end] = Verdict.FAIL if is_fault else Verdict.UNKNOWN, why + rest
    return verdicts
