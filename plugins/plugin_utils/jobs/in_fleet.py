# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Jobs in the fleet report: findings of each node, and a table of the jobs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...module_utils._mlnode.checks.model import BAD, Verdict
from ..fleet_report import model
from ..fleet_report.model import Fleet
from . import report
from .findings import Judged
from .model import Finding
from .names import amount

#: Heading of the columns
MODULE = "job"

#: Deviations of a job for which its other nodes pass: a node may invent as many values as it likes
_COMPARED = 100


def add(fleet: Fleet, results: Mapping[str, Any]) -> None:
    """results: as report.look() takes them. A node without a result keeps its state."""
    jobs = report.look(results)
    checks: dict[str, list[dict[str, Any]]] = {node: [] for node in jobs.checks}
    for judged in jobs.jobs:
        for node in judged.job.nodes:
            checks[node] += _checks(judged, node)
        fleet.jobs.append(_row(judged))
    for node, some in checks.items():
        fleet.take(fleet.host(node), {"checks": some or [_idle()]}, MODULE)


def _checks(judged: Judged, node: str) -> list[dict[str, Any]]:
    """Checks of one node as a module returns them; the job passes on a node without a finding."""
    all_bad = [item for item in judged.findings if item.verdict in BAD]
    bad = [item for item in all_bad if node in item.nodes]
    # The other nodes pass a value: otherwise the report would say that they report nothing about it.
    closed = {name for rank in judged.job.ranks if rank.node == node for name in rank.unknown}
    own = closed | {item.value for item in bad}
    odd = {item.value: item for item in all_bad[:_COMPARED] if item.of and item.value not in own}
    checks = [_check(judged, item) for item in bad]
    checks += [
        _made(judged.job.name, value, str(Verdict.PASS), "", amount(value, item.others), "")
        for value, item in odd.items()
    ]
    return checks or [_made(judged.job.name, "ranks", str(Verdict.PASS), "", report.seen(judged), "")]


def _check(judged: Judged, item: Finding) -> dict[str, Any]:
    # The ranks are in the table of jobs: here, nodes with the same deviation share a line.
    others, own = (amount(item.value, text) for text in (item.others, item.found))
    expected = f"{others} (on {item.of} others)" if item.of else ""
    found = own if item.of else item.text
    target = item.value or item.kind
    made = _made(judged.job.name, target, str(item.verdict), expected, found, item.advice)
    return {**made, "severity": item.severity}


def _made(name: str, target: str, verdict: str, expected: str, found: str, advice: str) -> dict[str, Any]:
    return {
        "name": name, "target": target, "verdict": verdict, "expected": expected, "found": found,
        "source": "jobs.yml", "advice": advice,
    }  # fmt: skip


def _idle() -> dict[str, Any]:
    return _made("jobs", "node", str(Verdict.PASS), "", "no job runs here", "")


def _row(judged: Judged) -> model.Job:
    lines = tuple(
        model.Deviation(str(item.verdict), item.severity, item.who, item.text, item.nodes)
        for item in judged.findings
    )
    nodes, seen = tuple(judged.job.nodes), report.seen(judged)
    return model.Job(judged.job.name, nodes, seen, str(judged.verdict), judged.alike, lines)
