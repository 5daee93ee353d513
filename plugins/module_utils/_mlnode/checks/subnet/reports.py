# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks of an InfiniBand subnet from the reports of infiniband-diags.

Formats: infiniband-diags/{ibnetdiscover,iblinkinfo,ibqueryerrors,sminfo}.c of rdma-core. An unknown line or
an incomplete report raises SubnetError, because its tool has not examined the whole subnet.
"""

from __future__ import annotations

import math
import re
from typing import Mapping, Sequence

from ...model.errors import MlnodeError, listed
from ...model.record import NamedTuple, dataclass, regex, replace
from ..model import Check, Subject, Verdict
from ..rdma_values import LANES

#: Target of a check that concerns no single port
SUBNET = "subnet"

#: First word of ibnetdiscover --list → name of its count
KINDS = {"Switch": "switches", "Ca": "hcas", "Router": "routers"}

#: As sminfo calls it
MASTER = "SMINFO_MASTER"
NO_MANAGER = "no subnet manager is the master: check that one runs (opensm, UFM, a switch), and read its log"

NOT_UNDERSTOOD = "a speed or width that is not understood"

LOOK = "load ib_umad, look from a port with a cable into the subnet, and run the tool by hand as root"
_NAMED = 4
_SILENT = "look at the node or switch at the other end of the cable"
_SPEED_ADVICE = "look at the port with ibportstate LID PORT, and at the version of infiniband-diags"
_LINK = "reseat or replace the cable or transceiver if it is Active; if not, look at the subnet manager's log"
_CHANGE = "look at the cable and at both ends; if the change was meant, accept it with baseline: reset"
_ERRORS = (
    "clean or replace the cable or transceiver, or try another switch port; after that ibclearerrors. "
    "Thresholds: /etc/infiniband-diags/error_thresholds"
)


class SubnetError(MlnodeError):
    """A report that is incomplete, or in a format its tool does not write."""


class Port(NamedTuple):
    """GUID of a port, which all ports of a switch share, and its number."""

    guid: str
    number: int


@dataclass(frozen=True)
class Link:
    """A port from iblinkinfo.

    text: its whole line. name, lid: of its node. gbits: 0 if the link is down, nan for a speed or width that
    is not understood. could: speed and width that both ends support and the link lacks. is_silent: the link
    is up, but its other end does not answer.
    """

    text: str
    label: str
    name: str
    lid: int
    gbits: float
    is_up: bool
    other: Port | None
    other_label: str
    could: str
    is_silent: bool

    @property
    def cable(self) -> str:
        return f"{self.label} - {self.other_label}"


class Node(NamedTuple):
    """kind: a key of KINDS. guid: of the node; a switch's ports have the same, a host's ports do not."""

    kind: str
    guid: str
    name: str


_LISTED = regex(
    r'(\w{1,10})\t : 0x([0-9a-f]{16}) ports [0-9]{1,5} devid \S{1,20} vendid \S{1,20} "(.*)"\Z', re.ASCII
)


def nodes(text: str) -> list[Node]:
    """Nodes from ibnetdiscover --list. Raises SubnetError."""
    members = []
    for line in filter(None, text.split("\n")):
        match = _LISTED.match(line)
        if match is None or match.group(1) not in KINDS:
            raise SubnetError(f"ibnetdiscover reports {line[:80]!r}, which is not a node")
        members.append(Node(*match.groups()))
    if not members:
        raise SubnetError("ibnetdiscover reports no node")
    return members


def counts(nodes: Sequence[Node]) -> dict[str, int]:
    """Number of nodes by kind."""
    numbers = dict.fromkeys(KINDS.values(), 0)
    for node in nodes:
        numbers[KINDS[node.kind]] += 1
    return numbers


def manager(text: str) -> list[Check]:
    """Check of the manager from sminfo, which may report that none answered. Raises SubnetError."""
    fields = text.split()
    if fields[:1] != ["sminfo:"]:
        raise SubnetError(f"sminfo reports {text[:80]!r}, which is not a subnet manager")
    subject = Subject("manager", SUBNET, "sminfo", MASTER, NO_MANAGER)
    return [subject.judged(fields[-1] == MASTER, " ".join(fields))]


# Nodes choose their names freely. The first name matches as little and the second as much as possible, so
# that a name cannot change the rest of the line.
_PORT = regex(
    r'0x([0-9a-f]{16}) " *(.*?)" +([0-9]{1,5}) +([0-9]{1,3})\[[ 0-9]*\] ==\(([^"]*?)\)==> +'
    r'(?:0x([0-9a-f]{16}) +[0-9]{1,5} +([0-9]{1,3})\[[ 0-9]*\] "(.*)" \((.*)\)'
    r'|\[  \] "" \( \)|"(Port not available)")\Z',
    re.ASCII,
)


#: Lanes, and the speed of one: a number, or a name as ibnetdiscover prints it (libibmad/dump.c,
#: ibnd_dump_agg_linkspeedext), before the state. The rest, such as `Extended speed`, `undefined (64)` and
#: several speeds with `or`, is not understood
_SPEED = regex(
    rf" *(1|2|4|8|12)[Xx] *(?:([0-9]{{1,5}}(?:\.[0-9]{{1,9}})?) *Gb(?:ps|/s)|({'|'.join(LANES)}))"
    r"(?: +\([A-Z0-9]{1,9}\))? +[^ /]{1,40}/ *[^ /]{1,40}\Z",
    re.ASCII,
)


def ports(lines: Sequence[str]) -> dict[Port, Link]:
    """Ports from iblinkinfo --line. Raises SubnetError."""
    links: dict[Port, Link] = {}
    for line in filter(None, lines):
        match = _PORT.match(line)
        if match is None:
            raise SubnetError(f"iblinkinfo reports {line[:80]!r}, which is not a link")
        guid, name, lid, number, state, other, other_number, other_name, could, silent = match.groups("")
        port = Port(guid, int(number))
        if port in links:
            raise SubnetError(f"iblinkinfo reports port {number} of 0x{guid} twice")
        links[port] = Link(
            " ".join(line.split()),
            f"{name}/{number}",
            name,
            int(lid),
            _gbits(state),
            _is_up(state),
            Port(other, int(other_number)) if other else None,
            f"{other_name}/{other_number}",
            " ".join(could.replace("Could be", "").split()),
            bool(silent),
        )
    return links


def _is_up(state: str) -> bool:
    return state.replace(" ", "").endswith("Active/LinkUp")


def _gbits(state: str) -> float:
    """Gb/s of all lanes of a link; iblinkinfo prints the speed of one lane."""
    match = _SPEED.match(state)
    if match is None:
        return math.nan if _is_up(state) else 0
    lanes, number, generation = match.groups()
    return int(lanes) * (float(number) if number else LANES[generation]) or math.nan


def links(text: str, is_partial: bool = False) -> list[Check]:
    """Checks from iblinkinfo --line, which prints each cable at both ends. Raises SubnetError.

    is_partial: queries of the scan had no answer, so that an end may be missing.
    """
    known = ports(text.split("\n"))
    if not known:
        raise SubnetError("iblinkinfo reports no link")
    subject = Subject("links", SUBNET, "iblinkinfo", advice=_LINK)
    checks: dict[frozenset[Port | None], Check] = {}
    for port, link in known.items():
        if link.other and link.other not in known and not is_partial:
            raise SubnetError(f"iblinkinfo reports {link.cable} at one end only")
        cable, both = frozenset((port, link.other)), replace(subject, target=link.cable)
        if link.is_silent:
            checks[cable] = subject.unknown(link.text, target=link.label, advice=_SILENT)
        elif link.other and (link.could or not link.is_up):
            checks.setdefault(cable, both.judged(False, link.text, expected=link.could or "Active/LinkUp"))
        elif link.other and link.other not in known:
            checks[cable] = both.unknown(f"at one end only: {link.text}", advice=_SILENT)
        elif link.other and math.isnan(link.gbits):
            checks[cable] = both.unknown(f"{NOT_UNDERSTOOD}: {link.text}", advice=_SPEED_ADVICE)
    ends = sum(link.other is not None for link in known.values())
    good = f"{ends // 2} cables Active, as fast and wide as both ends can be"
    return [*checks.values()] or [subject.judged(True, good)]


def topology(text: str, source: str) -> list[Check]:
    """Checks from iblinkinfo --line --diff: a missing or moved cable fails, a new one warns.

    Raises SubnetError.
    """
    sides: dict[str, list[str]] = {"< ": [], "> ": []}
    for line in filter(None, text.split("\n")):
        if line[:2] not in sides:
            raise SubnetError(f"iblinkinfo reports {line[:80]!r}, which is not a difference")
        sides[line[:2]].append(line[2:])
    was, now = ports(sides["< "]), ports(sides["> "])
    subject = Subject("topology", SUBNET, source, advice=_CHANGE)
    checks: dict[frozenset[Port | None], Check] = {}
    # Ports that are on both sides first: for a missing or new node, only one side is reported.
    for port in sorted({**was, **now}, key=lambda port: port not in was or port not in now):
        before, after = was.get(port), now.get(port)
        link = before if before and before.other else after
        if link is None or link.other is None:
            continue  # a port without a cable, on a missing or new switch
        verdict = Verdict.FAIL if link is before else Verdict.WARN
        was_, is_ = (state.text if state else "no such node" for state in (before, after))
        about = replace(subject, target=link.cable, expected=was_)
        if after and after.is_silent:
            about, verdict = replace(about, advice=_SILENT), Verdict.UNKNOWN
        checks.setdefault(frozenset((port, link.other)), about.made(verdict, is_, advice=about.advice))
    return [*checks.values()] or [subject.judged(True, "no change")]


class Unanswered(NamedTuple):
    """A query without an answer. path: direct route from the reading node, as port numbers. attribute: of
    the subnet manager's queries, such as NODE_INFO."""

    path: str
    attribute: int
    text: str


#: Attribute of the first query to a node, which finds it (IB_ATTR_NODE_INFO)
NODE_INFO = 0x11
#: Attribute of a vendor that shows FDR10 alone (IB_ATTR_MLNX_EXT_PORT_INFO). A node without it refuses, and
#: the scan has all the rest of its port
_EXTENDED = 0xFF90
#: As libibnetdisc/query_smp.c writes it, process_one_recv(); the path as libibmad/portid.c has it
_UNANSWERED = regex(
    r"\S{0,200}query_smp\.c:[0-9]{1,6}; (u?)mad "
    r"\((?:DR path slid [0-9]{1,5}; dlid [0-9]{1,5}; ([0-9,]{1,255})"
    r"|[^()]{1,120}) Attr 0x([0-9a-f]{1,4}):[0-9]{1,10}\) bad status .{1,80}\Z",
    re.ASCII,
)


#: About a number that the report has as `undefined (32)`, and a second answer of a port, which the scan knows
#: by then (libibnetdisc/ibnetdisc.c: add_to_portguid_hash)
_HARMLESS = regex(
    r"ibwarn: \[[0-9]+\] mad_dump_linkwidth: bad width [0-9]+\Z"
    r"|\S{0,200}ibnetdisc\.c:[0-9]{1,6}; (?:Duplicate (?:Node: Node|Port: Port) with guid 0x[0-9a-f]{1,16} "
    r"|Error Occurred when trying to insert new (?:node|port) guid 0x[0-9a-f]{1,16} to DB\Z)",
    re.ASCII,
)


def unanswered(tool: str, err: str) -> list[Unanswered]:
    """Queries that a scan reports as unanswered, on standard error; it goes on with the rest.

    Raises SubnetError for any other error.
    """
    queries = []
    for line in filter(None, map(str.strip, err.split("\n"))):
        match = _UNANSWERED.match(line)
        if match is None and _HARMLESS.match(line):
            continue
        if match is None:
            raise SubnetError(f"{tool} could not look at all of it: {line[-300:]}")
        lost, path, attribute = match.groups("")
        if lost or int(attribute, 16) != _EXTENDED:
            queries.append(Unanswered(path, int(attribute, 16), line[-300:]))
    return queries


def silence(queries: Sequence[Unanswered], links: Mapping[Port, Link]) -> list[Check]:
    """Unanswered queries that no silent port of the report explains.

    A node that does not answer the first query leaves the port before it silent: the last of the path.
    """
    silent = {str(port.number) for port, link in links.items() if link.is_silent}
    subject = Subject("topology", SUBNET, "ibnetdiscover", advice=_SILENT)
    return [
        subject.unknown(query.text, target=f"path {query.path or SUBNET}", advice=_SILENT)
        for query in queries
        if query.attribute != NODE_INFO or query.path.rpartition(",")[2] not in silent
    ]


_NODE = regex(r'Errors for (?:0x[0-9a-f]{1,16} )?"(.*)"\Z', re.ASCII)
_COUNTERS = regex(r"   GUID 0x[0-9a-f]{1,16} port ([0-9]{1,3}|ALL): \[.*\]\Z", re.ASCII)
_SUMMARY = regex(r"## Summary: ([0-9]+) nodes checked, ", re.ASCII)
_NO_ANSWER = regex(r"##\s+([0-9]{1,9}) PMA query failures\Z", re.ASCII)
#: Warnings as of ibqueryerrors.c, `classportinfo query failed on gpu003 mlx5_0, Lid 8 port 1`, and those of
#: libibmad/rpc.c before them, which name no port
_FAILED = regex(
    r"ibwarn: \[[0-9]+\] \w+: \w+ query failed on (.*), ([^,]{1,60}) port ([0-9]{1,3})\Z", re.ASCII
)
_BEFORE = regex(r"ibwarn: \[[0-9]+\] (?:mad_rpc: )?_do_madrpc(?::| failed;) .*\Z", re.ASCII)


def errors(text: str, nodes: int, err: str = "") -> list[Check]:
    """Checks from ibqueryerrors in a subnet with this many nodes. err: its standard error.

    A port that did not answer is unknown, and so is the rest if the report has not all nodes.
    """
    subject = Subject("errors", SUBNET, "ibqueryerrors", advice=_ERRORS, bad=Verdict.WARN)
    checks: list[Check] = []
    lines = [*filter(None, map(str.strip, err.split("\n")))]
    failed = [match for match in map(_FAILED.match, lines) if match]
    problems = [line for line in lines if not _FAILED.match(line) and not (failed and _BEFORE.match(line))]
    name, asked, failures = "", "none", 0
    for line in filter(None, text.split("\n")):
        node, counters, summary = _NODE.match(line), _COUNTERS.match(line), _SUMMARY.match(line)
        no_answer = _NO_ANSWER.match(line)
        if node:
            name = node.group(1)
        elif counters and counters.group(1) != "ALL":  # the sum of a switch, followed by its ports
            checks.append(subject.judged(False, line.strip(), target=f"{name}/{counters.group(1)}"))
        elif summary:
            asked = summary.group(1)
        elif no_answer:
            failures = int(no_answer.group(1))
        elif not (counters or line.startswith("## ")):
            problems.append(f"it reports {line[:80]!r}")
    if failures > len(failed):
        problems.append(f"{failures} PMA query failures, {len(failed)} of them with a port")
    if asked != str(nodes):  # it succeeds even if the subnet manager gives it no paths
        problems.append(f"ibqueryerrors has asked {asked} of {nodes} nodes")
    for port, evidence in {match.groups(): match.group() for match in failed}.items():
        checks.append(subject.unknown(evidence[-300:], target=f"{port[0]}/{port[2]}", advice=_SILENT))
    checks += [subject.unknown(listed(problems, _NAMED), advice=LOOK)] if problems else []
    return checks or [subject.judged(True, f"{nodes} nodes without a counter beyond its threshold")]
