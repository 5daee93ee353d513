# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node's topology as plain data."""

from __future__ import annotations

from typing import Any

from ..model import cpulist
from ..model.version import VERSION
from ..topology.model import Binding, Cpus, Gpu, Link, Machine, Nic, Node, PciDevice, RdmaDevice, Topology

#: Raised when a field changes its meaning or goes; new fields do not raise it.
FORMAT = 1


def document(topology: Topology) -> dict[str, Any]:
    """The document of a topology; docs/schema/topology.schema.json describes it. null: unknown."""
    return {
        "format": FORMAT,
        "mlnode": VERSION,
        "machine": _machine(topology.machine),
        "cpus": _cpus(topology.cpus),
        "nodes": [_node(node) for node in topology.nodes],
        "gpus": [_gpu(index, gpu) for index, gpu in enumerate(topology.gpus)],
        "nics": [_nic(nic) for nic in topology.nics],
        "rdma": [_rdma(device) for device in topology.rdma],
        "distances": _distances(topology),
        "bindings": [_binding(binding) for binding in topology.bindings],
        "pci": [_device(device) for device in topology.pci],
        "warnings": list(topology.warnings),
        "problems": [{"path": problem.path, "what": problem.what} for problem in topology.problems],
    }


def _machine(machine: Machine) -> dict[str, Any]:
    return {
        "kind": machine.kind,
        "hypervisor": machine.hypervisor or None,
        "container": machine.container or None,
        "cloud": machine.cloud or None,
        "product": machine.product or None,
    }


def _cpus(cpus: Cpus) -> dict[str, Any]:
    return {
        "sockets": cpus.packages,
        "physical_cores": cpus.cores,
        "threads_per_core": cpus.smt,
        "hybrid": cpus.hybrid,
        "possible": cpulist.render(cpus.possible),
        "present": cpulist.render(cpus.present),
        "online": cpulist.render(cpus.online),
        "offline": cpulist.render(cpus.offline),
        "isolated": cpulist.render(cpus.isolated),
        "nohz_full": cpulist.render(cpus.nohz_full),
        "allowed": cpulist.render(cpus.allowed),
        "housekeeping": cpulist.render(cpus.housekeeping),
        "cores": _cores(cpus),
    }


def _cores(cpus: Cpus) -> list[dict[str, Any]]:
    """Core by core and not CPU by CPU: half as long, and who shares a core is what one looks for."""
    firsts = {group[0]: group for group in cpus.threads}
    return [
        {
            "cpus": cpulist.render(firsts[cpu.number]),
            "socket": cpu.package,
            "core": cpu.core,
            "node": cpu.node,
            "kind": cpu.kind or None,
        }
        for cpu in cpus.all
        if cpu.number in firsts
    ]


def _node(node: Node) -> dict[str, Any]:
    return {
        "number": node.number,
        "cpus": cpulist.render(node.cpus),
        "memory_kbytes": node.memory_kbytes,
        "distances": list(node.distances),
    }


def _gpu(index: int, gpu: Gpu) -> dict[str, Any]:
    return {
        "index": index,
        "address": gpu.address,
        "vendor": gpu.vendor,
        "device": f"0x{gpu.device:04x}",
        "node": gpu.node,
        "driver": gpu.driver,
        "link": _link(gpu.link),
    }


def _nic(nic: Nic) -> dict[str, Any]:
    return {
        "name": nic.name,
        "kind": nic.kind,
        "driver": nic.driver,
        "address": nic.address,
        "port": nic.port,
        "node": nic.node,
        "rail": nic.rail,
        "rdma": list(nic.rdma),
        "speed_mbit": nic.speed_mbit,
        "operstate": nic.operstate,
        "mtu": nic.mtu,
        "rx_queues": nic.rx_queues,
        "tx_queues": nic.tx_queues,
        "mac": nic.mac or None,
        "master": nic.master,
    }


def _rdma(device: RdmaDevice) -> dict[str, Any]:
    return {
        "name": device.name,
        "address": device.address,
        "node": device.node,
        "rail": device.rail,
        "netdevs": list(device.netdevs),
        "ports": [
            {
                "number": port.number,
                "link_layer": port.link_layer or None,
                "state": port.state or None,
                "rate": port.rate or None,
            }
            for port in device.ports
        ],
    }


def _distances(topology: Topology) -> dict[str, dict[str, str]]:
    """GPU → NIC → kind, so that one pair is one look-up."""
    kinds: dict[str, dict[str, str]] = {gpu.address: {} for gpu in topology.gpus}
    for one in topology.distances:
        kinds[one.gpu][one.nic] = one.kind
    return kinds


def _binding(binding: Binding) -> dict[str, Any]:
    return {
        "gpu": binding.gpu,
        "node": binding.node,
        "numactl": binding.numactl or None,
        "omp_num_threads": binding.omp_num_threads,
        "nics": list(binding.nics),
        "distance": binding.distance,
    }


def _device(device: PciDevice) -> dict[str, Any]:
    return {
        "address": device.address,
        "vendor": f"0x{device.vendor:04x}",
        "device": f"0x{device.device:04x}",
        "class": f"0x{device.class_code:06x}",
        "driver": device.driver,
        "node": device.node,
        "root": device.root,
        "path": list(device.path),
        "link": _link(device.link),
        "physfn": device.physfn,
    }


def _link(link: Link | None) -> dict[str, Any] | None:
    if link is None:
        return None
    return {
        "speed": link.speed,
        "width": link.width,
        "max_speed": link.max_speed,
        "max_width": link.max_width,
        "degraded": link.degraded,
    }
