# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The node's side of a campaign: it is started, and runs its rounds by itself."""

from __future__ import annotations

import os
import signal
from functools import partial
from typing import Any, Callable, Sequence

from ...host import detached
from ...host.host import Host
from ...linux import jobs
from ...model import schema
from ...model.errors import HostError, MlnodeError, RefusedError, listed
from ...model.record import NamedTuple
from . import facts, rounds, scope, store
from .clock import Clock, deviation
from .kind import LEAD, Part, Slot
from .part import KEEP
from .rounds import Ends
from .store import State

MOUNTS = facts.MOUNTS

#: For how long the traffic of an interface is watched before a campaign, in seconds, and the part of its rate
#: from which on it is in use. Monitoring and logs of a node without jobs are far below.
_WATCHED = 1.0
_IDLE = 0.05

#: How often it is looked whether a campaign was collected, in seconds
_PAUSE = 0.5

#: A work that goes on when this process has ended
Starter = Callable[[Callable[[], object]], None]


class Started(NamedTuple):
    """ends: in seconds since 1970."""

    ends: float
    interfaces: tuple[str, ...]


def start(
    host: Host,
    part: Part,
    sent: float,
    dry: bool = False,
    clock: Clock = Clock(),  # noqa: B008  # it has no state
    starter: Starter = detached.start,
) -> Started:
    """Begin a campaign on this node. sent: when the controller sent the question, in seconds since 1970. dry:
    only look whether it could begin. Raises HostError, RefusedError."""
    check_clock(part, sent, clock.wall())
    ends = part.kind.ends(host, part)
    interfaces = tuple(end.interface for end in ends)
    part.kind.require(host)
    _refuse_second(host, clock.wall())
    if "busy" not in part.allow:
        _refuse_busy(host, part, interfaces, clock)
    if not dry:
        until = part.end + KEEP
        answer = {**facts.facts(host, ends), "slots": [], "served": [], "contained": ""}
        store.write(host, State(part.id, until, False, answer))
        try:
            starter(partial(work, host, part, ends, clock))
        except OSError as error:
            store.remove(host)
            raise HostError("start", "a process of its own", error.errno) from error
    return Started(part.end, interfaces)


def check_clock(part: Part, sent: float, now: float) -> None:
    """Raises RefusedError where this node's clock would bring it to its rounds at another time than the
    others.
    """
    off = deviation(sent, now)
    if off < 0:
        raise RefusedError(f"the clock of this node is {-off:.1f} s behind the controller's: look at its NTP")
    if off > 0 and now > part.start:
        raise RefusedError(
            f"the clock of this node is {off:.0f} s before the controller's, or the question came so late: "
            "look at its NTP"
        )
    if now > part.start - LEAD / 2:
        raise RefusedError(
            "the campaign has begun before this node was asked: give it more time (campaign_lead)"
        )


def _refuse_second(host: Host, now: float) -> None:
    there = store.read(host)
    if there is not None and not there.done and now < there.until - KEEP:
        left = there.until - KEEP - now
        raise RefusedError(f"the campaign {there.id} runs here for {left:.0f} s more; wait for its end")


def _refuse_busy(host: Host, part: Part, interfaces: Sequence[str], clock: Clock) -> None:
    running = [*jobs.running(host), *_loaded(host, interfaces, clock)]
    if running:
        reason = f"this takes the whole links, under what runs here: {listed(running, 4)}"
        raise RefusedError(schema.unless_allowed("busy", reason, part.allow))


def _loaded(host: Host, interfaces: Sequence[str], clock: Clock) -> list[str]:
    """Interfaces with traffic. Of those without a rate nothing can be said."""
    rates = {name: _rate(host, name) for name in sorted({*interfaces})}
    before = {name: _traffic(host, name) for name, rate in rates.items() if rate}
    clock.sleep(_WATCHED if before else 0)
    gbits = {name: 8 * (_traffic(host, name) - seen) / _WATCHED / 1e9 for name, seen in before.items()}
    return [
        f"{name} carries {carried:.2g} of its {rates[name]:g} Gb/s"
        for name, carried in gbits.items()
        if carried > _IDLE * rates[name]
    ]


def _rate(host: Host, interface: str) -> float:
    text = host.value(f"/sys/class/net/{interface}/speed").text or ""
    return int(text) / 1000 if text.isdigit() else 0.0


def _traffic(host: Host, interface: str) -> int:
    """Of the busier direction, in bytes. Raises HostError."""
    folder = f"/sys/class/net/{interface}/statistics"
    return max(int(host.read(f"{folder}/{way}_bytes")) for way in ("rx", "tx"))


# -- the process that measures ----------------------------------------------------------------------


def work(host: Host, part: Part, ends: Ends, clock: Clock) -> None:
    """Run all rounds, wait until the result was collected, and leave nothing behind."""
    limit = part.end + KEEP - clock.wall()
    # What is left of it then is ended by timeout(1), and by the scope.
    signal.alarm(int(limit) + 60)
    peers = [there for slot in part.slots for _here, there in slot.rails]
    contained = scope.enter(
        host, f"mlnode-campaign-{part.id}-{os.getpid()}.scope", os.getpid(), limit + 30, peers
    )
    state = store.read(host)
    if state is None or state.id != part.id:
        return
    state.answer["contained"] = contained
    for slot in sorted(part.slots, key=lambda one: one.round):
        clock.wait(clock.of(part.begin(slot)))
        if not _is_wanted(host, part):
            return
        _one(host, part, slot, ends, state.answer, clock)
        if not _is_wanted(host, part):
            return
        store.write(host, state)
    store.write(host, state._replace(done=True))
    while clock.wall() < state.until:
        if not _is_wanted(host, part):
            return
        clock.sleep(_PAUSE)
    store.remove(host)


def _one(host: Host, part: Part, slot: Slot, ends: Ends, answer: dict[str, Any], clock: Clock) -> None:
    if clock.wall() > part.begin(slot) + LEAD:
        answer["slots"] += [] if slot.serves else _missed(slot)
    elif slot.serves:
        answer["served"] += rounds.serve(host, part, slot, ends)
    else:
        cpus = len(os.sched_getaffinity(0))
        answer["slots"] += rounds.measure(host, part, slot, ends, clock, cpus)


def _missed(slot: Slot) -> list[dict[str, Any]]:
    reason = "its round had begun before the one before it was over"
    return [{"round": slot.round, "rail": rail, "reason": reason} for rail, _pair in enumerate(slot.rails)]


def _is_wanted(host: Host, part: Part) -> bool:
    """False once it was collected, or another one began in its place."""
    try:
        state = store.read(host)
    except MlnodeError:
        return False
    return state is not None and state.id == part.id
