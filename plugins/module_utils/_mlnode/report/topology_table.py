# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node's topology as text, the most wanted facts first."""

from __future__ import annotations

from typing import Any, Mapping, Sequence

from ..model import cpulist
from ..model.errors import listed, printable
from ..model.values import by_key
from ..topology import pci
from ..topology.model import Cpus, Gpu, Machine, Nic, PciDevice, RdmaDevice, Topology, giga_transfers
from ..topology.nics import HARDWARE
from .grid import grid, hanging, wrapped

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
    hypervisor = f"hypervisor {machine.hypervisor}" if machine.hypervisor else ""
    cloud = f"cloud {machine.cloud}" if machine.cloud else ""
    return ", ".join(filter(None, (machine.kind, machine.container, hypervisor, cloud, machine.product)))


def _cpus(cpus: Cpus) -> str:
    """CPUs, with sockets and cores if the kernel reports them; many arm64 machines do not."""
    online = f"{len(cpus.online)} online ({cpulist.readable(cpus.online) or 'none'})"
    parts = [_many(cpus.packages, "socket")] if cpus.packages else []
    if cpus.cores:
        parts += [_many(cpus.cores, "core"), f"{_many(cpus.smt, 'thread')} per core"]
    return f"{online}: {', '.join(parts)}" if parts else online


def _many(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _nodes(topology: Topology, width: int | None) -> list[str]:
    """Nodes with CPUs or memory, and their distances. A Grace also has dozens of empty nodes."""
    empty = [node for node in topology.nodes if not node.cpus and node.memory_kbytes == 0]
    places = [at for at, node in enumerate(topology.nodes) if node not in empty]
    rows = []
    for node in (topology.nodes[at] for at in places):
        far = " ".join(str(node.distances[at]) for at in places if at < len(node.distances)) or None
        memory = None if node.memory_kbytes is None else f"{node.memory_kbytes / 1024 / 1024:.1f} GiB"
        rows.append((node.number, memory, far, cpulist.readable(node.cpus) or None))
    lines = grid(("NODE", "MEMORY", "DISTANCES", "CPUS"), rows, width) if topology.nodes else []
    numbers = cpulist.render(node.number for node in empty)
    return [*lines, f"also: {numbers} without CPUs and memory"] if empty else lines


_NIC_HEAD = ("NIC", "RDMA", "RAIL", "NODE", "ADDRESS", "SPEED", "STATE", "MTU", "QUEUES", "DRIVER", "LINK")


def _nics(topology: Topology, devices: Mapping[str, PciDevice], width: int | None) -> list[str]:
    rows = [_nic(nic, devices) for nic in topology.nics if nic.kind in HARDWARE]
    rows += [
        _adapter(device, devices)
        for device in topology.rdma
        if not device.netdevs and not _virtual(device, devices)
    ]
    lines = grid(_NIC_HEAD, rows, width) if rows else ["NIC  none with its own hardware"]
    others = _others(topology, devices)
    return lines + (wrapped(f"also: {others}", width) if others else [])


def _nic(nic: Nic, devices: Mapping[str, PciDevice]) -> Sequence[Any]:
    rx, tx, link = nic.rx_queues, nic.tx_queues, _link(devices.get(nic.address or ""))
    return (
        nic.name, ",".join(nic.rdma) or None, nic.rail, nic.node, nic.address, _speed(nic.speed_mbit),
        nic.operstate, nic.mtu, rx if rx == tx else f"{rx}/{tx}", nic.driver, link,
    )  # fmt: skip


def _adapter(device: RdmaDevice, devices: Mapping[str, PciDevice]) -> Sequence[Any]:
    """An RDMA device without an interface, such as EFA, or InfiniBand without IPoIB."""
    on = devices.get(device.address or "")
    rates, states = (
        ",".join(dict.fromkeys(filter(None, texts))) or None
        for texts in ((port.short_rate for port in device.ports), (port.state for port in device.ports))
    )
    driver = on.driver if on else None
    return (
        None, device.name, device.rail, device.node, device.address, rates, states,
        None, None, driver, _link(on),
    )  # fmt: skip


def _virtual(device: RdmaDevice, devices: Mapping[str, PciDevice]) -> bool:
    on = devices.get(device.address or "")
    return on is not None and on.physfn is not None


def _others(topology: Topology, devices: Mapping[str, PciDevice]) -> str:
    """Interfaces without their own hardware, by kind."""
    kinds = by_key((nic.kind, nic.name) for nic in topology.nics if nic.kind not in HARDWARE)
    for device in topology.rdma:
        if not device.netdevs and _virtual(device, devices):
            kinds.setdefault("virtual function", []).append(device.name)
    parts = []
    for kind, names in sorted(kinds.items()):
        parts.append(f"{len(names)} {kind} ({listed(names)})")
    return "; ".join(parts)


def _speed(mbit: int | None) -> str | None:
    if mbit is None:
        return None
    return f"{mbit}M" if mbit < 1000 else f"{mbit / 1000:g}G"


def _link(on: PciDevice | Gpu | None) -> str | None:
    link = on.link if on else None
    if link is None:
        return None
    current, most = _lanes(link.speed, link.width), _lanes(link.max_speed, link.max_width)
    return f"{current} of {most}" if link.degraded else current


def _lanes(speed: str, width: int) -> str:
    number = giga_transfers(speed)
    return f"Gen{_GENERATIONS[number]} x{width}" if number in _GENERATIONS else f"{speed} x{width}"


def _gpus(topology: Topology, width: int | None) -> list[str]:
    rows = [
        (f"GPU{index}", gpu.node, gpu.address, f"{gpu.vendor} {gpu.device:04x}", gpu.driver, _link(gpu))
        for index, gpu in enumerate(topology.gpus)
    ]
    return grid(("GPU", "NODE", "ADDRESS", "DEVICE", "DRIVER", "LINK"), rows, width) if rows else []


def _labels(topology: Topology) -> dict[str, str]:
    """Name of a port → its label: the interface and its RDMA devices."""
    labels = {device.name: device.name for device in topology.rdma}
    labels.update((nic.name, " ".join(dict.fromkeys((nic.name, *nic.rdma)))) for nic in topology.nics)
    return labels


def _matrix(topology: Topology, labels: Mapping[str, str], width: int | None) -> list[str]:
    """One row per NIC, because NICs are more numerous than GPUs and have longer names."""
    if not topology.distances:
        return []
    kinds = {(distance.nic, distance.gpu): distance.kind for distance in topology.distances}
    names = dict.fromkeys(distance.nic for distance in topology.distances)
    rows = [[labels[name], *(kinds[name, gpu.address] for gpu in topology.gpus)] for name in names]
    head = ["DISTANCE", *(f"GPU{index}" for index in range(len(topology.gpus)))]
    return grid(head, rows, None) + wrapped(_LEGEND, width)


def _bindings(topology: Topology, labels: Mapping[str, str], width: int | None) -> list[str]:
    rows = [
        (
            f"GPU{index}",
            tuple(labels[name] for name in binding.nics),
            binding.distance,
            binding.omp_num_threads,
            binding.numactl or None,
        )
        for index, binding in enumerate(topology.bindings)
    ]
    lines = grid(("GPU", "NEAREST NIC", "IS", "OMP_NUM_THREADS", "START WITH"), rows, width) if rows else []
    bound = any("--membind" in binding.numactl for binding in topology.bindings)
    return lines + (wrapped(_MEMBIND, width) if bound else [])


def _tree(topology: Topology, labels: Mapping[str, str], width: int | None) -> list[str]:
    """The PCI path to each GPU and NIC."""
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
    """Address → label of the device, in bus order."""
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
    """One line per chain without a fork, and a deeper level after each fork."""
    lines = []
    for first in dict.fromkeys(path[depth] for path in paths):
        here = [path for path in paths if path[depth] == first]
        end = depth + 1
        while len(here[0]) > end and len({path[:end + 1] for path in here}) == 1:  # fmt: skip
            end += 1
        chain = here[0][depth:end]
        last = chain[-1]
        columns = [" > ".join(chain)]
        if last in names:
            columns += [names[last], _link(devices.get(last)) or "-"]
        lines += hanging(indent + "  ".join(columns), width)
        deeper = [path for path in here if len(path) > end]
        lines += _branch(deeper, end, indent + "  ", names, devices, width) if deeper else []
    return lines


def _notes(title: str, notes: Sequence[str], width: int | None) -> list[str]:
    if not notes:
        return []
    rows = [(title, note) for note in notes]
    return grid(rows[0], rows[1:], width)
