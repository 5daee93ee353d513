# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes that listen for each other, each with an own address of the loopback interface."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from mlnode.checks.model import Check, Verdict
from mlnode.checks.path_mtu import Peer
from mlnode.checks.preflight import connect
from mlnode.checks.preflight.connect import SAMPLES, Meeting, Samples

A, B, STRANGER = "127.0.0.2", "127.0.0.3", "127.0.0.9"
A_TO_B, B_TO_A = Peer(B, "", A), Peer(A, "", B)

#: Long enough for a busy machine, where a test does not wait for its end
PATIENT = 10.0


@pytest.fixture
def port() -> int:
    with socket.create_server((A, 0)) as free:
        found: int = free.getsockname()[1]
    return found


def meeting(peer: Peer, port: int, seconds: float = PATIENT) -> Meeting:
    return Meeting([peer], port, time.monotonic() + seconds)


def only(checks: Iterator[Check]) -> Check:
    [check] = checks
    return check


def sockets_of(port: int) -> list[str]:
    """Of A and B, in whatever state. At 127.0.0.1 other programs and earlier tests may have the same port."""
    ends = [f" {socket.inet_aton(node)[::-1].hex().upper()}:{port:04X} " for node in (A, B)]
    with open("/proc/net/tcp", encoding="ascii") as table:
        return [line for line in table if any(end in line for end in ends)]


@contextmanager
def listening(address: str, port: int, says: bytes) -> Iterator[None]:
    """A program of another kind."""
    with socket.create_server((address, port)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _address = server.accept()
                except OSError:
                    return
                with connection:
                    connection.sendall(says)

        threading.Thread(target=serve, daemon=True).start()
        yield
        server.shutdown(socket.SHUT_RDWR)


def test_two_nodes_measure_each_other_and_leave_nothing_behind(port: int) -> None:
    with meeting(A_TO_B, port) as a, meeting(B_TO_A, port) as b:
        assert len(sockets_of(port)) == 2, "nothing would be seen"
        a.measure(wait=True)
        b.measure(wait=True)
        a.stay()
        b.stay()
    for node, other in ((a, B), (b, A)):
        check = only(node.checks())
        # The slowest of fifty may be late on a machine that does other things.
        assert check.verdict in (Verdict.PASS, Verdict.WARN)
        assert (check.name, check.target) == ("tcp_connect", other)
        assert check.found.endswith(f" us, 0 errors of {SAMPLES}")
        assert len(node.samples[node._peers[0]].seconds) == SAMPLES
    assert sockets_of(port) == []


def test_a_node_waits_for_a_peer_that_begins_later(port: int) -> None:
    with meeting(A_TO_B, port) as a:
        a.measure(wait=False)
        assert a.samples == {}
        waiting = threading.Thread(target=lambda: (a.measure(wait=True), a.stay()))
        waiting.start()
        with meeting(B_TO_A, port) as b:
            b.measure(wait=False)
            b.stay()
        waiting.join(PATIENT)
    assert not waiting.is_alive()
    assert all(node.samples for node in (a, b))


def test_a_peer_that_does_not_come_is_unknown_when_the_time_is_over(port: int) -> None:
    with meeting(A_TO_B, port, 0.2) as a:
        start = time.monotonic()
        a.measure(wait=True)
        a.stay()
        assert time.monotonic() - start < PATIENT / 2
    check = only(a.checks())
    assert check.verdict is Verdict.UNKNOWN
    assert "no listener was there: Connection refused" in check.found
    assert "forks" in check.advice
    assert a.median() is None


@pytest.mark.parametrize("says", [b"", b"220 mail.example ESMTP ready\r\n"])
def test_what_else_listens_on_the_port_is_not_measured(port: int, says: bytes) -> None:
    with listening(B, port, says), meeting(A_TO_B, port) as a:
        a.measure(wait=False)
    check = only(a.checks())
    assert check.verdict is Verdict.UNKNOWN
    assert check.found.startswith("another program listens there")


def stranger(port: int, word: bytes) -> bytes:
    with socket.create_connection((A, port), PATIENT, source_address=(STRANGER, 0)) as connection:
        connection.sendall(word)
        return connection.recv(1)


@pytest.mark.parametrize("word", [connect.ASK, connect.DONE])
def test_a_stranger_gets_no_byte_and_ends_nothing(port: int, word: bytes) -> None:
    with meeting(A_TO_B, port, 0.2) as a:
        with pytest.raises(ConnectionError):
            stranger(port, word)
        a.stay()
        assert time.monotonic() >= a.until


def test_a_node_that_does_not_expect_this_address_is_no_measurement(port: int) -> None:
    with meeting(Peer(STRANGER, "", B), port), meeting(A_TO_B, port) as a:
        a.measure(wait=False)
    check = only(a.checks())
    assert check.verdict is Verdict.UNKNOWN
    assert check.found.endswith("that node expects another address of this one")


def test_a_port_that_is_taken_is_said_by_the_node_that_cannot_listen(port: int) -> None:
    with socket.create_server((A, port)), meeting(A_TO_B, port) as a:
        start = time.monotonic()
        a.stay()  # where nothing can come, nothing is waited for
        assert time.monotonic() - start < PATIENT / 2
        a.measure(wait=False)
    listener, _peer = a.checks()
    assert (listener.name, listener.target) == ("tcp_listener", f"{A} port {port}")
    assert (listener.verdict, listener.found) == (
        Verdict.UNKNOWN,
        "cannot listen: Address already in use",
    )


def test_an_address_that_is_not_of_this_node(port: int) -> None:
    with meeting(Peer(B, "", "192.0.2.1"), port) as a:
        a.measure(wait=False)
    listener, peer = a.checks()
    assert (listener.verdict, peer.verdict) == (Verdict.UNKNOWN, Verdict.UNKNOWN)
    assert "192.0.2.1" in peer.found
    assert "preflight_addresses" in listener.advice
    assert "preflight_addresses" in peer.advice


def test_without_an_own_address_a_node_listens_on_all_of_the_family(port: int) -> None:
    with meeting(Peer("::1"), port) as node:
        node.measure(wait=True)  # the peer's address is its own
        node.stay()
    assert len(node.samples[Peer("::1")].seconds) == SAMPLES


# -- verdicts ------------------------------------------------------------------------------

EVEN = (100e-6,) * 49


@pytest.mark.parametrize(
    ("samples", "verdict", "words"),
    [
        (Samples((*EVEN, 1000e-6)), Verdict.PASS, "p50 100, p95 100, p99 1000, mean 118 us, 0 errors of 50"),
        (Samples((*EVEN, 1001e-6)), Verdict.WARN, "p99 1001"),
        # An average would hide it.
        (Samples(EVEN, ("no answer in 0.5 s",)), Verdict.FAIL, "1 errors of 50 (no answer in 0.5 s)"),
        (Samples((), ("Connection refused",) * 50), Verdict.FAIL, "50 errors of 50 (Connection refused)"),
        (Samples(EVEN), Verdict.UNKNOWN, "0 errors of 49, and no time for more"),
        (Samples(), Verdict.UNKNOWN, "0 errors of 0, and no time for more"),
        (Samples((0.0,) * 50), Verdict.UNKNOWN, "the kernel reports no round trip"),
    ],
)
def test_latencies_are_judged_by_their_spread(samples: Samples, verdict: Verdict, words: str) -> None:
    node = meeting(A_TO_B, 18590)
    node.samples[A_TO_B] = samples
    check = only(node.checks())
    assert check.verdict is verdict
    assert words in check.found
    assert bool(check.advice) == (verdict not in (Verdict.PASS,) and words[:3] != "the")


def test_the_round_trip_is_the_median_to_the_farthest_peer() -> None:
    other = Peer("127.0.0.4", "", A)
    node = Meeting([A_TO_B, other], 18590, 0)
    node.samples = {A_TO_B: Samples(EVEN), other: Samples((300e-6, 200e-6, 9.0))}
    assert node.median() == 300e-6


def test_one_connection_that_gets_lost_is_an_error(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = iter(range(SAMPLES))

    def lost(_connection: socket.socket) -> float:
        if next(asked) == 7:
            raise socket.timeout
        return 50e-6

    monkeypatch.setattr(connect, "_round_trip", lost)
    with meeting(B_TO_A, port), meeting(A_TO_B, port) as a:
        a.measure(wait=False)
    check = only(a.checks())
    assert (check.verdict, len(a.samples[A_TO_B].seconds)) == (Verdict.FAIL, SAMPLES - 1)
    assert "1 errors of 50 (no answer in 0.5 s)" in check.found
