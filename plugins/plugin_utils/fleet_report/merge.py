# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Merge reports about parts of a fleet, as JSON, into one with each node of the inventory once."""

from __future__ import annotations

import datetime as dt
import pathlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from ...module_utils._mlnode.model import strict_json
from ...module_utils._mlnode.model.errors import MlnodeError
from .document import FORMAT
from .finding import SEVERITIES, STATUSES, TEXTS, Finding, Waiver, cause
from .model import Fleet, Host, Part

_HEAD = {
    "playbook": str, "check_mode": bool, "started": str, "ended": str,
    "exceptions": list, "findings": list, "hosts": list,
}  # fmt: skip
_HOST = {
    "name": str, "groups": list, "state": str, "unreachable": str, "failures": list, "errors": list,
    "counts": dict,
}  # fmt: skip
_CAUSE = {"layer": str, "code": str, "file": str, "line": int, "text": str}
_COUNTED = {*STATUSES, "ignored"}
#: Name of a node in its own inventory, as with ansible-pull
_ITSELF = "localhost"


class Report(NamedTuple):
    """A report with the name of its file."""

    name: str
    fleet: Fleet


def read(fields: Mapping[str, Any], name: str) -> Report:
    """A report of fleet.schema.json. Raises MlnodeError that names the report and the place.

    A node that plays on itself is `localhost` there: the file has its name then.
    """
    try:
        fleet = _fleet(fields)
    except ValueError as error:
        raise MlnodeError(f"{name} is not a fleet report: {error}") from error
    if [*fleet.hosts] == [_ITSELF]:
        node = pathlib.PurePath(name).stem
        fleet.hosts = {node: replace(fleet.hosts[_ITSELF], name=node)}
    return Report(name, fleet)


def merge(reports: Sequence[Report], inventory: Mapping[str, Sequence[str]]) -> Fleet:
    """inventory: node → its groups. If several reports have a node, the newest counts; if no report has it,
    it never answered. Hosts outside the inventory are left out, and listed."""
    newest = sorted(reports, key=lambda report: report.fleet.ended, reverse=True)
    playbooks = dict.fromkeys(report.fleet.playbook for report in reports)
    fleet = Fleet(
        playbook=", ".join(playbooks),
        check_mode=any(report.fleet.check_mode for report in reports),
        started=min((report.fleet.started for report in reports), default=""),
        ended=max((report.fleet.ended for report in reports), default=""),
    )
    for report in newest:
        fleet.merged.append(_add(fleet, report, inventory))
    for name, groups in inventory.items():
        if name not in fleet.hosts:
            fleet.host(name, groups).silent = "never answered"
    for report in reports:
        for waiver, states in report.fleet.waivers.items():
            fleet.waivers.setdefault(waiver, Counter()).update(states)
    return fleet


def utc(time: str) -> str:
    """A time in the one format whose text order is the order of time. Raises ValueError."""
    return dt.datetime.fromisoformat(time).astimezone(dt.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def _add(fleet: Fleet, report: Report, inventory: Mapping[str, Sequence[str]]) -> Part:
    superseded, foreign = [], []
    number = 0
    for host in report.fleet.ordered():
        if host.silent == "never answered":
            continue  # another report may have its answer
        if host.name not in inventory:
            foreign.append(host.name)
        elif host.name in fleet.hosts:
            superseded.append(host.name)
        else:
            fleet.hosts[host.name] = host
            number += 1
    about = report.fleet
    return Part(
        report.name, about.playbook, about.started, about.ended, number, tuple(superseded), tuple(foreign)
    )


def _fleet(fields: Mapping[str, Any]) -> Fleet:
    if fields.get("format") != FORMAT or fields["format"] is True:
        raise ValueError(
            f"its format is {strict_json.shown(fields.get('format'))}, and {FORMAT} is read here"
        )
    playbook, check_mode, started, ended, exceptions, findings, hosts = strict_json.typed(fields, _HEAD)
    fleet = Fleet(playbook=playbook, check_mode=check_mode, started=utc(started), ended=utc(ended))
    for item in hosts:
        _host(fleet, item)
    for item in findings:
        _finding(fleet, item)
    for host in fleet.hosts.values():
        # Listed findings count on their own.
        host.unnamed -= Counter((finding.state, finding.severity) for finding in host.findings.values())
    for item in exceptions:
        key, reason, until, states = strict_json.typed(
            item, {"key": str, "reason": str, "until": str, "hosts": dict}
        )
        fleet.waivers[Waiver(key, reason, until)] = Counter(_numbers(states))
    return fleet


def _host(fleet: Fleet, item: Any) -> None:
    name, groups, state, unreachable, failures, errors, counts = strict_json.typed(item, _HOST)
    if name in fleet.hosts:
        raise ValueError(f"the host {strict_json.shown(name)} is there twice")
    host = Host(name, tuple(map(str, groups)))
    host.unreachable = unreachable
    host.failures = [*map(str, failures)]
    host.errors = [*map(str, errors)]
    host.silent = state if state in ("never answered", "not checked") else ""
    for status, by_severity in counts.items():
        if status not in _COUNTED or not isinstance(by_severity, dict) or {*by_severity} - {*SEVERITIES}:
            raise ValueError(
                f"counts of {strict_json.shown(name)}: {strict_json.shown({status: by_severity})}"
            )
        for severity, number in _numbers(by_severity).items():
            host.unnamed[status, severity] = number
    fleet.hosts[name] = host


def _finding(fleet: Fleet, item: Any) -> None:
    kind, key, status, severity, causes, hosts = strict_json.typed(
        item, {"kind": str, "key": str, "status": str, "severity": str, "causes": list, "hosts": list}
    )
    if status not in STATUSES or severity not in SEVERITIES:
        raise ValueError(f"{strict_json.shown(key)} has the status {status!a} and the severity {severity!a}")
    texts = {name: _text(item.get(name), name) for name in TEXTS}
    read = tuple(cause(dict(zip(_CAUSE, strict_json.typed(entry, _CAUSE)))) for entry in causes)
    finding = Finding(kind, key, status, severity, **texts, causes=read)
    for name in hosts:
        if name not in fleet.hosts:
            raise ValueError(
                f"{strict_json.shown(key)} is of the host {strict_json.shown(name)}, which is missing"
            )
        fleet.hosts[name].findings[kind, key] = finding


def _text(value: Any, name: str) -> str | None:
    if value is None or isinstance(value, str):
        return value
    raise ValueError(f"{name} is {strict_json.shown(value)}, and not a text")


def _numbers(counts: Mapping[str, Any]) -> dict[str, int]:
    for name, number in counts.items():
        if not strict_json.is_of(number, int) or number < 0:
            raise ValueError(f"{name} is {strict_json.shown(number)}, and not a number from 0 on")
    return dict(counts)
