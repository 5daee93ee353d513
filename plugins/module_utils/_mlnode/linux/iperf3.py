# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""iperf3: its commands, and the measurements in its JSON.

One process carries one TCP connection. Up to 3.15 a process is one thread, and all its connections share one
core; from 3.16 on each connection has a thread (release notes of 3.16). Several processes behave the same
with all versions. The exit status is unreliable: with -J, 3.12 exits with 0 even after a failed connection.
"""

from __future__ import annotations

from typing import Any, Mapping, Sequence

from ..host.system import Finished
from ..model import strict_json
from ..model.errors import StoreError, UnfitError, printable
from ..model.record import NamedTuple

PROGRAM = "iperf3"

#: Error of a client that could not reach the server yet
REFUSED = "Connection refused"

#: Causes of an UnfitError: no connection was made, no data came through one, or a program ended
UNREACHABLE, NOTHING, ENDED = "unreachable", "nothing", "program"

#: Start of its error after a failed connection (iperf_error.c: IECONNECT, IESTREAMCONNECT)
_NO_CONNECTION = "unable to connect"

#: ... and of its errors after a broken connection (iperf_error.c of 3.12 to 3.18): a path that loses
#: packets ends in any of them
_BROKEN = (
    *(f"unable to {what}" for what in ("send", "receive", "read", "write")),
    *("control socket has closed", "the server has terminated"),
)

#: Largest relative difference between numbers of one result. Rates are computed from times in microseconds: a
#: larger difference means another unit or formula.
_ROUNDING = 0.01

#: Least share of the requested time that must have been measured
_LASTED = 0.9

#: Seconds; shorter intervals are the incomplete end of a measurement
_WHOLE = 0.5

#: Characters; a day of intervals has less
_MOST = 1 << 24


class Flow(NamedTuple):
    """One connection. here, there: addresses of this node and of the peer. seconds: without the first omit.
    backward: the server sends."""

    here: str
    there: str
    port: int
    seconds: int
    omit: int
    backward: bool = False

    @property
    def client(self) -> list[str]:
        argv = [PROGRAM, "-J", "-c", self.there, "-B", self.here, "-p", str(self.port)]
        argv += ["-t", str(self.seconds), "-O", str(self.omit), "--connect-timeout", "1000"]
        # Not --get-server-output: if the other end's text comes in several packets, 3.12 takes the first
        # one for all of it, and prints a warning in front of its JSON.
        return [*argv, *(["-R"] if self.backward else [])]

    @property
    def server(self) -> list[str]:
        """Command of a server that serves one client and ends."""
        return [PROGRAM, "-J", "-s", "-1", "-B", self.here, "-p", str(self.port)]


class Measured(NamedTuple):
    """bits: received payload. seconds: its duration. rates: bits per second in each whole second, measured by
    the client. cpu, peer_cpu: percent of one core that the processes at both ends used.

    retransmits: segments that the sender sent again; None if its kernel does not report it. sent: bytes of
    payload that it sent. mss: bytes of payload in a full segment; None if it is unknown.
    """

    bits: float
    seconds: float
    rates: Sequence[float]
    cpu: float
    peer_cpu: float
    retransmits: int | None
    sent: float = 0.0
    mss: int | None = None


def parse(done: Finished, flow: Flow) -> Measured:
    """The result of a client. Raises UnfitError unless it is for this flow, complete and consistent."""
    document = _document(done)
    _check_ends(document, flow)
    _check_test(document, flow)
    total = _dict(_dict(document, "end"), "sum_received")
    bits, seconds = 8 * _number(total, "bytes"), _number(total, "end") - _number(total, "start")
    if bits <= 0:
        raise UnfitError("nothing was received", NOTHING)
    if seconds < _LASTED * flow.seconds:
        raise UnfitError(f"expected a measurement of {flow.seconds} s, got {seconds:.2f} s")
    _check_rate(total, bits, seconds)
    rates = _rates(document)
    if len(rates) < flow.seconds - 1:
        raise UnfitError(f"expected rates for {flow.seconds} seconds, got {len(rates)}")
    cpu = _dict(_dict(document, "end"), "cpu_utilization_percent")
    sent = _dict(_dict(document, "end"), "sum_sent")
    retransmits = int(_number(sent, "retransmits")) if "retransmits" in sent else None
    mss = _dict(document, "start").get("tcp_mss_default")
    return Measured(
        bits,
        seconds,
        rates,
        _number(cpu, "host_total"),
        _number(cpu, "remote_total"),
        retransmits,
        _number(sent, "bytes"),
        mss if isinstance(mss, int) and not isinstance(mss, bool) and mss > 0 else None,
    )


def served(done: Finished) -> str:
    """Address of the client of a finished server; "" if none came. Raises UnfitError."""
    # After a timeout, the output has timeout(1)'s signal as the error, and no client.
    document = _loaded(done)
    client = _dict(document, "start").get("accepted_connection")
    return _text(client, "host") if isinstance(client, dict) else ""


def _document(done: Finished) -> Mapping[str, Any]:
    document = _loaded(done)
    if "error" in document:
        error = _line(document["error"])
        raise UnfitError(f"iperf3: {error}", _cause(error))
    if done.rc != 0:
        raise UnfitError(f"iperf3 ended with {done.rc}: {_line(done.err or 'without a message')}", ENDED)
    return document


def _loaded(done: Finished) -> Mapping[str, Any]:
    if not done.out.strip():
        said = _line(done.err) or "nothing else"
        raise UnfitError(f"iperf3 ended with {done.rc} and no result; it said: {said}", ENDED)
    try:
        document = strict_json.loads(done.out, "the output of iperf3", most=_MOST)
    except StoreError as error:
        begin = strict_json.shown(done.out.strip())
        raise UnfitError(
            f"iperf3 ended with {done.rc}, and {error}; it begins with {begin}", ENDED
        ) from error
    if not isinstance(document, dict):
        raise UnfitError(f"expected a result of iperf3, got {strict_json.shown(document)}")
    return document


def _check_ends(document: Mapping[str, Any], flow: Flow) -> None:
    connected = _dict(document, "start").get("connected")
    if not isinstance(connected, list) or len(connected) != 1:
        count = len(connected) if isinstance(connected, list) else "none"
        raise UnfitError(f"expected one connection, got {count}")
    here, there = (_text(connected[0], name) for name in ("local_host", "remote_host"))
    if here == there:
        raise UnfitError(f"{here} was measured to itself, through no network")
    if (here, there) != (flow.here, flow.there):
        raise UnfitError(f"expected {flow.here} -> {flow.there}, got {here} -> {there}")


def _check_test(document: Mapping[str, Any], flow: Flow) -> None:
    test = _dict(_dict(document, "start"), "test_start")
    asked = {
        "protocol": "TCP",
        "num_streams": 1,
        "reverse": int(flow.backward),
        "omit": flow.omit,
        "duration": flow.seconds,
    }
    for name, value in asked.items():
        if test.get(name) != value:
            raise UnfitError(f"{name}: expected {value}, got {strict_json.shown(test.get(name))}")


def _check_rate(total: Mapping[str, Any], bits: float, seconds: float) -> None:
    rate = _number(total, "bits_per_second")
    if abs(rate - bits / seconds) > _ROUNDING * bits / seconds:
        raise UnfitError(
            f"bits_per_second is {rate:.0f}, and {bits / 8:.0f} bytes in {seconds:.2f} s are "
            f"{bits / seconds:.0f}"
        )


def _rates(document: Mapping[str, Any]) -> list[float]:
    intervals = document.get("intervals")
    sums = [_dict(interval, "sum") for interval in intervals] if isinstance(intervals, list) else []
    counted = [total for total in sums if total.get("omitted") is False]
    return [
        8 * _number(total, "bytes") / _number(total, "seconds")
        for total in counted
        if _number(total, "seconds") >= _WHOLE
    ]


def _dict(value: Any, name: str) -> Mapping[str, Any]:
    section = value.get(name) if isinstance(value, dict) else None
    if not isinstance(section, dict):
        raise UnfitError(f"its result has no {name}")
    return section


def _number(fields: Mapping[str, Any], name: str) -> float:
    value = fields.get(name)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value < 0:
        raise UnfitError(f"{name}: expected a number from 0 on, got {strict_json.shown(value)}")
    return float(value)


def _text(fields: Any, name: str) -> str:
    value = fields.get(name) if isinstance(fields, dict) else None
    if not isinstance(value, str):
        raise UnfitError(f"{name}: expected an address, got {strict_json.shown(value)}")
    return value


def _line(text: Any) -> str:
    return printable(" ".join(str(text).split())[:200])


def _cause(error: str) -> str:
    if _NO_CONNECTION in error:
        return UNREACHABLE
    return NOTHING if any(words in error for words in _BROKEN) else ENDED
