# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Limits of each pair, and whether it keeps them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from ...module_utils._mlnode.checks.campaign.kind import Kind
from ...module_utils._mlnode.checks.model import Verdict
from . import limits
from .columns import Columns, Fleet
from .fit import Fit
from .limits import Class, Spread
from .model import Limit, Reading, Sample
from .numbers import PER_MAD


def classes(fleet: Fleet, table: Columns, fitted: Fit) -> dict[Class, Spread]:
    counts = Counter(dict(zip(table.measured.pair, table.measured.like)).values())
    sizes: list[list[float]] = [[] for _ in table.classes]
    for like, variance in zip(table.measured.like, fitted.variance):
        sizes[like].append(variance)
    spreads = {}
    for number, pair_class in enumerate(table.classes):
        if counts[number]:
            level = math.exp(-fitted.level[number] if fleet.kind.UNIT.lower else fitted.level[number])
            usual = math.sqrt(sorted(sizes[number])[len(sizes[number]) // 2])
            spreads[pair_class] = Spread(
                fleet.kind, counts[number], level, usual * level / PER_MAD, fitted.path_error
            )
    return spreads


def judged(
    fleet: Fleet, taken: Sequence[Sample], table: Columns, fitted: Fit, classes: Mapping[Class, Spread]
) -> list[Sample]:
    spreads = [classes.get(pair_class) for pair_class in table.classes]
    shared = [[spread.limit] if spread else [] for spread in spreads]
    noise = {
        number: variance * len(numbers)
        for numbers, variance in zip(table.sample, fitted.variance)
        for number in numbers
    }
    judged_all = []
    for number, sample in enumerate(taken):
        like = table.like[number]
        spread = spreads[like]
        own = shared[like]
        if spread is not None and number in noise and spread.is_loud(noise[number]):
            own = [spread.with_noise(noise[number]).limit]
        judged_all.append(_sample(fleet, sample, own, spread.pairs if spread else 0))
    return judged_all


def _sample(fleet: Fleet, sample: Sample, by_fleet: Sequence[Limit], like: int) -> Sample:
    kind = fleet.kind
    weakest = limits.least(limits.of_hardware(kind, [(end[0], fleet.facts(end)) for end in sample.ends]))
    by_hardware = [weakest] if weakest else []
    reading = sample.reading
    value = reading.value
    if value is None:
        return sample._replace(limits=(*by_hardware, *by_fleet), reason=reading.reason)
    if like < limits.LEAST_PAIRS:
        by_fleet = []
    asked: tuple[Limit, ...] = (*by_hardware, *by_fleet)
    of_host = limits.of_host(reading.amounts)
    # The cores could not feed the port, so its rate does not count.
    compared = by_fleet if reading.cpu_bound else asked
    broke = [limit.name for limit in compared if limits.is_broken(kind, value, limit)]
    if of_host:
        limit, is_under = of_host
        asked = compared = (limit, *asked)
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
    if not compared:
        return sample._replace(limits=asked, reason=_incomparable(kind, reading))
    note = "the cores were the limit: judged by the fleet alone" if reading.cpu_bound else ""
    return sample._replace(limits=asked, verdict=Verdict.PASS, reason=note)


def _why(kind: Kind, reading: Reading, asked: Sequence[Limit], broke: Sequence[str]) -> str:
    unit = kind.UNIT
    way = "over" if unit.lower else "under"
    parts = [
        f"{way} {limit.value:.4g} {unit.words}, {limit.source}" for limit in asked if limit.name in broke
    ]
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
