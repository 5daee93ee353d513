# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One round of the kind tcp: iperf3 to or from one peer, on all rails, in one direction and then the
other.
"""

from __future__ import annotations

import statistics
from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_address
from typing import Any, Sequence

from ...host.host import Host
from ...linux import iperf3, iproute
from ...linux.iperf3 import REFUSED, Flow, Measured, UnfitError
from ...model.errors import HostError
from ...model.record import NamedTuple
from .clock import Clock
from .part import GAP, LEAD, OMIT, Part, Slot

#: Between two attempts to reach a server that does not listen yet, in seconds
_PAUSE = 0.1

#: Streams that began further apart, in seconds, were not measured at the same time
_APART = 0.5

#: The part of what was measured that an interface must have counted. The rest is counted by the network card
#: in other ways, as some do not count what their firmware adds or removes.
_COUNTED = 0.9

#: Percent of a core from which on its process had no time left
_BUSY = 90.0


class Direction(NamedTuple):
    """bits: of all streams. hole: the least second as a part of the median one."""

    gbits: float
    bits: float
    hole: float
    cpu_bound: bool
    cpu: tuple[float, float]
    retransmits: int | None


def flows(part: Part, rail: tuple[str, str], backward: bool) -> list[Flow]:
    """The streams of one direction. Each has a port of its own, in the same order on both sides."""
    first = part.tcp_port + (part.streams if backward else 0)
    here, there = rail
    return [Flow(here, there, first + n, part.duration, OMIT, backward) for n in range(part.streams)]


# -- the side that serves ---------------------------------------------------------------------------


def serve(host: Host, part: Part, slot: Slot) -> list[dict[str, Any]]:
    """Serve all rails of a round. There is something to say about a rail only where another than the peer
    came:
    iperf3 cannot refuse it, so that what was measured does not count."""
    whole = part.round_seconds - GAP / 2
    jobs = [
        (number, flow)
        for number, rail in enumerate(slot.rails)
        for backward in (False, True)
        for flow in flows(part, rail, backward)
    ]
    with ThreadPoolExecutor(max_workers=len(jobs)) as pool:
        found = [*pool.map(lambda job: _stranger(host, job[1], whole), jobs)]
    reasons: dict[int, str] = {}
    for (number, _flow), reason in zip(jobs, found):
        if reason:
            reasons.setdefault(number, reason)
    return [{"round": slot.round, "rail": rail, "reason": reason} for rail, reason in reasons.items()]


def _stranger(host: Host, flow: Flow, seconds: float) -> str:
    try:
        done = host.run(iperf3.limited(flow.server, seconds), seconds + 2 * iperf3.GRACE)
        client = iperf3.served(done)
        if not client or ip_address(client) == ip_address(flow.there):
            return ""
    except (HostError, UnfitError, ValueError):
        return ""  # the other side has no result then, and says so
    return f"{client} came to port {flow.port} in place of {flow.there}"


# -- the side that measures --------------------------------------------------------------------------


def measure(host: Host, part: Part, slot: Slot, clock: Clock, cpus: int) -> list[dict[str, Any]]:
    """Measure all rails of a round at the same time. cpus: how many this process may use."""
    with ThreadPoolExecutor(max_workers=len(slot.rails)) as pool:
        return [
            {"round": slot.round, "rail": number, **found}
            for number, found in enumerate(
                pool.map(lambda rail: _rail(host, part, slot, rail, clock, cpus), slot.rails)
            )
        ]


def _rail(
    host: Host, part: Part, slot: Slot, rail: tuple[str, str], clock: Clock, cpus: int
) -> dict[str, Any]:
    here, there = rail
    evidence: dict[str, Any] = {"command": " ".join(flows(part, rail, False)[0].client)}
    try:
        interface = _leaves_by(host, here, there)
        evidence["interface"] = interface
        begin = clock.of(part.begin(slot) + LEAD)
        directions = []
        for backward in (False, True):
            clock.wait(begin + backward * (OMIT + part.duration + GAP))
            directions.append(_direction(host, part, rail, interface, backward, clock, cpus))
    except (UnfitError, HostError) as error:
        return {"reason": str(error), "evidence": evidence}
    forward, back = directions
    evidence["retransmits"] = [forward.retransmits, back.retransmits]
    evidence["cpu_percent"] = [[round(one, 1) for one in way.cpu] for way in directions]
    return {
        "forward_gbits": forward.gbits,
        "backward_gbits": back.gbits,
        "hole": min(forward.hole, back.hole),
        "cpu_bound": forward.cpu_bound or back.cpu_bound,
        "reason": "",
        "evidence": evidence,
    }


def _leaves_by(host: Host, here: str, there: str) -> str:
    interface = iproute.leaves_by(host, ip_address(here), ip_address(there))
    if interface == "lo":
        raise UnfitError(f"{there} is an address of this node itself: nothing would cross the network")
    return interface


def _direction(
    host: Host, part: Part, rail: tuple[str, str], interface: str, backward: bool, clock: Clock, cpus: int
) -> Direction:
    streams = flows(part, rail, backward)
    before = _counted(host, interface, backward)
    with ThreadPoolExecutor(max_workers=len(streams)) as pool:
        runs = [*pool.map(lambda flow: _stream(host, flow, clock), streams)]
    begun = [begin for begin, _measured in runs]
    if max(begun) - min(begun) > _APART:
        raise UnfitError(
            f"the streams began {max(begun) - min(begun):.1f} s apart, and were not measured together"
        )
    found = combined([measured for _begin, measured in runs], cpus)
    crossed = 8 * (_counted(host, interface, backward) - before)
    if crossed < _COUNTED * found.bits:
        way = "received" if backward else "sent"
        raise UnfitError(
            f"{found.bits / 8e6:.0f} MB were measured, of which {interface} has {way} {crossed / 8e6:.0f}: "
            "they went another way"
        )
    return found


def _stream(host: Host, flow: Flow, clock: Clock) -> tuple[float, Measured]:
    """Begin and result. A server that does not listen yet is awaited, as clocks differ."""
    most = flow.omit + flow.seconds + GAP
    end = clock.now() + LEAD
    while True:
        begin = clock.now()
        done = host.run(iperf3.limited(flow.client, most), most + 2 * iperf3.GRACE)
        if REFUSED not in done.out or clock.now() >= end:
            break
        clock.sleep(_PAUSE)
    if done.rc == _TIMED_OUT:
        raise UnfitError(f"iperf3 did not end within {most:g} s: {flow.there} has stopped to answer")
    if REFUSED in done.out:
        raise UnfitError(
            f"no server of {flow.there} listened on port {flow.port}: is iperf3 there, does a firewall "
            "refuse it, and are the clocks right?"
        )
    return begin, iperf3.parse(done, flow)


#: Of timeout(1)
_TIMED_OUT = 124


def _counted(host: Host, interface: str, backward: bool) -> int:
    """Bytes that an interface has sent, or received. Raises HostError."""
    return int(host.read(f"/sys/class/net/{interface}/statistics/{'rx' if backward else 'tx'}_bytes"))


def combined(streams: Sequence[Measured], cpus: int) -> Direction:
    """All streams of one direction, which ran at the same time."""
    shortest = min(len(stream.rates) for stream in streams)
    seconds = [sum(stream.rates[second] for stream in streams) for second in range(shortest)]
    median = statistics.median(seconds)
    cpu = sum(stream.cpu for stream in streams), sum(stream.peer_cpu for stream in streams)
    # As many processes as there are streams, on as many cores at most.
    most = _BUSY * min(len(streams), cpus)
    lost = [stream.retransmits for stream in streams]
    return Direction(
        gbits=sum(stream.bits / stream.seconds for stream in streams) / 1e9,
        bits=sum(stream.bits for stream in streams),
        hole=min(seconds) / median if median else 0.0,
        cpu_bound=max(cpu) >= most,
        cpu=cpu,
        retransmits=None if None in lost else sum(one or 0 for one in lost),
    )
