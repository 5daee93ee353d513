# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The report for a terminal: short however many hosts there are, as hosts that are alike share a line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ...module_utils._mlnode.model.errors import printable
from ...module_utils._mlnode.report.grid import grid, wrapped
from .model import BAD, NEITHER, SEVERITIES, STATES, Fleet, Host, Outlier
from .names import few

#: Words for hosts in one line; the files have all of them
_NAMES = 12

#: Lines of one part; the rest is in the files and in the playbook's output above
_LINES = 12

#: With fewer columns than this for the names, areas go into one column of words
_LEAST = 24

_INDENT = "  "


def lines(fleet: Fleet, width: int | None) -> list[str]:
    """The whole report. width None: no terminal, so that nothing is wrapped."""
    hosts = fleet.ordered()
    report = [headline(fleet)]
    if any(host.findings for host in hosts):
        report += _counts(fleet, width)
    if {*fleet.states()} - {"ok", "not checked"}:
        report += ["", *_hosts(hosts, width)]
    report += _part("Differences", [outlier(item) for item in fleet.outliers()], width)
    for state in ("unreachable", "failed"):
        report += _part(state.capitalize(), _troubles(hosts, state), width)
    unchecked = [host.name for host in hosts if host.state == "not checked"]
    if unchecked:
        report += _part("Not checked", [few(unchecked, _NAMES)], width)
    unused = [
        f"{waiver.key} (until {waiver.until}): {waiver.reason}: nothing on any host needs it"
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


def outlier(item: Outlier) -> str:
    """3 of 512 differ in thp.enabled (high, drifted): gpu017, gpu101, gpu440"""
    number = len(item.hosts)
    why = ", ".join([item.severity, *item.statuses])
    if item.of == 1:
        return f"{item.key} differs ({why})"
    of = f"all {number}" if number == item.of else f"{number} of {item.of}"
    differ = "differs" if number == 1 else "differ"
    return f"{of} {differ} in {item.key} ({why}): {few(item.hosts, _NAMES)}"


def _counts(fleet: Fleet, width: int | None) -> list[str]:
    """Bad statuses with their severities, the others by number."""
    counts = fleet.counts()
    parts = []
    for status in dict.fromkeys([*BAD, *sorted({status for status, _severity in counts})]):
        each = {severity: counts.get((status, severity), 0) for severity in SEVERITIES}
        number = sum(each.values())
        if not number:
            continue
        of = ", ".join(f"{count} {severity}" for severity, count in each.items() if count)
        parts.append(f"{number:,} {status}{f' ({of})' if status in BAD else ''}")
    return _indented(", ".join(parts), width)


def _hosts(hosts: Sequence[Host], width: int | None) -> list[str]:
    """Hosts by areas. A cell: how many are bad of how many were looked at."""
    areas = list(dict.fromkeys(finding.kind for host in hosts for finding in host.bad))
    alike: dict[tuple[int, tuple[str, ...]], list[Host]] = {}
    for host in hosts:
        cells = _cells(host, areas) if host.findings else ("-",) * len(areas)
        alike.setdefault((STATES.index(host.state), (host.worst or "-", *cells)), []).append(host)
    order = sorted(alike.items(), key=lambda item: (item[0][0], _rank(item[1][0]), len(item[1])))
    rows = [
        (str(len(group)), STATES[state], *cells, printable(few([host.name for host in group], _NAMES)))
        for (state, cells), group in order
    ]
    fine = [row for row in rows if row[1] == "ok"]
    others = [row for row in rows if row[1] != "ok"]
    table = _fitted(areas, [*others[:_LINES], *fine], width)
    rest = sum(int(row[0]) for row in others[_LINES:])
    return table if not rest else [*table, f"and {rest} hosts in other ways: see the JSON or HTML report"]


def _fitted(areas: Sequence[str], rows: Sequence[Sequence[str]], width: int | None) -> list[str]:
    head = ("HOSTS", "STATE", "WORST", *(printable(area).upper() for area in areas), "NAMES")
    used = sum(max(len(row[at]) for row in [head, *rows]) + 2 for at in range(len(head) - 1))
    if width is None or width - used >= _LEAST:
        return grid(head, rows, width)
    short = []
    for row in rows:
        bad = [f"{printable(area)} {cell}" for area, cell in zip(areas, row[3:-1]) if "/" in cell]
        short.append((*row[:3], ", ".join(bad) or "-", row[-1]))
    return grid(("HOSTS", "STATE", "WORST", "AREAS", "NAMES"), short, width)


def _cells(host: Host, areas: Sequence[str]) -> tuple[str, ...]:
    bad = Counter(finding.kind for finding in host.bad)
    good = Counter(finding.kind for finding in host.findings.values() if finding.status not in NEITHER)
    return tuple(f"{bad[area]}/{good[area]}" if bad[area] else "ok" if good[area] else "-" for area in areas)


def _rank(host: Host) -> int:
    return SEVERITIES.index(host.worst) if host.worst else len(SEVERITIES)


def _troubles(hosts: Sequence[Host], state: str) -> list[str]:
    """The same words of many hosts are one line."""
    alike: dict[str, list[str]] = {}
    for host in hosts:
        if host.state == state:
            alike.setdefault("; ".join(dict.fromkeys(host.words)), []).append(host.name)
    return [f"{few(names, _NAMES)}: {' '.join(message.split())}" for message, names in alike.items()]


def _part(title: str, items: Sequence[str], width: int | None) -> list[str]:
    """A headline and its lines; nothing where there are none."""
    if not items:
        return []
    part = ["", title]
    for item in items[:_LINES]:
        part += _indented(item, width)
    rest = len(items) - _LINES
    return part if rest <= 0 else [*part, f"{_INDENT}and {rest} more: see the JSON or HTML report"]


def _indented(text: str, width: int | None) -> list[str]:
    first, *rest = wrapped(printable(text), None if width is None else max(20, width - 2 * len(_INDENT)))
    return [f"{_INDENT}{first}", *(f"{_INDENT * 2}{line}" for line in rest)]
