# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A campaign in the fleet report: a check for each rail of a node, and a table of its pairs."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from ..fleet_report import model
from ..fleet_report.model import Fleet
from .result import Pair, Rail, Result

#: Heading of the columns
MODULE = "campaign"


def add_all(fleet: Fleet, runs: Sequence[Result]) -> None:
    """As merge() does it with reports: of each kind the newest counts. The fleet may be without a report."""
    newest: dict[str, Result] = {}
    for run in sorted(runs, key=lambda run: run.started, reverse=True):
        first = newest.setdefault(run.kind, run) is run
        if first:
            add(fleet, run)
        known = [name for name in run.nodes if name in fleet.hosts]
        foreign = tuple(name for name in run.nodes if name not in fleet.hosts)
        counting = len(known) if first else 0
        superseded = () if first else tuple(known)
        title = f"campaign {run.kind}"
        if first:
            fleet.playbook = ", ".join(filter(None, (fleet.playbook, title)))
        fleet.started = min(fleet.started or run.started, run.started)
        fleet.ended = max(fleet.ended, run.ended)
        fleet.merged.append(
            model.Part(run.file, title, run.started, run.ended, counting, superseded, foreign)
        )


def add(fleet: Fleet, run: Result) -> None:
    """Add a campaign to the report of a fleet. Nodes outside the fleet are left out. A node without other
    results keeps its state: it was measured, but not checked."""
    alone = not any(map(_was_looked_at, fleet.hosts.values()))
    for name, node in run.nodes.items():
        host = fleet.hosts.get(name)
        if host:
            host.silent = "" if alone or host.counts else host.state
            fleet.take(host, {"checks": [_check(run, name, rail) for rail in node.rails]}, MODULE)
    leaves = {name: node.leaf for name, node in run.nodes.items() if name in fleet.hosts}
    pairs = tuple(
        _pair(pair, run) for pair in run.pairs.values() if all(name in leaves for name, _rail in pair.ends)
    )
    fleet.campaigns.append(model.Pairs(run.kind, run.name, leaves, pairs))


def _was_looked_at(host: model.Host) -> bool:
    return bool(host.unnamed) or any(kind != model.OF_SUBNET for kind, _key in host.findings)


def _check(run: Result, name: str, rail: Rail) -> dict[str, Any]:
    """A check as a module returns it: the median of the node, as a part of the median of all similar
    pairs."""
    pairs = [pair for pair in run.of_node.get(name, ()) if (name, rail.number) in pair.ends]
    return {
        "name": run.kind,
        "target": f"rail {rail.number}",
        "verdict": str(rail.verdict),
        "expected": "",
        "found": _median(pairs, run) if pairs else "not measured",
        "source": f"campaign {run.name}",
        "advice": rail.reason,
    }


def _median(pairs: Sequence[Pair], run: Result) -> str:
    median = statistics.median(pair.value for pair in pairs if pair.value is not None)
    shares = [pair.value / pair.spread.median for pair in pairs if pair.value is not None and pair.spread]
    of_fleet = f"{statistics.median(shares):.2f} of the fleet's median: " if shares else ""
    return f"{of_fleet}{median:.4g} {run.unit.words} with {len(pairs)} others"


def _pair(pair: Pair, run: Result) -> model.Pair:
    (name, rail), (partner, _rail) = pair.key
    value = "" if pair.value is None else f"{pair.value:.4g} {run.unit.words}"
    limit = "" if pair.limit is None else f", limit {pair.limit:.4g}"
    return model.Pair(name, partner, rail, _share(pair, run), str(pair.verdict), value + limit, pair.reason)


def _share(pair: Pair, run: Result) -> float | None:
    """Part of the limit, 1 or more if the limit is kept, for units in which more or less is better."""
    if pair.value is None or not pair.limit:
        return None
    return pair.value and (pair.value / pair.limit) ** run.unit.better
