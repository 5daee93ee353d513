# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""GPUs of a job's processes, and the NICs and NUMA nodes next to them."""

from __future__ import annotations

from typing import Mapping, Sequence

from ...linux import ranks as rank_files
from ...linux import uverbs
from ...model.record import NamedTuple
from ...topology import numa
from ...topology.model import Topology
from ..audit import ranks as rank_checks
from .model import Node, Place

_RDMA = "/dev/infiniband/"


class Home(NamedTuple):
    """gpus: addresses. nics: interfaces, or RDMA devices without one, nearest to the GPUs; without a GPU the
    only open RDMA device. nodes: NUMA nodes of the GPUs, or else of the NICs; None if one is
    unknown."""

    gpus: tuple[str, ...]
    nics: tuple[str, ...]
    nodes: tuple[int, ...] | None

    @property
    def words(self) -> str:
        if self.gpus:
            return f"GPU{'s' if len(self.gpus) > 1 else ''} {', '.join(self.gpus)}"
        return f"NIC {self.nics[0]}" if self.nics else "no known GPU or NIC"


def by_process(place: Place, node: Node) -> Mapping[int, Home]:
    """Process id → its home. Raises HostError."""
    return node.host.once(
        f"homes of {[process.pid for process in place.processes]}", lambda: _by_process(place, node)
    )


def _by_process(place: Place, node: Node) -> dict[int, Home]:
    devices = {process.pid: _on_node(place, node, process.about.devices) for process in place.processes}
    gpus = rank_checks.gpus_of(node.host, node.topology, devices)
    return {pid: _home(node, gpus[pid], files) for pid, files in devices.items()}


def _on_node(place: Place, node: Node, paths: Sequence[str]) -> list[str]:
    """Names on the node of device files, which a runtime may give another name (docker run --device)."""
    numbers = {} if isinstance(place.devices, str) else place.devices
    return [_name(node, path, numbers[path]) if path in numbers else path for path in paths]


def _name(node: Node, path: str, number: str) -> str:
    if not path.startswith(_RDMA):
        return rank_files.name_on_node(path, number)
    names = (f"{_RDMA}{file.name}" for file in uverbs.every(node.host) if file.number == number)
    return next(names, path)


def _home(node: Node, gpus: Sequence[str], files: Sequence[str]) -> Home:
    topology = node.topology
    if gpus:
        near = [nic for binding in topology.bindings if binding.gpu in gpus for nic in binding.nics]
        at = [gpu.node for gpu in topology.gpus if gpu.address in gpus]
        return Home(tuple(gpus), tuple(dict.fromkeys(near)), _nodes(topology, at))
    names = {file.device for file in uverbs.every(node.host) if f"{_RDMA}{file.name}" in files}
    held = [device for device in topology.rdma if device.name in names]
    if len(held) != 1:  # NCCL opens all of them, which says nothing about the one it uses
        return Home((), (), ())
    nic = next(iter(held[0].netdevs), held[0].name)
    # A device in software has the node of the NIC below it.
    number = nic_node(topology, nic)
    return Home((), (nic,), None if number is None else (number,))


def _nodes(topology: Topology, numbers: Sequence[int | None]) -> tuple[int, ...] | None:
    """The nodes whose CPUs serve devices; None if one is unknown."""
    cells = [numa.home(topology.nodes, number) for number in numbers]
    known = {cell.number for cell in cells if cell is not None}
    return None if None in cells else tuple(sorted(known))


def nic_node(topology: Topology, name: str) -> int | None:
    """NUMA node whose CPUs serve a NIC; None if unknown."""
    at = {device.name: device.node for device in topology.rdma}
    at.update((nic.name, nic.node) for nic in topology.nics)
    cell = numa.home(topology.nodes, at.get(name))
    return cell.number if cell is not None else None
