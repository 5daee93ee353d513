# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Faults that no comparison of like pairs shows: results that no port carries, and classes that are low as a
whole."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...module_utils._mlnode.checks.model import Verdict
from . import columns, levels, limits
from .columns import Columns, Fleet
from .findings import Known
from .model import Limit, Reading, Sample
from .numbers import median, share


def possible(fleet: Fleet, sample: Sample) -> Sample:
    """The same, or without its result if no port carries so much."""
    value = sample.reading.value
    most = limits.ceiling(fleet.kind, [fleet.facts(end) for end in sample.ends])
    values = [sample.reading.amounts[name] for name in fleet.kind.JUDGED] if value is not None else []
    if most is None or not values or max(values) <= limits.ABOVE * most:
        return sample
    return _refused(sample, f"{max(values):.4g} Gb/s is more than the {most:g} Gb/s that its ports carry")


def _refused(sample: Sample, why: str) -> Sample:
    reading = sample.reading
    reason = f"{why}: another unit, the loopback interface, or forged"
    return sample._replace(reading=Reading(reason=reason, evidence=reading.evidence, amounts=reading.amounts))


def whole(
    fleet: Fleet, taken: list[Sample], table: Columns
) -> tuple[list[Sample], Columns, list[tuple[Verdict, str]], set[int]]:
    """Faults of all pairs of a class at once, which no comparison inside it shows. A class under the
    limit of its hardware is compared by itself; one above the rate of its ports has no result."""
    by_class: list[list[int]] = [[] for _ in table.classes]
    level = levels.start(table.measured).level
    rates: list[list[float]] = [[] for _ in table.classes]
    for like, rate in zip(table.measured.like, table.measured.rate):
        rates[like].append(rate)
    for number, like in enumerate(table.like):
        if taken[number].reading.value is not None:
            by_class[like].append(number)
    verdicts: list[tuple[Verdict, str]] = []
    impossible: set[int] = set()
    low: set[int] = set()
    floor = [*table.floor]
    for like, mine in enumerate(by_class):
        if not mine or fleet.kind.UNIT.lower:
            continue
        some = taken[mine[0]]
        most = limits.ceiling(fleet.kind, [fleet.facts(end) for end in some.ends])
        # The level is the rate of the best ends; the median is below it.
        middle, best = math.exp(median(rates[like])), math.exp(level[like])
        if most is not None and middle > limits.LEVEL_ABOVE * most:
            impossible.update(mine)
            text = f"the median of {len(mine)} pairs, {middle:.4g} Gb/s"
            why = f"{text}, is above the {most:g} Gb/s of their ports"
            verdicts.append((Verdict.UNKNOWN, why))
            continue
        least = table.hardware[mine[0]]
        if least is not None and best < least.value:
            verdicts.append(_low_class(taken, mine, best, least))
            low.add(like)
            floor = [-math.inf if table.measured.like[n] == like else bound for n, bound in enumerate(floor)]
    if impossible:
        why = "its class is above the rate of its ports"
        taken = [_refused(sample, why) if n in impossible else sample for n, sample in enumerate(taken)]
        return taken, columns.tabulate(fleet, taken), verdicts, low
    return taken, table._replace(floor=floor), verdicts, low


def _low_class(
    taken: Sequence[Sample], mine: Sequence[int], middle: float, least: Limit
) -> tuple[Verdict, str]:
    bound = sum(taken[number].reading.cpu_bound for number in mine)
    source = least.source.partition(": ")[2]
    text = f"the level of {len(mine)} pairs, {middle:.4g} Gb/s, is under {least.value:.4g} Gb/s: {source}"
    if 2 * bound >= len(mine):
        return Verdict.UNKNOWN, f"{text}; the cores were the limit, so nothing is known of the ports"
    return Verdict.FAIL, text


def across(known: Known, limit: float) -> list[tuple[Verdict, str]]:
    """Compare pairs across leaves with pairs inside one, if all of the former are low: with two leaves, no
    third shows which uplinks are slow. Latency is left out, as a hop adds to it. limit: loss to be found, as
    a part."""
    table, fitted, fleet = known.columns, known.fit, known.fleet
    if fleet.kind.UNIT.lower:
        return []
    place = {pair_class: number for number, pair_class in enumerate(table.classes)}
    verdicts = []
    for pair_class, number in place.items():
        inside = place.get(pair_class._replace(near=True))
        if pair_class.near is not False or inside is None:
            continue
        lost = share(fitted.level[inside] - fitted.level[number])
        if lost > fleet.kind.MARGIN:
            verdict = Verdict.FAIL if lost > limit else Verdict.WARN
            why = f"pairs across leaves have {1 - lost:.0%} of the rate of pairs inside one"
            verdicts.append((verdict, f"{why}: slow uplinks, or more traffic than they carry"))
    return verdicts
