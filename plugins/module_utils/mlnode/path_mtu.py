# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Do packets of a given size arrive at every peer, and if not, which is the largest that does?

A switch port with a smaller MTU drops what is too long and tells nobody: connections open, and hang with the
first full packet. So each peer is sent echoes that may not be fragmented.
"""

from __future__ import annotations

import ipaddress
import math
import socket
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Mapping, NamedTuple, Protocol, Sequence, Union

from .errors import DeclarationError
from .icmp import LONGEST, Event, Target, why
from .path_search import Search, Verdict
from .schema import refuse_unknown

NAME = "path_mtu"

#: What every IPv4 host has to take (RFC 791); a path that carries less has another problem than its MTU
SMALLEST = 576
#: More would only take long: a path that loses half of its packets loses 20 in a row once in a million times
MAX_TRIES = 20
#: The least is many times the way through a data centre, the most is no answer that anybody would wait for
MIN_TIMEOUT, MAX_TIMEOUT = 0.05, 60.0

#: Peers measured at the same time: one socket each, below the usual limit of 1024 open files
_AT_ONCE = 512
#: Seconds between two packets: 1000 packets of 9000 bytes are 72 Mbit in a second, too few to disturb a job
_PACE = 0.001
#: Names asked for at the same time: a dead name server answers none of them for some 10 s (resolv.conf(5))
_RESOLVERS = 32


class Peer(NamedTuple):
    """Whom to reach, and from where."""

    address: str
    interface: str = ""
    source: str = ""

    def __str__(self) -> str:
        return f"{self.address} on {self.interface}" if self.interface else self.address


@dataclass(frozen=True)
class Request:
    """size None: the MTU that the interface to each peer has."""

    peers: tuple[Peer, ...]
    size: int | None
    tries: int
    timeout: float


@dataclass(frozen=True)
class Check:
    """What was found of one peer, in words."""

    target: str
    verdict: Verdict
    expected: str
    found: str
    source: str
    advice: str

    def document(self) -> dict[str, str]:
        return {
            "name": NAME,
            "target": self.target,
            "verdict": self.verdict.value,
            "expected": self.expected,
            "found": self.found,
            "source": self.source,
            "advice": self.advice,
        }

    def __str__(self) -> str:
        return f"{self.target}: {self.found}"


class Line(Protocol):
    """The way to one peer: icmp.Line."""

    @property
    def source(self) -> str: ...

    def send(self, size: int) -> Sequence[Event]: ...

    def receive(self) -> Sequence[Event]: ...

    def close(self) -> None: ...


class Network(Protocol):
    """What a measurement needs of the network: icmp.Network."""

    def find(self, address: str) -> Target: ...

    def connect(self, target: Target, interface: str, source: Target | None) -> Line: ...

    def now(self) -> float: ...

    def wait(self, seconds: float) -> Sequence[Line]: ...


# -- what is asked for ---------------------------------------------------------------------


def parse(peers: Sequence[Any], size: int | None, tries: int, timeout: float) -> Request:
    """Raises DeclarationError."""
    if not peers:
        raise DeclarationError("peers: name at least one; none would prove nothing")
    if size is not None and not SMALLEST <= size <= LONGEST:
        raise DeclarationError(f"size: {size} is not between {SMALLEST} and {LONGEST} bytes")
    if not 1 <= tries <= MAX_TRIES:
        raise DeclarationError(f"tries: {tries} is not between 1 and {MAX_TRIES}")
    if not MIN_TIMEOUT <= timeout <= MAX_TIMEOUT:  # neither is NaN
        raise DeclarationError(f"timeout: {timeout} is not between {MIN_TIMEOUT} and {MAX_TIMEOUT} seconds")
    found = [_peer(f"peers[{number}]", given) for number, given in enumerate(peers)]
    return Request(tuple(dict.fromkeys(found)), size, tries, timeout)


def _peer(where: str, given: Any) -> Peer:
    words: Mapping[Any, Any] = given if isinstance(given, dict) else {"address": given}
    refuse_unknown(where, words, Peer._fields)
    if not words.get("address"):
        raise DeclarationError(f"{where}.address: missing; give an IPv4 or IPv6 address, or a name")
    for name, word in words.items():
        if word is not None and (not isinstance(word, str) or not word.isprintable() or " " in word):
            raise DeclarationError(f"{where}.{name}: {word!r} is no name or address")
    peer = Peer(*(words.get(name) or "" for name in Peer._fields))
    for name, word in (("address", peer.address), ("source", peer.source)):
        # The resolver takes 10 for 0.0.0.10, and 010.0.0.1 for 8.0.0.1 (inet_aton(3)).
        if word and all(sign in "0123456789." for sign in word) and not _is_ipv4(word):
            raise DeclarationError(f"{where}.{name}: {word!r} is no IPv4 address of four numbers")
    return peer


def _is_ipv4(word: str) -> bool:
    try:
        socket.inet_pton(socket.AF_INET, word)
    except OSError:
        return False
    return True


# -- words ---------------------------------------------------------------------------------

_SILENT = (
    "nothing is proven: the peer is down, or it or a firewall on the way drops ICMP echo; look at the peer, "
    "or let ICMP echo pass between the nodes"
)
_BLACK_HOLE = (
    "no router says why, so a link on the way drops them: look at the MTU of the peer's interface and of "
    "every switch port between"
)
_ERRORS = {
    "EPERM": "run as root; a rule of this node's own firewall may drop ICMP echo",
    "EACCES": (
        "run as root, or let net.ipv4.ping_group_range have this user's group; a broadcast address is no peer"
    ),
    "EINVAL": "give a link-local address with its interface, as in fe80::1%eth0",
    "ENODEV": "name an interface that this node has",
    "ENETUNREACH": "this node has no route to the peer: look at its routes and at the address",
    "EADDRNOTAVAIL": "name an address that this node has",
}


def _judge(target: str, search: Search, source: str) -> Check:
    expected = _expected(search.wanted)
    if search.verdict is Verdict.PASS:
        found, advice = expected, ""
    elif search.verdict is Verdict.UNREACHABLE:
        found = f"no answer to packets of {search.wanted} bytes, nor to small ones{_said(search, source)}"
        advice = _SILENT
    elif search.fragment:
        whole = f"{search.largest} come back whole (the largest that do)"
        found = f"{expected}, but their answers come in fragments of {search.fragment} bytes; {whole}"
        advice = "raise the MTU of the peer's interface, and of the routers on the way back"
    else:
        found, advice = _failure(search, source)
    return Check(target, search.verdict, expected, found, f"ICMP echo, don't fragment, from {source}", advice)


def _expected(size: int | None) -> str:
    return f"packets of {size} bytes arrive" if size else "packets as large as this node can send arrive"


def _failure(search: Search, source: str) -> tuple[str, str]:
    """What is found, and advice, where small packets arrive and large ones do not."""
    passes = f"{search.largest} do (the largest that passes)"
    refusal = search.refusal
    if search.own is None:
        found = f"packets of {search.wanted} bytes do not arrive, {passes}"
        # That nobody had the address was before the small ones arrived.
        if refusal is None or (refusal.mtu is None and refusal.by == source):
            return found, _BLACK_HOLE
        return f"{found}{_said(search, source)}", f"look at the links, MTUs and rules of {refusal.by}"
    advice = "raise the MTU of this node's interface to the peer"
    if search.largest < search.own:
        advice = f"{advice}, but before that: {_BLACK_HOLE}"
    where = f"whose interface has an MTU of {search.own}"
    return f"packets of {search.wanted} bytes do not leave this node, {where}; {passes}", advice


def _said(search: Search, source: str) -> str:
    refusal = search.refusal
    if refusal is None:
        return ""
    if refusal.mtu is not None:
        return f"; {refusal.by} says: its next link has an MTU of {refusal.mtu}"
    if refusal.by == source:
        return "; nobody on the link has this address"
    return f"; {refusal.by} says: {refusal.words}"


def _error(target: str, size: int | None, error: OSError) -> Check:
    words = why(error)
    advice = _ERRORS.get(words.partition(" ")[0], "give an address of another node, or a name that resolves")
    return Check(target, Verdict.ERROR, _expected(size), f"cannot be checked: {words}", "", advice)


# -- all of them ---------------------------------------------------------------------------


@dataclass
class _Path:
    """One peer while it is measured."""

    number: int
    target: str
    line: Line
    search: Search
    size: int = 0  # of the packet that waits for its answer; 0 before it is sent
    deadline: float = math.inf


def measure(request: Request, network: Network) -> list[Check]:
    """One check per peer, in their order."""
    return _Round(request, network).run()


Found = Union[Target, OSError]


class _Round:
    def __init__(self, request: Request, network: Network) -> None:
        self._request = request
        self._network = network
        self._waiting = deque(enumerate(request.peers))
        self._paths: dict[Line, _Path] = {}
        self._todo: deque[_Path] = deque()
        self._checks: dict[int, Check] = {}
        self._earliest = network.now()

    def run(self) -> list[Check]:
        found = self._find()
        try:
            while self._waiting or self._paths:
                while self._waiting and len(self._paths) < _AT_ONCE:
                    self._begin(*self._waiting.popleft(), found)
                self._send()
                self._listen()
        finally:
            for line in self._paths:
                line.close()
        return [self._checks[number] for number in sorted(self._checks)]

    def _find(self) -> dict[str, Found]:
        names = {peer.address for peer in self._request.peers}
        names |= {peer.source for peer in self._request.peers if peer.source}

        def find(name: str) -> Found:
            try:
                return self._network.find(name)
            except OSError as error:
                return error

        with ThreadPoolExecutor(_RESOLVERS) as pool:
            return dict(zip(names, pool.map(find, names)))

    def _begin(self, number: int, peer: Peer, found: Mapping[str, Found]) -> None:
        name = str(peer)
        try:
            target = _usable(found[peer.address])
            if target.address != peer.address:
                name = f"{name} ({target.address})"
            source = _usable(found[peer.source]) if peer.source else None
            if source and source.family is not target.family:
                raise OSError(f"{peer.source} and {peer.address} are not of the same family, IPv4 or IPv6")
            line = self._network.connect(target, peer.interface, source)
        except OSError as error:
            self._checks[number] = _error(name, self._request.size, error)
            return
        search = Search(self._request.size, self._request.tries, target.family.header)
        path = self._paths[line] = _Path(number, name, line, search)
        if line.source == target.address:
            self._end(path, OSError("this is the node itself, and nothing would leave it"))
        else:
            self._todo.append(path)

    def _end(self, path: _Path, error: OSError | None = None) -> None:
        del self._paths[path.line]
        path.line.close()
        if error:
            self._checks[path.number] = _error(path.target, self._request.size, error)
        else:
            self._checks[path.number] = _judge(path.target, path.search, path.line.source)

    def _send(self) -> None:
        now = self._network.now()
        if not self._todo or now < self._earliest:
            return
        path = self._todo.popleft()
        size = path.search.next()
        if size is None:
            self._end(path)
            return
        path.size = size
        self._earliest, path.deadline = now + _PACE, now + self._request.timeout
        try:
            told = path.line.send(size)
        except OSError as error:
            self._end(path, error)
        else:
            self._take(path, told)

    def _listen(self) -> None:
        if not self._paths:
            return
        moments = [path.deadline for path in self._paths.values()]
        if self._todo:
            moments.append(self._earliest)
        for line in self._network.wait(max(0.0, min(moments) - self._network.now())):
            if line in self._paths:
                self._take(self._paths[line], line.receive())
        now = self._network.now()
        for path in [path for path in self._paths.values() if path.deadline <= now]:
            path.search.lost(path.size)
            self._go_on(path)

    def _take(self, path: _Path, events: Sequence[Event]) -> None:
        for event in events:
            path.search.take(event)
        if not path.size:  # it waits for its turn to send
            return
        if any(event.size == path.size for event in events) or path.search.next() != path.size:
            self._go_on(path)

    def _go_on(self, path: _Path) -> None:
        path.size, path.deadline = 0, math.inf
        if path.search.next() is None:
            self._end(path)
        else:
            self._todo.append(path)


def _usable(found: Found) -> Target:
    """Raises OSError."""
    if isinstance(found, OSError):
        raise found
    address = ipaddress.ip_address(found.address.partition("%")[0])
    if address.is_multicast or address.is_unspecified or address.is_loopback:
        raise OSError(f"{address} is no address of another node")
    return found
