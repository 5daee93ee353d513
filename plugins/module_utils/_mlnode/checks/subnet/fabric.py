# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Shape of an InfiniBand subnet from its links, and SHARP support of its switches."""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import Sequence

from ...model.errors import listed
from ...model.record import NamedTuple, dataclass, field, regex
from ..model import Check, Subject, Verdict
from . import reports, shape
from .reports import SUBNET, Link, Node, Port

#: Name of the SHARP device in a switch, and of the service of its manager
AGGREGATION_NODE = "Mellanox Technologies Aggregation Node"
_AGGREGATION_MANAGER = "SHArP.AggregationManager"

_SOURCE = "iblinkinfo"
#: Hostname and device: HCA-1 of old scripts, or a name of the kernel, of rdma_rename or of the site, such as
#: mlx5_0, ibp193s0, roceP1p3s0 and rail0. A factory name has more words, or ends with a chip: Intel E810,
#: Broadcom 57608, ConnectX7. A short word with three digits and more may be a chip as well (bcm57608)
_NAMED = regex(
    r"(?!MT[0-9]{3,6} )(\S{1,64}) (HCA-?[0-9]{1,3}"
    r"|(?!connectx|bluefield|infinihost|[a-z]{1,4}-?[0-9]{3,}[a-z]?\Z)[a-z]{2}\S{0,60}[0-9]\S{0,60})\Z",
    re.ASCII,
)
#: As dump_service_record() of saquery.c writes it
_SERVICE = regex(r"\s*ServiceName\.+(\S{1,64})\s*\Z", re.ASCII)


class Cable(NamedTuple):
    """An active link between two switches, seen from the first. gbits: of all its lanes, nan if unknown."""

    port: Port
    other: Port
    label: str
    other_label: str
    gbits: float


@dataclass
class Switch:
    """name: from _labels(). ends, down: ports of nodes on it, and Gb/s to them. cables: to other switches.

    unread: texts of the links whose speed or other end is not known. silent: Gb/s of the ports without an
    answer from their other end.
    """

    guid: str
    name: str
    lid: int = 0
    down: float = 0.0
    ends: list[shape.End] = field(default_factory=list)
    cables: list[Cable] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)
    silent: float = 0.0


def read(text: str, nodes: Sequence[Node]) -> dict[str, Switch]:
    """Switches by GUID, from iblinkinfo --line: their active links, with the current rate of each.

    Raises SubnetError.
    """
    ports = reports.ports(text.split("\n"))
    switches = {guid: Switch(guid, name) for guid, name in _labels(nodes).items()}
    for port, link in ports.items():
        switch = switches.get(port.guid)
        if switch is None:
            continue
        switch.lid = link.lid
        if link.is_silent and math.isnan(link.gbits):
            switch.unread.append(f"{reports.NOT_UNDERSTOOD}: {link.text}")
        elif link.is_silent:
            switch.silent += link.gbits
        elif link.other is not None and link.is_up:
            _add(switches, switch, port, link, link.other, ports.get(link.other))
    return switches


def _add(
    switches: dict[str, Switch], switch: Switch, port: Port, link: Link, far: Port, other: Link | None
) -> None:
    """Add an active link, from a port of a switch to the port at its far end."""
    peer = switches.get(far.guid)
    if other is not None and other.name == AGGREGATION_NODE:
        return
    if other is None or math.isnan(link.gbits):
        switch.unread.append(f"{reports.NOT_UNDERSTOOD if other else 'at one end only'}: {link.text}")
    if peer:
        labels = f"{switch.name}/{port.number}", f"{peer.name}/{far.number}"
        switch.cables.append(Cable(port, far, *labels, link.gbits))
    elif other is not None:
        switch.down += link.gbits
        switch.ends.append(shape.End(switch.name, *_parts(other.name), far))


def leaves(switches: dict[str, Switch]) -> list[Switch]:
    """Switches whose cables to other switches lead up.

    A spine with a node on it, such as the subnet manager's, is excluded. It has fewer links to nodes than to
    switches. At least half of the latter leads to switches with more nodes. Speeds do not matter: one may be
    unknown.
    """
    return [switch for switch in switches.values() if switch.ends and not _is_spine(switch, switches)]


def _is_spine(switch: Switch, switches: dict[str, Switch]) -> bool:
    nodes, cables = len(switch.ends), switch.cables
    below = sum(len(switches[cable.other.guid].ends) > nodes for cable in cables)
    return nodes < len(cables) <= below * 2


def checks(switches: dict[str, Switch], intended: float | None) -> list[Check]:
    """Checks of the shape. intended: declared ratio of bandwidth down to bandwidth up of a leaf."""
    ends = [end for switch in switches.values() for end in switch.ends]
    counted = []
    for leaf in leaves(switches):
        up: dict[str, list[float]] = {}
        for cable in leaf.cables:
            up.setdefault(switches[cable.other.guid].name, []).append(cable.gbits)
        counted.append(shape.Leaf(leaf.name, leaf.down, up, leaf.unread, leaf.silent))
    uplinks = Subject(shape.UPLINKS, SUBNET, _SOURCE)
    return [*_rails(ends), *shape.uplinks(counted, uplinks, intended)]


def _labels(nodes: Sequence[Node]) -> dict[str, str]:
    """GUID of each switch → its name; with the GUID if several share a name, such as a factory default."""
    switches = {node.guid: node.name for node in nodes if node.kind == "Switch"}
    counts = Counter(switches.values())
    return {guid: name if counts[name] == 1 else f"{name} 0x{guid}" for guid, name in switches.items()}


def _parts(name: str) -> tuple[str, str]:
    """Node and device of a description as rdma-ndd writes it (`%h %d`); empty for a name from the factory,
    such as `MT4129 ConnectX7   Mellanox Technologies`.
    """
    match = _NAMED.match(name)
    return (match.group(1), match.group(2)) if match else ("", "")


def _rails(ends: Sequence[shape.End]) -> list[Check]:
    """Rails by the names of ports. A port whose name is unset, or shared with another port, takes no part."""
    names = Counter((end.node, end.device, end.port.number) for end in ends if end.port)
    named: list[shape.End] = []
    nameless: list[str] = []
    for end in ends:
        if end.node and end.port and names[end.node, end.device, end.port.number] == 1:
            named.append(end)
        else:
            nameless.append(str(end))
    checks = shape.rails(named, SUBNET, _SOURCE)
    if nameless and not any(check.verdict is Verdict.WARN for check in checks):
        why = f"ports without the name of a node and a device, which rdma-ndd gives them: {len(nameless)}"
        why += f" ({listed(nameless, 4)}); the others: {checks[0].found}"
        return [Subject(shape.RAILS, SUBNET, _SOURCE).skip(why)]
    return checks


def sharp(text: str, nodes: Sequence[Node]) -> list[Check]:
    """SHARP check from saquery SR, the services registered with the subnet manager."""
    number = sum(node.name == AGGREGATION_NODE for node in nodes)
    services = {match.group(1) for match in map(_SERVICE.match, text.split("\n")) if match}
    runs = _AGGREGATION_MANAGER in services
    evidence = f"aggregation nodes: {number}; aggregation manager: {'registered' if runs else 'none'}"
    # Switches have these nodes whether or not jobs use them (NCCL_COLLNET_ENABLE).
    subject = Subject("sharp", SUBNET, "saquery SR")
    return [subject.judged(True, evidence) if runs else subject.skip(evidence)]
