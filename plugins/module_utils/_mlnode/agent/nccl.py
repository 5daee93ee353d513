# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Variables of NCCL that a job on this node finds, whether declared or not: value, origin and meaning.

Of a job that is started from a login and sets none of its own; files of users are not read.
"""

from __future__ import annotations

from typing import Any, Sequence

from ..host.host import Host
from ..knobs.nccl import environment, file, kind, names
from ..knobs.nccl.environment import Mention
from ..model.errors import HostError
from ..model.record import NamedTuple
from ..model.setting import Value
from ..report.grid import grid

#: Of a line that a shell or a service reads, and of one behind another
_MAYBE, _BEHIND = "for jobs that are started with this file", "not in force: another line counts"


class Other(NamedTuple):
    """A line that is not the one in force. why: what it is for."""

    where: str
    text: str
    why: str


class Variable(NamedTuple):
    """value, source: None and empty where only some jobs may have it."""

    name: str
    value: str | None
    source: str
    meaning: str
    others: tuple[Other, ...] = ()


class Found(NamedTuple):
    """problems: files that could not be read, so that variables may be missing."""

    variables: tuple[Variable, ...]
    problems: tuple[str, ...]

    def document(self) -> dict[str, Any]:
        """For JSON."""
        variables = [
            {**item._asdict(), "others": [other._asdict() for other in item.others]}
            for item in self.variables
        ]
        return {"variables": variables, "problems": [*self.problems]}


def in_force(host: Host) -> Found:
    """Sorted by name. Never raises: what cannot be read is among the problems."""
    places = environment.read(host)
    problems = [*places.problems]
    try:
        conf = file.parse(host.text(file.PATH))
    except HostError as error:
        conf = file.parse("")
        problems.append(str(error))
    in_file = [line.name for line in conf.lines if environment.is_name(line.name)]
    variables = [
        _variable(name, places.certain(name), places.of(name), conf)
        for name in sorted({*places.names(), *in_file})
    ]
    return Found(tuple(variables), tuple(problems))


def _variable(name: str, login: Mention | None, mentions: Sequence[Mention], conf: file.Conf) -> Variable:
    line = conf.effective(name)
    value, source = (login.value, login.where) if login else (line.value, line.where) if line else (None, "")
    others = [
        *(
            Other(one.where, one.text.strip(), _MAYBE if one.value is None else _BEHIND)
            for one in mentions
            if one.where != source
        ),
        *(
            Other(one.where, one.value, _BEHIND)
            for one in conf.lines
            if one.name == name and one.where != source
        ),
    ]
    meaning = names.UNFIT.get(name) or kind.info(f"{kind.KIND}.{name}", Value()).reason
    return Variable(name, value, source, meaning, tuple(others))


def table(report: Found, width: int | None) -> str:
    """For a terminal of so many columns; None where there is none."""
    rows = []
    for item in report.variables:
        value = item.value if item.value is not None else "-"
        rows.append([item.name, value, item.source or "-", item.meaning])
        rows += [["", other.text, other.where, other.why] for other in item.others]
    return "\n".join(grid(["VARIABLE", "VALUE", "FROM", "MEANING"], rows, width))
