# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Advice from a topology: process bindings, and conditions that cost speed. Pure functions."""

from __future__ import annotations

from collections import Counter
from typing import Mapping, Sequence

from ..model import cpulist
from ..model.errors import listed
from ..model.values import by_key
from . import distance, gpus, links, numa
from .distance import Port
from .model import Binding, Cpus, Distance, Gpu, Machine, Node, PciDevice, Topology


def bindings(
    cpus: Cpus,
    nodes: tuple[Node, ...],
    gpus: Sequence[Gpu],
    distances: Sequence[Distance],
    ports: Sequence[Port],
    rails: Sequence[Port],
) -> tuple[Binding, ...]:
    """One binding per GPU, in the order of the GPUs."""
    homes = {gpu.address: numa.home(nodes, gpu.node) for gpu in gpus}
    # GPUs communicate over RDMA if any port supports it.
    leaving = [port.name for port in ports if port.rdma] or [port.name for port in ports]
    numbered = {port.name for port in rails}
    gpu_bindings = []
    for gpu in gpus:
        home = homes[gpu.address]
        sharing = sum(other == home for other in homes.values())
        kind, near = distance.nearest(distances, gpu.address, leaving)
        on_rail = tuple(name for name in near if name in numbered)
        gpu_bindings.append(
            Binding(
                gpu=gpu.address,
                node=home.number if home else None,
                numactl=_numactl(cpus, nodes, home) if home else "",
                omp_num_threads=_threads(cpus, home, sharing) if home else None,
                nics=on_rail or near,
                distance=kind,
            )
        )
    return tuple(gpu_bindings)


def _numactl(cpus: Cpus, nodes: tuple[Node, ...], home: Node) -> str:
    """numactl command for one node; "" if none of its CPUs is free.

    Binds by CPU if some CPUs of the node are kept free, because --cpunodebind would include them. With a
    single node there is no memory to choose, and without NUMA the kernel refuses all other options
    (numactl.c: checknuma).
    """
    housekeeping = _housekeeping(cpus, home)
    if not housekeeping:
        return ""
    if housekeeping != home.cpus or len(nodes) == 1:
        where = f"--physcpubind={cpulist.render(housekeeping)}"
    else:
        where = f"--cpunodebind={home.number}"
    # The kernel refuses to bind memory to a node that has none (mm/mempolicy.c: mpol_new_nodemask).
    memory = numa.with_memory(nodes, home.number) if len(nodes) > 1 else None
    return f"numactl {where}" + (f" --membind={memory.number}" if memory else "")


def _threads(cpus: Cpus, node: Node, sharing: int) -> int | None:
    """Physical cores of the node for ordinary threads, shared among the processes of its GPUs."""
    housekeeping = {*_housekeeping(cpus, node)}
    cores = sum(housekeeping.issuperset(group) for group in cpus.threads)
    return max(1, cores // sharing) if housekeeping and cores else None


def _housekeeping(cpus: Cpus, node: Node) -> tuple[int, ...]:
    free = {*cpus.housekeeping}
    return tuple(cpu for cpu in node.cpus if cpu in free)


def warnings(topology: Topology, ports: Sequence[Port], devices: Mapping[str, PciDevice]) -> tuple[str, ...]:
    """Facts that cost speed and that an administrator can change."""
    subjects = _subjects(topology, ports)
    facts = [
        *_container(topology.machine, topology.cpus),
        *_nodes(topology.nodes),
        *_unplaced(topology.nodes, subjects, devices),
        *_far(topology, ports),
        *(_unbound(topology.bindings) if topology.cpus.online else ()),
        *links.look(subjects, [gpu.address for gpu in topology.gpus], devices, topology.machine.virtual),
    ]
    if topology.machine.kind == "virtual machine" and topology.distances:
        facts.append(
            (
                "",
                "the PCI tree of a virtual machine is its hypervisor's: GPU and NIC may be nearer than shown",
            )
        )
    return _grouped([*facts, *_unknown(topology)])


def _unknown(topology: Topology) -> list[tuple[str, str]]:
    text = (
        "a processing accelerator of a vendor that is not in mlnode's table: it does not count as a GPU, and "
        "jobs on it are not seen"
    )
    devices = gpus.unknown(topology.pci)
    return [(f"{device.address} ({device.vendor:04x}:{device.device:04x})", text) for device in devices]


def _subjects(topology: Topology, ports: Sequence[Port]) -> dict[str, str]:
    """Address → name of every part that can get a warning."""
    subjects = {gpu.address: _gpu(number, gpu.address) for number, gpu in enumerate(topology.gpus)}
    for port in ports:
        # All ports of a card share one link. A port on no PCI bus has no link.
        if port.address:
            subjects.setdefault(port.address, f"{port.label} ({port.address})")
    return subjects


def _container(machine: Machine, cpus: Cpus) -> list[tuple[str, str]]:
    if machine.kind != "container":
        return []
    facts = [
        (
            "",
            "sysfs shows a container the CPUs, memory and PCI devices of the whole host, given to it or not",
        )
    ]
    if cpus.allowed != cpus.online:
        facts.append(("", f"this container may run on CPU {cpulist.readable(cpus.allowed) or 'none'} only"))
    return facts


def _nodes(nodes: Sequence[Node]) -> list[tuple[str, str]]:
    text = "CPUs but no memory, so all of theirs is on another node: is every memory channel populated?"
    facts = [(f"NUMA node {node.number}", text) for node in nodes if node.cpus and node.memory_kbytes == 0]
    every = Counter(cpu for node in nodes for cpu in node.cpus)
    twice = [cpu for cpu, number in every.items() if number > 1]
    if twice:
        text = "on more than one NUMA node, so processes bound to these nodes may be on the wrong one"
        facts.append((f"CPU {cpulist.readable(twice)}", text))
    return facts


def _unplaced(
    nodes: tuple[Node, ...], subjects: Mapping[str, str], devices: Mapping[str, PciDevice]
) -> list[tuple[str, str]]:
    if len(numa.with_cpus(nodes)) < 2:
        return []
    text = "the firmware does not say on which NUMA node (numa_node is -1), so nothing can be bound to it"
    return [(name, text) for address, name in subjects.items() if devices[address].node is None]


def _far(topology: Topology, ports: Sequence[Port]) -> list[tuple[str, str]]:
    """GPUs without an RDMA NIC on their NUMA node. Another slot of the same socket would gain little."""
    capable = {port.name: port.label for port in ports if port.rdma}
    facts = []
    for number, gpu in enumerate(topology.gpus):
        kind, near = distance.nearest(topology.distances, gpu.address, capable)
        if kind == "SYS" and not distance.one_socket(topology, gpu.address, near):
            names = listed([capable[name] for name in near])
            text = f"no RDMA NIC on its NUMA node: all traffic crosses to another node (SYS) to {names}"
            facts.append((_gpu(number, gpu.address), text))
    return facts


def _unbound(gpu_bindings: Sequence[Binding]) -> list[tuple[str, str]]:
    text = "all CPUs of its NUMA node are isolated, or not given to this container: nothing to bind to"
    return [
        (_gpu(at, binding.gpu), text)
        for at, binding in enumerate(gpu_bindings)
        if binding.node is not None and not binding.numactl
    ]


def _gpu(number: int, address: str) -> str:
    return f"GPU{number} ({address})"


def _grouped(facts: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    """One line per text, with all its subjects: eight GPUs in eight bad slots need one line."""
    subjects = by_key((text, subject) for subject, text in facts)
    return tuple(f"{listed(names)}: {text}" if names[0] else text for text, names in subjects.items())
