# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Jobs of a fleet, from the results of node_job on all nodes: a table, and a document that
docs/schema/jobs.schema.json describes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ...module_utils._mlnode.checks.model import BAD, FAIL_ON, Verdict
from ...module_utils._mlnode.model.errors import listed as shortened
from ...module_utils._mlnode.model.errors import printable
from ...module_utils._mlnode.model.version import VERSION
from .. import agent_answer, preflight
from ..campaign import model as campaign
from ..campaign.table import aligned
from . import findings, joined, model
from .findings import Judged
from .model import Finding
from .names import short

#: Raised when a field changes its meaning or goes; new fields do not raise it.
FORMAT = 1

#: Name of the check that stands for a node without an answer
NOT_CHECKED = "not checked"
#: Check of node_job: a job was asked for, and the node has no process of it
_ASKED = "job_asked"

_JOBS = ("JOB", "NODES", "RANKS", "VERDICT", "FINDINGS")
_FINDINGS = ("VERDICT", "JOB", "RANKS", "FOUND")

#: Deviations of the same ranks that a line has with their values, and with their names
_VALUES, _NAMED = 3, 20

Checks = Mapping[str, Sequence[Mapping[str, Any]]]


class Report(NamedTuple):
    """verdict: of the fleet. success: no verdict fails, and all nodes answered. table: lines for a terminal;
    the last one is a summary. document: for programs."""

    verdict: str
    success: bool
    table: list[str]
    document: dict[str, Any]


class Jobs(NamedTuple):
    """jobs: the worst first. checks: node → its own checks. unanswered: node → the reason."""

    jobs: tuple[Judged, ...]
    checks: Checks
    unanswered: Mapping[str, str]


def look(results: Mapping[str, Any]) -> Jobs:
    """results: node → result of node_job, or the failure in its place."""
    places: list[model.Place] = []
    checks: dict[str, Sequence[Mapping[str, Any]]] = {}
    unanswered: dict[str, str] = {}
    for node, result in results.items():
        answer = agent_answer.of_task("look", result)
        if "places" in answer:
            places += model.places(node, answer["places"])
            checks[node] = answer.get("checks") or ()
        else:
            unanswered[node] = preflight.no_answer(answer)
    judged = [findings.judge(job, [*unanswered]) for job in joined.jobs(places)]
    judged.sort(key=_rank)
    return Jobs(tuple(judged), _without_found(checks), unanswered)


def report(results: Mapping[str, Any], fail_on: str = "unknown") -> Report:
    """results: as look() takes them."""
    fleet = look(results)
    own = [campaign.verdict(check["verdict"]) for checks in fleet.checks.values() for check in checks]
    verdicts = {*own, *(job.verdict for job in fleet.jobs), *([Verdict.UNKNOWN] if fleet.unanswered else [])}
    verdict = next(
        (worst for worst in BAD if worst in verdicts), Verdict.PASS if fleet.jobs else Verdict.SKIP
    )
    verdict = verdict if results else Verdict.UNKNOWN
    success = bool(results) and not fleet.unanswered and verdicts.isdisjoint(FAIL_ON[fail_on])
    summary = f"{verdict}: {_summary(fleet)}"
    lines = [printable(line) for line in (*_table(fleet), summary)]
    return Report(str(verdict), success, lines, _document(fleet, verdict, success))


def _without_found(checks: Checks) -> Checks:
    """Without checks of a node for a job that another node has."""
    # A node has two of these checks if a job was asked for twice.
    lacking = Counter(
        target
        for some in checks.values()
        for target in {check["target"] for check in some if check["name"] == _ASKED}
    )
    return {
        node: [check for check in some if check["name"] != _ASKED or lacking[check["target"]] >= len(checks)]
        for node, some in checks.items()
    }


def _tally(counts: Mapping[str, int], verdicts: Iterable[Verdict]) -> str:
    """Such as `1 fail, 2 unknown`."""
    return ", ".join(f"{counts[verdict]} {verdict}" for verdict in map(str, verdicts) if counts[verdict])


def _rank(job: Judged) -> tuple[Any, ...]:
    """Sort key: the worst verdict first, then the most findings with it."""
    worst = sum(item.verdict is job.verdict for item in job.findings)
    return (*BAD, Verdict.PASS).index(job.verdict), -worst, job.job.name


def _summary(fleet: Jobs) -> str:
    nodes = len(fleet.checks) + len(fleet.unanswered)
    with_jobs = len({node for judged in fleet.jobs for node in judged.job.nodes})
    jobs = f"{len(fleet.jobs)} job{'' if len(fleet.jobs) == 1 else 's'} on {with_jobs} of {nodes} nodes"
    counts = Counter(str(judged.verdict) for judged in fleet.jobs)
    words = _tally(counts, (*BAD, Verdict.PASS))
    own = Counter(str(campaign.verdict(check["verdict"])) for some in fleet.checks.values() for check in some)
    bad = _tally(own, BAD)
    lost = f"; {len(fleet.unanswered)} not checked" if fleet.unanswered else ""
    return f"{jobs}{f': {words}' if words else ''}{f'; checks of nodes: {bad}' if bad else ''}{lost}"


# -- table -----------------------------------------------------------------------------------------


def _table(fleet: Jobs) -> list[str]:
    jobs = aligned([_job_row(judged) for judged in fleet.jobs], _JOBS)
    rows = [row for _at, row in sorted(_finding_rows(fleet), key=lambda item: item[0])]
    lost: Checks = {node: [_not_checked(why)] for node, why in fleet.unanswered.items()}
    parts = (jobs, aligned(rows, _FINDINGS), preflight.table({**fleet.checks, **lost}))
    lines: list[str] = []
    for part in filter(None, parts):
        lines += ["", *part] if lines else part
    return lines


def _not_checked(why: str) -> dict[str, Any]:
    return {"name": NOT_CHECKED, "target": "node", "verdict": str(Verdict.UNKNOWN), "found": why}


def _job_row(judged: Judged) -> tuple[str, ...]:
    job = judged.job
    return job.name, str(len(job.nodes)), seen(judged), str(judged.verdict), counted(judged)


def seen(judged: Judged) -> str:
    """Such as `511 of 512`."""
    if judged.world:
        return f"{judged.ranks_seen} of {judged.world}"
    return f"{judged.ranks_seen} process{'' if judged.ranks_seen == 1 else 'es'}"


def counted(judged: Judged) -> str:
    """Such as `1 fail, 2 unknown; 43 values alike`."""
    counts = Counter(str(item.verdict) for item in judged.findings)
    return f"{_tally(counts, findings.ORDER) or 'none'}; {judged.alike} values alike"


def _finding_rows(fleet: Jobs) -> list[tuple[tuple[Any, ...], tuple[str, ...]]]:
    """Rows with their sort keys. Deviations of the same ranks share a row, as do jobs with the same doubt."""
    alike: dict[tuple[Any, ...], list[tuple[Judged, Finding]]] = {}
    for at, judged in enumerate(fleet.jobs):
        for item in judged.findings:
            own = [(rank.node, rank.place, rank.pids) for rank in item.ranks] or item.nodes
            together = item.text if item.kind == "doubt" else (at, *own)
            alike.setdefault((item.verdict, item.kind, together), []).append((judged, item))
    rows: list[tuple[tuple[Any, ...], tuple[str, ...]]] = []
    for some in alike.values():
        judged, item = some[0]
        name = judged.job.name if item.kind != "doubt" or len(some) == 1 else f"{len(some)} jobs"
        who = item.who if item.kind != "doubt" else ""
        key = (findings.ORDER.index(item.verdict), len(item.ranks) or len(item.nodes), name)
        rows.append((key, (str(item.verdict), name, who, _found([finding for _job, finding in some]))))
    return rows


def _found(items: Sequence[Finding]) -> str:
    if items[0].kind == "doubt":
        return items[0].text
    listed = "; ".join(item.text for item in items[:_VALUES])
    names = [short(item.value or item.text) for item in items[_VALUES:]]
    return f"{listed}{f'; also {shortened(names, _NAMED)}' if names else ''}"


# -- document --------------------------------------------------------------------------------------


def _document(fleet: Jobs, verdict: Verdict, success: bool) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "mlnode": VERSION,
        "verdict": str(verdict),
        "success": success,
        "nodes": [*fleet.checks, *fleet.unanswered],
        "not_checked": [{"node": node, "reason": why} for node, why in fleet.unanswered.items()],
        "jobs": [_job(judged) for judged in fleet.jobs],
        "checks": [{"node": node, **check} for node, checks in fleet.checks.items() for check in checks],
    }


def _job(judged: Judged) -> dict[str, Any]:
    job = judged.job
    return {
        "name": job.name,
        "kind": job.kind,
        "id": job.id,
        "verdict": str(judged.verdict),
        "nodes": job.nodes,
        "ranks_seen": judged.ranks_seen,
        "world_size": judged.world or None,
        "values_alike": judged.alike,
        "findings": [_finding(item) for item in judged.findings],
    }


def _finding(item: Finding) -> dict[str, Any]:
    is_odd = item.kind == "odd"
    return {
        "verdict": str(item.verdict),
        "severity": item.severity,
        "kind": item.kind,
        "value": item.value,
        "who": item.who,
        "text": item.text,
        "found": item.found if is_odd else None,
        "others": item.others if is_odd else None,
        "others_count": item.of if is_odd else None,
        "ranks": [{"node": rank.node, "rank": rank.number, "pids": [*rank.pids]} for rank in item.ranks],
        "nodes": [*item.nodes],
        "advice": item.advice,
    }
