# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The interface by which the replies of a RoCE rail leave. Routes belong to the network manager, so that they
are only looked at here (ip-rule(8), ip-route(8))."""

from __future__ import annotations

from typing import Collection, Iterable

from ...host.host import Host
from ...knobs.rail import interfaces as rail_places
from ...linux import iproute
from ...linux.iproute import IP, Address, Interface, Network
from ...model.errors import HostError
from ...model.record import NamedTuple
from ...topology.model import Topology
from ..expect import Expectations
from ..model import Check, Verdict, judged, skip
from . import ports

NAMES = ("reply_path",)
(_NAME,) = NAMES

_ADDRESSES = "ip addr show"
_ROUTE = "ip route get PEER from ADDRESS"

#: How many of the last bits of an address may be the host's where each address is one (RFC 3021, RFC 6164)
_NO_BROADCAST = 1


class _Reply(NamedTuple):
    """From an address of a rail to a peer in its subnet. leaves_by: the interface that the kernel chooses."""

    address: Address
    peer: IP
    leaves_by: str


def checks(host: Host, topology: Topology, expect: Expectations) -> list[Check]:
    rails = ports.roce_interfaces(ports.subjects(topology, expect))
    if not rails:
        return [skip(_NAME, "node", "no RoCE interface is judged", ports.CLASS)]
    try:
        names = dict.fromkeys(name for rail in rails for name in rail_places.speaking(host, rail))
    except HostError as error:
        return [Check(_NAME, "node", Verdict.UNKNOWN, "replies leave by their rail", str(error), _ADDRESSES)]
    return [_check(host, name) for name in names]


def _check(host: Host, name: str) -> Check:
    expected = f"replies leave by {name}"
    try:
        known = iproute.interfaces(host)
        if name not in known:
            return skip(_NAME, name, "it has no address that is routed", _ADDRESSES)
        if not known[name].up:
            return skip(_NAME, name, "it is down, and has no routes", _ADDRESSES)
        own = {address.ip for one in known.values() for address in one.addresses}
        replies = _replies(host, known[name], own)
    except HostError as error:
        return Check(_NAME, name, Verdict.UNKNOWN, expected, str(error), _ROUTE)
    if not replies:
        return skip(_NAME, name, "its subnet has no room for a peer", _ADDRESSES)
    wrong = [reply for reply in replies if reply.leaves_by != name]
    found = "; ".join(f"{one.address.ip} to {one.peer} leaves by {one.leaves_by}" for one in wrong or replies)
    advice = "; ".join(_advice(name, reply.address) for reply in wrong)
    return judged(_NAME, name, not wrong, expected, found, _ROUTE, advice, Verdict.WARN)


def _replies(host: Host, rail: Interface, own: Collection[IP]) -> list[_Reply]:
    """Raises HostError."""
    replies = []
    for address in rail.addresses:
        peer = _peer(address.network, own)
        if peer is not None:
            replies.append(
                _Reply(address, peer, iproute.leaves_by(host, address.ip, peer, rail.vrf)),
            )
    return replies


def _peer(network: Network, own: Collection[IP]) -> IP | None:
    """The first address that may be another machine's: the way to one of this machine is the loopback."""
    all_are = network.max_prefixlen - network.prefixlen <= _NO_BROADCAST
    hosts: Iterable[IP] = network if all_are else network.hosts()
    return next((host for host in hosts if host not in own), None)


def _advice(name: str, address: Address) -> str:
    return (
        f"give the network manager a rule `from {address.ip} lookup TABLE` and, in a table of {name} alone, "
        f"the routes `{address.network} dev {name}` and those through the gateway of {name}"
    )
