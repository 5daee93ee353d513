# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A port that can be measured with perftest: whether it is there and up, where it sends from, its CPUs, and
what it carries."""

from __future__ import annotations

from ...host.host import Host
from ...topology.model import RdmaDevice, Topology
from ..model import Verdict
from . import gid as rdma_gid
from . import ports
from .link import RATE
from .ports import ETHERNET, INFINIBAND, Port

#: Of these generations two of ten bits are the coding (8b/10b), which the rate of a port counts in. Only on
#: InfiniBand: on Ethernet the generation is a word for the rate of the data
_CODED = {"SDR": 0.8, "DDR": 0.8, "QDR": 0.8}


class UnusableError(Exception):
    """Reason why it need not begin."""

    def __init__(self, verdict: Verdict, found: str, source: str, advice: str) -> None:
        super().__init__(found)
        self.verdict, self.found, self.source, self.advice = verdict, found, source, advice


def find(host: Host, topology: Topology, name: str, number: int) -> Port:
    """A port by its device. Raises UnusableError where it is not there, or is not up."""
    for device in topology.rdma:
        for candidate in device.ports:
            if (device.name, candidate.number) == (name, number):
                found = Port(device, candidate.number, candidate.link_layer, {})
                _check(host, found)
                return found
    there = ", ".join(f"{one.name}/{port.number}" for one in topology.rdma for port in one.ports)
    found_instead = f"there is no such port, but {there or 'no RDMA device at all'}"
    advice = "look at the slot and at the driver (rdma_check: inventory)"
    raise UnusableError(Verdict.FAIL, found_instead, ports.CLASS, advice)


def _check(host: Host, port: Port) -> None:
    if port.layer not in (ETHERNET, INFINIBAND):
        found = f"ib_write_bw cannot be used on the link layer {port.layer or 'unknown'}"
        raise UnusableError(Verdict.UNKNOWN, found, port.folder, "measure it with the tools of its maker")
    if rdma_gid.is_iwarp(host, port):
        found = "iWARP connects through RDMA-CM only, which is not measured here"
        raise UnusableError(Verdict.UNKNOWN, found, port.folder, "run ib_write_bw -R by hand")
    path, advice = f"{port.folder}/state", "look at the link (rdma_check: state)"
    value = ports.read(host, path)
    if value.text is None:
        raise UnusableError(Verdict.UNKNOWN, value.problem, path, advice)
    if not value.text.startswith("4:"):
        raise UnusableError(Verdict.FAIL, f"the port is {value.text[:60]}", path, advice)


def gid(host: Host, port: Port, given: int | None) -> int | None:
    """Entry of the GID table to send from; None for a port that is addressed by LIDs. Raises
    UnusableError."""
    if given is not None or port.layer == INFINIBAND:
        return given
    entries, problem = rdma_gid.table(host, port)
    # Both sides have to take one of the same family, and IPv4 is what nearly all fabrics have.
    usable = sorted(rdma_gid.reachable(entries), key=lambda one: (one.address.ipv4_mapped is None, one.index))
    if usable:
        return usable[0].index
    found = problem or f"no routable {rdma_gid.ROUTED} entry among its GIDs"
    verdict = Verdict.UNKNOWN if problem else Verdict.FAIL
    raise UnusableError(verdict, found, f"{port.folder}/gids", "look at its address (rdma_check: gid)")


def cpus(topology: Topology, device: RdmaDevice) -> tuple[int, ...]:
    """Those of the device's NUMA node; none where it is not known."""
    return next((node.cpus for node in topology.nodes if node.number == device.node), ())


def gbits(port: Port) -> tuple[float | None, str]:
    """Rate of a port without its coding, in Gb/s; None with the reason where it is unknown."""
    rate = next((one.rate for one in port.device.ports if one.number == port.number), "")
    match = RATE.match(rate)
    if port.device.address is None:
        return None, "a device in software has no rate of its own"
    if match is None:
        return None, f"the port names no rate, but {rate[:60]!r}"
    data = float(match.group(1))
    return data * (_CODED.get(match.group(3) or "", 1.0) if port.layer == INFINIBAND else 1.0), ""
