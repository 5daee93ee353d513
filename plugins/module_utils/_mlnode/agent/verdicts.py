# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""`mlnode audit` and `mlnode preflight`: commands whose result is a list of checks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Sequence

from ..checks.model import BAD, Check, Verdict, bad, counts, summary, total
from ..host.host import Host
from ..model.errors import printable
from ..model.version import VERSION
from . import output
from .arguments import DRIFT, ERROR, OK

if TYPE_CHECKING:
    import argparse

#: Characters of a line for a scheduler, which keeps it as the reason of a drained node
BRIEF = 200


def audit(host: Host, options: argparse.Namespace) -> int:
    from ..checks.audit import run
    from ..report import audit as audit_report

    checks = run.all_checks(host)
    if options.json:
        _print_json(checks)
    else:
        text = audit_report.report(checks, output.width(), output.has_colours())
        output.say(text, painted=output.has_colours())
    return DRIFT if any(check.verdict is Verdict.FAIL for check in checks) else OK


def preflight(host: Host, options: argparse.Namespace) -> int:
    """The checks of preflight.yml for one node, without its neighbours. Exit status ERROR if no check fails
    and some are unknown."""
    from ..checks.preflight import run

    alone = run.parse((), None, run.OPTIONS["tcp_port"].default, {})
    checks = run.all_checks(host, alone, host.is_superuser())
    if options.json:
        _print_json(checks)
    elif options.brief:
        output.say(brief(checks))
    else:
        output.say(table(checks, output.width()))
    verdicts = {check.verdict for check in checks}
    if Verdict.FAIL in verdicts:
        return DRIFT
    return ERROR if Verdict.UNKNOWN in verdicts or verdicts <= {Verdict.SKIP} else OK


def table(checks: Sequence[Check], width: int | None) -> str:
    """The worst first, each with its remedy; then passed checks, and skipped ones."""
    from ..report.grid import grid, wrapped

    order = [*BAD, Verdict.PASS, Verdict.SKIP]
    rows = [
        (
            str(check.verdict),
            check.name,
            f"{check.target}: {check.found}{f'; {check.advice}' if check.advice else ''}",
        )
        for check in sorted(checks, key=lambda check: order.index(check.verdict))
    ]
    lines = grid(("VERDICT", "CHECK", "FOUND"), rows, width)
    return "\n".join([*lines, "", *wrapped(total(checks), width)])


def brief(checks: Sequence[Check]) -> str:
    """One line: the worst verdict, the first check that has it, and how many others are not as expected."""
    worse = bad(checks)
    if not worse:
        return counts(checks)
    first, *others = worse
    more = f" (and {len(others)} more)" if others else ""
    text = printable(f"{first.verdict}: {first.name}, {first.target}: {first.found}")
    room = BRIEF - len(more)
    return (text if len(text) <= room else f"{text[: room - 3]}...") + more


def _print_json(checks: Sequence[Check]) -> None:
    from . import node_report

    listed = [check.document() for check in checks]
    head = {"format": node_report.FORMAT, "mlnode": VERSION}
    output.print_json({**head, "checks": listed, "summary": summary(checks)})
