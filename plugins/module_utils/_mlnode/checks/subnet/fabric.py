# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Shape of an InfiniBand subnet from its links, and whether its switches reduce for SHARP."""

from __future__ import annotations

import re
from collections import Counter
from typing import Sequence

from ...model.record import regex
from ..model import Check, Verdict, skip
from . import reports, shape
from .reports import SUBNET, Node

#: Name of the device in a switch that reduces for SHARP, and of the service of its manager
AGGREGATION_NODE = "Mellanox Technologies Aggregation Node"
_AGGREGATION_MANAGER = "SHArP.AggregationManager"

_SOURCE = "iblinkinfo"
#: As dump_service_record() of saquery.c writes it
_SERVICE = regex(r"\s*ServiceName\.+(\S{1,64})\s*\Z", re.ASCII)


def checks(text: str, nodes: Sequence[Node]) -> list[Check]:
    """The shape of it, of iblinkinfo --line. Raises SubnetError."""
    ports = reports.ports(text.split("\n"))
    labels = _labels(nodes)
    ends: list[shape.End] = []
    down = dict.fromkeys(labels, 0.0)
    up: dict[str, dict[str, list[float]]] = {guid: {} for guid in labels}
    for port, link in ports.items():
        other = ports.get(link.other) if link.other else None
        if port.guid not in labels or link.other is None or other is None or not link.is_up:
            continue
        if link.other.guid in labels:
            up[port.guid].setdefault(labels[link.other.guid], []).append(link.gbits)
        elif other.name != AGGREGATION_NODE:
            down[port.guid] += link.gbits
            node, _blank, device = other.name.rpartition(" ")
            ends.append(shape.End(labels[port.guid], node, device))
    leaves = [shape.Leaf(labels[guid], down[guid], up[guid]) for guid in labels if down[guid]]
    return [*_rails(ends), *shape.uplinks(leaves, SUBNET, _SOURCE)]


def _labels(nodes: Sequence[Node]) -> dict[str, str]:
    """GUID of each switch → its name; with the GUID where several have one name, as from the factory."""
    switches = {node.guid: node.name for node in nodes if node.kind == "Switch"}
    counts = Counter(switches.values())
    return {guid: name if counts[name] == 1 else f"{name} 0x{guid}" for guid, name in switches.items()}


def _rails(ends: Sequence[shape.End]) -> list[Check]:
    nameless = sum(not end.node for end in ends)
    if nameless:
        found = f"ports without the name of a node and a device, which rdma-ndd gives them: {nameless}"
        return [skip(shape.RAILS, SUBNET, found, _SOURCE)]
    return shape.rails(ends, SUBNET, _SOURCE)


def sharp(text: str, nodes: Sequence[Node]) -> list[Check]:
    """Of saquery SR, the services that have registered with the subnet manager."""
    source = "saquery SR"
    number = sum(node.name == AGGREGATION_NODE for node in nodes)
    services = {match.group(1) for match in map(_SERVICE.match, text.split("\n")) if match}
    runs = _AGGREGATION_MANAGER in services
    found = f"aggregation nodes: {number}; aggregation manager: {'registered' if runs else 'none'}"
    # Switches have the nodes whether or not jobs use them (NCCL_COLLNET_ENABLE).
    return [Check("sharp", SUBNET, Verdict.PASS if runs else Verdict.SKIP, "", found, source)]
