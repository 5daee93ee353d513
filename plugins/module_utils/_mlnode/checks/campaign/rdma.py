# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Common parts of the RDMA kinds: the ports of the rails, the perftest programs, and the proof of RDMA.

The packet counters of the port prove it. The two sides use TCP only to agree; no program falls back to TCP.
"""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import Any, Sequence

from ...drivers.roce import counters
from ...host.host import Host
from ...host.system import Finished
from ...linux import perftest
from ...linux.perftest import Header, Request
from ...linux.timeout import TIMED_OUT
from ...model.errors import HostError, RefusedError, UnfitError
from ...model.record import NamedTuple, regex, replace
from ...topology import hardware
from ...topology.model import Topology
from ..rdma import gid as rdma_gid
from ..rdma import ports, usable
from ..rdma.ports import ETHERNET, Port
from . import facts, kind
from .kind import Device, End, Part, Rail

COUNTED = "packets"

#: perftest reports the same error if nothing listens and if nothing answers (perftest_communication.c,
#: ethernet_client_connect)
EARLY = kind.UNREACHABLE

#: perftest's name for InfiniBand and RoCE. iWARP, which is TCP, has another (perftest_parameters.c,
#: transport_str)
_TRANSPORT = "IB"

#: RoCE v2 headers in bytes: IPv4 20, UDP 8, base transport header 12, checksum 4 (InfiniBand Architecture,
#: annex A17). The MTU of RDMA is the largest power of two up to 4096 that fits with them.
_HEADERS = 20 + 8 + 12 + 4
_MTUS = (4096, 2048, 1024, 512, 256)

#: Seconds. perftest sleeps for one second first, then creates queues and memory, and frees them at the end
SETTLE = 4.0


class Flow(NamedTuple):
    """request: of the connecting side."""

    here: str
    there: str
    end: End
    request: Request

    @property
    def port(self) -> int:
        return self.request.tcp_port

    @property
    def backward(self) -> bool:
        return self.request.backward

    @property
    def client(self) -> list[str]:
        return self.request.command

    @property
    def server(self) -> list[str]:
        return replace(self.request, peer="").command


def flow(part: Part, rail: Rail, step: int, **more: Any) -> Flow:
    """One flow. Each rail and step needs another port, because a server listens on all addresses."""
    request = Request(
        device=rail.end.device,
        port=rail.end.port,
        peer=rail.there,
        gid=rail.end.gid,
        tcp_port=part.tcp_port + rail.number * part.kind.STEPS + step,
        **{"seconds": part.duration, **more},
    )
    return Flow(rail.here, rail.there, rail.end, request)


def require(host: Host, program: str) -> None:
    """Raises HostError."""
    # The exit status is 1 in all versions.
    done = kind.started(host, [program, "--version"], "perftest")
    if "Version" not in done.out:
        raise HostError("use", program, None, f"it ended with {done.rc}")


def cpus(flow: Flow) -> Sequence[int]:
    return flow.end.cpus


# -- ports -------------------------------------------------------------------------------------------


def ends(host: Host, part: Part) -> list[End]:
    """Raises RefusedError, HostError."""
    topology = hardware.topology(host)
    given = part.devices or [None] * len(part.addresses)
    return [_end(host, topology, address, device) for address, device in zip(part.addresses, given)]


def _end(host: Host, topology: Topology, address: str, device: Device | None) -> End:
    interface = facts.required_interface(host, address)
    if device is None:
        return _addressed(host, topology, address, interface)
    port = usable.find(host, topology, device.name, device.port)
    entry = _entry(host, port, address)
    gid = usable.gid(host, port, entry if device.gid is None else device.gid)
    return _made(topology, interface, port, gid, gid is not None and gid == entry)


def _addressed(host: Host, topology: Topology, address: str, interface: str) -> End:
    """The port that has an address, or is on its interface. Raises RefusedError."""
    for port in usable.every(topology):
        entry = _entry(host, port, address)
        if entry is not None or (port.layer != ETHERNET and interface in port.own.netdevs):
            usable.find(host, topology, port.device.name, port.number)
            return _made(topology, interface, port, entry, entry is not None)
    there = ", ".join(port.name for port in usable.every(topology))
    raise RefusedError(
        f"no RDMA port has the address {address} as {rdma_gid.ROUTED}, of {there or 'none at all'}: give "
        "campaign_devices"
    )


def _entry(host: Host, port: Port, address: str) -> int | None:
    """Entry of a GID table with this address."""
    if port.layer != ETHERNET:
        return None
    wanted = ip_address(address)
    entries, _problem = rdma_gid.table(host, port)
    reachable = rdma_gid.reachable(entries)
    return next(
        (entry.index for entry in reachable if (entry.address.ipv4_mapped or entry.address) == wanted), None
    )


def _made(topology: Topology, interface: str, port: Port, gid: int | None, addressed: bool) -> End:
    near = usable.cpus(topology, port.device)
    return End(interface, port.device.name, port.number, gid, addressed, near)


# -- proof of RDMA and of the peer ------------------------------------------------------------


def place(host: Host, flow: Flow) -> str:
    """Raises HostError, UnfitError."""
    kind.leaves_by(host, flow.here, flow.there)
    return f"{flow.end.device}/{flow.end.port}"


def count(host: Host, flow: Flow, place: str) -> float:
    """Number of packets. Raises UnfitError."""
    sets = counters.RECEIVED if flow.backward else counters.SENT
    number = _counted(host, flow, sets)
    if number is None:
        names = ", ".join(" + ".join(names) for names in reversed(sets))
        raise UnfitError(
            f"{place} counts no packets ({names}), so that it cannot be proven that RDMA was used"
        )
    return number


def _counted(host: Host, flow: Flow, sets: Sequence[Sequence[str]]) -> int | None:
    """Sum of the counters that the port's driver has; None if it has none, or one cannot be read."""
    folder = f"{ports.CLASS}/{flow.end.device}/ports/{flow.end.port}"
    numbers = [ports.counted(host, path) for path in counters.paths(host, folder, sets)]
    known = [number for number in numbers if number is not None]
    return sum(known) if known and len(known) == len(numbers) else None


def resent(host: Host, flow: Flow, _place: str) -> float | None:
    """Losses at this end of the direction, which sends forward and receives backward."""
    return _counted(host, flow, counters.LOST_RECEIVED if flow.backward else counters.LOST_SENT)


def loss(_measured: Sequence[Any], resent: float | None, crossed: float) -> float | None:
    return min(1.0, resent / crossed) if resent is not None and resent >= 0 and crossed > 0 else None


def is_early(done: Finished) -> bool:
    return perftest.NOT_YET in done.err


def header(done: Finished, flow: Flow) -> Header:
    """Raises UnfitError if the program failed or measured something else."""
    perftest_header = perftest.header(done.out)
    if done.rc != 0 or perftest_header is None:
        raise unfit(done, flow)
    if perftest_header.device != flow.request.device:
        raise UnfitError(f"{perftest_header.device} was measured, and not {flow.request.device}")
    if perftest_header.transport != _TRANSPORT:
        raise UnfitError(f"the transport was {perftest_header.transport}, and not {_TRANSPORT}")
    if len({*perftest_header.gids}) == 1:
        raise UnfitError(f"{perftest_header.gids[0]} was measured to itself, through no network")
    other = _stranger(perftest_header, flow)
    if other:
        raise UnfitError(f"{other} answered in place of {flow.there}")
    return perftest_header


def unfit(done: Finished, flow: Flow) -> UnfitError:
    why = perftest.failure(done, flow.request)
    cause = kind.PROGRAM
    if done.rc in TIMED_OUT:
        cause = kind.TIMEOUT
    elif perftest.is_path(why):
        cause = kind.NOTHING
    return UnfitError(f"{why.words}; {why.advice}", cause)


def stranger(done: Finished, flow: Flow) -> str:
    perftest_header = perftest.header(done.out)
    return _stranger(perftest_header, flow) if perftest_header else ""


def _stranger(perftest_header: Header, flow: Flow) -> str:
    """A stranger's address; "" if the peer answered. Both ends must use the rail's address, or neither."""
    other = (
        str(perftest_header.gids[-1]) if flow.end.addressed and len(perftest_header.gids) == 2 else flow.there
    )
    return "" if ip_address(other) == ip_address(flow.there) else other


def packets(perftest_header: Header, size: int, iterations: int) -> int:
    """The least number of packets of a measurement."""
    return iterations * -(-size // perftest_header.mtu)


def overhead(mtu: int) -> tuple[int, int]:
    return next((size for size in _MTUS if size + _HEADERS <= mtu), _MTUS[-1]), _HEADERS


# -- as declared ---------------------------------------------------------------------------------

#: mlx5_0, mlx5_0/1, mlx5_0/1/3. A leading dash is excluded, because the program would read it as an option.
_GIVEN = regex(r"([A-Za-z0-9_][A-Za-z0-9_.:-]{0,62})(?:/([1-9][0-9]{0,2})(?:/([0-9]{1,3}))?)?\Z", re.ASCII)


def device(text: Any) -> Device | None:
    """None if the text does not identify an RDMA port."""
    match = _GIVEN.match(text) if isinstance(text, str) else None
    if match is None:
        return None
    name, port, gid = match.groups()
    return Device(name, int(port or 1), int(gid) if gid else None)
