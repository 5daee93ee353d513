# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Distances between GPUs and NICs, in the terms of nvidia-smi, from the PCI tree alone. Pure functions."""

from __future__ import annotations

from typing import Iterable, Mapping, Sequence

from ..model.record import NamedTuple
from . import numa, pci
from .model import KINDS, UNKNOWN, Distance, Gpu, Nic, Node, PciDevice, RdmaDevice, Topology
from .nics import HARDWARE

#: Kinds of a path through the CPU that stays on one NUMA node
_ONE_NODE = ("PHB", "NODE")


class Port(NamedTuple):
    """Exit of traffic from the node: an interface with hardware, or an RDMA device without an interface.

    name: the interface, else the RDMA device. address: empty if it is on no PCI bus. software: all its RDMA
    devices are in software. bond: the bond that holds the RDMA device of this member.
    """

    name: str
    address: str
    port: int
    rdma: tuple[str, ...]
    software: bool = False
    bond: str = ""

    @property
    def label(self) -> str:
        """Both names, for people."""
        return " ".join(dict.fromkeys((self.name, *self.rdma)))


def ports(
    nics: Sequence[Nic], rdma: Sequence[RdmaDevice], devices: Mapping[str, PciDevice]
) -> tuple[Port, ...]:
    """All ports of the node by PCI address, then the ports on other buses with an RDMA device. Virtual
    functions belong to a port and are left out.
    """
    by_name = {device.name: device for device in rdma}
    all_ports = [
        _of_nic(nic, devices, [by_name[name] for name in nic.rdma if name in by_name])
        for nic in nics
        if nic.kind in HARDWARE and (nic.address in devices or nic.rdma)
    ]
    taken = {name for port in all_ports for name in port.rdma}
    for device in rdma:
        on = devices.get(device.address or "")
        if on is not None and on.physfn is None and device.name not in taken and not device.netdevs:
            all_ports.append(Port(device.name, on.address, 0, (device.name,)))
    return tuple(sorted(all_ports, key=_order))


def _of_nic(nic: Nic, devices: Mapping[str, PciDevice], rdma: Sequence[RdmaDevice]) -> Port:
    return Port(
        nic.name,
        nic.address if nic.address is not None and nic.address in devices else "",
        nic.port,
        nic.rdma,
        software=bool(rdma) and all(device.address is None for device in rdma),
        bond=next((nic.master for device in rdma if nic.master in device.netdevs), None) or "",
    )


def _order(port: Port) -> tuple[bool, tuple[int, str], int]:
    return not port.address, pci.order(port.address) if port.address else (0, port.name), port.port


def matrix(
    gpus: Sequence[Gpu], leaving: Sequence[Port], devices: Mapping[str, PciDevice], nodes: tuple[Node, ...]
) -> tuple[Distance, ...]:
    """Distance of every GPU to every port."""
    one_node = len(numa.with_cpus(nodes)) == 1
    return tuple(
        _distance(devices[gpu.address], port.name, devices[port.address], nodes, one_node)
        for gpu in gpus
        for port in leaving
        if port.address
    )


def _distance(
    gpu: PciDevice, name: str, port: PciDevice, nodes: tuple[Node, ...], one_node: bool
) -> Distance:
    apart = numa.apart(nodes, gpu.node, port.node)
    return Distance(gpu.address, name, between(gpu, port, one_node), apart)


def between(device: PciDevice, other: PciDevice, one_node: bool) -> str:
    """Kind of the path between two functions. one_node: the machine has a single NUMA node."""
    if device.root and device.root == other.root:
        shared = common(device.path[:-1], other.path[:-1])
        if shared:
            # The bridge below the last shared one is the switch port that leads to each function. Any further
            # bridge on either side is another switch.
            below = max(len(device.path), len(other.path)) - 1 - shared
            return "PIX" if below <= 1 else "PXB"
    apart = _nodes_apart(device, other, one_node)
    if device.root and device.root == other.root:
        # One host bridge, but the firmware puts its functions on two nodes, as hypervisors do.
        return "SYS" if apart else "PHB"
    if apart is None:
        return UNKNOWN
    return "SYS" if apart else "NODE"


def nearest(distances: Iterable[Distance], gpu: str, among: Iterable[str]) -> tuple[str, tuple[str, ...]]:
    """Nearest kind, and the NICs at this distance in the order of the distances; UNKNOWN and () if unknown.

    Between NICs of one kind the distance of the NUMA nodes decides, if it is known for all of them: `SYS`
    leads to the next quarter of a socket (NPS4, SNC) as well as to the other socket.
    """
    wanted = {*among}
    of_gpu = [distance for distance in distances if distance.gpu == gpu and distance.nic in wanted]
    candidates = [distance for distance in of_gpu if distance.kind in KINDS]
    if not candidates:
        return UNKNOWN, ()
    best = min((distance.kind for distance in candidates), key=KINDS.index)
    near = [distance for distance in candidates if distance.kind == best]
    known = [distance.numa for distance in near if distance.numa is not None]
    least = min(known) if len(known) == len(near) else None
    return best, tuple(distance.nic for distance in near if least is None or distance.numa == least)


def coherent(distances: Iterable[Distance], gpu: Gpu, among: Iterable[str]) -> tuple[str, ...]:
    """NICs on the GPU's own NUMA node that reach its memory over the CPU's coherent link to the GPU (C2C).

    NCCL ranks this path close to a PCIe switch (graph/topo.h: PATH_P2C comes before PATH_PHB). Over PCIe such
    a GPU may have a single lane to the CPU.
    """
    wanted = {*among} if gpu.coherent else ()
    near = [distance for distance in distances if distance.gpu == gpu.address and distance.kind in _ONE_NODE]
    return tuple(distance.nic for distance in near if distance.nic in wanted)


def one_socket(topology: Topology, gpu: str, nics: Iterable[str]) -> bool:
    """True if a GPU and these NICs surely share a socket, even on several NUMA nodes of it (NPS4, SNC)."""
    nodes: dict[str, int | None] = {device.name: device.node for device in topology.rdma}
    nodes.update((nic.name, nic.node) for nic in topology.nics)
    wanted = {
        *(nodes.get(name) for name in nics),
        *(accelerator.node for accelerator in topology.gpus if accelerator.address == gpu),
    }
    sockets = [{cpu.package for cpu in topology.cpus.all if cpu.node == node} for node in wanted]
    known = None not in wanted and all(len(here) == 1 and None not in here for here in sockets)
    return known and len(set().union(*sockets)) == 1


def common(path: Sequence[str], other: Sequence[str]) -> int:
    """Number of bridges that two paths share, counted from the root."""
    count = 0
    for left, right in zip(path, other):
        if left != right:
            break
        count += 1
    return count


def _nodes_apart(device: PciDevice, other: PciDevice, one_node: bool) -> bool | None:
    if one_node:
        return False
    if device.node is None or other.node is None:
        return None
    return device.node != other.node
