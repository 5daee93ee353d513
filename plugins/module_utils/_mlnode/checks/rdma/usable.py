# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A port that perftest can measure: its state, its source address, its CPUs and its rate."""

from __future__ import annotations

from ...host.host import Host
from ...model.errors import RefusedError
from ...topology.model import RdmaDevice, Topology
from . import gid as rdma_gid
from . import ports
from .link import RATE
from .ports import ETHERNET, INFINIBAND, Port

#: Share of data in a port's rate: in these generations two of ten bits are coding (8b/10b), which the rate
#: includes. Only on InfiniBand: on Ethernet the generation describes the rate of the data
_CODED = {"SDR": 0.8, "DDR": 0.8, "QDR": 0.8}


def find(host: Host, topology: Topology, name: str, number: int) -> Port:
    """A port by its device. Raises RefusedError if it is absent or not up."""
    port = named_port(topology, name, number)
    if port is None:
        there = ", ".join(port.name for port in every(topology)) or "no RDMA device at all"
        advice = "look at the slot and at the driver (rdma_check: inventory)"
        raise _refused(f"{name}/{number}", f"there is no such port, but {there}", advice)
    _check(host, port)
    return port


def every(topology: Topology) -> list[Port]:
    """All ports of all devices, without declared values."""
    return [Port(device, port) for device in topology.rdma for port in device.ports]


def named_port(topology: Topology, name: str, number: int) -> Port | None:
    return next((port for port in every(topology) if port.name == f"{name}/{number}"), None)


def _refused(where: str, why: str, advice: str) -> RefusedError:
    return RefusedError(f"{where}: {why}; {advice}")


def _check(host: Host, port: Port) -> None:
    if port.layer not in (ETHERNET, INFINIBAND):
        why = f"ib_write_bw cannot be used on the link layer {port.layer or 'unknown'}"
        raise _refused(port.name, why, "measure it with the tools of its maker")
    if rdma_gid.is_iwarp(host, port):
        why = "iWARP connects through RDMA-CM only, which is not measured here"
        raise _refused(port.name, why, "run ib_write_bw -R by hand")
    value = ports.read(host, f"{port.folder}/state")
    if not (value.text or "").startswith("4:"):
        why = value.problem or f"the port is {(value.text or '')[:60]}"
        raise _refused(port.name, why, "look at the link (rdma_check: state)")


def gid(host: Host, port: Port, given: int | None) -> int | None:
    """Entry of the GID table to send from; None if the port is addressed by LIDs. Raises RefusedError."""
    if given is not None or port.layer == INFINIBAND:
        return given
    entries, problem = rdma_gid.table(host, port)
    # Both sides must use the same family, and nearly all fabrics use IPv4.
    usable = sorted(
        rdma_gid.reachable(entries), key=lambda entry: (entry.address.ipv4_mapped is None, entry.index)
    )
    if usable:
        return usable[0].index
    why = problem or f"no routable {rdma_gid.ROUTED} entry among its GIDs"
    raise _refused(port.name, why, "look at its address (rdma_check: gid)")


def cpus(topology: Topology, device: RdmaDevice) -> tuple[int, ...]:
    """CPUs of the device's NUMA node; empty if unknown."""
    return next((node.cpus for node in topology.nodes if node.number == device.node), ())


def gbits(port: Port) -> float | None:
    """Rate of a port without its coding, in Gb/s; None if unknown, as for a software device."""
    match = RATE.match(port.own.rate)
    if port.device.address is None or match is None:
        return None
    data = float(match.group(1))
    return data * (_CODED.get(match.group(3) or "", 1.0) if port.layer == INFINIBAND else 1.0)
