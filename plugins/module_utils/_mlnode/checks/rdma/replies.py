# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The interface through which replies of a RoCE rail leave (ip-rule(8), ip-route(8)).

Read-only, because routes belong to the network manager.
"""

from __future__ import annotations

from functools import partial
from typing import Collection, Iterable

from ...host.host import Host
from ...knobs.rail import interfaces as rail_places
from ...linux import iproute
from ...linux.iproute import IP, Address, Interface, Network
from ...model.record import NamedTuple, replace
from ...topology.model import Topology
from ..expect import Expectations
from ..model import Check, Subject, Verdict, findings
from . import ipv6, ports

NAMES = ("reply_path",)
_SUBJECT = Subject(*NAMES, source="ip addr show")

_ROUTE = "ip route get PEER from ADDRESS"

#: Most host bits of a subnet in which every address is usable (RFC 3021, RFC 6164)
_NO_BROADCAST = 1


class _Reply(NamedTuple):
    """A reply from a rail's address to a peer in its subnet. leaves_by: the kernel's interface for it."""

    address: Address
    peer: IP
    leaves_by: str


def checks(host: Host, topology: Topology, expect: Expectations) -> list[Check]:
    """Raises HostError."""
    rails = ports.roce_interfaces(ports.subjects(topology, expect))
    if not rails:
        return [_SUBJECT.skip("no RoCE interface is judged", source=ports.CLASS)]
    names = dict.fromkeys(name for rail in rails for name in rail_places.speaking(host, rail))
    abouts = [replace(_SUBJECT, target=name, expected=f"replies leave by {name}") for name in names]
    return [check for about in abouts for check in findings([about], partial(_check, host, about))]


def _check(host: Host, subject: Subject) -> Check:
    """Raises HostError."""
    name, known = subject.target, iproute.interfaces(host)
    if name not in known:
        lack = ipv6.explain(host, name)
        return subject.skip(f"it has no address that is routed{f'; {lack.words}' if lack else ''}")
    if not known[name].up:
        return subject.skip("it is down, and has no routes")
    own = {address.ip for interface in known.values() for address in interface.addresses}
    replies = _replies(host, known[name], own)
    if not replies:
        return subject.skip("its subnet has no room for a peer")
    wrong = [reply for reply in replies if reply.leaves_by != name]
    evidence = "; ".join(
        f"{reply.address.ip} to {reply.peer} leaves by {reply.leaves_by}" for reply in wrong or replies
    )
    advice = "; ".join(_advice(name, reply.address) for reply in wrong)
    return subject.judged(not wrong, evidence, source=_ROUTE, advice=advice, bad=Verdict.WARN)


def _replies(host: Host, rail: Interface, own: Collection[IP]) -> list[_Reply]:
    """Raises HostError."""
    replies = []
    for address in rail.addresses:
        peer = _peer(address.network, own)
        if peer is not None:
            replies.append(_Reply(address, peer, iproute.leaves_by(host, address.ip, peer, rail.vrf)))
    return replies


def _peer(network: Network, own: Collection[IP]) -> IP | None:
    """The first address that may belong to another machine: a route to one of our own is the loopback."""
    all_are = network.max_prefixlen - network.prefixlen <= _NO_BROADCAST
    hosts: Iterable[IP] = network if all_are else network.hosts()
    return next((host for host in hosts if host not in own), None)


def _advice(name: str, address: Address) -> str:
    return (
        f"give the network manager a rule `from {address.ip} lookup TABLE` and, in a table of {name} alone, "
        f"the routes `{address.network} dev {name}` and those through the gateway of {name}"
    )
