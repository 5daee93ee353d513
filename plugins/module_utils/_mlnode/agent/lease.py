# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A lease on the state of this node. A controller that alternates the state renews it with each change. If it
is not renewed in time, the node makes the calls that put it back.

This is the mechanism of a change that must be confirmed (engine/confirm.py), with two differences: calls
replace the entries of the origin, and the agent that makes them is a copy, as a revert removes the installed
agent. After a boot, a unit ends the lease at once.
"""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from typing import Any, Callable, Dict, Mapping

from ..engine import confirm, units
from ..engine import confirm_store as store
from ..engine.confirm_store import Pending, Undone
from ..engine.lock import locked
from ..engine.origin import boot_id
from ..host import detached
from ..host.host import Host
from ..host.places import LEASE_AGENT
from ..model import strict_json
from ..model.errors import HostError, MlnodeError, RefusedError, printable
from ..model.lease import BEGIN, END, RENEW, Lease
from . import own_archive

#: Number of further attempts to put the node back, and seconds between two of them. A change that waits to
#: be confirmed refuses others for two minutes by default, and a boot loader's menu takes up to five.
_ATTEMPTS, _PAUSE = 10, 60.0

#: Function of a call, and such functions by name: agent/call.py
Work = Callable[[Host, Mapping[str, Any]], Dict[str, Any]]
Calls = Mapping[str, Work]

#: Name and words of a change that the end of a lease undoes
_NAME, _WORDS = "effect.yml", "a state of its measurement"

#: Interval at which the end of a lease tests if it is still needed, in seconds
_LOOK = 1.0


def under(host: Host, options: Mapping[str, Any], work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The answer of a call, which changes the node for the lease in its options, if there is one. It is a
    failure if another run has the lease, or if it is over. Raises ValueError for options of another form."""
    if "lease" not in options:
        return work()
    kinds = {"id": str, "step": str, "seconds": int, "words": str, "calls": list}
    lease = Lease(*strict_json.typed(options["lease"], kinds))
    check = bool(options.get("check"))
    host.lease = lease.id
    try:
        _take(host, lease, check)
    except MlnodeError as error:
        return {"changed": False, "failed": True, "msg": printable(f"lease: {error}")}
    answer = work()
    if lease.step == END and not check and not answer.get("failed"):
        _end(host, lease, answer)
    if lease.step == BEGIN and check and not host.systemd_runs():
        _warn(answer, "systemd does not run here: a restart of this node during the run is not undone")
    return answer


def _end(host: Host, lease: Lease, answer: dict[str, Any]) -> None:
    try:
        with locked(host):
            waiting = store.load_lease(host)
            if waiting is not None and waiting.id == lease.id:
                _release(host, waiting)
    except MlnodeError as error:
        _warn(answer, str(error))


def _warn(answer: dict[str, Any], words: str) -> None:
    answer["warnings"] = [*answer.get("warnings", ()), printable(f"lease: {words}")]


def _take(host: Host, lease: Lease, check: bool) -> None:
    """Check mode with RENEW is the question if the lease holds. Raises MlnodeError."""
    if check:
        waiting = store.load_lease(host)
        _refuse_others(lease, waiting)
        if lease.step == RENEW:
            _refuse_over(host, lease, waiting)
        return
    with locked(host):
        waiting = store.load_lease(host)
        _refuse_others(lease, waiting)
        if lease.step in (BEGIN, RENEW):
            _refuse_over(host, lease, waiting)
        if waiting is not None and not waiting.lapsed(host):
            store.save(host, waiting._replace(seconds=lease.seconds, **_times(lease.seconds)))
        elif lease.step == BEGIN:
            _arm(host, lease)


def _times(seconds: int) -> dict[str, Any]:
    return {"deadline": confirm.deadline(seconds), "due": time.monotonic() + seconds}


def _refuse_over(host: Host, lease: Lease, waiting: Pending | None) -> None:
    if waiting is not None and waiting.lapsed(host):
        raise RefusedError(f"it is over, after {waiting.seconds} s: {waiting.text}")
    if lease.step == RENEW and waiting is None:
        undone = store.load_undone(host)
        over = undone.text if undone is not None and undone.id == lease.id else "nothing is known of it"
        raise RefusedError(f"it is over: {over}")


def _refuse_others(lease: Lease, waiting: Pending | None) -> None:
    if waiting is not None and waiting.id != lease.id:
        raise RefusedError(f"another run has it: {waiting.text}")


def _arm(host: Host, lease: Lease) -> None:
    """Everything that puts the node back is on disk before its first change. Raises MlnodeError."""
    confirm.refuse_while_pending(host)
    armed = Pending(
        id=lease.id,
        name=_NAME,
        seconds=lease.seconds,
        words=lease.words,
        boot=boot_id(host),
        connection="",
        entries=(),
        fresh=(),
        calls=tuple(map(store.call, lease.calls)),
        **_times(lease.seconds),
    )
    if not armed.calls:
        raise RefusedError("the state to put back is not known")
    agent = own_archive.content()
    if not agent or not sys.executable:
        raise MlnodeError("this process is not the agent, and cannot keep a copy of itself")
    try:
        host.write_file(LEASE_AGENT, agent, 0o700)
        store.save(host, armed)
        _start(host, armed)
    except BaseException:
        with suppress(HostError):
            _release(host, armed)
        raise


def _start(host: Host, armed: Pending) -> None:
    """Raises MlnodeError."""
    agent = [sys.executable, "-IS", LEASE_AGENT]
    if host.systemd_runs():
        service = units.LEASE_SERVICE % " ".join([*agent, "undo", armed.id])
        host.write_file(units.LEASE_FILE, service.encode("utf-8"), 0o644)
        host.write_link(units.LEASE_LINK, units.LEASE_FILE)
        confirm.timer(host, armed, agent)
        return
    waits = [*agent, "undo", "--when-due", armed.id]
    try:
        # Not this process: the archive of a sent agent is removed, and putting the node back installs one.
        detached.program(waits)
    except OSError as error:
        raise MlnodeError(f"no process could be started for its end: {error.strerror}") from error


def _release(host: Host, waiting: Pending) -> None:
    """Raises HostError."""
    for path in (units.LEASE_LINK, units.LEASE_FILE, LEASE_AGENT):
        host.remove_file(path)
    confirm.disarm(host, waiting)


# -- the end of a lease without its controller -----------------------------------------------------


def holds(host: Host, lease_id: str) -> bool:
    """True if the lease of this id waits. Raises MlnodeError."""
    waiting = store.load_lease(host)
    return waiting is not None and waiting.id == lease_id


def end_when_due(host: Host, lease_id: str, known: Calls) -> Undone | None:
    """Wait for the end of the lease, and put the node back; None if the controller has ended it. Tries again
    if something else keeps the node. Raises MlnodeError."""
    waiting = store.load_lease(host)
    while waiting is not None and waiting.id == lease_id:
        if not waiting.lapsed(host):
            time.sleep(min(_LOOK, waiting.left))
            with suppress(MlnodeError):  # it is read again under the lock
                waiting = store.load_lease(host)
            continue
        with locked(host, confirm.UNDO_WAIT):
            reloaded = store.load_lease(host)
        if reloaded == waiting:
            return _tried(host, waiting, known)
        waiting = reloaded
    return None


def _tried(host: Host, waiting: Pending, known: Calls) -> Undone:
    done = end(host, waiting.id, known)
    for _attempt in range(_ATTEMPTS):
        if not done.stuck or not holds(host, waiting.id):
            break
        time.sleep(_PAUSE)
        done = end(host, waiting.id, known)
    return done


def end(host: Host, lease_id: str, known: Calls) -> Undone:
    """Put the node back now. known: the table of calls. Raises MlnodeError."""
    with locked(host, confirm.UNDO_WAIT):
        waiting = store.load_lease(host)
        if waiting is None or waiting.id != lease_id:
            raise MlnodeError(f"no lease waits as {lease_id!r}")
        why = f"its controller did not go on within {waiting.seconds} s"
        if waiting.boot != boot_id(host):
            why = "the node was booted"
        elif waiting.left:
            why = "that was requested before its time was over"
            # The calls take the lock themselves. From here on nothing renews the lease.
            store.save(host, waiting._replace(due=0.0))
    host.lease = lease_id
    with confirm.undisturbed():
        stuck = [
            problem for name, options in waiting.calls for problem in _problems(host, known[name], options)
        ]
        with locked(host, confirm.UNDO_WAIT):
            undone_at = time.strftime(store.TIME, time.gmtime())
            done = Undone(lease_id, _NAME, undone_at, why, _WORDS, tuple(stuck))
            store.save(host, done)
            # Its controller may have ended it meanwhile, and another run may have begun.
            if not stuck and holds(host, lease_id):
                _release(host, waiting)
    return done


def _problems(host: Host, call: Work, options: Mapping[str, Any]) -> list[str]:
    """Reasons why a call has not put the node back."""
    try:
        answer = call(host, options)
    except (ValueError, MlnodeError) as error:
        return [str(error)]
    host.forget()
    if answer.get("failed"):
        return [str(answer.get("msg"))]
    return [str(line) for line in answer.get("not_in_force", ())]
