# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Jobs in the fleet report: findings of each node, and a table of the jobs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from ...module_utils._mlnode.checks.model import BAD, Verdict
from ..fleet_report import model
from ..fleet_report.model import Fleet
from . import report
from .findings import Judged
from .model import Finding, is_unknown
from .names import amount, told_apart

#: Heading of the columns
MODULE = "job"

#: Deviations of a job for which its other nodes pass: a node may invent as many values as it likes
_COMPARED = 100

#: Characters from which on no other value of a node is added
_LONG = 1000


def add(fleet: Fleet, results: Mapping[str, Any]) -> None:
    """results: as report.look() takes them."""
    jobs = report.look(results)
    checks: dict[str, list[dict[str, Any]]] = {node: [] for node in jobs.checks}
    counts = Counter(node for judged in jobs.jobs for node in judged.job.nodes)
    for judged in jobs.jobs:
        for node, some in _checks(judged).items():
            checks[node] += some
        fleet.jobs.append(_row(judged))
    for node, some in checks.items():
        looked = _made("jobs", "node", str(Verdict.PASS), "", str(counts[node]), "")
        fleet.take(fleet.host(node), {"checks": [looked, *some]}, MODULE)
    for node, why in jobs.unanswered.items():
        lost = _made("jobs", "node", str(Verdict.UNKNOWN), "", "not checked", why)
        fleet.take(fleet.host(node), {"checks": [lost]}, MODULE)


def _checks(judged: Judged) -> dict[str, list[dict[str, Any]]]:
    """Node → its checks as a module returns them."""
    nodes: dict[str, dict[str, dict[str, Any]]] = {node: {} for node in judged.job.nodes}
    bad = [item for item in judged.findings if item.verdict in BAD]
    for item in bad:
        for node in item.nodes:
            _note(nodes[node], judged, item)
    closed: dict[str, set[str]] = {node: set() for node in nodes}
    for rank in judged.job.ranks:
        closed[rank.node] |= rank.unknown.keys()
    # The other nodes pass a value: otherwise the report would say that they report nothing about it.
    for item in [item for item in bad if item.of][:_COMPARED]:
        for node in nodes.keys() - item.nodes:
            if item.value not in nodes[node] and not is_unknown(item.value, closed[node]):
                others = amount(item.value, item.others)
                passed = _made(judged.job.name, item.value, str(Verdict.PASS), "", others, "")
                nodes[node][item.value] = passed
    return {node: [*some.values()] for node, some in nodes.items()}


def _note(checks: dict[str, dict[str, Any]], judged: Judged, item: Finding) -> None:
    """Add a deviation. Two deviations in one value are one check with the worse verdict: a report has one
    finding for each name."""
    # The ranks are in the table of jobs: here, nodes with the same deviation share a line.
    own, others = told_apart(item.value, (item.found, item.others))
    actual = own if item.of else item.text
    target = item.value or item.kind
    known = checks.get(target)
    if known:
        if len(known["found"]) < _LONG:
            known["found"] = f"{known['found']}; {actual}"
        return
    expected = f"{others} (on {item.of} others)" if item.of else ""
    made = _made(judged.job.name, target, str(item.verdict), expected, actual, item.advice)
    checks[target] = {**made, "severity": item.severity}


def _made(name: str, target: str, verdict: str, expected: str, actual: str, advice: str) -> dict[str, Any]:
    return {
        "name": name, "target": target, "verdict": verdict, "expected": expected, "found": actual,
        "source": "jobs.yml", "advice": advice,
    }  # fmt: skip


def _row(judged: Judged) -> model.Job:
    lines = tuple(
        model.Deviation(str(item.verdict), item.severity, item.who, item.text, item.nodes)
        for item in judged.findings
    )
    nodes, seen = tuple(judged.job.nodes), report.seen(judged)
    return model.Job(judged.job.name, nodes, seen, str(judged.verdict), judged.alike, lines)
