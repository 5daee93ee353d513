# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Variables of NCCL that jobs on this node get, from any file or environment."""

from __future__ import annotations

from typing import Iterator

from ...host.host import Host
from ...knobs.nccl import jobs, lint
from ...model.errors import printable
from ...model.record import replace
from ...model.setting import Severity
from ...topology.model import Topology
from ...topology.nics import NETS
from ..model import Check, Subject, Verdict
from .model import Looks, topic

_GUIDE = "NCCL user guide, Environment Variables"

#: Source of a finding about all files, among them NCCL's own
_FILES = "the file of NCCL or RCCL in /etc, and the files of environments"

DISABLED = topic(
    "nccl_disabled",
    Severity.HIGH,
    "a workaround of long ago in one file costs every job of this node most of its bandwidth",
    f"{_GUIDE}; src/graph/paths.cc (ncclGetLevel)",
    source=_FILES,
)
DEVICES = topic(
    "nccl_devices",
    Severity.HIGH,
    "jobs use fewer rails than the node has, IP sockets, or ports of management",
    f"{_GUIDE}; src/misc/utils.cc (matchIfList)",
    source=_FILES,
)
VALUES = topic(
    "nccl_values",
    Severity.MEDIUM,
    "NCCL reads another value than the file says, without a word at NCCL_DEBUG=WARN",
    f"{_GUIDE}; src/misc/param.cc (ncclLoadParam)",
    source=_FILES,
)

_TOPICS = {
    lint.DISABLED: replace(DISABLED, expected="no variable disables hardware of the node"),
    lint.DEVICES: replace(DEVICES, expected="lists mean all rails, and nothing else"),
    lint.VALUES: replace(VALUES, expected="values as NCCL reads them"),
}


def checks(host: Host, topology: Topology) -> Iterator[Check]:
    """Raises HostError."""
    variables = jobs.look(host)
    bad = lint.findings(variables.possible, lint.node(topology, host.names(NETS)))
    for kind, subject in _TOPICS.items():
        own = [finding for finding in bad if finding.kind == kind]
        yield from (_finding(subject, finding) for finding in own)
        if variables.problems:
            yield subject.unknown(printable("; ".join(variables.problems)), expected="")
        elif not own:
            yield _none(subject, variables)


def _finding(subject: Subject, finding: lint.Finding) -> Check:
    """Finding about one line. It warns if only some jobs get the line, or if the line may be right here."""
    line = finding.line
    why = f" ({line.why})" if line.why else ""
    text = f"{line.text if line.value is None else line.value}{why}: {finding.problem}"
    subject = replace(subject, target=line.name, source=line.where, advice=printable(finding.advice))
    bad = None if line.certain and finding.sure else Verdict.WARN
    return subject.judged(False, printable(text), bad=bad)


def _none(subject: Subject, variables: jobs.Jobs) -> Check:
    names = sorted({line.name for line in variables.possible if line.why != jobs.LOST})
    if not names:
        return subject.skip("no file sets a variable of NCCL")
    return subject.judged(True, f"{len(names)} set: {', '.join(names)}")


LOOKS: Looks = ((tuple(_TOPICS.values()), checks),)
