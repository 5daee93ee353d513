# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The look at jobs as text: a table of places, then checks as in the audit."""

from __future__ import annotations

from ..checks.jobs.model import Place
from ..checks.jobs.run import Jobs
from ..model.errors import listed, printable
from . import audit
from .grid import grid

NOTHING = "No process has a GPU or an RDMA device open."
#: As many devices as fit in a column
_DEVICES = 3


def report(jobs: Jobs, width: int | None, colour: bool = False) -> str:
    """The report. width None: no terminal, so no line is wrapped."""
    if not jobs.places:
        return audit.report(jobs.checks, width, colour) if jobs.checks else NOTHING
    rows = [_row(place) for place in jobs.places]
    lines = grid(("JOB", "RUNTIME", "PROCESSES", "NETWORK", "DEVICES"), rows, width)
    return "\n\n".join(["\n".join(lines), audit.report(jobs.checks, width, colour)])


def _row(place: Place) -> tuple[str, ...]:
    first, count = place.processes[0], len(place.processes)
    more = f" and {count - 1} more" if count > 1 else ""
    devices = sorted({device for process in place.processes for device in process.about.devices})
    return (
        place.name,
        place.first.job.runtime or "-",
        printable(f"{first.pid} ({first.about.name}){more}"),
        "its own" if "net" in place.own else "the node's",
        listed(devices, _DEVICES) or "-",
    )
