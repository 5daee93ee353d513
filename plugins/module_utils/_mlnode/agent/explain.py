# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Everything known about one declared setting, for a person in a hurry."""

from __future__ import annotations

import difflib
from typing import Any

from ..engine import declared
from ..host.host import Host
from ..knobs.sysctl import containers
from ..knobs.sysctl import parse as sysctl_parse
from ..model.errors import DeclarationError, MlnodeError, printable, shown
from ..report import grid, paint
from . import history, rows
from .node import NodeRow, survey
from .registry import KINDS


def explain(host: Host, key: str) -> dict[str, Any]:
    """Facts in reading order. Raises MlnodeError if the node does not declare the key."""
    node = survey(host)
    for item in node.rows:
        if item.row.setting.key == key or _spelled(item, key):
            return _facts(host, item)
    for error in node.errors:
        raise MlnodeError(error)
    keys = [item.row.setting.key for item in node.rows]
    close = difflib.get_close_matches(key, keys, n=3)
    hint = f"; close to it: {', '.join(close)}" if close else "; `mlnode status` lists what is"
    raise MlnodeError(f"{key!r} is not declared on this node{hint}")


def _spelled(item: NodeRow, key: str) -> bool:
    """The same sysctl in its other spelling, or the path of its file."""
    if key == item.row.reading.path:
        return True
    return item.row.setting.kind == "sysctl" and _canonical(key) == item.row.setting.key


def _canonical(key: str) -> str:
    """Canonical spelling of a sysctl; any other text is unchanged."""
    try:
        return sysctl_parse.canonical(key)
    except DeclarationError:
        return key


def _facts(host: Host, item: NodeRow) -> dict[str, Any]:
    row = item.row
    data, kind, key = row.document(), row.setting.kind, row.setting.key
    source = f" ({data['boot_source']})" if data["boot_source"] else ""
    names: list[str] = [f"{name} ({declared.path_of(name)})" for name in item.declared_by]
    runtime = data["runtime"] if data["runtime"] is not None else row.reading.runtime.problem
    boot = data["boot"] if data["boot"] is not None else row.reading.boot.value.problem
    past = history.load(host).settings.get(key)
    return {
        "key": key,
        "status": data["status"],
        "drift": "yes" if row.status.is_drift else "no",
        "why": data["reason"] or "as declared",
        "declared": data["declared"],
        "declared_by": names,
        "want": data["want"],
        "offered": list(row.reading.offered),
        "formula": row.setting.formula or "none: the declared value itself",
        "runtime": runtime,
        "boot": f"{shown(boot)}{source}",
        "origin": data["origin"] if data["origin"] is not None else "not known",
        "put_back": past.words if past else "never",
        "path": data["path"],
        "severity": data["severity"],
        "containers": containers.words(host, key) if kind == "sysctl" else None,
        "purpose": row.info.reason,
        "source": row.info.source,
        "boot_lines": rows.boot_sources(host) if kind == rows.KIND else KINDS[kind].boot_sources(key, host),
    }


#: Columns of the names
_NAMES = 13


def text(facts: dict[str, Any], width: int | None, colour: bool) -> str:
    """Facts as lines, each name once. width None: no terminal, so no line is wrapped."""
    room = None if width is None else max(20, width - _NAMES)
    lines = []
    for name, value in facts.items():
        rows = [row for line in _lines(value) for row in grid.wrapped(line, room)]
        if name == "status" and colour:
            rows = [paint.painted(row) for row in rows]
        for number, row in enumerate(rows):
            lines.append(f"{name.replace('_', ' ') if number == 0 else '':<{_NAMES}}{row}".rstrip())
    return "\n".join(lines)


def _lines(value: Any) -> list[str]:
    if isinstance(value, list):
        return [printable(str(item)) for item in value] or ["-"]
    return [printable(shown(value))]
