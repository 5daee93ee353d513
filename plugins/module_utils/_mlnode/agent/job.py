# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""`mlnode job`: what running jobs get of the declaration and the hardware."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..checks.model import Verdict, summary
from ..host.host import Host
from . import output
from .arguments import DRIFT, ERROR, OK

if TYPE_CHECKING:
    import argparse


def job(host: Host, options: argparse.Namespace) -> int:
    """Exit status DRIFT if a check fails, else ERROR if something could not be looked at."""
    from ..checks.jobs import run
    from ..report import jobs as report

    jobs = run.look(host, vars(options))
    if options.json:
        output.print_json({**jobs.document(), "summary": summary(jobs.checks)})
    else:
        text = report.report(jobs, output.width(), output.has_colours())
        output.say(text, painted=output.has_colours())
    verdicts = {check.verdict for check in jobs.checks}
    if Verdict.FAIL in verdicts:
        return DRIFT
    return ERROR if Verdict.UNKNOWN in verdicts else OK
