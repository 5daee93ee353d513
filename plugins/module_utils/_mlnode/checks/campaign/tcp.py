# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kind tcp: iperf3 in one direction and then the other, with several connections at the same time."""

from __future__ import annotations

import statistics
from ipaddress import ip_address
from typing import Any, Sequence

from ...host.host import Host
from ...host.system import Finished
from ...linux import iperf3
from ...linux.iperf3 import Flow, Measured
from ...model.errors import HostError, UnfitError
from ...model.record import NamedTuple
from . import facts, kind
from .kind import GAP, GBITS, End, Part, Rail

NAME, UNIT, RDMA, PROGRAM = "tcp", GBITS, False, iperf3.PROGRAM

#: A usual expectation for four streams, whose sender and acknowledgements share the cores
SHARE: float | None = 0.8

#: Half of the deviation to detect, a node slower by a tenth: equally far from slow and normal nodes.
MARGIN = 0.05

JUDGED: tuple[str, ...] = ("forward_gbits", "backward_gbits")
FIELDS: tuple[str, ...] = (*JUDGED, "hole")

#: One direction, then the other
STEPS = 2

#: Seconds of slow start at the beginning of each direction, which do not count
OMIT = 1
AROUND = OMIT + GAP

COUNTED = "MB"

EARLY = kind.REFUSED

#: Percent of a core from which its process was out of CPU time
_BUSY = 90.0

#: Header bytes of a packet: IPv4 and TCP without options, 20 each, and 12 for TCP's time stamps (RFC 7323).
_HEADERS = 20 + 20 + 12


def require(host: Host) -> None:
    """Raises HostError."""
    done = kind.started(host, [PROGRAM, "--version"], "iperf3")
    if done.rc != 0:
        raise HostError("use", PROGRAM, None, f"it ended with {done.rc}")


def ends(host: Host, part: Part) -> list[End]:
    """Raises RefusedError."""
    return [End(facts.required_interface(host, address)) for address in part.addresses]


def flows(part: Part, rail: Rail, step: int) -> list[Flow]:
    """Flows with one port per stream. All rails share the ports: a server listens on one address."""
    first, backward = part.tcp_port + step * part.streams, step == 1
    return [
        Flow(rail.here, rail.there, first + n, part.duration, OMIT, backward) for n in range(part.streams)
    ]


def cpus(_flow: Flow) -> Sequence[int]:
    return ()


def place(host: Host, flow: Flow) -> str:
    """Raises HostError, UnfitError."""
    return kind.leaves_by(host, flow.here, flow.there)


def count(host: Host, flow: Flow, place: str) -> float:
    """Megabytes of payload and headers. Raises HostError."""
    name = "rx" if flow.backward else "tx"
    return int(host.read(f"/sys/class/net/{place}/statistics/{name}_bytes")) / 1e6


def resent(_host: Host, _flow: Flow, _place: str) -> None:
    """None: only iperf3 counts them by connection."""
    return


def loss(measured: Sequence[Measured], _resent: float | None, _crossed: float) -> float | None:
    """Share from the sender's tcpi_total_retrans (tcp(7), TCP_INFO), which iperf3 reports at both ends.

    It counts segments of one MSS each (net/ipv4/tcp_output.c, tcp_retransmit_skb).
    """
    sent = sum(stream.sent for stream in measured)
    again = [
        stream.retransmits * stream.mss
        for stream in measured
        if stream.retransmits is not None and stream.mss
    ]
    return min(1.0, sum(again) / sent) if sent and len(again) == len(measured) else None


def is_early(done: Finished) -> bool:
    return iperf3.REFUSED in done.out


def read(done: Finished, flow: Flow) -> Measured:
    """Raises UnfitError."""
    return iperf3.parse(done, flow)


def carried(measured: Measured) -> float:
    return measured.bits / 8e6


def stranger(done: Finished, flow: Flow) -> str:
    """iperf3 cannot refuse a stranger. Raises UnfitError."""
    client = iperf3.served(done)
    try:
        return "" if not client or ip_address(client) == ip_address(flow.there) else client
    except ValueError as error:
        raise UnfitError(str(error)) from error


def overhead(mtu: int) -> tuple[int, int]:
    return mtu - _HEADERS, _HEADERS


# -- the answer ---------------------------------------------------------------------------------


class Direction(NamedTuple):
    """hole: the slowest second as a share of the median one."""

    gbits: float
    hole: float
    cpu_bound: bool
    cpu: tuple[float, float]
    retransmits: int | None


def answer(steps: Sequence[Sequence[Measured]], cpus: int) -> dict[str, Any]:
    forward, back = (combined(streams, cpus) for streams in steps)
    return {
        "forward_gbits": forward.gbits,
        "backward_gbits": back.gbits,
        "hole": min(forward.hole, back.hole),
        "cpu_bound": forward.cpu_bound or back.cpu_bound,
        "evidence": {
            "retransmits": [forward.retransmits, back.retransmits],
            "cpu_percent": [[round(percent, 1) for percent in way.cpu] for way in (forward, back)],
        },
    }


def combined(streams: Sequence[Measured], cpus: int) -> Direction:
    """Sum of all streams of one direction, which ran at the same time."""
    shortest = min(len(stream.rates) for stream in streams)
    seconds = [sum(stream.rates[second] for stream in streams) for second in range(shortest)]
    median = statistics.median(seconds)
    cpu = sum(stream.cpu for stream in streams), sum(stream.peer_cpu for stream in streams)
    # One process per stream, on at most as many cores.
    most = _BUSY * min(len(streams), cpus)
    lost = [stream.retransmits for stream in streams]
    return Direction(
        gbits=sum(stream.bits / stream.seconds for stream in streams) / 1e9,
        hole=min(seconds) / median if median else 0.0,
        cpu_bound=max(cpu) >= most,
        cpu=cpu,
        retransmits=None if None in lost else sum(number or 0 for number in lost),
    )
