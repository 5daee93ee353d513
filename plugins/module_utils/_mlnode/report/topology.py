# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node's topology as plain data."""

from __future__ import annotations

from typing import Any, Mapping

from ..host.host import Host
from ..model import cpulist
from ..model.schema import Table
from ..model.version import VERSION
from ..topology import hardware
from ..topology.model import Cpus, Gpu, Link, PciDevice, RdmaDevice, Topology

#: Raised if a field is removed or changes its meaning; new fields do not raise it.
FORMAT = 1

MOUNTS = hardware.MOUNTS

OPTIONS: Table = {}


def answer(host: Host, given: Mapping[str, Any], dry: bool) -> dict[str, Any]:
    """Result of the module node_topology."""
    del given, dry
    return {"changed": False, "topology": document(hardware.topology(host))}


def document(topology: Topology) -> dict[str, Any]:
    """The document of a topology, described by docs/schema/topology.schema.json. null: unknown."""
    return {
        "format": FORMAT,
        "mlnode": VERSION,
        "machine": _plain(topology.machine, "kind hypervisor? container? cloud? product?"),
        "cpus": _cpus(topology.cpus),
        "nodes": [
            {**_plain(node, "number cpus memory_kbytes distances"), "cpus": cpulist.render(node.cpus)}
            for node in topology.nodes
        ],
        "gpus": [_gpu(index, gpu) for index, gpu in enumerate(topology.gpus)],
        "nics": [_plain(nic, _NIC) for nic in topology.nics],
        "rdma": [_rdma(device) for device in topology.rdma],
        "distances": _distances(topology),
        "bindings": [
            _plain(binding, "gpu node numactl? omp_num_threads nics distance")
            for binding in topology.bindings
        ],
        "pci": [_device(device) for device in topology.pci],
        "warnings": list(topology.warnings),
        "problems": [_plain(problem, "path what") for problem in topology.problems],
    }


_NIC = "name kind driver address port node rail rdma speed_mbit operstate mtu rx_queues tx_queues mac? master"
_CPU_SETS = ("possible", "present", "online", "offline", "isolated", "nohz_full", "allowed", "housekeeping")


def _plain(item: object, names: str) -> dict[str, Any]:
    """These fields of an item, with tuples as lists. A ? after a name turns an empty field into null."""
    plain = {}
    for name in names.split():
        value = getattr(item, name.rstrip("?"))
        value = (value or None) if name.endswith("?") else value
        plain[name.rstrip("?")] = [*value] if isinstance(value, tuple) else value
    return plain


def _cpus(cpus: Cpus) -> dict[str, Any]:
    return {
        "sockets": cpus.packages or None,
        "physical_cores": cpus.cores or None,
        "threads_per_core": cpus.smt or None,
        "hybrid": cpus.hybrid,
        **{name: cpulist.render(getattr(cpus, name)) for name in _CPU_SETS},
        "cores": _cores(cpus),
    }


def _cores(cpus: Cpus) -> list[dict[str, Any]]:
    """One entry per core instead of one per CPU: half as long, and it shows which CPUs share a core."""
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


def _gpu(index: int, gpu: Gpu) -> dict[str, Any]:
    return {
        "index": index,
        **_plain(gpu, "address vendor device node driver"),
        "device": f"0x{gpu.device:04x}",
        "link": _link(gpu.link),
    }


def _rdma(device: RdmaDevice) -> dict[str, Any]:
    ports = [_plain(port, "number link_layer? state? rate?") for port in device.ports]
    return {**_plain(device, "name address node rail netdevs"), "ports": ports}


def _distances(topology: Topology) -> dict[str, dict[str, str]]:
    """GPU → NIC → kind: one look-up per pair."""
    kinds: dict[str, dict[str, str]] = {gpu.address: {} for gpu in topology.gpus}
    for distance in topology.distances:
        kinds[distance.gpu][distance.nic] = distance.kind
    return kinds


def _device(device: PciDevice) -> dict[str, Any]:
    return {
        "address": device.address,
        "vendor": f"0x{device.vendor:04x}",
        "device": f"0x{device.device:04x}",
        "class": f"0x{device.class_code:06x}",
        **_plain(device, "driver node root path"),
        "link": _link(device.link),
        "physfn": device.physfn,
    }


def _link(link: Link | None) -> dict[str, Any] | None:
    return None if link is None else _plain(link, "speed width max_speed max_width degraded")
