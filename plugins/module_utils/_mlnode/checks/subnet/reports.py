# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks of an InfiniBand subnet from the reports of infiniband-diags.

Formats: infiniband-diags/{ibnetdiscover,iblinkinfo,ibqueryerrors,sminfo}.c of rdma-core. An unknown line or
an incomplete report raises SubnetError, because its tool has not examined the whole subnet.
"""

from __future__ import annotations

import re
from typing import Sequence

from ...model.errors import MlnodeError
from ...model.record import NamedTuple, dataclass, regex, replace
from ..model import Check, Subject, Verdict

#: Target of a check that concerns no single port
SUBNET = "subnet"

#: First word of ibnetdiscover --list → name of its count
KINDS = {"Switch": "switches", "Ca": "hcas", "Router": "routers"}

#: As sminfo calls it
MASTER = "SMINFO_MASTER"
NO_MANAGER = "no subnet manager is the master: check that one runs (opensm, UFM, a switch), and read its log"

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

    text: its whole line. name, lid: of its node. gbits: 0 if the link is down. could: speed and width that
    both ends support and the link lacks. is_silent: the link is up, but its other end does not answer.
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
    r'0x([0-9a-f]{16}) " *(.*?)" +([0-9]{1,5}) +([0-9]{1,3})\[[ 0-9]*\] ==\((.*?)\)==> +'
    r'(?:0x([0-9a-f]{16}) +[0-9]{1,5} +([0-9]{1,3})\[[ 0-9]*\] "(.*)" \((.*)\)'
    r'|\[  \] "" \( \)|"(Port not available)")\Z',
    re.ASCII,
)


_SPEED = regex(r" *([0-9]{1,2})X +([0-9]{1,4}(?:\.[0-9]{1,3})?) Gbps", re.ASCII)


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
            state.replace(" ", "").endswith("Active/LinkUp"),
            Port(other, int(other_number)) if other else None,
            f"{other_name}/{other_number}",
            " ".join(could.replace("Could be", "").split()),
            bool(silent),
        )
    return links


def _gbits(state: str) -> float:
    """Gb/s of all lanes of a link; iblinkinfo prints the speed of one lane."""
    match = _SPEED.match(state)
    return int(match.group(1)) * float(match.group(2)) if match else 0


def links(text: str) -> list[Check]:
    """Checks from iblinkinfo --line, which prints each cable at both ends. Raises SubnetError."""
    known = ports(text.split("\n"))
    if not known:
        raise SubnetError("iblinkinfo reports no link")
    subject = Subject("links", SUBNET, "iblinkinfo", advice=_LINK)
    checks: dict[frozenset[Port | None], Check] = {}
    for port, link in known.items():
        if link.other and link.other not in known:
            raise SubnetError(f"iblinkinfo reports {link.label} - {link.other_label} at one end only")
        cable = frozenset((port, link.other))
        if link.is_silent:
            advice = "look at the node or switch at the other end of the cable"
            checks[cable] = subject.unknown(link.text, target=link.label, advice=advice)
        elif link.other and (link.could or not link.is_up):
            target, expected = f"{link.label} - {link.other_label}", link.could or "Active/LinkUp"
            checks.setdefault(cable, subject.judged(False, link.text, target=target, expected=expected))
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
        about = replace(subject, target=f"{link.label} - {link.other_label}", expected=was_)
        checks.setdefault(frozenset((port, link.other)), about.made(verdict, is_))
    return [*checks.values()] or [subject.judged(True, "no change")]


_NODE = regex(r'Errors for (?:0x[0-9a-f]{1,16} )?"(.*)"\Z', re.ASCII)
_COUNTERS = regex(r"   GUID 0x[0-9a-f]{1,16} port ([0-9]{1,3}|ALL): (\[.*\])\Z", re.ASCII)
_SUMMARY = regex(r"## Summary: ([0-9]+) nodes checked, ", re.ASCII)
_NO_ANSWER = regex(r"##\s+[0-9]+ PMA query failures\Z", re.ASCII)


def errors(text: str, nodes: int) -> list[Check]:
    """Checks from ibqueryerrors in a subnet with this many nodes. Raises SubnetError."""
    subject = Subject("errors", SUBNET, "ibqueryerrors", advice=_ERRORS, bad=Verdict.WARN)
    checks: list[Check] = []
    name, asked = "", "none"
    for line in filter(None, text.split("\n")):
        node, counters, summary = _NODE.match(line), _COUNTERS.match(line), _SUMMARY.match(line)
        if node:
            name = node.group(1)
        elif counters and counters.group(1) != "ALL":  # the sum of a switch, followed by its ports
            label, evidence = f"{name}/{counters.group(1)}", counters.group(2)
            checks.append(subject.judged(False, evidence, target=label))
        elif summary:
            asked = summary.group(1)
        elif _NO_ANSWER.match(line) or not (counters or line.startswith("## ")):
            raise SubnetError(f"ibqueryerrors reports {line[:80]!r}")
    if asked != str(nodes):  # it succeeds even if the subnet manager gives it no paths
        raise SubnetError(f"ibqueryerrors has asked {asked} of {nodes} nodes")
    return checks or [subject.judged(True, f"{nodes} nodes without a counter beyond its threshold")]
