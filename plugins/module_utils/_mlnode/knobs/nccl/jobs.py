# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Values of NCCL's variables for jobs of this node, from every file and environment that sets them.

The environment of a login comes first, then the file of NCCL_CONF_FILE or else ~/.nccl.conf, then
/etc/nccl.conf; RCCL reads ~/.rccl.conf and /etc/rccl.conf. Only root's own file is read: users' files may be
on a server that does not answer. Variables of a job script or a container are in no file here; they appear in
the environment of processes that hold a GPU.
"""

from __future__ import annotations

import errno
import re
from typing import Iterator, Sequence

from ...host.host import Host
from ...linux import inside, ranks
from ...linux import jobs as processes
from ...model.errors import HostError
from ...model.record import NamedTuple, regex
from . import environment, file
from .environment import Mention

CONF_FILE = "NCCL_CONF_FILE"
#: The only home folder that is certain to be local
_ROOT_HOME = "/root"

_MAYBE = "for jobs that are started with this file"
_CONF = f"for jobs with this file as their {CONF_FILE}"
_ROOT = "for jobs of root"
_BEHIND = "not in force: another line counts"
#: Marks a line of NCCL's file for a variable that does not begin with its name and =
LOST = "not read by NCCL"

#: Such a line: with blanks, export, lower case or a UTF-8 mark before the name, or with : instead of =
_MEANT = regex(
    r"\ufeff?[ \t]*(?:(?:export|setenv)[ \t]+)?((?:[NR]CCL|OFI_NCCL|SHARP_COLL)_[A-Z0-9_]{1,63})"
    r"[ \t]*(?:[=:]|[ \t]\S)",
    re.ASCII | re.IGNORECASE,
)
#: A secret, which an environment or a file may hold but a report must not
_SECRET = "NCCL_PSK"
_HIDDEN = "[hidden]"
_BEHIND_SECRET = regex(rf"({_SECRET}(?:\s*[=:]\s*|\s+))\S.*", re.IGNORECASE)
#: Environment of this command, as it was started
_OWN = "/proc/self/environ"

#: Text after NAME= or setenv NAME: quoted, or up to the end of a word. Only the shell knows a word with a $
#: or with several parts.
_END = r"(?:[\s;&|)]|\Z)"
_WORD = regex(
    rf"""\s*(?:(?:"([^"$`\\]*)"|'([^']*)')(?={_END})"""
    rf"""|([^\s;"'&|$`()<>\\]*)(?=["'][\],]|["']?{_END}))"""
)
_PATH = regex(r"/[!-~]+\Z")


class Assigned(NamedTuple):
    """A line that sets a variable. value: None for a LOST line, or if only a shell knows it. certain: all
    jobs of a login have it; otherwise `why` names the jobs that may.
    """

    name: str
    value: str | None
    where: str
    text: str
    certain: bool
    why: str = ""


class Jobs(NamedTuple):
    """lines: for each variable first the one in force, then those for some jobs, then overridden ones.
    problems: files that could not be read.
    """

    lines: tuple[Assigned, ...]
    problems: tuple[str, ...]

    def names(self) -> list[str]:
        return sorted({line.name for line in self.lines})

    def assignments(self, name: str) -> list[Assigned]:
        return [line for line in self.lines if line.name == name]

    @property
    def possible(self) -> list[Assigned]:
        """Lines with a value that some job may have."""
        return [line for line in self.lines if line.why != _BEHIND]


def look(host: Host) -> Jobs:
    """Never raises: what cannot be read is among the problems."""
    places = environment.read(host)
    problems = [*places.problems]
    mentions = [line for name in sorted(places.names()) for line in _mentioned(name, places)]
    everyones = file.path_of(host)
    roots = f"{_ROOT_HOME}/{file.home_name(everyones)}"
    confs = [_conf(host, everyones, True, "", problems), _conf(host, roots, False, _ROOT, problems)]
    named = {line.value: line for line in mentions if line.name == CONF_FILE and line.value}
    for path, by in named.items():
        if path not in (everyones, roots) and _PATH.match(path):
            confs.append(_conf(host, path, by.certain, "" if by.certain else _CONF, problems, by.where))
    of_files = [line for group in (mentions, *reversed(confs)) for line in group]
    every = [_without_secret(line) for line in (*_running(host, of_files, problems), *of_files)]
    names = sorted({line.name for line in every})
    lines = [line for name in names for line in _in_force([line for line in every if line.name == name])]
    return Jobs(tuple(lines), tuple(problems))


def _without_secret(line: Assigned) -> Assigned:
    """Everything after the name is hidden, as words of a value may be quoted."""
    value = line.value if line.name != _SECRET or line.value is None else _HIDDEN
    text = _HIDDEN if line.name == _SECRET else _BEHIND_SECRET.sub(rf"\1{_HIDDEN}", line.text)
    return line._replace(value=value, text=text)


def _running(host: Host, of_files: Sequence[Assigned], problems: list[str]) -> Iterator[Assigned]:
    """Variables of this command or of a process that holds a GPU, if no file explains them. Unreadable
    processes are findings of the checks of ranks and of jobs.
    """
    known = {(line.name, line.value) for line in of_files if line.why != _BEHIND}
    holders: dict[tuple[str, str], list[tuple[str, str]]] = {}
    try:
        of_gpus = [
            (f"/proc/{gpu_process.pid}/environ", gpu_process.label) for gpu_process in ranks.look(host).found
        ]
    except HostError as error:
        problems.append(str(error))
        of_gpus = []
    for path, label in ((_OWN, "this command"), *of_gpus):
        for name, value in _environment(host, path, problems):
            if (name, value) not in known:
                holders.setdefault((name, value), []).append((path, label))
    for (name, value), sources in holders.items():
        path, label = sources[0]
        more = f" and {len(sources) - 1} more" if sources[1:] else ""
        yield Assigned(name, value, path, f"{name}={value}", False, f"in the environment of {label}{more}")


def _environment(host: Host, path: str, problems: list[str]) -> Iterator[tuple[str, str]]:
    try:
        content = host.content(path) or b""
    except HostError as error:
        if not processes.is_gone(error):
            problems.append(str(error))
        return
    entries = content.split(b"\0")
    if inside.is_overwritten(entries):
        problems.append(f"cannot read {path}: {inside.OVERWRITTEN}")
        return
    for entry in entries:
        name, equals, value = entry.decode("utf-8", "surrogateescape").partition("=")
        if equals and environment.is_name(name) and name != _SECRET:
            yield name, value


def _mentioned(name: str, places: environment.Places) -> list[Assigned]:
    """The last line of /etc/environment counts; all others may count."""
    lines = []
    counts = places.certain(name)
    for mention in places.mentions(name):
        if mention.value is None:
            lines.append(
                Assigned(name, _said(mention, name), mention.where, mention.text.strip(), False, _MAYBE)
            )
        else:
            why = "" if mention == counts else _BEHIND
            lines.append(Assigned(name, mention.value, mention.where, mention.text.strip(), True, why))
    return lines


def _said(mention: Mention, name: str) -> str | None:
    """Value of a line of a shell, a service or pam_env; None if only its reader knows it."""
    behind = re.split(rf"(?<![A-Za-z0-9_$]){name}(?:=|\s+(?:DEFAULT|OVERRIDE)=|\s)", mention.text, maxsplit=1)
    match = _WORD.match(behind[1]) if len(behind) > 1 else None
    return next((part for part in match.groups() if part is not None), None) if match else None


def _conf(
    host: Host, path: str, certain: bool, why: str, problems: list[str], by: str = ""
) -> list[Assigned]:
    """Lines of a file that NCCL reads. by: the line that names the file; then it must exist."""
    try:
        if by and not host.exists(path):
            problems.append(f"{path} is not there, and {by} names it as {CONF_FILE}")
        text = host.text(path)
    except HostError as error:
        # Root's file is not another user's business.
        if not path.startswith(f"{_ROOT_HOME}/") or error.errno not in (errno.EACCES, errno.EPERM):
            problems.append(str(error))
        return []
    return list(_lines(path, text, certain, why))


def _lines(path: str, text: str, certain: bool, why: str) -> Iterator[Assigned]:
    seen: set[str] = set()
    yield from lost(path, text, certain)
    for line in file.parse(text).lines:
        if environment.is_name(line.name):
            behind = _BEHIND if line.name in seen else why
            where = f"{path}:{line.number}"
            yield Assigned(line.name, line.value, where, line.value, certain, behind)
            seen.add(line.name)


def lost(path: str, text: str, certain: bool = True) -> Iterator[Assigned]:
    """Lines of NCCL's file that it does not read, although they are meant to set a variable."""
    for number, row in enumerate(text.split("\n"), 1):
        meant = _MEANT.match(row)
        if meant and not environment.is_name(row.partition("=")[0]):
            yield Assigned(meant.group(1).upper(), None, f"{path}:{number}", row.strip(), certain, LOST)


def _in_force(lines: Sequence[Assigned]) -> list[Assigned]:
    """Lines of one variable in order of precedence. The first certain line hides all later ones."""
    behind = [line for line in lines if line.why in (_BEHIND, LOST)]
    certain = [line for line in lines if line.certain and line not in behind]
    first, rest = certain[:1], certain[1:]
    maybe = [line for line in lines if not line.certain and line not in behind]
    return [*first, *maybe, *(line._replace(why=_BEHIND) for line in rest), *behind]
