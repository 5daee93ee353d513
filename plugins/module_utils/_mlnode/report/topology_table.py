# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node's topology as text: what one wants to know first comes first."""

from __future__ import annotations

from typing import Mapping, Sequence

from ..model import cpulist
from ..model.errors import listed, printable
from ..topology import pci
from ..topology.model import Cpus, Link, Machine, Nic, PciDevice, RdmaDevice, Topology, giga_transfers
from ..topology.nics import HARDWARE
from .grid import grid, hanging, wrapped

_NONE = "-"
_LEGEND = (
    "PIX: within one PCIe switch. PXB: across several. PHB: through the host bridge. "
    "NODE: between host bridges of a NUMA node. SYS: between NUMA nodes."
)
#: numactl(8), set_mempolicy(2): MPOL_BIND, MPOL_PREFERRED
_MEMBIND = (
    "--membind=N: a process ends when node N has no memory left. "
    "With --preferred=N instead it gets memory of other nodes then."
)

#: Speed of a link → generation of PCIe (PCI Express Base Specification)
_GENERATIONS = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}


def table(topology: Topology, width: int | None) -> str:
    """The whole node. width None: no terminal, so no line is wrapped."""
    devices = pci.by_address(topology.pci)
    labels = _labels(topology)
    parts = [
        _head(topology.machine, topology.cpus, width),
        _nodes(topology, width),
        _nics(topology, devices, width),
        _gpus(topology, width),
        _matrix(topology, labels, width),
        _bindings(topology, labels, width),
        _tree(topology, labels, width),
        _notes("WARNING", topology.warnings, width),
        _notes("NOT KNOWN", [problem.what for problem in topology.problems], width),
    ]
    return "\n\n".join("\n".join(lines) for lines in parts if lines)


def _head(machine: Machine, cpus: Cpus, width: int | None) -> list[str]:
    rows = [("MACHINE", _machine(machine)), ("CPUS", _cpus(cpus))]
    sets = [("offline", cpus.offline), ("isolated", cpus.isolated), ("nohz_full", cpus.nohz_full)]
    if cpus.allowed != cpus.online:
        sets.append(("allowed here", cpus.allowed))
    sets += [
        (kind, tuple(cpu.number for cpu in cpus.all if cpu.kind == kind))
        for kind in ("performance", "efficiency")
    ]
    rows += [("", f"{name} {cpulist.readable(members)}") for name, members in sets if members]
    return grid(rows[0], rows[1:], width)


def _machine(machine: Machine) -> str:
    facts = [machine.kind]
    if machine.container:
        facts.append(machine.container)
    if machine.hypervisor:
        facts.append(f"hypervisor {machine.hypervisor}")
    if machine.cloud:
        facts.append(f"cloud {machine.cloud}")
    if machine.product:
        facts.append(machine.product)
    return ", ".join(facts)


def _cpus(cpus: Cpus) -> str:
    """CPUs, with sockets and cores where the kernel reports them, which many an arm64 machine lacks."""
    online = f"{len(cpus.online)} online ({cpulist.readable(cpus.online) or 'none'})"
    parts = [_many(cpus.packages, "socket")] if cpus.packages else []
    if cpus.cores:
        parts += [_many(cpus.cores, "core"), f"{_many(cpus.smt, 'thread')} per core"]
    return f"{online}: {', '.join(parts)}" if parts else online


def _many(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _nodes(topology: Topology, width: int | None) -> list[str]:
    """Nodes with CPUs or memory, and how far they are from each other: a Grace has dozens in reserve."""
    if not topology.nodes:
        return []
    empty = [not node.cpus and node.memory_kbytes == 0 for node in topology.nodes]
    rows = [
        (
            str(node.number),
            _memory(node.memory_kbytes),
            " ".join(str(far) for far, gone in zip(node.distances, empty) if not gone) or _NONE,
            cpulist.readable(node.cpus) or _NONE,
        )
        for node, gone in zip(topology.nodes, empty)
        if not gone
    ]
    lines = grid(("NODE", "MEMORY", "DISTANCES", "CPUS"), rows, width)
    if any(empty):
        numbers = cpulist.render(node.number for node, gone in zip(topology.nodes, empty) if gone)
        lines.append(f"also: {numbers} without CPUs and memory")
    return lines


def _memory(kbytes: int | None) -> str:
    return _NONE if kbytes is None else f"{kbytes / 1024 / 1024:.1f} GiB"


_NIC_HEAD = ("NIC", "RDMA", "RAIL", "NODE", "ADDRESS", "SPEED", "STATE", "MTU", "QUEUES", "DRIVER", "LINK")


def _nics(topology: Topology, devices: Mapping[str, PciDevice], width: int | None) -> list[str]:
    rows = [_nic(nic, devices) for nic in topology.nics if nic.kind in HARDWARE]
    rows += [
        _adapter(device, devices)
        for device in topology.rdma
        if not device.netdevs and not _virtual(device, devices)
    ]
    lines = grid(_NIC_HEAD, rows, width) if rows else ["NIC  none with hardware of its own"]
    others = _others(topology, devices)
    return lines + (wrapped(f"also: {others}", width) if others else [])


def _nic(nic: Nic, devices: Mapping[str, PciDevice]) -> Sequence[str]:
    on = devices.get(nic.address or "")
    return (
        nic.name,
        ",".join(nic.rdma) or _NONE,
        _number(nic.rail),
        _number(nic.node),
        nic.address or _NONE,
        _speed(nic.speed_mbit),
        nic.operstate,
        _number(nic.mtu),
        str(nic.rx_queues) if nic.rx_queues == nic.tx_queues else f"{nic.rx_queues}/{nic.tx_queues}",
        nic.driver or _NONE,
        _link(on.link if on else None),
    )


def _adapter(device: RdmaDevice, devices: Mapping[str, PciDevice]) -> Sequence[str]:
    """An RDMA device without an interface, as EFA, or InfiniBand without IPoIB."""
    on = devices.get(device.address or "")
    return (
        _NONE,
        device.name,
        _number(device.rail),
        _number(device.node),
        device.address or _NONE,
        ",".join(dict.fromkeys(port.rate.split(" (")[0] for port in device.ports if port.rate)) or _NONE,
        ",".join(dict.fromkeys(port.state for port in device.ports if port.state)) or _NONE,
        _NONE,
        _NONE,
        (on.driver if on else None) or _NONE,
        _link(on.link if on else None),
    )


def _virtual(device: RdmaDevice, devices: Mapping[str, PciDevice]) -> bool:
    on = devices.get(device.address or "")
    return on is not None and on.physfn is not None


def _others(topology: Topology, devices: Mapping[str, PciDevice]) -> str:
    """Interfaces without hardware of their own, by kind."""
    kinds: dict[str, list[str]] = {}
    for nic in topology.nics:
        if nic.kind not in HARDWARE:
            kinds.setdefault(nic.kind, []).append(nic.name)
    for device in topology.rdma:
        if not device.netdevs and _virtual(device, devices):
            kinds.setdefault("virtual function", []).append(device.name)
    parts = []
    for kind, names in sorted(kinds.items()):
        parts.append(f"{len(names)} {kind} ({listed(names)})")
    return "; ".join(parts)


def _number(value: int | None) -> str:
    return _NONE if value is None else str(value)


def _speed(mbit: int | None) -> str:
    if mbit is None:
        return _NONE
    return f"{mbit}M" if mbit < 1000 else f"{mbit / 1000:g}G"


def _link(link: Link | None) -> str:
    if link is None:
        return _NONE
    current, most = _lanes(link.speed, link.width), _lanes(link.max_speed, link.max_width)
    return f"{current} of {most}" if link.degraded else current


def _lanes(speed: str, width: int) -> str:
    number = giga_transfers(speed)
    return f"Gen{_GENERATIONS[number]} x{width}" if number in _GENERATIONS else f"{speed} x{width}"


def _gpus(topology: Topology, width: int | None) -> list[str]:
    if not topology.gpus:
        return []
    rows = [
        (
            f"GPU{index}",
            _number(gpu.node),
            gpu.address,
            f"{gpu.vendor} {gpu.device:04x}",
            gpu.driver or _NONE,
            _link(gpu.link),
        )
        for index, gpu in enumerate(topology.gpus)
    ]
    return grid(("GPU", "NODE", "ADDRESS", "DEVICE", "DRIVER", "LINK"), rows, width)


def _labels(topology: Topology) -> dict[str, str]:
    """Name of a port → what people call it: the interface and its RDMA devices."""
    labels = {device.name: device.name for device in topology.rdma}
    labels.update((nic.name, " ".join(dict.fromkeys((nic.name, *nic.rdma)))) for nic in topology.nics)
    return labels


def _matrix(topology: Topology, labels: Mapping[str, str], width: int | None) -> list[str]:
    """A row for each NIC, as there are more of them and their names are longer."""
    if not topology.distances:
        return []
    kinds = {(one.nic, one.gpu): one.kind for one in topology.distances}
    names = dict.fromkeys(one.nic for one in topology.distances)
    rows = [[labels[name], *(kinds[name, gpu.address] for gpu in topology.gpus)] for name in names]
    head = ["DISTANCE", *(f"GPU{index}" for index in range(len(topology.gpus)))]
    return grid(head, rows, None) + wrapped(_LEGEND, width)


def _bindings(topology: Topology, labels: Mapping[str, str], width: int | None) -> list[str]:
    if not topology.bindings:
        return []
    rows = [
        (
            f"GPU{index}",
            listed([labels[name] for name in binding.nics]) or _NONE,
            binding.distance,
            _number(binding.omp_num_threads),
            binding.numactl or _NONE,
        )
        for index, binding in enumerate(topology.bindings)
    ]
    lines = grid(("GPU", "NEAREST NIC", "IS", "OMP_NUM_THREADS", "START WITH"), rows, width)
    bound = any("--membind" in binding.numactl for binding in topology.bindings)
    return lines + (wrapped(_MEMBIND, width) if bound else [])


def _tree(topology: Topology, labels: Mapping[str, str], width: int | None) -> list[str]:
    """The way to each GPU and NIC."""
    names = _leaves(topology, labels)
    if not topology.gpus or not names:
        return []
    lines = ["PCI"]
    devices = pci.by_address(topology.pci)
    for root in dict.fromkeys(devices[address].root for address in names):
        lines.append(printable(root))
        paths = [devices[address].path for address in names if devices[address].root == root]
        paths.sort(key=lambda path: [pci.order(address) for address in path])
        lines += _branch(paths, 0, "  ", names, devices, width)
    return lines


def _leaves(topology: Topology, labels: Mapping[str, str]) -> dict[str, str]:
    """Address → what is there, in the order of the bus."""
    labels_at: dict[str, list[str]] = {gpu.address: [f"GPU{at}"] for at, gpu in enumerate(topology.gpus)}
    for nic in topology.nics:
        if nic.address and nic.kind in HARDWARE:
            labels_at.setdefault(nic.address, []).append(labels[nic.name])
    for device in topology.rdma:
        if device.address and not device.netdevs:
            labels_at.setdefault(device.address, []).append(device.name)
    known = [device.address for device in topology.pci if device.physfn is None]
    return {address: ", ".join(labels_at[address]) for address in known if address in labels_at}


def _branch(
    paths: Sequence[tuple[str, ...]],
    depth: int,
    indent: str,
    names: Mapping[str, str],
    devices: Mapping[str, PciDevice],
    width: int | None,
) -> list[str]:
    """One line for what has no fork, and a deeper level after each fork."""
    lines = []
    for first in dict.fromkeys(path[depth] for path in paths):
        here = [path for path in paths if path[depth] == first]
        end = depth + 1
        while len(here[0]) > end and len({path[:end + 1] for path in here}) == 1:  # fmt: skip
            end += 1
        chain = here[0][depth:end]
        last = chain[-1]
        on = devices.get(last)
        columns = [" > ".join(chain)]
        if last in names:
            columns += [names[last], _link(on.link if on else None)]
        lines += hanging(indent + "  ".join(columns), width)
        deeper = [path for path in here if len(path) > end]
        lines += _branch(deeper, end, indent + "  ", names, devices, width) if deeper else []
    return lines


def _notes(title: str, notes: Sequence[str], width: int | None) -> list[str]:
    if not notes:
        return []
    rows = [(title, note) for note in notes]
    return grid(rows[0], rows[1:], width)
