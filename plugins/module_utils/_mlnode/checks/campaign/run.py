# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The node's side of a campaign: it is prepared, waits for its start, and runs its rounds unattended."""

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
from .. import module_result
from . import facts, rounds, scope, store
from .clock import Clock
from .kind import LATE, LEAD, Part, Slot
from .rounds import Ends
from .store import State

MOUNTS = facts.MOUNTS

#: Seconds for which an interface is observed before a campaign, and the share of its rate from which it
#: counts as in use. Monitoring and logs of a node without jobs are far below.
_WATCHED = 1.0
_IDLE = 0.05

#: Seconds between two looks for the start
_PAUSE = 0.2

#: Seconds beyond the plan after which the kernel ends the process, and then the scope with everything in it
_SLACK, _SCOPE_SLACK = 60, 90

#: Seconds that a node may wait for its start: 1 s to half a day
_WAITS = (1, 43_200)

#: Starts work that continues after this process has ended
Starter = Callable[[Callable[[], object]], None]


class Started(NamedTuple):
    """ends: in seconds since 1970; None if the node waits for its start."""

    ends: float | None
    interfaces: tuple[str, ...]


def start(
    host: Host,
    part: Part,
    wait: float = 600.0,
    dry: bool = False,
    clock: Clock = Clock(),  # noqa: B008  # it has no state
    starter: Starter = detached.start,
) -> Started:
    """Prepare a campaign on this node. Raises DeclarationError, HostError, RefusedError.

    wait: seconds without a start after which it gives up. dry: check the conditions only. A prepared campaign
    is not prepared again: the controller repeats the request if an answer was lost.
    """
    module_result.between("wait", wait, *_WAITS, "seconds")
    if part.start and clock.wall() >= part.end:
        raise RefusedError("all rounds were over before this node was asked")
    ends = part.kind.ends(host, part)
    interfaces = tuple(own.interface for own in ends)
    part.kind.require(host)
    started = Started(part.end if part.start else None, interfaces)
    if _is_prepared(host, part, clock.wall()):
        return started
    if "busy" not in part.allow:
        _refuse_busy(host, part, interfaces, clock)
    if not dry:
        until = part.end if part.start else clock.wall() + wait
        answer = {**facts.facts(host, ends), "slots": [], "served": [], "contained": ""}
        store.write(host, State(part.id, until, False, answer, part.start or None, part.lasts))
        try:
            starter(partial(work, host, part, ends, clock))
        except OSError as error:
            store.remove(host)
            raise HostError("start", "a background process", error.errno) from error
    return started


def _is_prepared(host: Host, part: Part, now: float) -> bool:
    """True if this campaign already waits here. Raises RefusedError for another one."""
    there = store.read(host)
    if there is None or there.done or now >= there.until:
        return False
    if there.id == part.id and there.start in (None, part.start):
        return True
    raise RefusedError(
        f"the campaign {there.id} runs here for {there.until - now:.0f} s more; wait for its end"
    )


def _refuse_busy(host: Host, part: Part, interfaces: Sequence[str], clock: Clock) -> None:
    running = [*jobs.running(host), *_loaded(host, interfaces, clock)]
    if running:
        reason = f"this takes the whole links, but the node is in use: {listed(running, 4)}"
        raise RefusedError(schema.unless_allowed("busy", reason, part.allow))


def _loaded(host: Host, interfaces: Sequence[str], clock: Clock) -> list[str]:
    """Interfaces with traffic. Interfaces without a known rate are skipped."""
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
    """Bytes in the busier direction. Raises HostError."""
    folder = f"/sys/class/net/{interface}/statistics"
    return max(int(host.read(f"{folder}/{way}_bytes")) for way in ("rx", "tx"))


# -- the process that measures ----------------------------------------------------------------------


def work(host: Host, part: Part, ends: Ends, clock: Clock) -> None:
    """Wait for the start, and run all rounds. The process then ends; the result stays in its file."""
    state = store.read(host)
    if state is None or state.id != part.id:
        return
    limit = state.until - clock.wall() + (0.0 if part.start else part.lasts)
    # timeout(1) and the scope end the remaining programs.
    signal.alarm(int(limit) + _SLACK)
    peers = [there for slot in part.slots for _here, there in slot.rails]
    name = f"mlnode-campaign-{part.id}-{os.getpid()}.scope"
    contained = scope.enter(host, name, os.getpid(), limit + _SCOPE_SLACK, peers)
    state = _told(host, part, clock)
    if state is None or state.start is None:
        return
    part = part._replace(start=state.start)
    signal.alarm(int(part.end - clock.wall()) + _SLACK)
    state.answer["contained"] = contained
    for slot in sorted(part.slots, key=lambda slot: slot.round):
        clock.wait(clock.monotonic(part.begin(slot)))
        if not _is_wanted(host, part):
            return
        _run_slot(host, part, slot, ends, state.answer, clock)
        if not _is_wanted(host, part):
            return
        store.write(host, state)
    store.write(host, state._replace(done=True))


def _told(host: Host, part: Part, clock: Clock) -> State | None:
    """The state once it has a start; None if none was given in time, or the campaign is no longer wanted.

    After a timeout the file is removed.
    """
    while True:
        try:
            state = store.read(host)
        except MlnodeError:
            return None
        if state is None or state.id != part.id:
            return None
        if state.start is not None:
            return state
        if clock.wall() >= state.until:
            store.remove(host)
            return None
        clock.sleep(_PAUSE)


def _run_slot(host: Host, part: Part, slot: Slot, ends: Ends, answer: dict[str, Any], clock: Clock) -> None:
    late = clock.wall() - part.begin(slot)
    if late > LEAD:
        answer["served" if slot.serves else "slots"] += _missed(slot, late)
    elif slot.serves:
        answer["served"] += rounds.serve(host, part, slot, ends)
    else:
        cpus = len(os.sched_getaffinity(0))
        answer["slots"] += rounds.measure(host, part, slot, ends, clock, cpus)


def _missed(slot: Slot, late: float) -> list[dict[str, Any]]:
    reason = (
        f"it came to the round {late:.0f} s after its start: it was given the start late, or the round "
        "before was not over"
    )
    return [
        {"round": slot.round, "rail": rail, "reason": reason, "failed": LATE}
        for rail, _pair in enumerate(slot.rails)
    ]


def _is_wanted(host: Host, part: Part) -> bool:
    """False if the campaign was collected, or another one replaced it."""
    try:
        state = store.read(host)
    except MlnodeError:
        return False
    return state is not None and state.id == part.id
