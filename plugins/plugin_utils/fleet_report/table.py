# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The report for a terminal: short however many hosts there are, as hosts that are alike share a line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ...module_utils._mlnode.model.errors import printable, several, shortened
from ...module_utils._mlnode.model.values import by_key
from ...module_utils._mlnode.report.grid import grid, wrapped
from . import effects
from .finding import BAD, NEITHER, SEVERITIES
from .model import STATES, Fleet, Host, Job, Outlier, causes
from .names import few, natural

#: Words for hosts in one line; the files have all of them
_NAMES = 12

#: Lines of one part; the rest is in the files and in the playbook's output above
_LINES = 12

#: With fewer columns than this for the names, areas go into one column of words
_LEAST = 24

#: Areas named there, where more have something wrong only the worst of them
_AREAS = 2

_INDENT = "  "


def lines(fleet: Fleet, width: int | None) -> list[str]:
    """The whole report. width None: no terminal, no wrapping."""
    hosts = fleet.ordered()
    report = [headline(fleet)]
    if any(host.counts for host in hosts):
        report += _counts(fleet, width)
    if {*fleet.states()} - {"ok", "not checked"}:
        report += ["", *_hosts(fleet.ranked(), width)]
    looked = sum(bool(host.findings or host.unnamed) for host in hosts)
    different = [difference(items, len(hosts), looked) for items in causes(fleet.outliers())]
    report += _part("Differences", different, width)
    troubles = fleet.troubles()
    for state in STATES:
        lost = [
            [_trouble(names, words)] for (host_state, words), names in troubles.items() if host_state == state
        ]
        report += _part(state.capitalize(), lost, width)
    report += _part("Jobs", [_job(job) for job in fleet.jobs], width)
    report += _part("Unsupported", _with_hosts(fleet.causes), width)
    report += _part("Declared by you, and unsupported", _with_hosts(fleet.unsupported), width)
    report += _part("In no group known here, and left alone", _left_alone(fleet), width)
    report += _part("Merged", [[line] for line in merged(fleet)], width)
    for effect in fleet.effects:
        charts = grid(effects.header(effect), effects.rows(effect), width)
        remarks = map(printable, effects.remarks(effect))
        report += ["", f"Effect {printable(effect.name)}", *charts, *remarks]
    unused = [
        [f"{waiver.key} (until {waiver.until}): {waiver.reason}: nothing on any host needs it"]
        for waiver in fleet.unused()
    ]
    return report + _part("Exceptions without use", unused, width)


def headline(fleet: Fleet) -> str:
    states = fleet.states()
    plural = {"differs": "differ"}
    counts = ", ".join(
        f"{number} {state if number == 1 else plural.get(state, state)}" for state, number in states.items()
    )
    mode = " (check mode)" if fleet.check_mode else ""
    number = len(fleet.hosts)
    return printable(f"{fleet.playbook}{mode}: {number} host{'' if number == 1 else 's'}: {counts or 'none'}")


def _job(job: Job) -> list[str]:
    """A line for the job, and for each deviation."""
    nodes = f"{len(job.nodes)} node{'' if len(job.nodes) == 1 else 's'}"
    alike = f"{job.alike} values alike"
    first = f"{job.name}: {job.verdict}: {nodes} ({few(job.nodes, _NAMES)}), ranks {job.seen}, {alike}"
    lines = [f"{deviation.verdict}: {deviation.who}: {deviation.text}" for deviation in job.deviations]
    return [first, *shortened(lines, _LINES)]


def _trouble(names: Sequence[str], words: str) -> str:
    return f"{few(names, _NAMES)}: {words}" if words else few(names, _NAMES)


def _with_hosts(lines_of: Mapping[str, Sequence[str]]) -> list[list[str]]:
    return [[f"{few(names, _NAMES)}: {line}"] for line, names in lines_of.items()]


def _left_alone(fleet: Fleet) -> list[list[str]]:
    """A line for each group of them."""
    alike = by_key((fleet.left_alone[name], name) for name in sorted(fleet.left_alone, key=natural))
    return [[f"{few(names, _NAMES)} ({groups})"] for groups, names in alike.items()]


def merged(fleet: Fleet) -> list[str]:
    """Reports of a merged fleet, the newest first, and the hosts that each does not count for."""
    return [
        f"{part.report}: {part.hosts} host{'' if part.hosts == 1 else 's'} on {part.ended}"
        + (f"; a newer report counts for {few(part.superseded, _NAMES)}" if part.superseded else "")
        + (f"; not in the inventory: {few(part.foreign, _NAMES)}" if part.foreign else "")
        for part in fleet.merged
    ]


def difference(items: Sequence[Outlier], total: int, looked: int) -> list[str]:
    """Such as `3 of 512 differ in thp.enabled (high, drifted): gpu017, gpu101, gpu440`; the cause, and all
    that has it on the same hosts. total: number of all hosts. looked: of those that reported anything; a
    host that did not has a line elsewhere."""
    first, *others = items
    number = len(first.hosts)
    statuses = {status for item in items for status in item.statuses}
    why = ", ".join([first.severity, *(status for status in BAD if status in statuses)])
    what = f"{first.key} and {len(others)} more" if others else first.key
    share = f"all {number}" if number == total else f"{number} of {total}"
    silent = looked - first.of
    rest = f"; {silent} report{'s' if silent == 1 else ''} nothing about it" if silent > 0 else ""
    differ = "differs" if number == 1 else "differ"
    lone = total == 1
    lines = (
        [f"{what} differ{'' if others else 's'} ({why})"]
        if lone
        else [f"{share} {differ} in {what} ({why}): {few(first.hosts, _NAMES)}{rest}"]
    )
    if first.why:
        lines.append(" ".join(first.why.split()))
    if others:
        lines.append(f"also {several([item.key for item in others], _NAMES)}")
    return lines


def _counts(fleet: Fleet, width: int | None) -> list[str]:
    """Bad statuses with their severities, the others by number."""
    counts = fleet.counts()
    parts = []
    for status in dict.fromkeys([*BAD, *sorted({status for status, _severity in counts})]):
        each = {severity: counts.get((status, severity), 0) for severity in SEVERITIES}
        number = sum(each.values())
        if not number:
            continue
        severities = ", ".join(f"{count} {severity}" for severity, count in each.items() if count)
        parts.append(f"{number:,} {status}{f' ({severities})' if status in BAD else ''}")
    return _indented(", ".join(parts), width)


class Cell(NamedTuple):
    """Findings of a host in one area: how many are not right, of how many that say something. whole: False of
    a merged report, which lists only what is not right."""

    bad: int
    good: int
    whole: bool

    def __str__(self) -> str:
        if self.bad:
            return f"{self.bad}/{self.good if self.whole else '?'}"
        return "ok" if self.good else "-" if self.whole else "?"

    def look(self, worst: str) -> str:
        """Name of its colour, on a host with this severity."""
        return worst if self.bad else "ok" if self.good else "none"


def classes(hosts: Sequence[Host]) -> tuple[list[str], dict[tuple[Any, ...], list[str]]]:
    """Areas in which something is wrong, and hosts that are alike: state, worst severity and a Cell for each
    of the areas → names."""
    areas = list(dict.fromkeys(finding.kind for host in hosts for finding in host.bad))
    alike = by_key(((host.state, host.worst, *_cells(host, areas)), host.name) for host in hosts)
    return areas, alike


def _cells(host: Host, areas: Sequence[str]) -> Iterator[Cell]:
    whole = not host.unnamed
    bad = Counter(finding.kind for finding in host.bad)
    good = Counter(
        finding.kind
        for finding in host.findings.values()
        if (finding.status not in NEITHER if whole else not finding.bad)
    )
    return (Cell(bad[area], good[area], whole) for area in areas)


def _hosts(hosts: Sequence[Host], width: int | None) -> list[str]:
    """Hosts by areas, worst first. A cell: how many are bad of how many were looked at."""
    areas, alike = classes(hosts)
    rows = [
        (len(names), state, worst or "-", cells, printable(few(sorted(names, key=natural), _NAMES)))
        for (state, worst, *cells), names in alike.items()
    ]
    fine = [row for row in rows if row[1] == "ok"]
    others = [row for row in rows if row[1] != "ok"]
    table = _fitted(areas, [*others[:_LINES], *fine], width)
    rest = sum(row[0] for row in others[_LINES:])
    return table if not rest else [*table, f"and {rest} hosts in other ways: see the JSON or HTML report"]


def _fitted(
    areas: Sequence[str], rows: Sequence[tuple[int, str, str, list[Cell], str]], width: int | None
) -> list[str]:
    head = ("HOSTS", "STATE", "WORST", *(printable(area).upper() for area in areas), "NAMES")
    wide = [(str(number), *more, *map(str, cells), names) for number, *more, cells, names in rows]
    used = sum(max(len(row[at]) for row in [head, *wide]) + 2 for at in range(len(head) - 1))
    if width is None or width - used >= _LEAST:
        return grid(head, wide, width)
    short = [(str(number), *more, _worst(areas, cells), names) for number, *more, cells, names in rows]
    return grid(("HOSTS", "STATE", "WORST", "AREAS", "NAMES"), short, width)


def _worst(areas: Sequence[str], cells: Sequence[Cell]) -> str:
    """Areas in which something is wrong, as words; of many only that in which most is."""
    bad = [(cell, f"{printable(area)} {cell}") for area, cell in zip(areas, cells) if cell.bad]
    if len(bad) > _AREAS:
        return f"{max(bad, key=lambda item: item[0].bad)[1]} and {len(bad) - 1} more"
    return ", ".join(text for _cell, text in bad) or "-"


def _part(title: str, items: Sequence[Sequence[str]], width: int | None) -> list[str]:
    """A headline and its items, each a first line and its explanation; nothing without items."""
    if not items:
        return []
    part = ["", title]
    for first, *others in items[:_LINES]:
        part += _indented(first, width)
        for other in others:
            part += _indented(other, width, 2)
    rest = len(items) - _LINES
    return part if rest <= 0 else [*part, f"{_INDENT}and {rest} more: see the JSON or HTML report"]


def _indented(text: str, width: int | None, depth: int = 1) -> list[str]:
    room = None if width is None else max(20, width - (depth + 1) * len(_INDENT))
    first, *rest = wrapped(printable(text), room)
    return [f"{_INDENT * depth}{first}", *(f"{_INDENT * (depth + 1)}{line}" for line in rest)]
