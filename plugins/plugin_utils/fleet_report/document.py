# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The report as JSON; docs/schema/fleet.schema.json describes it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ...module_utils._mlnode.checks.model import Verdict
from ...module_utils._mlnode.model.setting import Status
from ...module_utils._mlnode.model.version import VERSION
from .model import Fleet, Host

#: Raised when a field changes its meaning or goes; new fields do not raise it.
FORMAT = 1


#: Settings and checks of these are counted for each host, and not listed: most of a fleet is like that.
COUNTED = (str(Status.OK), str(Verdict.PASS), str(Verdict.SKIP))


def lines(fleet: Fleet) -> Iterator[str]:
    """An outlier, a finding or a host to a line: grep and diff work, and no fleet is in memory twice."""
    head = json.dumps(_head(fleet), ensure_ascii=False, indent=1)
    yield head.removesuffix("\n}")
    yield from _list("outliers", (item._asdict() for item in fleet.outliers()))
    yield from _list("findings", _findings(fleet))
    yield from _list("hosts", map(_host, fleet.ordered()))
    yield "\n}\n"


def _list(name: str, items: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    yield f',\n "{name}": ['
    for number, item in enumerate(items):
        yield ("," if number else "") + "\n  " + json.dumps(item, ensure_ascii=False)
    yield "\n ]"


def _head(fleet: Fleet) -> dict[str, Any]:
    merged = [part._asdict() for part in fleet.merged]
    return {
        "format": FORMAT,
        "mlnode": VERSION,
        "playbook": fleet.playbook,
        "check_mode": fleet.check_mode,
        "started": fleet.started,
        "ended": fleet.ended,
        "states": fleet.states(),
        **({"merged": merged} if merged else {}),
        "counts": _by_status(fleet.counts()),
        "exceptions": [
            {**waiver._asdict(), "hosts": dict(states)} for waiver, states in fleet.waivers.items()
        ],
    }


def _findings(fleet: Fleet) -> Iterator[dict[str, Any]]:
    for finding, names in fleet.alike(lambda finding: finding.status not in COUNTED):
        yield {**finding.document(), "hosts": names}


def _host(host: Host) -> dict[str, Any]:
    return {
        "name": host.name,
        "groups": list(host.groups),
        "state": host.state,
        "worst": host.worst,
        "unreachable": host.unreachable,
        "failures": host.failures,
        "errors": host.errors,
        "counts": _by_status(host.counts),
    }


def _by_status(counts: Mapping[tuple[str, str], int]) -> dict[str, dict[str, int]]:
    by_status: dict[str, dict[str, int]] = {}
    for (status, severity), number in sorted(counts.items()):
        by_status.setdefault(status, {})[severity] = number
    return by_status
