# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The look at running jobs as metrics, at most SERIES of a node.

No label has an id of a job, as each would be a series that no one needs after the job: `jobs.yml` shows jobs.
"""

from __future__ import annotations

import time
from collections import Counter
from typing import Any, Mapping, Sequence

from ..checks.model import BAD, Verdict
from ..host.host import Host
from ..model.record import NamedTuple
from ..report.metrics import GAUGE, Family, Sample
from . import inspections

#: All series, and checks that are listed among them
SERIES, LISTED = 20, 8

_MODULE = "node_job"


class _Seen(NamedTuple):
    """worst: name of a check that is not as expected → its worst verdict, the worst first."""

    places: int
    processes: int
    verdicts: Mapping[str, int]
    worst: Mapping[str, str]
    success: bool


def families(host: Host) -> tuple[Family, ...]:
    """Metrics of one look. Never raises: the series of success is 0 if the look ends early."""
    start = time.monotonic()
    seen = _seen(inspections.answer(host, _MODULE, {"fail_on": "never"}, True))
    took = round(time.monotonic() - start, 6)
    listed = [*seen.worst.items()][:LISTED]
    verdicts = [Sample(seen.verdicts.get(name, 0), {"verdict": name}) for name in map(str, Verdict)]
    info = [Sample(1, {"check": name, "verdict": verdict}) for name, verdict in listed]
    return (
        _family("places", "Places of jobs: processes with the same namespaces and user.", [seen.places]),
        _family("processes", "Processes of jobs.", [seen.processes]),
        Family("mlnode_job_checks", GAUGE, "Checks of jobs by verdict.", tuple(verdicts)),
        Family(
            "mlnode_job_deviation_info",
            GAUGE,
            f"Checks of jobs that are not as expected, at most {LISTED}, each with its worst verdict.",
            tuple(info),
        ),
        _family(
            "unlisted_deviations",
            "Checks that are not as expected besides those in mlnode_job_deviation_info.",
            [len(seen.worst) - len(listed)],
        ),
        _family("look_success", "Whether the look at jobs has seen all of them.", [seen.success]),
        _family("look_duration_seconds", "Time that the look at jobs took.", [took]),
    )


def _family(name: str, text: str, values: Sequence[float]) -> Family:
    return Family(f"mlnode_job_{name}", GAUGE, text, tuple(Sample(float(value)) for value in values))


def _seen(answer: Mapping[str, Any]) -> _Seen:
    places: Sequence[Mapping[str, Any]] = answer.get("places", ())
    checks: Sequence[Mapping[str, str]] = answer.get("checks", ())
    verdicts = Counter(check["verdict"] for check in checks)
    worst: dict[str, str] = {}
    for verdict in map(str, BAD):
        for name in sorted({check["name"] for check in checks if check["verdict"] == verdict}):
            worst.setdefault(name, verdict)
    processes = sum(len(place["processes"]) for place in places)
    success = "places" in answer and not verdicts.get(str(Verdict.UNKNOWN))
    return _Seen(len(places), processes, verdicts, worst, success)
