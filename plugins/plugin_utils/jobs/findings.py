# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Deviations of one job: odd ranks, and everything that keeps its ranks from being compared."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ...module_utils._mlnode.checks.model import BAD, Verdict
from ...module_utils._mlnode.model.setting import Severity
from ..fleet_report.names import few, natural
from . import joined, odd
from .model import Finding, Job, Rank, is_unknown
from .names import is_number, numbered, runs, short, told_apart, who
from .odd import Groups, Odd, Unlike

#: Verdicts from the worst on
ORDER = (*BAD, Verdict.SKIP)

#: The slowest rank sets the pace of a synchronous job. Groups may be intended, such as two models of GPUs.
_SEVERITY = {Verdict.FAIL: Severity.HIGH, Verdict.SKIP: Severity.LOW}

#: Variables for messages alone (NCCL user guide, environment variables), which rank 0 often has alone
_LOGGING = ("nccl NCCL_DEBUG", "env NCCL_DEBUG", "env TORCH_DISTRIBUTED_DEBUG")

#: Groups and names of values in a line
_GROUPS, _NAMES = 4, 4

#: Characters of a reason: a file of a task's control group, and an error
_REASON = 300
_NUMBER = re.compile("[0-9]+")

_ODD = "start these ranks like the others; mlnode job on the node has the remedy for each value"
_GROUPED = "find the cause of the groups: image, launcher, group of nodes"
_UNSEEN = "play jobs.yml for all nodes of the job, or find out why these ranks hold no GPU or RDMA device"
_TWICE = "end processes of an earlier start; steps and clusters may have jobs of their own with this id"
_SILENT = "play jobs.yml for all nodes of the job, or look for ranks that have ended or hold no device yet"

#: Number of the nodes of a job (srun(1), output environment variables)
_OF_NODES = "env SLURM_JOB_NUM_NODES"


class Judged(NamedTuple):
    """Findings of a job, the worst first. alike: number of values that all ranks share. ranks_seen: ranks
    with different numbers below the world size, or processes if none has a number. world: 0 if unknown."""

    job: Job
    findings: tuple[Finding, ...]
    verdict: Verdict
    alike: int
    ranks_seen: int
    world: int


def judge(job: Job, unanswered: Sequence[str] = ()) -> Judged:
    """unanswered: nodes without an answer, on which ranks of any job may run."""
    ranks = job.ranks
    world = joined.world(ranks)
    compared = [pair for members in _classes(ranks) for pair in _compared(members)]
    findings = [finding for _name, some in compared for finding in some]
    findings += [*_unknown(ranks), *_numbers(job, world, unanswered), *_nodes(job), *_doubt(job)]
    findings.sort(key=_rank)
    verdict = next((worst for worst in BAD if any(item.verdict is worst for item in findings)), Verdict.PASS)
    numbers = {rank.number for rank in ranks if rank.number is not None}
    within = {number for number in numbers if not world or number < world}
    seen = len(within) if numbers else len(ranks)
    return Judged(job, tuple(findings), verdict, _alike(compared, ranks), seen, world)


def _alike(compared: Sequence[tuple[str, Sequence[Finding]]], ranks: Sequence[Rank]) -> int:
    """Number of values that all ranks share: an unknown one may differ."""
    closed = {name for rank in ranks for name in rank.unknown}
    names = {name for name, _some in compared} - {name for name, some in compared if some}
    return sum(not is_unknown(name, closed) for name in names)


def _rank(finding: Finding) -> tuple[object, ...]:
    """Sort key: the worst first, then the rarest."""
    return (
        ORDER.index(finding.verdict),
        [*Severity].index(Severity(finding.severity)),
        len(finding.ranks) or len(finding.nodes),
        finding.value,
        finding.who,
    )


def _finding(verdict: Verdict, kind: str, ranks: Sequence[Rank], text: str, **more: Any) -> Finding:
    severity = str(_SEVERITY.get(verdict, Severity.MEDIUM))
    nodes = tuple(sorted({rank.node for rank in ranks}, key=natural))
    finding = Finding(verdict, severity, kind, "", tuple(ranks), nodes, who(ranks), text)
    return finding._replace(**more)


# -- values ----------------------------------------------------------------------------------------


def _classes(ranks: Sequence[Rank]) -> list[list[Rank]]:
    """Processes without a rank number on most nodes of a job are its helpers, and compared among themselves.
    On few nodes they may be ranks that have lost their number."""
    helpers = [rank for rank in ranks if rank.number is None]
    if not helpers or len(helpers) == len(ranks):
        return [[*ranks]]
    if 2 * len({rank.node for rank in helpers}) <= len({rank.node for rank in ranks}):
        return [[*ranks]]
    return [[rank for rank in ranks if rank.number is not None], helpers]


def _compared(ranks: Sequence[Rank]) -> Iterator[tuple[str, list[Finding]]]:
    """Each value that some ranks have, and its findings; none if all known ones are alike."""
    for name, texts, unknown in odd.values(ranks):
        result = odd.compare(name, ranks, texts, unknown)
        if isinstance(result, Groups):
            yield name, [_grouped(name, result, ranks)]
        elif isinstance(result, Unlike):
            yield name, [_unlike(name, result, [ranks[at] for at in texts])]
        else:
            yield name, [_odd(name, item, ranks) for item in result]


def _odd(name: str, item: Odd, ranks: Sequence[Rank]) -> Finding:
    actual, others = told_apart(name, (item.text, item.others))
    with_local = "" if item.local is None else f" with local rank {item.local}"
    text = f"{short(name)}: {actual}; {item.of} other{'' if item.of == 1 else 's'}{with_local}: {others}"
    verdict = Verdict.WARN if name.startswith(_LOGGING) else Verdict.FAIL
    return _finding(
        verdict, "odd", [ranks[at] for at in item.ranks], text,
        value=name, found=item.text, others=item.others, of=item.of, advice=_ODD,
    )  # fmt: skip


def _grouped(name: str, result: Groups, ranks: Sequence[Rank]) -> Finding:
    groups = result.groups[:_GROUPS]
    parts = [
        f"{words} on {len(members)} ({who([ranks[at] for at in members])})"
        for words, (_text, members) in zip(told_apart(name, [text for text, _members in groups]), groups)
    ]
    rest = len(result.groups) - _GROUPS
    parts += [f"and {rest} more"] if rest > 0 else []
    text = f"{short(name)} has {len(result.groups)} groups and no majority: {'; '.join(parts)}"
    every = [ranks[at] for _text, members in result.groups for at in members]
    return _finding(Verdict.WARN, "groups", every, text, value=name, advice=_GROUPED)


def _unlike(name: str, result: Unlike, ranks: Sequence[Rank]) -> Finding:
    text = f"{short(name)}: not compared, {result.values} values on {len(ranks)} ranks"
    return _finding(Verdict.SKIP, "unlike", ranks, text, value=name)


def _unknown(ranks: Sequence[Rank]) -> Iterator[Finding]:
    """A line for each reason, with all values and ranks that have it. Reasons that differ in numbers alone
    are one, such as paths with the process id of each rank."""
    by_why: dict[str, tuple[dict[str, None], dict[str, None], dict[int, Rank]]] = {}
    for at, rank in enumerate(ranks):
        for name, why in rank.unknown.items():
            reasons, names, some = by_why.setdefault(_NUMBER.sub("N", why), ({}, {}, {}))
            reasons[why] = names[name] = None
            some[at] = rank
    for reasons, names, some in by_why.values():
        why = short(next(iter(reasons)), _REASON) + (
            f" and {len(reasons) - 1} like it" if len(reasons) > 1 else ""
        )
        listed = [*map(short, names)]
        more = f" and {len(listed) - _NAMES} more" if listed[_NAMES:] else ""
        text = f"{', '.join(listed[:_NAMES])}{more}: {why}"
        value = next(iter(names)) if len(names) == 1 else ""
        yield _finding(Verdict.UNKNOWN, "unknown", [*some.values()], text, value=value)


# -- rank numbers and nodes ------------------------------------------------------------------------


def _numbers(job: Job, world: int, unanswered: Sequence[str]) -> Iterator[Finding]:
    ranks = [rank for rank in job.ranks if rank.number is not None]
    if world > 1 and not job.doubt:
        yield from _missing(job, world, ranks, unanswered)
    beyond = [rank for rank in ranks if world and (rank.number or 0) >= world]
    if beyond:
        text = f"not below the world size {world}"
        yield _finding(Verdict.FAIL, "beyond", beyond, text, value="rank", advice=_ODD)
    twice = joined.repeated(job.places)
    if twice:
        some = [rank for members in twice.values() for rank in members]
        pairs = numbered(runs(twice))
        text = f"rank{'s' if twice.keys() - {min(twice)} else ''} {pairs} in more than one place"
        yield _finding(Verdict.WARN, "duplicate", some, text, value="rank", advice=_TWICE)


def _missing(job: Job, world: int, ranks: Sequence[Rank], unanswered: Sequence[str]) -> Iterator[Finding]:
    """Computed from the gaps: a process may claim any world size."""
    seen = runs(rank.number for rank in ranks if rank.number is not None and rank.number < world)
    gaps, begin = [], 0
    for first, last in [*seen, (world, world)]:
        if first > begin:
            gaps.append((begin, first - 1))
        begin = last + 1
    if not gaps:
        return
    missing = sum(last - first + 1 for first, last in gaps)
    lost = f"; without an answer: {few(sorted(unanswered, key=natural))}" if unanswered else ""
    unread = sum(rank.number is None and rank.is_unread for rank in job.ranks)
    hidden = f"; rank numbers of {unread} process{'' if unread == 1 else 'es'} are unknown" if unread else ""
    text = f"{missing} of {world} ranks were seen on no node{lost}{hidden}"
    word = "rank" if missing == 1 else "ranks"
    yield _finding(
        Verdict.UNKNOWN, "missing", [], text,
        value="rank", nodes=tuple(job.nodes), who=f"{word} {numbered(gaps)}", advice=_UNSEEN,
    )  # fmt: skip


def _nodes(job: Job) -> Iterator[Finding]:
    """Nodes of the job on which no process was seen, and numbers of processes if ranks have no numbers."""
    counts = Counter(rank.node for rank in job.ranks)
    claims = Counter(rank.values.get(_OF_NODES, "") for rank in job.ranks if not rank.is_unread)
    claim = max(claims, key=lambda text: claims[text], default="")
    total = int(claim) if is_number(claim) else 0
    if total > len(counts):
        text = f"the job has {total} nodes, and its processes were seen on {len(counts)}"
        listed = f"{total - len(counts)} of {total} nodes"
        yield _of_nodes(Verdict.UNKNOWN, "silent", job.nodes, text, _SILENT)._replace(who=listed)
    if all(rank.number is None for rank in job.ranks):
        yield from _counts(counts)


def _counts(counts: Mapping[str, int]) -> Iterator[Finding]:
    nodes = [Rank(node, 0, (), None, None, None, {}, {}) for node in counts]
    texts = {at: str(number) for at, number in enumerate(counts.values())}
    result = odd.compare("processes", nodes, texts, frozenset())
    if isinstance(result, list):
        for item in result:
            text = f"processes: {item.text}; {item.of} other nodes: {item.others}"
            some = [nodes[at].node for at in item.ranks]
            finding = _of_nodes(Verdict.FAIL, "odd", some, text, _ODD)
            yield finding._replace(value="processes", found=item.text, others=item.others, of=item.of)
    elif isinstance(result, Groups):
        parts = [
            f"{text} on {few(sorted((nodes[at].node for at in members), key=natural))}"
            for text, members in result.groups[:_GROUPS]
        ]
        text = f"processes of a node, without a majority: {'; '.join(parts)}"
        yield _of_nodes(Verdict.WARN, "groups", [*counts], text, _GROUPED)._replace(value="processes")


def _of_nodes(verdict: Verdict, kind: str, nodes: Sequence[str], text: str, advice: str) -> Finding:
    names = sorted(nodes, key=natural)
    listed = f"node{'s' if names[1:] else ''} {few(names)}"
    return _finding(verdict, kind, [], text, nodes=tuple(names), who=listed, advice=advice)


def _doubt(job: Job) -> Iterator[Finding]:
    if job.doubt:
        yield _finding(Verdict.UNKNOWN, "doubt", job.ranks, job.doubt, nodes=tuple(job.nodes))
