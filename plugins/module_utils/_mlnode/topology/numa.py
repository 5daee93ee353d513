# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""NUMA nodes. Documentation/ABI/stable/sysfs-devices-node."""

from __future__ import annotations

import re
from typing import Sequence

from ..model import cpulist
from ..model.record import regex
from .model import Node
from .sysfs import Reader

NODES = "/sys/devices/system/node"
_MEMINFO = "/proc/meminfo"

_NODE = regex(r"node([0-9]{1,9})\Z", re.ASCII)
_TOTAL = regex(r"^(?:Node [0-9]+ )?MemTotal: +([0-9]{1,18}) kB$", re.MULTILINE | re.ASCII)
#: Distance of a node to itself (include/linux/topology.h: LOCAL_DISTANCE)
_LOCAL = 10


def read(reader: Reader, online: tuple[int, ...]) -> tuple[Node, ...]:
    """The online nodes with their online CPUs.

    A kernel built without NUMA counts as one node with everything; its missing folder is noted.
    """
    folders = sorted(int(match[1]) for match in map(_NODE.match, reader.names(NODES, needed=False)) if match)
    # A captured tree may contain the nodes but not their list.
    if folders and reader.host.value(f"{NODES}/online").absent is not None:
        return _nodes(reader, folders, online)
    numbers = reader.cpus(f"{NODES}/online")
    if not numbers and online and not folders and not reader.exists(NODES):
        return (Node(0, online, _memory(reader, _MEMINFO), (_LOCAL,)),)
    return _nodes(reader, numbers, online)


def _nodes(reader: Reader, numbers: Sequence[int], online: tuple[int, ...]) -> tuple[Node, ...]:
    return tuple(_node(reader, number, online, len(numbers)) for number in numbers)


def _node(reader: Reader, number: int, online: tuple[int, ...], nodes: int) -> Node:
    folder = f"{NODES}/node{number}"
    cpus, awake = _cpus(reader, folder), {*online}
    return Node(
        number,
        # Some kernels keep an offlined CPU in the list of its node.
        cpus=tuple(cpu for cpu in cpus if cpu in awake) if awake else cpus,
        memory_kbytes=_memory(reader, f"{folder}/meminfo"),
        distances=_distances(reader, f"{folder}/distance", nodes),
    )


def _cpus(reader: Reader, folder: str) -> tuple[int, ...]:
    """CPUs from the list, or from the mask if a captured tree holds only the mask."""
    path = f"{folder}/cpumap"
    mask = reader.host.value(path).text if reader.host.value(f"{folder}/cpulist").absent is not None else None
    if mask is None:
        return reader.cpus(f"{folder}/cpulist")
    try:
        return cpulist.from_mask(mask.strip())
    except ValueError as error:
        reader.note(path, f"{path}: {error}")
        return ()


def _memory(reader: Reader, path: str) -> int | None:
    text = reader.text(path)
    if text is None:
        return None
    match = _TOTAL.search(text)
    if match is None:
        reader.note(path, f"{path} has no row MemTotal")
        return None
    return int(match.group(1))


def _distances(reader: Reader, path: str, nodes: int) -> tuple[int, ...]:
    fields = (reader.text(path) or "").split()
    if not all(re.match(r"[0-9]{1,9}\Z", field, re.ASCII) for field in fields):
        reader.note(path, f"{path}: {' '.join(fields)[:60]!r} is not a list of distances")
        return ()
    if len(fields) > nodes:
        # Unknown: which of the distances lead to the online nodes.
        reader.note(path, f"{path} has {len(fields)} distances, more than there are NUMA nodes ({nodes})")
        return ()
    return tuple(int(field) for field in fields)


def with_cpus(nodes: tuple[Node, ...]) -> tuple[Node, ...]:
    """Nodes with CPUs: GPU memory may be a node as well, as on Grace Hopper."""
    return tuple(node for node in nodes if node.cpus)


def home(nodes: tuple[Node, ...], number: int | None) -> Node | None:
    """Node whose CPUs serve a device on this node; None if unknown.

    If only one node has CPUs, it is that node, regardless of the firmware; else the device's own node, or the
    nearest node with CPUs.
    """
    computing = with_cpus(nodes)
    return computing[0] if len(computing) == 1 else _nearest(nodes, number, computing)


def with_memory(nodes: tuple[Node, ...], number: int) -> Node | None:
    """The nearest node with memory, which may be the node itself; None if unknown."""
    return _nearest(nodes, number, tuple(node for node in nodes if node.memory_kbytes != 0))


def apart(nodes: tuple[Node, ...], number: int | None, other: int | None) -> int | None:
    """Distance from one node to another; None if the firmware does not report it."""
    at = [node.number for node in nodes]
    if number not in at or other not in at:
        return None
    distances = nodes[at.index(number)].distances
    return distances[at.index(other)] if len(distances) == len(nodes) else None


def _nearest(nodes: tuple[Node, ...], number: int | None, among: tuple[Node, ...]) -> Node | None:
    """The nearest node; the lowest number if several are equally near."""
    if number in [node.number for node in among]:
        return next(node for node in among if node.number == number)
    known = [(apart(nodes, number, node.number), node) for node in among]
    near = [(far, node.number, node) for far, node in known if far is not None]
    return min(near)[2] if near else None
