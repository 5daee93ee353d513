# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the tools of infiniband-diags say of an InfiniBand subnet: nodes, cables, links, errors, its manager.

Formats: infiniband-diags/{ibnetdiscover,iblinkinfo,ibqueryerrors,sminfo}.c of rdma-core. Each reader refuses
what it does not know, and what has an end missing: a tool that was cut off, or could not reach a part of the
subnet, has not looked at it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Iterable, Mapping, NamedTuple

from .errors import MlnodeError

#: First letter of an identity in ibnetdiscover's text → what it is
KINDS = {"S": "switch", "H": "HCA", "R": "router"}


class SubnetError(MlnodeError):
    """A tool's text is not what that tool prints, or not all of it."""


class End(NamedTuple):
    """One end of a cable: a node by its GUID (16 hexadecimal digits), and a port of it."""

    node: str
    port: int


@dataclass(frozen=True)
class Node:
    """kind: one of the values of KINDS. name: what it calls itself."""

    kind: str
    name: str


@dataclass(frozen=True)
class Fabric:
    """Nodes by their GUIDs; each end with a cable → the other end; GUID of a port → its node."""

    nodes: Mapping[str, Node]
    ends: Mapping[End, End]
    owners: Mapping[str, str] = field(default_factory=dict)

    @property
    def cables(self) -> list[tuple[End, End]]:
        """Each once; the end that is no switch comes first, as people name the machine first."""
        once = {tuple(sorted((one, other), key=self._rank)) for one, other in self.ends.items()}
        return sorted((pair[0], pair[1]) for pair in once)

    def count(self, kind: str) -> int:
        return sum(node.kind == kind for node in self.nodes.values())

    def __str__(self) -> str:
        words = [f"{self.count('switch')} switches", f"{self.count('HCA')} HCAs"]
        words += [f"{self.count('router')} routers"] if self.count("router") else []
        return ", ".join([*words, f"{len(self.cables)} cables"])

    def _rank(self, end: End) -> tuple[bool, End]:
        return self.nodes[end.node].kind == "switch", end


def names(fabrics: Iterable[Fabric]) -> dict[str, str]:
    """GUID → what people call the node. Two of one name, as cards that nobody has named, get their GUIDs."""
    found: dict[str, str] = {}
    for fabric in fabrics:
        for guid, node in fabric.nodes.items():
            found.setdefault(guid, node.name)
    seen: dict[str, int] = {}
    for name in found.values():
        seen[name] = seen.get(name, 0) + 1
    return {guid: name if name and seen[name] == 1 else f"{name} (0x{guid})" for guid, name in found.items()}


# -- ibnetdiscover -------------------------------------------------------------------------

#: Switch	40 "S-fc6a1c0300b80040"		# "leaf1" enhanced port 0 lid 1 lmc 0
_NODE = re.compile(
    r'(?:Switch|Ca|Rt)\t[0-9]{1,3} "([SHR])-([0-9a-f]{16})"\t\t# "(.*)"(?: (?:base|enhanced) port 0 lid .*|'
    r" \(scp\))?\Z",
    re.ASCII,
)
#: [1](946dae0300d40011) 	"S-fc6a1c0300b80040"[1]		# lid 11 lmc 0 "leaf1" lid 1 4xNDR
_CABLE = re.compile(
    r'\[([0-9]{1,3})\](?:\(([0-9a-f]{1,16})\) )?\t"[SHR]-([0-9a-f]{16})"\[([0-9]{1,3})\]'
    r" ?(?:\([0-9a-f]{1,16}\) )?\t\t# .* [0-9?]{1,2}x[A-Z0-9?]{3,6}(?: .*)?\Z",
    re.ASCII,
)
#: switchguid=0xfc6a1c0300b80040(fc6a1c0300b80040): of the node, and of its port 0
_SWITCH = re.compile(r"switchguid=0x([0-9a-f]{1,16})\(([0-9a-f]{1,16})\)\Z", re.ASCII)
_IDENTITY = ("vendid=0x", "devid=0x", "sysimgguid=0x", "caguid=0x", "rtguid=0x")
#: Stands at the top, so that an answer without it is none
_BEGIN = "# Initiated from node "


def fabric(text: str) -> Fabric:
    """Of ibnetdiscover. Raises SubnetError."""
    nodes: dict[str, Node] = {}
    ends: dict[End, End] = {}
    owners: dict[str, str] = {}
    here = ""
    for line in text.split("\n"):
        node, cable, switch = _NODE.match(line), _CABLE.match(line), _SWITCH.match(line)
        if node:
            here = node.group(2)
            nodes[here] = Node(KINDS[node.group(1)], node.group(3).strip())
        elif cable and here:
            ends[End(here, int(cable.group(1)))] = End(cable.group(3), int(cable.group(4)))
            if cable.group(2):
                owners[cable.group(2).zfill(16)] = here
        elif switch:
            owners[switch.group(2).zfill(16)] = switch.group(1).zfill(16)
        elif line and not line.startswith(("#", *_IDENTITY)):
            raise SubnetError(f"ibnetdiscover says {_short(line)}, which is no line of a topology")
    if _BEGIN not in text or not nodes:
        raise SubnetError("ibnetdiscover names no node")
    for guid in {*nodes} - {end.node for end in ends}:
        # It was found over a cable.
        raise SubnetError(f"ibnetdiscover names no cable of 0x{guid}: it was cut off")
    for one, other in ends.items():
        if ends.get(other) != one:
            words = (
                f"names a cable from 0x{one.node}[{one.port}] to 0x{other.node}[{other.port}] at one end only"
            )
            raise SubnetError(f"ibnetdiscover {words}: it was cut off, or a node went away meanwhile")
    return Fabric(nodes, ends, owners)


# -- iblinkinfo ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Link:
    """A port as iblinkinfo sees it. could: the width and speed that both ends can do, "" if it has them.
    answers: false where the link is up and nobody at its other end says who it is."""

    state: str
    physical: str
    width: str = ""
    speed: str = ""
    could: str = ""
    other: tuple[str, int] | None = None
    answers: bool = True

    @property
    def up(self) -> bool:
        return self.state == "Active" and self.physical == "LinkUp"

    def __str__(self) -> str:
        return " ".join(filter(None, (self.width, self.speed, f"{self.state}/{self.physical}")))


#: 0xfc6a1c0300b80040 "                         leaf1"      1    3[  ] ==( 4X ... Active/  LinkUp)==>  0x...
_LINK = re.compile(
    r'0x([0-9a-f]{16}) "(.*)" +[0-9]{1,5} +([0-9]{1,3})\[[ 0-9]*\] ==\((.*)\)==>  (.*)\Z',
    re.ASCII,
)
_STATE = re.compile(r"(?: *([0-9?]+X) +(\S.*?) +)? *([A-Za-z?]+)/ *([A-Za-z?]+)\Z", re.ASCII)
_OTHER = re.compile(
    r'0x([0-9a-f]{16}) +[0-9]{1,5} +([0-9]{1,3})\[[ 0-9]*\] "(.*)" \((.*)\)\Z',
    re.ASCII,
)
_NO_CABLE = '[  ] "" ( )'
_SILENT = '"Port not available"'


def links(text: str) -> dict[tuple[str, int], Link]:
    """Of iblinkinfo --line: GUID and number of a port → its link. Raises SubnetError."""
    found: dict[tuple[str, int], Link] = {}
    for line in filter(None, text.split("\n")):
        whole = _LINK.match(line)
        state = _STATE.match(whole.group(4)) if whole else None
        other = _OTHER.match(whole.group(5)) if whole else None
        rest = whole.group(5).strip() if whole else ""
        if whole is None or state is None or (other is None and rest not in (_NO_CABLE, _SILENT)):
            raise SubnetError(f"iblinkinfo says {_short(line)}, which is no link")
        width, speed, logical, physical = state.groups()
        found[whole.group(1), int(whole.group(3))] = Link(
            logical,
            physical,
            width or "",
            speed or "",
            " ".join(other.group(4).replace("Could be", "").split()) if other else "",
            (other.group(1), int(other.group(2))) if other else None,
            rest != _SILENT,
        )
    if not found:
        raise SubnetError("iblinkinfo names no link")
    return found


# -- ibqueryerrors -------------------------------------------------------------------------


class Count(NamedTuple):
    """A counter's value. wide: it has 64 bits, and does not stop at its end."""

    value: int
    wide: bool


#: GUID 0xfc6a1c0300b80040 port 3: [SymbolErrorCounter == 17] [LinkDownedCounter == 2]
_ERRORS = re.compile(r"   GUID 0x([0-9a-f]{1,16}) port ([0-9]{1,3}|ALL):((?: \[[^\[\]]*\])+)\Z", re.ASCII)
#: Counters of 64 bits are shown a second time, as 17 (17.000)
_COUNT = re.compile(r"\[([A-Za-z0-9]+) == ([0-9]{1,20})( \([0-9.]+[A-Za-z]*\))?\]", re.ASCII)
_SUMMARY = re.compile(
    r"^## Summary: ([0-9]+) nodes checked, [0-9]+ bad nodes found$", re.MULTILINE | re.ASCII
)
_BAD_PORTS = re.compile(r"^##\s+[0-9]+ ports checked, ([0-9]+) ports have", re.MULTILINE | re.ASCII)
_FAILURES = re.compile(r"^##\s+([0-9]+) PMA query failures$", re.MULTILINE | re.ASCII)


def errors(text: str, nodes: int) -> dict[tuple[str, int], dict[str, Count]]:
    """Of ibqueryerrors with thresholds of 0, in a subnet of so many nodes: GUID and number of a port → its
    counters that are not 0. What it does not name is 0, which is why it has to have asked everybody. Raises
    SubnetError."""
    found: dict[tuple[str, int], dict[str, Count]] = {}
    for line in text.split("\n"):
        match = _ERRORS.match(line)
        if match:
            counts = _COUNT.findall(match.group(3))
            if len(counts) != match.group(3).count("["):
                raise SubnetError(f"ibqueryerrors says {_short(line)}, which are no counters")
            if match.group(2) != "ALL":  # the sum over a switch, whose ports follow
                key = match.group(1).zfill(16), int(match.group(2))
                found[key] = {name: Count(int(value), bool(wide)) for name, value, wide in counts}
        elif line and not line.startswith(("Errors for ", "## ", "##  ")):
            raise SubnetError(f"ibqueryerrors says {_short(line)}, which is no line of counters")
    summary, bad, failures = _SUMMARY.search(text), _BAD_PORTS.search(text), _FAILURES.search(text)
    if summary is None or bad is None:
        # It also ends like that, and with success, where the subnet manager gives it no paths.
        raise SubnetError(
            "ibqueryerrors does not say how many nodes it has asked: it was cut off, or could not"
        )
    if failures:
        raise SubnetError(f"ibqueryerrors had no answer to {failures.group(1)} queries")
    if int(summary.group(1)) != nodes or int(bad.group(1)) != len(found):
        words = f"{summary.group(1)} nodes and {bad.group(1)} ports with errors, of {nodes} and {len(found)}"
        raise SubnetError(f"ibqueryerrors has asked {words}")
    return found


# -- sminfo --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Manager:
    """The subnet manager: GUID of its port, and its state."""

    guid: str
    priority: int
    state: str

    @property
    def master(self) -> bool:
        return self.state == "SMINFO_MASTER"


_MANAGER = re.compile(
    r"sminfo: sm lid [0-9]{1,5} sm guid 0x([0-9a-f]{1,16}), activity count [0-9]{1,10} priority ([0-9]{1,3}) "
    r"state [0-9]{1,3} (\S{1,32})\s*\Z",
    re.ASCII,
)


def manager(text: str) -> Manager:
    """Of sminfo. Raises SubnetError."""
    match = _MANAGER.match(text)
    if match is None:
        raise SubnetError(f"sminfo says {_short(text)}, which is no subnet manager")
    return Manager(match.group(1).zfill(16), int(match.group(2)), match.group(3))


def _short(line: str) -> str:
    """A line of somebody else's, so long that it can still be read."""
    return repr(line[:80])
