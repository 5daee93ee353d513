# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""ICMP echoes of an exact size that nobody may fragment, over sockets of the kernel.

One connected socket per peer: errors on it are about this peer only, and so is its queue.
"""

from __future__ import annotations

import errno
import os
import selectors
import socket
import struct
import sys
import time
from dataclasses import dataclass
from typing import Any, NamedTuple, Sequence, Union

from .errors import errno_name

#: The longest IP packet with a 16-bit length (RFC 791); IPv6 could have 40 bytes more
LONGEST = 65535

_HEAD = struct.Struct("!BBHHH")  # type, code, checksum, identifier, sequence (RFC 792, RFC 4443)
_TOKEN = 8  # random bytes in every packet: nobody who does not see them can answer
_ERROR = struct.Struct("=IBBBBII")  # linux/errqueue.h: struct sock_extended_err
_LOCAL = 1  # SO_EE_ORIGIN_LOCAL
_PER_WAKE = 64  # packets taken from one peer before the others have their turn
_RETRIES = 8  # of a send that meets the errors of earlier packets: more than a round has on their way
_CONTROL = 256  # bytes for control messages: an error has 44 with the address, a fragment's size 4
_PROBE = 3  # IP_PMTUDISC_PROBE, IPV6_PMTUDISC_PROBE: don't fragment, whatever was learned before


@dataclass(frozen=True)
class Family:
    """What IPv4 and IPv6 call the same things (linux/in.h, linux/in6.h, linux/icmp.h, linux/icmpv6.h)."""

    number: int
    protocol: int
    header: int
    request: int
    reply: int
    too_big: tuple[int, int]  # type and code
    level: int
    options: tuple[int, ...]  # what is switched on, besides the one that follows
    mtu_discover: int
    error: int  # the control message of the error queue, and where its sockaddr has the address
    offender: tuple[int, int]
    fragment: int  # the control message with the size of the largest fragment
    only_replies: tuple[int, int, bytes]  # the option of raw sockets; types whose bits are set are dropped


V4 = Family(
    number=socket.AF_INET,
    protocol=socket.IPPROTO_ICMP,
    header=20,
    request=8,
    reply=0,
    too_big=(3, 4),
    level=socket.IPPROTO_IP,
    options=(11, 25),  # IP_RECVERR, IP_RECVFRAGSIZE
    mtu_discover=10,
    error=11,
    offender=(4, 8),
    fragment=25,
    only_replies=(255, 1, struct.pack("=I", 0xFFFFFFFE)),  # SOL_RAW, ICMP_FILTER
)
V6 = Family(
    number=socket.AF_INET6,
    protocol=socket.IPPROTO_ICMPV6,
    header=40,
    request=128,
    reply=129,
    too_big=(2, 0),
    level=socket.IPPROTO_IPV6,
    options=(25, 62, 77),  # IPV6_RECVERR, IPV6_DONTFRAG, IPV6_RECVFRAGSIZE
    mtu_discover=23,
    error=25,
    offender=(8, 24),
    fragment=77,
    # SOL_ICMPV6, ICMPV6_FILTER: of eight words of 32 types each, the fifth begins with 128
    only_replies=(58, 1, struct.pack("=8I", *[0xFFFFFFFF] * 4, 0xFFFFFFFD, *[0xFFFFFFFF] * 3)),
)

_WORDS = {
    (V4, 3, 0): "network unreachable",
    (V4, 3, 1): "host unreachable",
    (V4, 3, 9): "administratively prohibited",
    (V4, 3, 10): "administratively prohibited",
    (V4, 3, 13): "administratively prohibited",
    (V4, 11, 0): "time to live exceeded",
    (V6, 1, 0): "no route",
    (V6, 1, 1): "administratively prohibited",
    (V6, 1, 3): "address unreachable",
    (V6, 3, 0): "hop limit exceeded",
}


class Answer(NamedTuple):
    """A packet of this size came back, in fragments of that size (0: whole)."""

    size: int
    fragment: int = 0


class Refusal(NamedTuple):
    """Somebody would not pass a packet of this size on; by "" means this node itself."""

    size: int
    by: str
    words: str
    mtu: int | None = None  # None where it is not about the size


Event = Union[Answer, Refusal]


class Target(NamedTuple):
    """An address as sockets take it."""

    family: Family
    sockaddr: tuple[Any, ...]

    @property
    def address(self) -> str:
        return str(self.sockaddr[0])


# -- packets -------------------------------------------------------------------------------


def checksum(data: bytes) -> int:
    """RFC 1071."""
    total: int = sum(struct.unpack(f"!{(len(data) + 1) // 2}H", data + b"\0" * (len(data) % 2)))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def pack(kind: int, identifier: int, sequence: int, data: bytes) -> bytes:
    """An echo message. The kernel writes the checksum anew where it knows better (IPv6, ping sockets)."""
    total = checksum(_HEAD.pack(kind, 0, 0, identifier, sequence) + data)
    return _HEAD.pack(kind, 0, total, identifier, sequence) + data


def unpack(message: bytes) -> tuple[int, int, int, bytes] | None:
    """Type, identifier, sequence and data; None where it is no echo message."""
    if len(message) < _HEAD.size:
        return None
    kind, code, _checksum, identifier, sequence = _HEAD.unpack_from(message)
    return None if code else (kind, identifier, sequence, message[_HEAD.size :])


def without_header(packet: bytes) -> bytes:
    """The ICMP message in an IPv4 packet, as raw sockets give it; empty where there is none."""
    if len(packet) < V4.header or packet[0] >> 4 != 4 or packet[9] != V4.protocol:
        return b""
    length = (packet[0] & 0xF) * 4
    return packet[length:] if length >= V4.header else b""


def unpack_error(family: Family, data: bytes) -> Refusal | None:
    """What an error queue's control message says, still without the packet's size. None: about no packet."""
    if len(data) < _ERROR.size:
        return None
    number, origin, kind, code, _pad, info, _data = _ERROR.unpack_from(data)
    if origin == _LOCAL:
        return Refusal(0, "", "", info) if number == errno.EMSGSIZE else None
    first, end = family.offender
    raw = data[_ERROR.size :][first:end]
    if len(raw) < end - first:
        return None
    by = socket.inet_ntop(family.number, raw)
    if (kind, code) == family.too_big:
        return Refusal(0, by, "", info)
    return Refusal(0, by, _WORDS.get((family, kind, code), f"ICMP type {kind} code {code}"))


# -- sockets -------------------------------------------------------------------------------


class Line:
    """The way to one peer."""

    def __init__(
        self, target: Target, interface: str, source: Target | None, selector: selectors.BaseSelector
    ) -> None:
        """Raises OSError."""
        self.family = target.family
        self._peer = target
        self._sent: dict[int, int] = {}
        self._sequence = int.from_bytes(os.urandom(2), "big")
        self._token = os.urandom(_TOKEN)
        self.socket, self._raw = _open(self.family)
        try:
            self._set_up(target, interface, source)
        except OSError:
            self.socket.close()
            raise
        self._selector = selector
        selector.register(self.socket, selectors.EVENT_READ, self)

    def _set_up(self, target: Target, interface: str, source: Target | None) -> None:
        self.socket.setblocking(False)
        self.socket.setsockopt(self.family.level, self.family.mtu_discover, _PROBE)
        for name in self.family.options:
            self.socket.setsockopt(self.family.level, name, 1)
        if self._raw:
            self.socket.setsockopt(*self.family.only_replies)
        if interface:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, os.fsencode(interface))
        if source:
            self.socket.bind(source.sockaddr)
        self.socket.connect(target.sockaddr)
        here = self.socket.getsockname()
        self.source = str(here[0])
        # A ping socket has the identifier that the kernel gave it, and takes no other's answers.
        self._identifier = int.from_bytes(os.urandom(2), "big") if self._raw else int(here[1])

    def send(self, size: int) -> list[Event]:
        """One echo request in an IP packet of this size. Returns what was said of it and of earlier ones.

        Raises OSError where none can leave this node, whatever its size.
        """
        self._sequence = (self._sequence + 1) & 0xFFFF
        data = self._token.ljust(size - self.family.header - _HEAD.size, b"\0")
        message = pack(self.family.request, self._identifier, self._sequence, data)
        told: list[Event] = []
        for left in reversed(range(_RETRIES)):
            try:
                self.socket.send(message)
            except OSError as error:
                found, mtu = self._errors()
                told += found
                if error.errno == errno.EMSGSIZE and mtu is not None:
                    return [*told, Refusal(size, "", "", mtu)]
                if error.errno in (errno.ENOBUFS, errno.EAGAIN):
                    return told  # a queue of this node is full: as good as lost on the way
                # The error of an earlier packet ends a send, too (net/core/sock.c: sock_error).
                if not left:
                    raise
            else:
                self._sent[self._sequence] = size
                break
        return told

    def receive(self) -> list[Event]:
        """What has come since the last call."""
        found = self._errors()[0]
        for _number in range(_PER_WAKE):
            try:
                data, extra, _flags, sender = self.socket.recvmsg(LONGEST, _CONTROL)
            except BlockingIOError:
                break
            except OSError:
                continue  # an error of an earlier packet, which the error queue tells as well
            answer = self._answer(without_header(data) if self._raw and self.family is V4 else data)
            # Ping sockets take answers from anybody (net/ipv4/ping.c: ping_lookup).
            if answer and _bare(sender[0]) == _bare(self._peer.address):
                found.append(answer._replace(fragment=self._fragment(extra)))
        return found

    def close(self) -> None:
        self._selector.unregister(self.socket)
        self.socket.close()

    def _answer(self, message: bytes) -> Answer | None:
        echo = unpack(message)
        if not echo or echo[:2] != (self.family.reply, self._identifier):
            return None
        size = len(message) + self.family.header
        data = self._token.ljust(len(message) - _HEAD.size, b"\0")
        return Answer(size) if self._sent.get(echo[2]) == size and echo[3] == data else None

    def _fragment(self, extra: Sequence[tuple[int, int, bytes]]) -> int:
        for level, kind, data in extra:
            if (level, kind) == (self.family.level, self.family.fragment) and len(data) >= 4:
                return int.from_bytes(data[:4], sys.byteorder)
        return 0

    def _errors(self) -> tuple[list[Event], int | None]:
        """What was said of packets on their way; and this node's own MTU, if one was too big for it."""
        found: list[Event] = []
        mtu = None
        for _number in range(_PER_WAKE):
            try:
                quoted, extra, _flags, _sender = self.socket.recvmsg(
                    _HEAD.size, _CONTROL, socket.MSG_ERRQUEUE
                )
            except OSError:
                break
            for level, kind, data in extra:
                if (level, kind) != (self.family.level, self.family.error):
                    continue
                refusal = unpack_error(self.family, data)
                echo = unpack(quoted)
                if refusal and not refusal.by:
                    mtu = refusal.mtu
                elif refusal and echo and echo[1] == self._identifier and echo[2] in self._sent:
                    found.append(refusal._replace(size=self._sent[echo[2]]))
        return found, mtu


def _open(family: Family) -> tuple[socket.socket, bool]:
    """A raw socket, or a ping socket where only that is allowed (net.ipv4.ping_group_range)."""
    try:
        return socket.socket(family.number, socket.SOCK_RAW, family.protocol), True
    except PermissionError:
        return socket.socket(family.number, socket.SOCK_DGRAM, family.protocol), False


def _bare(address: str) -> str:
    """Without the zone of a link-local address."""
    return address.partition("%")[0]


class Network:
    """The network as this process sees it."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()

    def find(self, address: str) -> Target:
        """The address that programs on this node would take for a name. Raises OSError."""
        try:
            family, _kind, _protocol, _name, sockaddr = socket.getaddrinfo(
                address, None, type=socket.SOCK_RAW
            )[0]
        except (UnicodeError, ValueError) as error:
            raise OSError(errno.EINVAL, f"{address!r} is no name") from error
        return Target(V6 if family == socket.AF_INET6 else V4, sockaddr)

    def connect(self, target: Target, interface: str, source: Target | None) -> Line:
        """Raises OSError."""
        return Line(target, interface, source, self._selector)

    def now(self) -> float:
        return time.monotonic()

    def wait(self, seconds: float) -> list[Line]:
        """The lines on which something has come, at the latest after so many seconds."""
        return [key.data for key, _events in self._selector.select(seconds)]

    def close(self) -> None:
        self._selector.close()


def why(error: OSError) -> str:
    """What the kernel or the resolver said."""
    if isinstance(error, socket.gaierror) or error.errno is None:
        return str(error.strerror or error)
    return f"{errno_name(error.errno)} ({error.strerror})"
