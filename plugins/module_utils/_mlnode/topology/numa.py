# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""NUMA nodes. Documentation/ABI/stable/sysfs-devices-node."""

from __future__ import annotations

import re

from ..model.record import regex
from .model import Node
from .reader import Reader

NODES = "/sys/devices/system/node"

_NODE = regex(r"node([0-9]{1,9})\Z", re.ASCII)
_TOTAL = regex(r"^Node [0-9]+ MemTotal: +([0-9]{1,18}) kB$", re.MULTILINE | re.ASCII)


def read(reader: Reader) -> tuple[Node, ...]:
    """The nodes that are online; none where the kernel was built without NUMA, which is noted."""
    folders = sorted(int(found[1]) for found in map(_NODE.match, reader.names(NODES, needed=False)) if found)
    # A capture may have the nodes without the list of them.
    if folders and reader.host.value(f"{NODES}/online").absent is not None:
        return tuple(_node(reader, number) for number in folders)
    return tuple(_node(reader, number) for number in reader.cpus(f"{NODES}/online"))


def _node(reader: Reader, number: int) -> Node:
    folder = f"{NODES}/node{number}"
    return Node(
        number,
        cpus=reader.cpus(f"{folder}/cpulist"),
        memory_kbytes=_memory(reader, f"{folder}/meminfo"),
        distances=_distances(reader, f"{folder}/distance"),
    )


def _memory(reader: Reader, path: str) -> int | None:
    text = reader.text(path)
    if text is None:
        return None
    match = _TOTAL.search(text)
    if match is None:
        reader.note(path, f"{path} has no row MemTotal")
        return None
    return int(match.group(1))


def _distances(reader: Reader, path: str) -> tuple[int, ...]:
    words = (reader.text(path) or "").split()
    if not all(re.match(r"[0-9]{1,9}\Z", word, re.ASCII) for word in words):
        reader.note(path, f"{path}: {' '.join(words)[:60]!r} is not a list of distances")
        return ()
    return tuple(int(word) for word in words)


def with_cpus(nodes: tuple[Node, ...]) -> tuple[Node, ...]:
    """Those that have CPUs: the memory of a GPU may be a node as well, as on Grace Hopper."""
    return tuple(node for node in nodes if node.cpus)


def nearest_with_cpus(nodes: tuple[Node, ...], number: int) -> Node | None:
    """The node itself if it has CPUs, else the nearest one that has; None where it is unknown."""
    by_number = {node.number: node for node in nodes}
    start = by_number.get(number)
    if start is None or start.cpus:
        return start
    if len(start.distances) != len(nodes):
        return None
    near = [(far, node.number) for far, node in zip(start.distances, nodes) if node.cpus]
    return by_number[min(near)[1]] if near else None
