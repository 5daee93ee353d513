# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One round with one peer, on all rails, of any kind.

Both ends start the programs at the planned times. A result counts only if its data has passed the interface.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any, Sequence

from ...host.host import Host
from ...host.system import Finished
from ...linux.perftest import running_on
from ...linux.timeout import GRACE, TIMED_OUT, limited
from ...model.errors import HostError, UnansweredError, UnfitError
from ...model.record import NamedTuple
from . import probe
from .clock import Clock
from .kind import GAP, LEAD, OTHER, PROGRAM, TIMEOUT, End, Flow, Kind, Part, Rail, Slot

#: Seconds between two attempts to reach a server that does not listen yet
_PAUSE = 0.1

#: Seconds. Flows of a rail that began further apart were not measured at the same time
_APART = 0.5

#: Least share of the measured data that the interface must have counted. Cards do not count data that their
#: firmware adds or removes.
_COUNTED = 0.9

Ends = Sequence[End]


def _rails(slot: Slot, ends: Ends) -> list[Rail]:
    return [Rail(*rail, number, ends[number]) for number, rail in enumerate(slot.rails)]


def _ended(host: Host, kind: Kind, flow: Flow, command: Sequence[str], most: float) -> Finished:
    with running_on(kind.cpus(flow)):
        return host.run(limited(command, most), most + 2 * GRACE)


# -- the side that serves ---------------------------------------------------------------------------


def serve(host: Host, part: Part, slot: Slot, ends: Ends) -> list[dict[str, Any]]:
    """Serve all rails of a round. Returns the rails to which another node than the peer connected.

    A program may be unable to refuse a stranger; the result of such a rail does not count.
    """
    whole = part.round_seconds - GAP / 2
    jobs = [
        (rail.number, flow)
        for rail in _rails(slot, ends)
        for step in range(part.kind.STEPS)
        for flow in part.kind.flows(part, rail, step)
    ]
    with ThreadPoolExecutor(max_workers=len(jobs)) as pool:
        strangers = [*pool.map(lambda job: _stranger(host, part.kind, job[1], whole), jobs)]
    reasons: dict[int, str] = {}
    for (number, _flow), reason in zip(jobs, strangers):
        if reason:
            reasons.setdefault(number, reason)
    return [{"round": slot.round, "rail": rail, "reason": reason} for rail, reason in reasons.items()]


def _stranger(host: Host, kind: Kind, flow: Flow, seconds: float) -> str:
    try:
        client = kind.stranger(_ended(host, kind, flow, flow.server, seconds), flow)
    except (HostError, UnfitError):
        return ""  # the other side reports the missing result
    return f"{client} came to port {flow.port} in place of {flow.there}" if client else ""


# -- the side that measures --------------------------------------------------------------------------


def measure(host: Host, part: Part, slot: Slot, ends: Ends, clock: Clock, cpus: int) -> list[dict[str, Any]]:
    """Measure all rails of a round at the same time. cpus: number of CPUs this process may use."""
    with ThreadPoolExecutor(max_workers=len(slot.rails)) as pool:
        readings = pool.map(lambda rail: _rail(host, part, slot, rail, clock, cpus), _rails(slot, ends))
        return [{"round": slot.round, "rail": number, **reading} for number, reading in enumerate(readings)]


def _rail(host: Host, part: Part, slot: Slot, rail: Rail, clock: Clock, cpus: int) -> dict[str, Any]:
    kind = part.kind
    steps = [kind.flows(part, rail, step) for step in range(kind.STEPS)]
    evidence: dict[str, Any] = {"command": " ".join(steps[-1][0].client)}
    try:
        place = kind.place(host, steps[0][0])
        evidence["interface"] = place
        begin = clock.monotonic(part.begin(slot) + LEAD)
        done = []
        for number, flows in enumerate(steps):
            clock.wait(begin + number * part.step_seconds)
            done.append(_step(host, part, flows, place, clock))
        answer = kind.answer([step.measured for step in done], cpus)
    except (UnfitError, HostError) as error:
        return {"reason": str(error), "evidence": evidence, **_failure(host, part, slot, rail, clock, error)}
    return {
        **answer,
        "loss": [_worst(done, backward) for backward in (False, True)],
        "reason": "",
        "evidence": {**evidence, **answer.get("evidence", {})},
    }


def _failure(
    host: Host, part: Part, slot: Slot, rail: Rail, clock: Clock, error: UnfitError | HostError
) -> dict[str, Any]:
    """The cause of a failure and, if the network may be the cause, a probe with single packets."""
    cause = _cause(error)
    if cause not in probe.OF_NETWORK:
        return {"failed": cause}
    left = clock.monotonic(part.begin(slot) + part.round_seconds) - clock.now()
    losses = probe.losses_and_mtu(host, rail.here, rail.there, left)
    return {"failed": cause, **({"probe": losses} if losses else {})}


def _cause(error: UnfitError | HostError) -> str:
    if isinstance(error, UnfitError):
        return error.cause or OTHER
    if isinstance(error, UnansweredError):
        return TIMEOUT
    return PROGRAM if error.absent else OTHER


class Step(NamedTuple):
    """Result of all flows of a step. loss: share of resent data; None if unknown."""

    measured: list[Any]
    backward: bool
    loss: float | None


def _worst(done: Sequence[Step], backward: bool) -> float | None:
    known = [step.loss for step in done if step.backward == backward and step.loss is not None]
    return max(known, default=None)


def _step(host: Host, part: Part, flows: Sequence[Flow], place: str, clock: Clock) -> Step:
    kind, first = part.kind, flows[0]
    before, lost = kind.count(host, first, place), kind.resent(host, first, place)
    with ThreadPoolExecutor(max_workers=len(flows)) as pool:
        runs = [*pool.map(lambda flow: _flow(host, part, flow, clock), flows)]
    begun = [begin for begin, _measured in runs]
    if max(begun) - min(begun) > _APART:
        raise UnfitError(
            f"the streams began {max(begun) - min(begun):.1f} s apart, and were not measured together"
        )
    measured = [stream for _begin, stream in runs]
    carried = sum(kind.carried(stream) for stream in measured)
    crossed = kind.count(host, first, place) - before
    if crossed < _COUNTED * carried:
        way = "received" if first.backward else "sent"
        raise UnfitError(
            f"{carried:.0f} {kind.COUNTED} were measured, but {place} has {way} {crossed:.0f}: the "
            "others went another way"
        )
    lost_now = kind.resent(host, first, place)
    resent = None if lost is None or lost_now is None else lost_now - lost
    return Step(measured, first.backward, kind.loss(measured, resent, crossed))


def _flow(host: Host, part: Part, flow: Flow, clock: Clock) -> tuple[float, Any]:
    """Begin and result. Retries while the server does not listen yet, because clocks differ."""
    kind, most = part.kind, part.step_seconds
    end = clock.now() + LEAD
    while True:
        begin = clock.now()
        done = _ended(host, kind, flow, flow.client, most)
        if not kind.is_early(done) or clock.now() >= end:
            break
        clock.sleep(_PAUSE)
    if done.rc in TIMED_OUT:
        raise UnfitError(
            f"{kind.PROGRAM} did not end within {most:g} s: {flow.there} has stopped to answer", TIMEOUT
        )
    if kind.is_early(done):
        raise UnfitError(
            f"no server of {flow.there} listened on port {flow.port}: is {kind.PROGRAM} there, does a "
            "firewall refuse it, and are the clocks right?",
            kind.EARLY,
        )
    return begin, kind.read(done, flow)
