# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Latency of TCP connections to the peers. Each peer listens during its own preflight.

All nodes run it at the same time and wait for each other. A client sends one of two bytes. ASK is answered by
GREETING, which proves that the listener is a preflight. DONE reports the end of the client's measurements.
All other connections are closed at once.

The kernel measures the latency, from SYN to its answer (tcp(7), TCP_INFO). A clock in this process would also
measure the load of this node: between two network namespaces of a loaded machine, 99 % of 400 connections
took up to 47 us in the kernel, and up to 7.9 ms in the process.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
import threading
import time
from ipaddress import ip_address
from typing import Any, Iterator, Sequence

from ...model.record import NamedTuple
from ..model import Check, Subject, Verdict
from ..path_mtu import Peer

NAME = "tcp_connect"

#: Connections to each peer. The 99th percentile of 50 is the slowest one.
SAMPLES = 50

#: A maximum above this many medians indicates a queue or a lost packet on the way
_SPREAD = 10

#: Seconds for one connection: a thousand round trips through a data hall, and less than the second after
#: which the kernel retransmits (RFC 6298). A lost packet is therefore an error instead of a slow connection
_PATIENCE = 0.5

#: Seconds between two attempts to reach a peer's listener
_PAUSE = 0.05

ASK, DONE, GREETING = b"?", b".", b"mlnode preflight 1\n"

#: Closing sends RST, so neither side keeps the port in TIME_WAIT (socket(7), SO_LINGER)
_RESET = struct.pack("ii", 1, 0)

#: include/uapi/linux/tcp.h: struct tcp_info up to tcpi_rtt, in microseconds
_RTT = struct.Struct("=68xI")

_REFUSED = (
    "check that both nodes run this at the same time (set Ansible's forks above 1), and that no firewall "
    "refuses it"
)
_SILENT = "let TCP connections to this port pass between the nodes (firewalls), or check that the node is up"
_LATE = "it came too late for this node, or the way to it takes long: run it again"
_DELAYED = (
    "something delays single packets: look for other traffic, at interrupts and at idle states of both nodes"
)
_OTHER = "give another port (tcp_port)"
_SOURCE = "give this node's own addresses (preflight_addresses)"


class _StrangerError(OSError):
    """Another program listens on the port."""


class Samples(NamedTuple):
    """Latencies of connections to a peer, in seconds, and the errors of failed ones."""

    seconds: tuple[float, ...] = ()
    errors: tuple[str, ...] = ()


class Meeting:
    """The listeners of this node, and its connections to the peers.

    until: the end of the meeting, in seconds of time.monotonic().
    """

    def __init__(self, peers: Sequence[Peer], port: int, until: float) -> None:
        self.port = port
        self.until = until
        #: Peer → measured latencies, and peer → error of the first connection
        self.samples: dict[Peer, Samples] = {}
        self.missing: dict[Peer, OSError] = {}
        #: Own address → error of its listener
        self.deaf: dict[str, OSError] = {}
        self._peers = [*dict.fromkeys(peers)]
        self._expected = {_meant(peer.address) for peer in self._peers}
        self._done: set[str] = set()
        self._listeners: list[socket.socket] = []

    def __enter__(self) -> Meeting:
        for own in sorted({peer.source or _any(peer.address) for peer in self._peers}):
            try:
                self._listeners.append(_listener(own, self.port))
            except OSError as error:
                self.deaf[own] = error
        for listener in self._listeners:
            threading.Thread(target=self._serve, args=(listener,), daemon=True).start()
        return self

    def __exit__(self, *_cause: object) -> None:
        for listener in self._listeners:
            # close() alone does not end accept() in another thread.
            listener.shutdown(socket.SHUT_RDWR)
            listener.close()

    # -- listening --------------------------------------------------------------------------

    def _serve(self, listener: socket.socket) -> None:
        while time.monotonic() < self.until:
            try:
                connection, address = listener.accept()
            except socket.timeout:
                continue
            except OSError as error:
                if error.errno == errno.ECONNABORTED:
                    continue
                return  # it was closed
            with connection:
                self._answer(connection, _meant(address[0]))

    def _answer(self, connection: socket.socket, client: str) -> None:
        """Answer one connection. Nothing is read from unknown clients, or sent to them."""
        try:
            connection.settimeout(_PATIENCE)
            word = connection.recv(1) if client in self._expected else b""
            if word == ASK:
                connection.sendall(GREETING)
            elif word == DONE:
                self._done.add(client)
            else:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        except OSError:  # the peer has already closed it, as after each measurement
            pass

    # -- connecting -------------------------------------------------------------------------

    def measure(self, wait: bool) -> None:
        """Measure the latency to all peers that listen. wait: for all peers, or until the end."""
        while True:
            for peer in [peer for peer in self._peers if peer not in self.samples]:
                self._try(peer)
            if not wait or len(self.samples) == len(self._peers) or time.monotonic() >= self.until:
                return
            time.sleep(_PAUSE)

    def stay(self) -> None:
        """Listen until all peers have finished measuring, or until the end."""
        while not self._expected <= self._done and self._listeners and time.monotonic() < self.until:
            time.sleep(_PAUSE)

    def _try(self, peer: Peer) -> None:
        try:
            self._greet(peer)
        except OSError as error:
            self.missing[peer] = error
            return
        seconds: list[float] = []
        errors: list[str] = []
        while len(seconds) + len(errors) < SAMPLES and time.monotonic() < self.until:
            try:
                with self._socket(peer) as connection:
                    connection.connect(_target(peer, self.port))
                    seconds.append(_round_trip(connection))
            except OSError as error:
                errors.append(_words(error))
        self.samples[peer] = Samples(tuple(seconds), tuple(errors))
        self._part(peer)

    def _greet(self, peer: Peer) -> None:
        """Open the first connection, which also resolves the peer's link address. Raises OSError."""
        with self._socket(peer) as connection:
            connection.connect(_target(peer, self.port))
            connection.sendall(ASK)
            heard = b""
            while len(heard) < len(GREETING):
                more = connection.recv(len(GREETING) - len(heard))
                if not more:
                    break
                heard += more
        if heard != GREETING:
            raise _StrangerError

    def _part(self, peer: Peer) -> None:
        try:
            with self._socket(peer) as connection:
                connection.connect(_target(peer, self.port))
                connection.sendall(DONE)
                connection.recv(1)  # returns once the peer has read DONE
        except OSError:  # the peer then waits until its end
            pass

    def _socket(self, peer: Peer) -> socket.socket:
        """Raises OSError."""
        made = socket.socket(_family(peer.address), socket.SOCK_STREAM)
        try:
            made.settimeout(_PATIENCE)
            made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            if peer.interface:
                made.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, peer.interface.encode())
            if peer.source:
                made.bind((peer.source, 0))
        except BaseException:
            made.close()
            raise
        return made

    # -- judging ----------------------------------------------------------------------------

    def checks(self) -> Iterator[Check]:
        for own, error in self.deaf.items():
            advice = _SOURCE if error.errno == errno.EADDRNOTAVAIL else _OTHER
            subject = Subject("tcp_listener", f"{own} port {self.port}", "bind(2)", "peers measure to it")
            yield subject.unknown(f"cannot listen: {_words(error)}", advice=advice)
        for peer in self._peers:
            samples = self.samples.get(peer)
            yield self._judged(peer, samples) if samples else self._unmet(peer, self.missing[peer])

    def median(self) -> float | None:
        """The largest of the peers' median latencies, in seconds; None without a measurement."""
        medians = [_percentile(samples.seconds, 50) for samples in self.samples.values() if samples.seconds]
        return max(medians, default=None)

    def _unmet(self, peer: Peer, error: OSError) -> Check:
        if isinstance(error, (_StrangerError, ConnectionResetError)):
            evidence = "another program listens there, or that node expects another address of this one"
            advice = f"{_OTHER}, or {_SOURCE}"
        elif isinstance(error, ConnectionError):
            evidence, advice = f"no listener was there: {_words(error)}", _REFUSED
        elif error.errno == errno.EADDRNOTAVAIL:
            evidence, advice = f"{peer.source} is not an address of this node", _SOURCE
        else:
            evidence, advice = f"no connection: {_words(error)}", _SILENT
        return self._about(peer).unknown(evidence, advice=advice)

    def _judged(self, peer: Peer, samples: Samples) -> Check:
        subject, tried = self._about(peer), len(samples.seconds) + len(samples.errors)
        evidence = f"{len(samples.errors)} errors of {tried}"
        if samples.errors:
            evidence += f" ({', '.join(sorted({*samples.errors}))})"
        if samples.seconds:
            evidence = f"{_spread(samples.seconds)}, {evidence}"
        if samples.errors:
            return subject.judged(
                False, evidence, advice="look at the links on the way: connections got lost"
            )
        if tried < SAMPLES:
            return subject.unknown(f"{evidence}, and no time for more", advice=_LATE)
        if not any(samples.seconds):
            return subject.unknown("the kernel reports no round trip")
        even = _percentile(samples.seconds, 99) <= _SPREAD * _percentile(samples.seconds, 50)
        return subject.judged(even, evidence, advice=_DELAYED, bad=Verdict.WARN)

    def _about(self, peer: Peer) -> Subject:
        expected = f"{SAMPLES} connections, p99 at most {_SPREAD} times p50"
        source = f"TCP_INFO of connections to port {self.port}"
        source += f" from {peer.source}" if peer.source else ""
        return Subject(NAME, str(peer), source, expected)


def _listener(own: str, port: int) -> socket.socket:
    """Raises OSError."""
    made = socket.create_server((own, port), family=_family(own), backlog=4 * SAMPLES)
    made.settimeout(_PATIENCE)
    return made


def _family(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def _any(address: str) -> str:
    return "::" if ":" in address else "0.0.0.0"  # noqa: S104  # who is not a peer gets no answer


def _target(peer: Peer, port: int) -> Any:
    """Socket address, with the zone of a link-local address as a separate field."""
    [*_others, target] = socket.getaddrinfo(
        peer.address, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST
    )[0]
    return target


def _meant(address: str) -> str:
    """Canonical spelling of an address, without the zone of a link-local one."""
    return str(ip_address(address.partition("%")[0]))


def _round_trip(connection: socket.socket) -> float:
    """Round trip of the handshake, in seconds. Raises OSError."""
    info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _RTT.size)
    [microseconds] = _RTT.unpack(info)
    return float(microseconds) / 1e6


def _percentile(seconds: Sequence[float], part: int) -> float:
    """Percentile by nearest rank."""
    return sorted(seconds)[-(-len(seconds) * part // 100) - 1]


def _spread(seconds: Sequence[float]) -> str:
    numbers = {f"p{part}": _percentile(seconds, part) for part in (50, 95, 99)}
    numbers["mean"] = sum(seconds) / len(seconds)
    return ", ".join(f"{name} {number * 1e6:.0f}" for name, number in numbers.items()) + " us"


def _words(error: OSError) -> str:
    if isinstance(error, socket.timeout):
        return f"no answer in {_PATIENCE:g} s"
    return os.strerror(error.errno) if error.errno else str(error)
