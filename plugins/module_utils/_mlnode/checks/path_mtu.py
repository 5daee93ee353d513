# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check that packets of a given size arrive at every peer, and count losses.

If they do not arrive, the check finds a usual size that does. A switch port with a smaller MTU silently drops
longer packets: connections open, and hang with the first full packet. Therefore each peer gets echo requests
with the don't-fragment bit.
"""

from __future__ import annotations

import json
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Mapping, Sequence

from ..host.host import Host, Mounts
from ..host.system import USUAL_SECONDS
from ..linux.ping import PROGRAM, Echoes, Reply, Way, ask, count
from ..model.errors import DeclarationError, HostError
from ..model.record import NamedTuple, replace
from ..model.schema import Option, Table, refuse_unknown
from . import module_result
from .model import Check, Subject, Verdict

NAME = "path_mtu"

MOUNTS: Mounts = {}

OPTIONS: Table = {
    "peers": Option("list", elements="raw", required=True),
    "size": Option("int"),
    "tries": Option("int", default=3),
    "timeout": Option("float", default=1.0),
    "packets": Option("int", default=100),
    **module_result.fail_on("unknown"),
}

#: Minimum that every IPv4 host must accept (RFC 791); a smaller path MTU is another problem
SMALLEST = 576
#: The longest IP packet with a 16-bit length (RFC 791)
LONGEST = 65535
#: More would only take time: a path that loses half of its packets loses 20 in a row once in a million times
MAX_TRIES = 20
#: Seconds. Only root may use ping(8) with less than 0.2 s; no path between nodes takes more than a minute
MIN_TIMEOUT, MAX_TIMEOUT = 0.2, 60.0

#: Packets to count losses. A path that loses 3 % in each direction loses two or more of 100 in 98 of 100
#: looks. A cable with a bit error rate of 10^-12, the limit of IEEE 802.3, loses one in 10^7. All peers of a
#: node together get 10,000, enough to lose ten at a loss of 0.1 %.
MAX_PACKETS = 10_000
_ALL_PACKETS, _LEAST_PACKETS = 10_000, 10
#: Seconds between two packets: 7 Mbit/s of full packets of 9000 bytes. ping(8) refuses less than 0.2 s to
#: users other than root (iputils up to 20211215, MINUSERINTERVAL).
_EVERY, _EVERY_OF_USERS = 0.01, 0.2
#: One lost packet may be chance, for example while a neighbour's address is resolved
_LOSES = 2

#: Data bytes of a small packet, the default of ping(8)
_SMALL = 56
#: Common MTUs: 1280 IPv6's minimum (RFC 8200); 1420 WireGuard, 1450 VXLAN (RFC 7348), 1476 GRE (RFC 2784) and
#: 1492 PPPoE (RFC 2516) over 1500; 1460 and 8896 Google Cloud. 2044 and 4092 IPoIB (RFC 4391); 4200 RoCE with
#: 4096; 8950 VXLAN over 9000; 9001 AWS; 9216 usual on switches
_USUAL = (1280, 1420, 1450, 1460, 1476, 1492, 1500, 2044, 4092, 4200, 8896, 8950, 9000, 9001, 9216)

#: Peers measured at the same time: with three pipes per ping this stays below the usual 1024 open files
_AT_ONCE = 128

_INSTALL = {
    PROGRAM: "install ping of iputils (package iputils-ping on Debian and Ubuntu, iputils elsewhere)",
    "ip": "install iproute2",
}
_UNASKED = (
    "look at the address, the interface and the routes of this node (ip route get), and run as root or with "
    "a group in net.ipv4.ping_group_range; a link-local address needs its interface"
)
_SILENT = (
    "nothing is proven: the peer is down, or a firewall of a node or on the way drops ICMP echo; look at the "
    "peer, or let ICMP echo pass between the nodes"
)
_BLACK_HOLE = (
    "no router reports why, so a link on the way drops them: look at the MTU of the peer's interface and of "
    "every switch port between"
)
_LEARNED = (
    "a router reported it within the last ten minutes (net.ipv4.route.mtu_expires), or a route sets it: look "
    "at ip route get; after the path was mended: ip route flush cache"
)


_LOSSY = (
    "the loss is on the way there or back: look at the error and discard counters of both NICs (ethtool -S) "
    "and of every switch port between, and at cables and optics"
)


class Peer(NamedTuple):
    """Another node, and the local interface and address to send from."""

    address: str
    interface: str = ""
    source: str = ""

    def __str__(self) -> str:
        return f"{self.address} on {self.interface}" if self.interface else self.address


class Request(NamedTuple):
    """size None: the MTU of the interface to each peer. packets: number per peer to count losses."""

    peers: tuple[Peer, ...]
    size: int | None
    tries: int
    timeout: float
    packets: int = 0


# -- the request -----------------------------------------------------------------------------


def answer(host: Host, given: Mapping[str, Any], dry: bool) -> dict[str, Any]:
    """Result of the module path_mtu. Never writes. Raises DeclarationError."""
    del dry
    request = parse(given["peers"], given["size"], given["tries"], given["timeout"], given["packets"])
    return module_result.result(NAME, measure(host, request), given["fail_on"])


def parse(peers: Sequence[Any], size: int | None, tries: int, timeout: float, packets: int = 0) -> Request:
    """Raises DeclarationError."""
    if not peers:
        raise DeclarationError("peers: name at least one; none would prove nothing")
    module_result.between("size", size, SMALLEST, LONGEST, "bytes")
    module_result.between("tries", tries, 1, MAX_TRIES)
    module_result.between("timeout", timeout, MIN_TIMEOUT, MAX_TIMEOUT, "seconds")
    module_result.between("packets", packets, 0, MAX_PACKETS)
    return Request(parse_peers(peers), size, tries, timeout, packets)


def parse_peers(peers: Sequence[Any]) -> tuple[Peer, ...]:
    """The peers without duplicates. Raises DeclarationError."""
    parsed = [_peer(f"peers[{number}]", given) for number, given in enumerate(peers)]
    return tuple(dict.fromkeys(parsed))


def _peer(where: str, given: Any) -> Peer:
    fields: Mapping[Any, Any] = given if isinstance(given, dict) else {"address": given}
    refuse_unknown(where, fields, Peer._fields)
    if not fields.get("address"):
        raise DeclarationError(f"{where}.address: missing; give an IPv4 or IPv6 address, or a name")
    for key, value in fields.items():
        # No host, address or interface begins with a hyphen, which a program would read as an option.
        plain = isinstance(value, str) and value.isprintable() and " " not in value
        if value is not None and (not plain or value.startswith("-")):
            raise DeclarationError(f"{where}.{key}: {value!r} is not a name or address")
    peer = Peer(*(fields.get(name) or "" for name in Peer._fields))
    # The resolver reads 10 as 0.0.0.10, and 010.0.0.1 as 8.0.0.1 (inet_aton(3)).
    if all(sign in "0123456789." for sign in peer.address) and not _is_address(peer.address):
        raise DeclarationError(f"{where}.address: {peer.address!r} is not an IPv4 address of four numbers")
    if peer.source and not _is_address(peer.source):
        raise DeclarationError(f"{where}.source: {peer.source!r} is not an IPv4 or IPv6 address")
    return peer


def _is_address(text: str) -> bool:
    """True for an address that inet_pton(3) accepts, which is strict; a zone is allowed."""
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, text.partition("%")[0])
        except (OSError, ValueError):
            continue
        return True
    return False


# -- measuring -----------------------------------------------------------------------------


class Route(NamedTuple):
    """Route of this node to a peer. mtu: of the interface. source: this node's address."""

    interface: str
    mtu: int
    source: str


def measure(host: Host, request: Request) -> list[Check]:
    """One check per peer, in their order."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(lambda peer: _measured(host, request, peer), request.peers))


def _measured(host: Host, request: Request, peer: Peer) -> Check:
    subject = Subject(NAME, str(peer), expected=_expected(request.size))
    try:
        address = address_of(host, peer.address)
        if address != peer.address:
            subject = replace(subject, target=f"{peer} ({address})")
        way, known = _way(request, peer, address), route(host, peer, address)
        wanted = request.size or known.mtu
        sizes = _search(host, wanted, way)
        source = f"ICMP echo, don't fragment, from {known.source or known.interface}"
        verdict, words, advice = _judge(known, wanted, sizes)
        if sizes.largest and request.packets:
            echoes = _counted(host, request, way, sizes.largest)
            verdict, words, advice = _with_losses(sizes, echoes, verdict, words, advice)
        return subject.made(verdict, words, source=source, expected=_expected(wanted), advice=advice)
    except HostError as error:
        advice = _INSTALL.get(error.path, _UNASKED) if error.absent else _UNASKED
        return subject.unknown(f"cannot be checked: {error}", advice=advice)


def address_of(host: Host, name: str, seconds: float = USUAL_SECONDS) -> str:
    """The first address of a name. Raises HostError."""
    if _is_address(name):
        return name
    try:
        done = host.run(["getent", "ahosts", "--", name], seconds)
    except HostError as error:
        if error.absent:
            raise
        # The name or its resolver is at fault, not the program.
        reason = f"the resolver of this node (/etc/nsswitch.conf, /etc/resolv.conf) gives {error.kernel}"
        raise HostError("find the address of", name, None, reason) from error
    if done.rc or not done.out.strip():
        raise HostError("find the address of", name, None, "getent ahosts knows no such name")
    return done.out.split()[0]


def _way(request: Request, peer: Peer, address: str) -> Way:
    address, _percent, zone = address.partition("%")
    return Way(address, peer.interface or zone, peer.source, request.tries, request.timeout)


def route(host: Host, peer: Peer, address: str) -> Route:
    """The route to an address of a peer. Raises HostError, also for an address of this node."""
    address, _percent, zone = address.partition("%")
    interface = peer.interface or zone
    command = ["ip", "-j", "route", "get", address]
    command += ["from", peer.source] if peer.source else []
    command += ["oif", interface] if interface else []
    text = host.must_run(command, f"find the route to {address} with")
    try:
        [answer] = json.loads(text)
        kind, device = answer.get("type", "unicast"), str(answer["dev"])
        source = str(peer.source or answer.get("prefsrc", ""))
        mtu = int(host.read(f"/sys/class/net/{device}/mtu"))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise HostError("read the route to", address, None, f"`{' '.join(command)}`: {error!r}") from error
    if kind != "unicast":
        raise HostError("send to", address, None, f"it is a {kind} address here, not another node's")
    return Route(device, mtu, source)


class Sizes(NamedTuple):
    """Sizes that were tried; 0 for none.

    largest: the largest that arrived. failed: the next larger size, which did not. reply: the answer to it.
    """

    largest: int
    failed: int
    reply: Reply


def usual_sizes(way: Way, wanted: int, known: int = 0) -> list[int]:
    """Common sizes between a small packet and the wanted one, ascending. known: an additional size."""
    small = way.header + _SMALL
    between = {size for size in {*_USUAL, known} if small < size < wanted}
    return [small, *sorted(between), wanted]


def _search(host: Host, wanted: int, way: Way) -> Sizes:
    """Try the wanted size; if it fails, ascending sizes up to the first failure. Only failures take time.

    Raises HostError.
    """
    first = reply = ask(host, way, wanted)
    largest, failed = (wanted, 0) if first.arrived else (0, wanted)
    for size in () if first.arrived else usual_sizes(way, wanted, first.mtu):
        reply = ask(host, way, size)
        if not reply.arrived:
            failed = size
            break
        largest = size
    # The first failure may have been temporary, such as an unresolved address; a wrong size is not.
    return Sizes(largest, failed, first if first.mtu and not reply.by else reply)


def _counted(host: Host, request: Request, way: Way, size: int) -> Echoes:
    """Losses of a burst; after a single loss, of a second burst as well. Raises HostError."""
    root = host.is_superuser()
    share = max(_LEAST_PACKETS, _ALL_PACKETS // len(request.peers)) if root else _LEAST_PACKETS
    number, every = min(request.packets, share), _EVERY if root else _EVERY_OF_USERS
    echoes = count(host, way, size, number, every)
    if 0 < echoes.lost < _LOSES:
        more = count(host, way, size, number, every)
        return Echoes(echoes.sent + more.sent, echoes.lost + more.lost)
    return echoes


# -- words ---------------------------------------------------------------------------------


def _judge(route: Route, wanted: int, seen: Sizes) -> tuple[Verdict, str, str]:
    largest, failed, reply = seen
    report = f"; {reply.by} reports: {reply.report}" if reply.by else ""
    if largest == wanted:
        return Verdict.PASS, _expected(wanted), ""
    if not largest:
        return Verdict.UNKNOWN, f"no answer to packets of {wanted} bytes, nor to small ones{report}", _SILENT
    sizes = f"{largest} do" + (f" and {failed} do not" if failed != wanted else "")
    lost = _BLACK_HOLE if not reply.by else f"look at the links, MTUs and rules of {reply.by}"
    if wanted > route.mtu:
        where = f"whose interface {route.interface} has an MTU of {route.mtu}"
        evidence = f"packets of {wanted} bytes do not leave this node, {where}; {sizes}{report}"
        advice = "raise the MTU of this node's interface to the peer"
        return Verdict.FAIL, evidence, f"{advice}, but before that: {lost}" if failed <= route.mtu else advice
    if reply.is_local:
        where = f"which knows of an MTU of {reply.mtu} on the way"
        evidence = f"packets of {wanted} bytes do not leave this node, {where}; {sizes}"
        return Verdict.FAIL, evidence, _LEARNED
    return Verdict.FAIL, f"packets of {wanted} bytes do not arrive, {sizes}{report}", lost


def _with_losses(
    sizes: Sizes, echoes: Echoes, verdict: Verdict, words: str, advice: str
) -> tuple[Verdict, str, str]:
    """Two lost packets fail a path, and one is a warning."""
    if not echoes.lost:
        return verdict, words, advice
    words = f"{words}; {echoes.lost} of {echoes.sent} packets of {sizes.largest} bytes were lost"
    if verdict is Verdict.PASS:
        verdict = Verdict.FAIL if echoes.lost >= _LOSES else Verdict.WARN
    return verdict, words, f"{advice}; {_LOSSY}" if advice else _LOSSY


def _expected(size: int | None) -> str:
    return f"packets of {size} bytes arrive" if size else "packets as large as this node can send arrive"
