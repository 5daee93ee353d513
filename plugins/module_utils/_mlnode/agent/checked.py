# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""State of the last check, stored in /var/lib/mlnode/check.json for comparison with the next one.

No decision depends on it: a check replaces a missing or damaged file.
"""

from __future__ import annotations

import json
from typing import Any, Mapping, Sequence

from ..engine.kind import Row
from ..host.host import Host
from ..model import strict_json
from ..model.errors import MlnodeError
from ..model.record import NamedTuple
from .causes import Origin, Seen

PATH = "/var/lib/mlnode/check.json"
#: 2: a cause is words and a label
FORMAT = 2


class CheckedSetting(NamedTuple):
    """A setting in the last check. since: time of the first check with this drift, in seconds since 1970; 0
    without drift."""

    status: str
    runtime: str | None = None
    cause: Origin | None = None
    since: float = 0.0


class LastCheck(NamedTuple):
    """State of the last check. at: its time, in seconds since 1970. pauses: NIC → number of pause frames, and
    the time of that reading in seconds since the boot."""

    at: float = 0.0
    seen: Seen = Seen()
    settings: Mapping[str, CheckedSetting] = {}
    pauses: Mapping[str, tuple[int, float]] = {}


def load(host: Host) -> LastCheck:
    """The stored state; an empty one if the file is missing or damaged. Never raises."""
    try:
        document = strict_json.document(host.read_bytes(PATH), PATH, FORMAT)
        return LastCheck(
            float(document["at"]),
            Seen(str(document["boot"]), {str(name): str(index) for name, index in document["nics"].items()}),
            {str(key): _checked_setting(raw) for key, raw in document["settings"].items()},
            {str(name): (int(raw[0]), float(raw[1])) for name, raw in document["pauses"].items()},
        )
    except (MlnodeError, ValueError, KeyError, TypeError, IndexError, AttributeError, OverflowError):
        return LastCheck()


def _checked_setting(raw: Any) -> CheckedSetting:
    runtime = raw["runtime"]
    return CheckedSetting(
        str(raw["status"]),
        None if runtime is None else str(runtime),
        Origin(*map(str, raw["cause"])) if "cause" in raw else None,
        float(raw.get("since", 0.0)),
    )


def after(
    before: LastCheck, now: Seen, rows: Sequence[Row], causes: Mapping[str, Origin], at: float
) -> LastCheck:
    """The state to store for the next check. causes: key of a drifted setting → cause."""
    settings: dict[str, CheckedSetting] = {}
    for row in rows:
        key, cause = row.setting.key, causes.get(row.setting.key)
        known = before.settings.get(key)
        since = (known.since if known and known.since else at) if cause else 0.0
        settings[key] = CheckedSetting(str(row.status), row.reading.runtime.text, cause, since)
    return before._replace(at=at, seen=now, settings=settings)


def document(state: LastCheck) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "at": state.at,
        "boot": state.seen.boot,
        "nics": dict(state.seen.indexes),
        "settings": {
            key: {
                "status": setting.status,
                "runtime": setting.runtime,
                **({"cause": setting.cause, "since": setting.since} if setting.cause else {}),
            }
            for key, setting in state.settings.items()
        },
        "pauses": {name: list(pair) for name, pair in state.pauses.items()},
    }


def save(host: Host, state: LastCheck) -> None:
    """Store the state, readable by root only: a value may come from a file that others cannot read. Raises
    HostError."""
    content = json.dumps(document(state), ensure_ascii=True).encode("ascii") + b"\n"
    host.write_file(PATH, content, mode=0o600)
