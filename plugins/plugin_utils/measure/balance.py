# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the uplinks of InfiniBand leaves share the traffic that is made meanwhile."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from .. import fabric_report as fabric
from .nodes import Call, Fleet, say

#: Lines that are shown: one switch fails thousands of pairs, and the first hundred name it
_SHOWN = 100


class Asked(NamedTuple):
    """reader: the node that reads the counters. nodes: the first word of their ports' names; all leaves if
    empty. fail_on: as of ib_subnet."""

    reader: str
    nodes: Sequence[str]
    fail_on: str


@contextmanager
def shared(fleet: Fleet, asked: Asked | None) -> Iterator[list[str]]:
    """Counters are read before and after. Once it is over the list has a line for each leaf whose uplinks did
    not share the traffic, or the reason why that is not known. asked: None to read nothing."""
    failures: list[str] = []
    if asked is None:
        yield failures
        return
    reader, nodes, fail_on = asked
    before = _read(fleet, reader, nodes=[*nodes])
    yield failures
    after = _read(fleet, reader, since=before.get("traffic") or {})
    # An answer without checks is an error, or missing.
    silent = next((reading for reading in (before, after) if "checks" not in reading), None)
    merged = silent if silent is not None else {"checks": [*before["checks"], *after["checks"]]}
    report = fabric.report(None, fail_on, {reader: merged})
    failures += report["failures"][:_SHOWN]
    lines = [*report["failures"], *report["warnings"], *report["notes"]]
    more = [f"and {len(lines) - _SHOWN} more"] if lines[_SHOWN:] else []
    say("\n".join([*lines[:_SHOWN], *more]))


def _read(fleet: Fleet, reader: str, **options: Any) -> dict[str, Any]:
    if reader not in fleet.names:
        return {}
    call = Call(
        "mlnode.tuning.ib_subnet",
        {"scope": "uplinks", "fail_on": "never", **options},
        0,
        {"become": True, "check_mode": False},
    )
    return fleet.ask({reader: call})[reader]
