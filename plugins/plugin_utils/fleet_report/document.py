# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The report as JSON; docs/schema/fleet.schema.json describes it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from ...module_utils._mlnode.model.version import VERSION
from .model import Fleet, Host

#: Raised when a field changes its meaning or goes; new fields do not raise it.
FORMAT = 1


def lines(fleet: Fleet) -> Iterator[str]:
    """One host to a line, so that grep and diff work, and no fleet is in memory twice."""
    head = json.dumps(_head(fleet), ensure_ascii=False, indent=1)
    yield head.removesuffix("\n}") + ',\n "hosts": ['
    for number, host in enumerate(fleet.ordered()):
        yield ("," if number else "") + "\n  " + json.dumps(_host(host), ensure_ascii=False)
    yield "\n ]\n}\n"


def _head(fleet: Fleet) -> dict[str, Any]:
    counts: dict[str, dict[str, int]] = {}
    for (status, severity), number in sorted(fleet.counts().items()):
        counts.setdefault(status, {})[severity] = number
    return {
        "format": FORMAT,
        "mlnode": VERSION,
        "playbook": fleet.playbook,
        "check_mode": fleet.check_mode,
        "started": fleet.started,
        "ended": fleet.ended,
        "states": fleet.states(),
        "counts": counts,
        "outliers": [item._asdict() for item in fleet.outliers()],
        "exceptions": [
            {**waiver._asdict(), "hosts": dict(states)} for waiver, states in fleet.waivers.items()
        ],
    }


def _host(host: Host) -> dict[str, Any]:
    return {
        "name": host.name,
        "groups": list(host.groups),
        "state": host.state,
        "unreachable": host.unreachable,
        "failures": host.failures,
        "errors": host.errors,
        "findings": [finding._asdict() for finding in host.findings.values()],
    }
