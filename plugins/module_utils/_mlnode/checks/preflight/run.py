# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One look at a node before a job, in a few seconds."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, Iterable, Iterator, Mapping, Sequence

from ...drivers import dcb, ethtool
from ...host.host import Host, Mounts
from ...model.errors import HostError
from ...model.record import NamedTuple, replace
from ...model.schema import Option, Table
from ...topology import hardware
from ...topology.model import Topology
from .. import expect, module_result, path_mtu
from ..campaign.clock import Answering
from ..expect import Expectations
from ..model import Check, Subject, findings
from ..path_mtu import Peer, Route
from . import buffers, clock, connect, losses, node, sockets
from .connect import Meeting

#: As in checks/rdma/run.py
MOUNTS: Mounts = {**hardware.MOUNTS, dcb.TOP: dcb.driver, ethtool.TOP: ethtool.driver}

OPTIONS: Table = {
    "peers": Option("list", elements="raw", default=[]),
    "mtu": Option("int"),
    "tcp_port": Option("int", default=18590),
    "expect": Option("dict", default={}),
    **module_result.fail_on("unknown"),
}

#: Seconds for all checks. Starting and compiling the module takes Ansible and Python another one.
LIMIT = 4.0

#: IP packet sizes of most links: standard Ethernet (1472 bytes of ICMP echo data), jumbo frames (8972)
_USUAL = (1500, 9000)

#: A path that loses a third of its packets loses five in a row once in 250 times; 0.2 s is a thousand round
#: trips through a data hall
_TRIES, _WAIT = 5, 0.2

#: Packets per size to count losses, 10 ms apart: a path that loses 3 % in each direction loses at least one
#: in 95 of 100 looks
_PACKETS = 50

#: Seconds to resolve a peer's name
_FIND = 1.0

#: Ports below 1024 belong to system services (RFC 6335)
_PORTS = (1024, 65535)


class Request(NamedTuple):
    """mtu: size of packets that must arrive; None for the MTU of the interface."""

    peers: tuple[Peer, ...]
    mtu: int | None
    tcp_port: int
    expect: Expectations


def parse(peers: Sequence[Any], mtu: int | None, tcp_port: int, raw: Any) -> Request:
    """Raises DeclarationError."""
    module_result.between("mtu", mtu, path_mtu.SMALLEST, path_mtu.LONGEST, "bytes")
    module_result.between("tcp_port", tcp_port, *_PORTS)
    return Request(path_mtu.parse_peers(peers), mtu, tcp_port, expect.parse(raw))


def answer(host: Host, given: Mapping[str, Any], dry: bool) -> dict[str, Any]:
    """Result of the module node_preflight. Raises DeclarationError."""
    start, answering = time.monotonic(), Answering()
    request = parse(given["peers"], given["mtu"], given["tcp_port"], given["expect"])
    checks = all_checks(host, request, host.is_superuser() and not dry)
    seconds = round(time.monotonic() - start, 2)
    return module_result.result(
        "node_preflight", checks, given["fail_on"], seconds=seconds, clock=answering.times
    )


def all_checks(host: Host, request: Request, writable: bool) -> list[Check]:
    """All checks. writable: the present counts may be stored for the next look."""
    until = time.monotonic() + LIMIT
    of_clock = [clock.check()]
    routes, lost = _routes(host, request.peers)
    names = dict.fromkeys(route.interface for route in routes.values())
    with Meeting([*routes], request.tcp_port, until) as meeting:
        meeting.measure(wait=False)
        topology = hardware.topology(host)
        of_node = _together(
            {
                "jobs": lambda: node.running(host),
                "drift": lambda: node.drift(host),
                "container_sysctls": lambda: node.container_sysctls(host),
                "local_ports": lambda: sockets.checks(host),
                node.NCCL: lambda: node.nccl_variables(host, topology),
                node.GPU_ERRORS: lambda: node.gpu_errors(host, topology),
                "nic_drops": lambda: losses.checks(host, _counted(topology, names), writable),
                "path_mtu": lambda: _mtus(host, request.mtu, routes),
                "rdma_check": lambda: node.rdma_check(host, request.expect, writable),
            },
            until,
        )
        meeting.measure(wait=True)
        meeting.stay()
    of_buffers = buffers.checks(host, topology.nics, names, meeting.median())
    return [*of_clock, *of_node, *of_buffers, *lost, *meeting.checks(), *_alone(request)]


def _together(looks: Mapping[str, Callable[[], Iterable[Check]]], until: float) -> list[Check]:
    """Run all at the same time; results in their order. A look that exceeds the time is unknown."""
    answers: dict[str, list[Check]] = {}
    problems: dict[str, Exception] = {}

    def run(name: str) -> None:
        try:
            answers[name] = [*findings([Subject(name)], looks[name])]
        except Exception as error:  # noqa: BLE001  # it is raised below, where it is seen
            problems[name] = error

    threads = [threading.Thread(target=run, args=(name,), daemon=True) for name in looks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
    for error in problems.values():
        raise error
    late = f"it was not over in {LIMIT:g} s"
    missing = {name: [Subject(name).unknown(late)] for name in looks}
    return [check for checks in {**missing, **answers}.values() for check in checks]


def _counted(topology: Topology, names: Iterable[str]) -> list[str]:
    """Interfaces with hardware that are up, and the interfaces to the peers."""
    kinds = ("physical", "virtual function", "virtio")
    return [*dict.fromkeys([*(nic.name for nic in topology.nics if nic.kind in kinds and nic.up), *names])]


def _alone(request: Request) -> Iterator[Check]:
    """Without another node, checks between nodes are skipped."""
    if not request.peers:
        for name in ("path_mtu", connect.NAME):
            yield Subject(name, source="peers").skip("no other node was given")


# -- paths to the peers ----------------------------------------------------------------------


def _routes(host: Host, peers: Iterable[Peer]) -> tuple[dict[Peer, Route], list[Check]]:
    """Peers by address, and one check for each unreachable peer."""
    routes, lost = {}, []
    for peer in peers:
        try:
            address = path_mtu.address_of(host, peer.address, _FIND)
            routes[peer._replace(address=address)] = path_mtu.route(host, peer, address)
        except HostError as error:
            advice = "look at the address (preflight_addresses) and the routes of this node (ip route get)"
            subject = Subject("", str(peer), expected="is reached")
            names = ("path_mtu", connect.NAME)
            lost += [replace(subject, name=name).unknown(str(error), advice=advice) for name in names]
    return routes, lost


def _mtus(host: Host, declared: int | None, routes: Mapping[Peer, Route]) -> list[Check]:
    """Checks of each peer with the usual sizes up to the interface's MTU, and the declared size."""
    asked, checks = [], []
    for peer, route in routes.items():
        wanted = declared or route.mtu
        for size in sorted({*_USUAL, wanted}):
            if size <= max(wanted, route.mtu):
                asked.append((peer, size))
            else:
                why = f"{route.interface} has an MTU of {route.mtu}, and no other size is declared"
                checks.append(Subject(f"path_mtu_{size}", str(peer), "ip route get").skip(why))
    with ThreadPoolExecutor(max(1, len(asked))) as pool:
        return [*pool.map(lambda peer_size: _mtu(host, *peer_size), asked), *checks]


def _mtu(host: Host, peer: Peer, size: int) -> Check:
    [check] = path_mtu.measure(host, path_mtu.Request((peer,), size, _TRIES, _WAIT, _PACKETS))
    return replace(check, name=f"{check.name}_{size}")
