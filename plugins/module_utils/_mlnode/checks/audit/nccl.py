# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Variables of NCCL that jobs of this node find, in any file or environment that sets one."""

from __future__ import annotations

from typing import Iterator

from ...host.host import Host
from ...knobs.nccl import jobs, lint
from ...model.errors import HostError, printable
from ...model.setting import Severity
from ...topology.model import Topology
from ...topology.nics import NETS
from ..model import Verdict
from . import model
from .model import AuditCheck, Topic

_GUIDE = "NCCL user guide, Environment Variables"

DISABLED = Topic(
    "nccl_disabled",
    Severity.HIGH,
    "a workaround of long ago in one file costs every job of this node most of its bandwidth",
    f"{_GUIDE}; src/graph/paths.cc (ncclGetLevel)",
)
DEVICES = Topic(
    "nccl_devices",
    Severity.HIGH,
    "jobs use fewer rails than the node has, IP sockets, or ports of management",
    f"{_GUIDE}; src/misc/utils.cc (matchIfList)",
)
VALUES = Topic(
    "nccl_values",
    Severity.MEDIUM,
    "NCCL reads another value than the file says, without a word at NCCL_DEBUG=WARN",
    f"{_GUIDE}; src/misc/param.cc (ncclLoadParam)",
)

_TOPICS = {lint.DISABLED: DISABLED, lint.DEVICES: DEVICES, lint.VALUES: VALUES}
NAMES = tuple(topic.name for topic in _TOPICS.values())

#: Where NCCL's own file is, of a finding about all files
_FILES = "/etc/nccl.conf and the files of environments"
_EXPECTED = {
    lint.DISABLED: "no variable takes away what the node has",
    lint.DEVICES: "lists mean all rails, and nothing else",
    lint.VALUES: "values as NCCL reads them",
}


def checks(host: Host, topology: Topology) -> Iterator[AuditCheck]:
    found = jobs.look(host)
    try:
        here = lint.node(topology, host.names(NETS))
    except HostError as error:
        for topic in _TOPICS.values():
            yield model.unknown(topic, str(error), error.path)
        return
    bad = lint.findings(found.possible, here)
    for kind, topic in _TOPICS.items():
        own = [one for one in bad if one.kind == kind]
        yield from (_finding(topic, one) for one in own)
        if found.problems:
            yield model.unknown(topic, printable("; ".join(found.problems)), _FILES)
        elif not own:
            yield _none(topic, found, _EXPECTED[kind])


def _finding(topic: Topic, one: lint.Finding) -> AuditCheck:
    """A line that only some jobs may find is a warning, and so is one that may be right here."""
    line = one.line
    why = f" ({line.why})" if line.why else ""
    text = f"{line.text if line.value is None else line.value}{why}: {one.problem}"
    sure = line.certain and one.sure and topic.severity is Severity.HIGH
    bad = Verdict.FAIL if sure else Verdict.WARN
    return model.made(
        topic, bad, printable(text), line.where, _EXPECTED[one.kind], line.name, printable(one.advice)
    )


def _none(topic: Topic, found: jobs.Jobs, expected: str) -> AuditCheck:
    names = sorted({line.name for line in found.possible if line.why != jobs.LOST})
    if not names:
        return model.told(topic, "no file sets a variable of NCCL", _FILES)
    return model.made(topic, Verdict.PASS, f"{len(names)} set: {', '.join(names)}", _FILES, expected)
