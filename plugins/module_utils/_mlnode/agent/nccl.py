# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Variables of NCCL that a job on this node finds, whether declared or not: value, origin and meaning.

They apply to a job that is started from a login and sets none itself, and to running jobs. See
knobs/nccl/jobs.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Iterator, Sequence

from ..host.host import Host
from ..knobs.nccl import jobs, lint, meanings, names
from ..knobs.nccl.jobs import Assigned
from ..knobs.nccl.kind import kind
from ..model.errors import HostError
from ..model.record import NamedTuple
from ..model.setting import Value
from ..model.version import VERSION
from ..report.grid import grid
from ..topology import hardware
from ..topology.nics import NETS
from . import node_report, output
from .arguments import ERROR, OK

if TYPE_CHECKING:
    import argparse

#: Suffix for variables in the guide's part Debugging
_EXPERIMENT = "; for experiments, the guide advises against keeping it"


class Other(NamedTuple):
    """A line that is not in force. why: its purpose."""

    where: str
    text: str
    why: str


class Variable(NamedTuple):
    """value, source: None and empty if only some jobs may have it. findings: problems of a value that some
    job finds, with a remedy."""

    name: str
    value: str | None
    source: str
    meaning: str
    others: tuple[Other, ...] = ()
    findings: tuple[str, ...] = ()


class Found(NamedTuple):
    """problems: unreadable files, whose variables may be missing."""

    variables: tuple[Variable, ...]
    problems: tuple[str, ...]

    def document(self) -> dict[str, Any]:
        """For JSON."""
        variables = [
            {**item._asdict(), "others": [other._asdict() for other in item.others]}
            for item in self.variables
        ]
        return {"variables": variables, "problems": [*self.problems]}


def in_force(host: Host, every: bool = False) -> Found:
    """Variables sorted by name. every: also documented variables that nothing sets, the most common first.
    Never raises: unreadable files are among the problems."""
    job_lines = jobs.look(host)
    problems = [*job_lines.problems]
    bad: Sequence[lint.Finding] = ()
    try:
        bad = lint.findings(job_lines.possible, lint.node(hardware.topology(host), host.names(NETS)))
    except HostError as error:
        problems.append(str(error))
    listed = job_lines.names()
    if every:
        rest = sorted(set(meanings.MEANINGS) - set(meanings.COMMON))
        listed = [*dict.fromkeys([*listed, *meanings.COMMON, *rest])]
    variables = [_variable(name, job_lines.assignments(name), bad) for name in listed]
    return Found(tuple(variables), tuple(problems))


def _variable(name: str, lines: Sequence[Assigned], bad: Sequence[lint.Finding]) -> Variable:
    counts = next((line for line in lines[:1] if line.certain and not line.why), None)
    others = [Other(line.where, line.text, line.why) for line in lines if line is not counts]
    return Variable(
        name,
        counts.value if counts else None,
        counts.where if counts else "",
        meaning(name),
        tuple(others),
        tuple(_words(finding) for finding in bad if finding.line.name == name),
    )


def meaning(name: str) -> str:
    """One line about a variable, with the version that introduced it; also for variables that NCCL does not
    read."""
    known = names.KNOWN.get(name)
    since = f" (NCCL {known.since} and later)" if known and known.since else ""
    if name in meanings.MEANINGS:
        kept = _EXPERIMENT if known and known.group == names.DEBUGGING else ""
        return f"{meanings.MEANINGS[name]}{kept}{since}"
    return names.UNFIT.get(name) or kind.info(f"{kind.KIND}.{name}", Value()).reason


def _words(finding: lint.Finding) -> str:
    advice = f"; {finding.advice}" if finding.advice else ""
    return f"{finding.line.where}: {finding.problem}{advice}"


def table(report: Found, width: int | None) -> str:
    """Table for a terminal with this number of columns; None for other outputs."""
    rows = [row for item in report.variables for row in _rows(item)]
    return "\n".join(grid(["VARIABLE", "VALUE", "FROM", "MEANING"], rows, width))


def _rows(item: Variable) -> Iterator[list[str]]:
    yield [item.name, item.value if item.value is not None else "-", item.source or "-", item.meaning]
    yield from (["", other.text, other.where, other.why] for other in item.others)
    yield from (["", "", "", f"!! {text}"] for text in item.findings)


def command(host: Host, options: argparse.Namespace) -> int:
    """`mlnode nccl`, and its exit status."""
    report = in_force(host, options.all)
    if options.json:
        output.print_json({"format": node_report.FORMAT, "mlnode": VERSION, **report.document()})
    elif report.variables:
        output.say(table(report, output.width()))
    else:
        output.say("no variable of NCCL is set on this node")
    for problem in report.problems:
        output.complain(problem)
    return ERROR if report.problems else OK
