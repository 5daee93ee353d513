# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Drift that counts: by its severity, without known exceptions.

Settings are plain data here, so a node and a controller can share the rules.
"""

from __future__ import annotations

from typing import Any, Mapping, Sequence

from ..model.record import NamedTuple
from ..model.setting import Severity, Status
from ..report.document import drift_line
from . import waivers
from .waivers import Waiver

#: From the worst on
SEVERITIES = tuple(str(severity) for severity in Severity)

Settings = Sequence[Mapping[str, Any]]


class CountedDrift(NamedTuple):
    """Differences from the declaration.

    drift: one line for each setting that counts. failures: the lines that are severe enough. ignored: setting
    → its line. exceptions: setting → why it is ignored, and until when. states: of each exception, in their
    order.
    """

    drift: Sequence[str]
    failures: Sequence[str]
    ignored: Mapping[str, str]
    exceptions: Mapping[str, str]
    states: Sequence[str]


def severe(fail_at: str) -> tuple[str, ...]:
    """The severities that fail; none for `never`."""
    return SEVERITIES[: SEVERITIES.index(fail_at) + 1] if fail_at in SEVERITIES else ()


def judge(settings: Settings, given: Sequence[Waiver], fail_at: str) -> CountedDrift:
    """settings: as Row.document() has them."""
    drifted = {str(item["key"]): item for item in settings if _is_drift(item["status"])}
    judged = waivers.judge(given, [*drifted], waivers.today())
    lines = {key: drift_line(item) for key, item in drifted.items()}
    for key, waiver in judged.expired.items():
        lines[key] += f" (the exception for it ended on {waiver.until}: {waiver.reason})"
    counts = [key for key in drifted if key not in judged.ignored]
    fatal = severe(fail_at)
    # An unknown severity, as from another version, counts as severe.
    mild = SEVERITIES[len(fatal) :]
    return CountedDrift(
        [lines[key] for key in counts],
        [lines[key] for key in counts if fatal and drifted[key]["severity"] not in mild],
        {key: lines[key] for key in judged.ignored},
        {key: f"until {waiver.until}: {waiver.reason}" for key, waiver in judged.ignored.items()},
        judged.states,
    )


def _is_drift(status: Any) -> bool:
    try:
        return Status(status).is_drift
    except ValueError:  # a word of another version: an unknown status is not a success
        return True
