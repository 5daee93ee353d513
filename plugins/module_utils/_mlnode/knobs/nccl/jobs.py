# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Values of NCCL's variables that jobs of this node find, by every file that says one.

The environment of a login comes first, then the file of NCCL_CONF_FILE or else ~/.nccl.conf, then
/etc/nccl.conf. Of users only root's file is read: others may be on a server that does not answer.
"""

from __future__ import annotations

import errno
import re
from typing import Iterator, Sequence

from ...host.host import Host
from ...model.errors import HostError
from ...model.record import NamedTuple, regex
from . import environment, file
from .environment import Mention

CONF_FILE = "NCCL_CONF_FILE"
#: The only home folder that is on the machine itself
ROOT_FILE = "/root/.nccl.conf"

_MAYBE = "for jobs that are started with this file"
_CONF = f"for jobs with this file as their {CONF_FILE}"
_ROOT = "for jobs of root"
_BEHIND = "not in force: another line counts"

#: Behind NAME= or setenv NAME: quoted, or up to the end of a word. A word with a $ or of several parts is
#: only known to the shell.
_END = r"(?:[\s;&|)]|\Z)"
_WORD = regex(
    rf"""\s*(?:(?:"([^"$`\\]*)"|'([^']*)')(?={_END})"""
    rf"""|([^\s;"'&|$`()<>\\]*)(?=["'][\],]|["']?{_END}))"""
)
_PATH = regex(r"/[!-~]+\Z")


class Assigned(NamedTuple):
    """A line that sets a variable. value: None if only a shell knows it. certain: jobs of a login find it;
    else `why` says which ones may."""

    name: str
    value: str | None
    where: str
    text: str
    certain: bool
    why: str = ""


class Jobs(NamedTuple):
    """lines: of each variable the one in force first, then those that may be for some jobs, then those that
    another line overrules. problems: files that could not be read."""

    lines: tuple[Assigned, ...]
    problems: tuple[str, ...]

    def names(self) -> list[str]:
        return sorted({line.name for line in self.lines})

    def of(self, name: str) -> list[Assigned]:
        return [line for line in self.lines if line.name == name]

    @property
    def possible(self) -> list[Assigned]:
        """Lines whose value some job finds."""
        return [line for line in self.lines if line.why != _BEHIND]


def look(host: Host) -> Jobs:
    """Never raises: what cannot be read is among the problems."""
    places = environment.read(host)
    problems = [*places.problems]
    mentions = [one for name in sorted(places.names()) for one in _mentioned(name, places)]
    confs = [_conf(host, file.PATH, True, "", problems), _conf(host, ROOT_FILE, False, _ROOT, problems)]
    named = {one.value: one for one in mentions if one.name == CONF_FILE and one.value}
    for path, by in named.items():
        if path not in (file.PATH, ROOT_FILE) and _PATH.match(path):
            confs.append(_conf(host, path, by.certain, "" if by.certain else _CONF, problems, by.where))
    lines: list[Assigned] = []
    for name in sorted({line.name for one in (mentions, *confs) for line in one}):
        lines += _in_force(
            [line for one in (mentions, *reversed(confs)) for line in one if line.name == name]
        )
    return Jobs(tuple(lines), tuple(problems))


def _mentioned(name: str, places: environment.Places) -> list[Assigned]:
    """The last line of /etc/environment counts; all others may."""
    found = []
    counts = places.certain(name)
    for one in places.of(name):
        if one.value is None:
            found.append(Assigned(name, _said(one, name), one.where, one.text.strip(), False, _MAYBE))
        else:
            why = "" if one == counts else _BEHIND
            found.append(Assigned(name, one.value, one.where, one.text.strip(), True, why))
    return found


def _said(mention: Mention, name: str) -> str | None:
    """Value of a line of a shell, a service or pam_env; None where only its reader knows it."""
    behind = re.split(rf"(?<![A-Za-z0-9_$]){name}(?:=|\s+(?:DEFAULT|OVERRIDE)=|\s)", mention.text, maxsplit=1)
    match = _WORD.match(behind[1]) if len(behind) > 1 else None
    return next((part for part in match.groups() if part is not None), None) if match else None


def _conf(
    host: Host, path: str, certain: bool, why: str, problems: list[str], by: str = ""
) -> list[Assigned]:
    """Lines of a file that NCCL reads. by: the line that names it, so that it has to be there."""
    try:
        if by and not host.exists(path):
            problems.append(f"{path} is not there, and {by} names it as {CONF_FILE}")
        text = host.text(path)
    except HostError as error:
        # Another user has no business with root's file.
        if path != ROOT_FILE or error.errno not in (errno.EACCES, errno.EPERM):
            problems.append(str(error))
        return []
    return list(_lines(path, file.parse(text), certain, why))


def _lines(path: str, conf: file.Conf, certain: bool, why: str) -> Iterator[Assigned]:
    seen: set[str] = set()
    for line in conf.lines:
        if environment.is_name(line.name):
            behind = _BEHIND if line.name in seen else why
            where = f"{path}:{line.number}"
            yield Assigned(line.name, line.value, where, line.value, certain, behind)
            seen.add(line.name)


def _in_force(lines: Sequence[Assigned]) -> list[Assigned]:
    """Of one variable, in the order in which they count: the first certain line hides those behind it."""
    certain = [line for line in lines if line.certain and line.why != _BEHIND]
    first, rest = certain[:1], certain[1:]
    maybe = [line for line in lines if not line.certain and line.why != _BEHIND]
    behind = [line for line in lines if line.why == _BEHIND]
    return [*first, *maybe, *(line._replace(why=_BEHIND) for line in rest), *behind]
