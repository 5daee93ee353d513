# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Shape of an InfiniBand subnet from its links, and SHARP support of its switches."""

from __future__ import annotations

import re
from collections import Counter
from typing import Sequence

from ...model.record import NamedTuple, dataclass, field, regex
from ..model import Check, Subject
from . import reports, shape
from .reports import SUBNET, Link, Node, Port, SubnetError

#: Name of the SHARP device in a switch, and of the service of its manager
AGGREGATION_NODE = "Mellanox Technologies Aggregation Node"
_AGGREGATION_MANAGER = "SHArP.AggregationManager"

_SOURCE = "iblinkinfo"
#: As dump_service_record() of saquery.c writes it
_SERVICE = regex(r"\s*ServiceName\.+(\S{1,64})\s*\Z", re.ASCII)


class Cable(NamedTuple):
    """An active link between two switches, seen from the first. gbits: of all its lanes."""

    port: Port
    other: Port
    label: str
    other_label: str
    gbits: float


@dataclass
class Switch:
    """name: from _labels(). ends, down: ports of nodes on it, and Gb/s to them. cables: to other switches."""

    guid: str
    name: str
    lid: int = 0
    down: float = 0.0
    ends: list[shape.End] = field(default_factory=list)
    cables: list[Cable] = field(default_factory=list)

    @property
    def gbits(self) -> float:
        """Gb/s to other switches."""
        return sum(cable.gbits for cable in self.cables)


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
        other = ports.get(link.other) if link.other else None
        if link.other is not None and other is not None and link.is_up:
            if not link.gbits:
                raise SubnetError(f"iblinkinfo reports no rate of {link.label}, which is up: {link.text}")
            _add(switches, switch, port, link.gbits, link.other, other)
    return switches


def _add(
    switches: dict[str, Switch], switch: Switch, port: Port, gbits: float, far: Port, other: Link
) -> None:
    """Add an active link, from a port of a switch to the port at its far end."""
    peer = switches.get(far.guid)
    if peer:
        labels = f"{switch.name}/{port.number}", f"{peer.name}/{far.number}"
        switch.cables.append(Cable(port, far, *labels, gbits))
    elif other.name != AGGREGATION_NODE:
        switch.down += gbits
        node, _blank, device = other.name.rpartition(" ")
        switch.ends.append(shape.End(switch.name, node, device))


def leaves(switches: dict[str, Switch]) -> list[Switch]:
    """Switches whose cables to other switches lead up.

    A spine with a node on it, such as the subnet manager's, is excluded. It has less bandwidth to nodes than
    to switches. At least half of the latter leads to switches with more bandwidth to nodes than its own.
    """
    return [switch for switch in switches.values() if switch.down and not _is_spine(switch, switches)]


def _is_spine(switch: Switch, switches: dict[str, Switch]) -> bool:
    below = sum(cable.gbits for cable in switch.cables if switches[cable.other.guid].down > switch.down)
    return switch.down < switch.gbits <= below * 2


def checks(switches: dict[str, Switch], intended: float | None) -> list[Check]:
    """Checks of the shape. intended: declared ratio of bandwidth down to bandwidth up of a leaf."""
    ends = [end for switch in switches.values() for end in switch.ends]
    counted = []
    for leaf in leaves(switches):
        up: dict[str, list[float]] = {}
        for cable in leaf.cables:
            up.setdefault(switches[cable.other.guid].name, []).append(cable.gbits)
        counted.append(shape.Leaf(leaf.name, leaf.down, up))
    uplinks = Subject(shape.UPLINKS, SUBNET, _SOURCE)
    return [*_rails(ends), *shape.uplinks(counted, uplinks, intended)]


def _labels(nodes: Sequence[Node]) -> dict[str, str]:
    """GUID of each switch → its name; with the GUID if several share a name, such as a factory default."""
    switches = {node.guid: node.name for node in nodes if node.kind == "Switch"}
    counts = Counter(switches.values())
    return {guid: name if counts[name] == 1 else f"{name} 0x{guid}" for guid, name in switches.items()}


def _rails(ends: Sequence[shape.End]) -> list[Check]:
    nameless = sum(not end.node for end in ends)
    if nameless:
        why = f"ports without the name of a node and a device, which rdma-ndd gives them: {nameless}"
        return [Subject(shape.RAILS, SUBNET, _SOURCE).skip(why)]
    return shape.rails(ends, SUBNET, _SOURCE)


def sharp(text: str, nodes: Sequence[Node]) -> list[Check]:
    """SHARP check from saquery SR, the services registered with the subnet manager."""
    number = sum(node.name == AGGREGATION_NODE for node in nodes)
    services = {match.group(1) for match in map(_SERVICE.match, text.split("\n")) if match}
    runs = _AGGREGATION_MANAGER in services
    evidence = f"aggregation nodes: {number}; aggregation manager: {'registered' if runs else 'none'}"
    # Switches have these nodes whether or not jobs use them (NCCL_COLLNET_ENABLE).
    subject = Subject("sharp", SUBNET, "saquery SR")
    return [subject.judged(True, evidence) if runs else subject.skip(evidence)]
