# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kind nccl: variables of NCCL or RCCL in the file that every job reads when it starts.

The kernel is not involved. Runtime is the value for a job that starts now and reads only the file. Boot is
the value for a job with the environment of a login. Both are corrected by writing the file, which belongs to
the layer boot.
"""

from __future__ import annotations

import re
from typing import Mapping, Sequence

from ...engine import declared, edited_file
from ...engine.kind import Context, Facts, Info, Kind, Row
from ...host.host import Host
from ...model import accelerators, values
from ...model.errors import HostError
from ...model.record import NamedTuple
from ...model.schema import Checked, Option
from ...model.setting import Boot, BootFile, Reading, Setting, Severity, Value
from ...topology import hardware
from ..qos import files as qos_files
from . import auto, environment, file, names
from . import parse as nccl_parse
from . import schema as own
from .environment import Places
from .file import PATH, Conf, Line
from .parse import name_of

#: Modules that are loaded by name to write a shared file; this area adds them to the agent
BRINGS = (edited_file,)


#: Shown if nothing sets a variable
UNSET = "not set"

_ONLY_BOOT = "{} is of the layer boot: declare that, too"
#: Jobs of every user read the file: others need read permission for it, and search permission for its folder
_READ_BY_ALL, _PASSED_BY_ALL = 0o004, 0o001
_MODE = 0o644


class _Node(NamedTuple):
    """Data shared by one run's settings. path: the file. linked: its target if it is a link. closed: why
    users' jobs cannot read it, and the remedy; empty if they can.
    """

    context: Context
    path: str
    conf: Conf
    places: Places
    linked: str
    closed: str

    @property
    def host(self) -> Host:
        return self.context.host

    def where(self, line: Line) -> str:
        return f"{self.path}:{line.number}"


def _closed(host: Host, own: str) -> str:
    folder = own.rpartition("/")[0]
    for path, bit, sign in ((folder, _PASSED_BY_ALL, "x"), (own, _READ_BY_ALL, "r")):
        mode = host.mode(path)
        if mode is not None and not mode & bit:
            return (
                f"{path} has mode {mode:04o}, and NCCL passes over a file that a job's user cannot read: "
                f"chmod o+{sign} {path}"
            )
    return ""


def _judged(name: str, want: str, notes: Sequence[str], node: _Node) -> Reading:
    line = node.conf.effective(name)
    conflict = _conflict(name, want, node.host)
    texts = [*notes, _shadowed(name, want, node), _elsewhere(name, want, node), *node.places.problems]
    now = UNSET if line is None else _shown(line.value, want)
    return Reading(
        path=node.path,
        runtime=Value(text=f"{now}, for the file's owner only" if line is not None and node.closed else now),
        boot=Boot(Value(absent=conflict), auto.QOS, foreign=True) if conflict else _boot(name, want, node),
        want=want,
        blocked="" if node.context.boot else _ONLY_BOOT.format(node.path),
        refusal=_linked(node) or conflict,
        note="; ".join(text for text in texts if text),
    )


def _left_out(name: str, why: str, node: _Node) -> Reading:
    """Reading of a variable to leave out. A line of mlnode is removed; a foreign one stays and is noted."""
    theirs = node.conf.foreign(name)
    line = node.conf.effective(name)
    if theirs is not None and not any(item.name == name and item.owner for item in node.conf.lines):
        note = f"{why}; {node.where(theirs)} sets {theirs.value}"
        foreign_value = Value(text=theirs.value)
        return Reading(node.path, foreign_value, Boot(foreign_value, node.where(theirs)), note=note)
    boot = _boot(name, UNSET, node)
    if line is not None and not boot.foreign:
        boot = Boot(Value(absent=f"{node.where(line)} sets {line.value}, and it is {why}"), node.where(line))
    return Reading(
        path=node.path,
        runtime=Value(text=UNSET if line is None else line.value),
        boot=boot,
        want=UNSET,
        blocked="" if node.context.boot else _ONLY_BOOT.format(node.path),
        refusal=_linked(node),
        note=why,
    )


def _shown(value: str, want: str) -> str:
    """A differing value, spelled so that the difference can be seen: to NCCL, `106 ` and 0106 are not 106."""
    return f'"{value}"' if value != want and values.same(value, want) else value


def _boot(name: str, want: str, node: _Node) -> Boot:
    """Value for a job that starts from a login, where the environment comes first."""
    overridden = node.places.certain(name)
    if overridden is not None and overridden.value is not None and overridden.value != want:
        return Boot(Value(text=_shown(overridden.value, want)), overridden.where, foreign=True)
    line = node.conf.effective(name)
    if line is not None and node.closed and want != UNSET:
        return Boot(Value(absent=node.closed), node.where(line))
    if line is not None:
        return Boot(Value(text=_shown(line.value, want)), node.where(line))
    return Boot(
        Value(text=UNSET) if want == UNSET else Value(absent=f"{node.path} does not set it"), node.path
    )


def _shadowed(name: str, want: str, node: _Node) -> str:
    """Note on a foreign line with another value that is overridden."""
    theirs = node.conf.foreign(name)
    if theirs is None or theirs.value == want or theirs == node.conf.effective(name):
        return ""
    return f"{node.where(theirs)} sets {theirs.value}, which the line before it overrules"


def _elsewhere(name: str, want: str, node: _Node) -> str:
    """Lines of a shell or a service that may set the variable for some jobs."""
    others = [
        item.where
        for item in node.places.mentions(name)
        if item.value is None and not re.sub(r"[\s\"';]", "", item.text).endswith(f"{name}={want}")
    ]
    return f"jobs that start with {', '.join(others)} may have another value" if others else ""


def _linked(node: _Node) -> str:
    """Reason why a link is not written; empty if it is a regular file."""
    if not node.linked:
        return ""
    return (
        f"{node.path} is a link to {node.linked}, which mlnode does not write: write the variables there, or "
        "remove the link"
    )


def _conflict(name: str, want: str, host: Host) -> str:
    """Reason against a traffic class that the NICs are not configured for: RoCE packets may be dropped."""
    classes = auto.traffic_classes(host) if name == "NCCL_IB_TC" else {}
    if not classes or int(want) in classes:
        return ""
    listing = "; ".join(f"{number} by {', '.join(where)}" for number, where in classes.items())
    return f"NCCL_IB_TC is declared as {want}, and the traffic class of RoCE as {listing}: the two must agree"


# -- the file ------------------------------------------------------------------------------


def _path(context: Context) -> str:
    """An image does not show the GPUs of the machines that boot it."""
    return file.path_of(context.host) if context.runtime else PATH


def _is_closed(host: Host, path: str) -> bool:
    mode = host.mode(path)
    return mode is not None and not mode & _READ_BY_ALL


def _is_carried(row: Row) -> bool:
    """True if this run knows the right content of the line."""
    reading = row.reading
    return not reading.refusal and not reading.runtime.problem and reading.want not in (None, UNSET)


def _is_kept(row: Row, context: Context) -> bool:
    """True if the line stays as it is: a temporarily unknown value must not remove it."""
    reading = row.reading
    unresolved = row.setting.want is None and not context.runtime
    return unresolved or bool(reading.refusal) or reading.runtime.unreadable is not None


def _content(host: Host, conf: Conf, name: str, variables: Mapping[str, str]) -> bytes | None:
    """The file with these variables of a declaration; None if nothing is left."""
    # No other run removes the lines of a manually deleted declaration.
    gone = [owner for owner in conf.blocks if not host.exists(declared.path_of(owner))]
    return conf.having(name, variables, gone).encode("utf-8", "surrogateescape") or None


def _left(context: Context, name: str, path: str, declared_still: bool) -> list[BootFile]:
    """Files of other libraries without the declaration's block, which an image or earlier GPUs have left.
    Raises HostError."""
    host = context.host
    if declared_still and not (context.runtime and hardware.topology(host).gpus):
        return []
    files = []
    for other in {*accelerators.CONFS.values()} - {path}:
        try:
            conf = file.parse(host.text(other))
        except HostError:
            if declared_still:  # its jobs read the other file
                continue
            raise
        if name in conf.blocks and not host.is_link(other):
            files.append(BootFile(other, _content(host, conf, name, {})))
    return files


#: Variable → severity and reason
_REASONS: dict[str, tuple[Severity, str]] = {
    "NCCL_IB_HCA": (Severity.HIGH, "jobs use the rails only, never RDMA ports of management or storage"),
    "NCCL_SOCKET_IFNAME": (Severity.HIGH, "ranks whose interfaces have no way between them hang at start"),
    "NCCL_IB_GID_INDEX": (Severity.HIGH, "a wrong index is RoCE v1, or an address that no peer can reach"),
    "NCCL_IB_ADDR_FAMILY": (Severity.HIGH, "NCCL looks for IPv4, and finds no address on rails of IPv6"),
    "NCCL_IB_TC": (Severity.HIGH, "with another class RoCE travels in the queue that drops packets"),
    "NCCL_IB_TIMEOUT": (Severity.MEDIUM, "how long a link may be gone before the job ends with error 12"),
    "NCCL_DEBUG": (Severity.LOW, "errors appear in the job's output; INFO and TRACE cost time"),
}  # fmt: skip

#: Group → the words for all others
_GROUPS = {
    names.SYSTEM: "one of the variables by which NCCL follows the system",
    names.DEBUGGING: "for experiments and as a workaround: NCCL's guide advises against keeping it",
    names.UNDOCUMENTED: "NCCL reads it, and does not document it",
    names.GONE: "NCCL 2.30 reads it, and 2.32 does not",
    names.RCCL: "RCCL reads it, and NCCL does not",
}


class NcclKind(Kind):
    KIND = nccl_parse.KIND
    OPTIONS = own.OPTIONS
    #: A value may depend on the priorities of the fabric
    MOUNTS = qos_files.MOUNTS

    def parse(self, given: Checked, facts: Facts | None) -> list[Setting]:
        return nccl_parse.parse(given)

    def look(self, settings: Sequence[Setting], context: Context) -> _Node:
        """The file, and other sources of its variables."""
        host, path = context.host, _path(context)
        conf, linked = file.parse(host.text(path)), host.link_target(path)
        return _Node(context, path, conf, environment.read(host), linked, _closed(host, path))

    def read_one(self, setting: Setting, node: _Node) -> Reading:
        name, want = name_of(setting.key), setting.want
        if not node.context.runtime:
            if want is None:
                # For the machine that boots the image; a value from an earlier boot stays until then.
                return Reading(node.path, Value(), node.context.boot_by_agent(setting, None))
            return _judged(name, want, [], node)._replace(runtime=Value(), note="")
        if want is not None:
            return _judged(name, want, [auto.doubts(node.host, name, want)], node)
        answer = auto.resolve(node.host, name)
        if answer.problem.problem:
            return Reading(node.path, answer.problem, node.context.boot_by_agent(setting, None))
        if answer.value is None:
            return _left_out(name, answer.note, node)
        return _judged(name, answer.value, [answer.note], node)

    def boot_files(self, name: str, rows: Sequence[Row], context: Context) -> list[BootFile]:
        """The file with this declaration's block. Empty list if it cannot be read, or is not mlnode's to
        write.
        """
        path = _path(context)
        try:
            text, linked = context.host.text(path), context.host.is_link(path)
        except HostError:
            if rows:
                return []  # The rows explain why
            raise
        conf = file.parse(text)
        left = _left(context, name, path, bool(rows))
        if linked or (not rows and name not in conf.blocks):
            return left
        variables: dict[str, str] = {}
        for row in rows:
            variable = name_of(row.setting.key)
            kept = conf.own(variable, name)
            if _is_carried(row):
                variables[variable] = row.reading.want or ""
            elif _is_kept(row, context) and kept is not None:
                variables[variable] = kept.value
        # A foreign file may be closed on purpose; the row then has the remedy.
        whole = not conf.others.strip()
        closed = whole and _is_closed(context.host, path)
        content = _content(context.host, conf, name, variables)
        return [BootFile(path, content, mode=_MODE if closed else None), *left]

    def boot_sources(self, key: str, host: Host) -> list[str]:
        """Every line that sets the variable, in order of precedence: a variable in a job's environment
        overrides the file.
        """
        name = name_of(key)
        sources = [f"{item.where}: {item.text.strip()}" for item in environment.read(host).mentions(name)]
        path = file.path_of(host)
        lines = file.parse(host.text(path)).lines
        return sources + [f"{path}:{line.number}: {name}={line.value}" for line in lines if line.name == name]

    def option(self, key: str) -> Option:
        return self.OPTIONS["variables"]

    def info(self, key: str, runtime: Value) -> Info:
        """Severity and reason, with the NCCL version that introduced the variable."""
        info, name = super().info(key, runtime), name_of(key)
        known = names.KNOWN.get(name)
        other = _GROUPS[known.group] if known else "not a variable of any known version of NCCL"
        severity, reason = _REASONS.get(name, (info.severity, other))
        since = f" (NCCL {known.since} and later)" if known and known.since else ""
        return info._replace(severity=severity, reason=f"{reason}{since}")


kind = NcclKind()
