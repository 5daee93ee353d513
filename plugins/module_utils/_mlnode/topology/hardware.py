# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Topology of a node's hardware, from sysfs below the host's root: a captured tree gives the same result."""

from __future__ import annotations

from ..host.host import Host
from . import advice, cpus, distance, gpus, machine, nics, numa, pci, rails, rdma
from .management import MOUNTS
from .model import Topology
from .sysfs import Reader

__all__ = ["MOUNTS", "read", "topology"]


def topology(host: Host) -> Topology:
    """The topology, read once per run."""
    return host.once("topology", lambda: read(host))


def read(host: Host) -> Topology:
    """The topology. Missing or unreadable parts are listed in its problems; no state of a machine raises."""
    reader = Reader(host)
    kind = machine.read(reader)
    online = cpus.online(reader)
    nodes = numa.read(reader, online)
    processors = cpus.read(reader, online, nodes, in_container=kind.kind == "container")
    functions = pci.read(reader)
    devices = pci.by_address(functions)
    interfaces = nics.read(reader, devices)
    adapters = rdma.read(reader, interfaces, devices)
    interfaces = rdma.joined(interfaces, adapters)
    accelerators = gpus.find(functions)
    ports = distance.ports(interfaces, adapters, devices)
    matrix = distance.matrix(accelerators, ports, devices, nodes)
    chosen = rails.choose(ports, accelerators, matrix, devices, avoid=rails.management(reader, interfaces))
    interfaces, adapters = rails.numbered(interfaces, adapters, chosen)
    known = Topology(
        machine=kind,
        cpus=processors,
        nodes=nodes,
        pci=functions,
        nics=interfaces,
        rdma=adapters,
        gpus=accelerators,
        distances=matrix,
        bindings=advice.bindings(processors, nodes, accelerators, matrix, ports, chosen),
        problems=tuple(reader.problems),
    )
    return known._replace(warnings=advice.warnings(known, ports, devices))
