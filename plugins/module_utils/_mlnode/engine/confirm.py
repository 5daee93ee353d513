# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A change that undoes itself unless it is confirmed over a new connection.

The undo data is on disk, and a restore has been started, before the first write. The restore is a systemd
timer that runs `mlnode undo --when-due ID`, or a detached process on a node without systemd. PENDING is
authoritative: confirm() or undo() decides by removing it under the node's lock. It also holds the deadline: a
restore that finds time left in it waits longer.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import contextmanager
from functools import partial
from typing import Iterator, Sequence

from ..host import detached, ssh
from ..host.host import Host
from ..host.places import AGENT_COMMAND
from ..model.errors import HostError, MlnodeError, RefusedError
from . import confirm_store as store
from . import transaction
from .confirm_store import Pending, Undone
from .lock import locked
from .origin import Entry, Origin, boot_id, forget_left
from .restore import is_back

#: Timeout for the lock, in seconds. A restore that gives up leaves the node cut off for good. Regenerating a
#: boot loader's menu holds the lock longest, for five minutes.
UNDO_WAIT = 3600.0

#: Time for repeating writes that a driver refuses, in seconds: longer than any reset of a NIC
STUBBORN = 30.0

#: Interval at which a restore tests if it is still needed, in seconds
_LOOK = 1.0

#: The option of `mlnode undo` that runs it as a restore
_WHEN_DUE = "--when-due"


# -- around a change: for a caller that holds the node's lock ------------------------------------


def arm(
    host: Host, name: str, seconds: int, entries: Sequence[Entry], fresh: Sequence[Entry], words: str
) -> Pending:
    """Schedule the undo of all entries in so many seconds, before any change. Raises MlnodeError, and then
    nothing is armed.

    fresh: new entries of the origin. words: the change, for people.
    """
    refuse_while_pending(host)
    armed = Pending(
        id=os.urandom(4).hex(),
        name=name,
        deadline=deadline(seconds),
        seconds=seconds,
        words=words,
        boot=boot_id(host),
        due=time.monotonic() + seconds,
        connection=_connection(host),
        entries=tuple(entries),
        fresh=tuple(str(entry["id"]) for entry in fresh),
    )
    try:
        store.save(host, armed)
        _start(host, armed)
    except BaseException:
        try:
            disarm(host, armed)
        except HostError:  # undoing an unmade change has no effect
            pass
        raise
    return armed


def extend(host: Host, armed: Pending, entries: Sequence[Entry], fresh: Sequence[Entry]) -> Pending:
    """Add more changes of the same run to the undo. Raises MlnodeError."""
    longer = armed._replace(entries=tuple(entries), fresh=tuple(str(entry["id"]) for entry in fresh))
    store.save(host, longer)
    return longer


def restart(host: Host, armed: Pending, gone: Sequence[str] = ()) -> Pending:
    """Begin the time to confirm again, as the work after the change has used some of it. gone: ids of the
    origin to forget once the change is confirmed. Raises MlnodeError."""
    due = time.monotonic() + armed.seconds
    again = armed._replace(deadline=deadline(armed.seconds), due=due, gone=tuple(gone))
    store.save(host, again)
    return again


def cancel(host: Host) -> None:
    """Drop the pending undo after the run has rolled back its change. Raises MlnodeError."""
    waiting = store.load_pending(host)
    if waiting is not None:
        disarm(host, waiting)


def refuse_while_pending(host: Host) -> None:
    """Raises RefusedError while a change waits: a second change would be undone with the first, wholly or in
    part. So would a change during the lease of another run. An overdue undo is performed here."""
    resume(host)
    lease = store.load_lease(host)
    for waiting in (store.load_pending(host), None if lease and lease.id == host.lease else lease):
        if waiting is not None:
            raise RefusedError(waiting.text)


def resume(host: Host) -> str:
    """Perform an overdue undo, left by a power cut or by a killed restore. Returns a message about it; empty
    if nothing was due. Raises MlnodeError."""
    waiting = store.load_pending(host)
    if waiting is None or not waiting.lapsed(host):
        return ""
    _needs_root(host, "undo")
    # A module of one area contains that area's drivers only.
    if not all(host.is_mounted(path) for entry in waiting.entries for path, _text in entry.get("writes", ())):
        raise RefusedError(f"{waiting.text}; its time is over, and `mlnode undo {waiting.id}` undoes it now")
    return _put_back(host, waiting).text


# -- confirm and undo: these take the lock themselves --------------------------------------------


def _refuse_now(host: Host, armed: Pending) -> None:
    if armed.boot != boot_id(host):
        raise RefusedError(
            f"the node was booted after {armed.id} was armed, and the change must be undone: "
            f"`mlnode undo {armed.id}`"
        )
    if armed.connection and armed.connection == _connection(host):
        raise RefusedError(
            f"this is the connection over which {armed.id} was made, and it may be the last one: only a new "
            "one shows that the node can still be reached, so connect again and confirm then"
        )


def confirm(host: Host, change_id: str) -> bool:
    """Keep the change, and disarm its undo. True if it waited; False if it had been confirmed before. Raises
    MlnodeError with the state of the change."""
    _needs_root(host, "confirm")
    with locked(host):
        waiting = store.load_pending(host)
        if _record(host, change_id) is None:
            if waiting is not None and waiting.id == change_id:
                _refuse_now(host, waiting)
                host.write_file(store.CONFIRMED, f"{change_id}\n".encode("ascii"))
                forget_left(host, waiting.gone)
                disarm(host, waiting)
                return True
            if change_id and store.confirmed(host) == change_id:
                return False
        raise MlnodeError(_nothing(host, change_id, waiting))


def undo(host: Host, change_id: str = "", wait_seconds: float = UNDO_WAIT) -> Undone:
    """Put everything back now. Without an id: the waiting change. Has no effect if repeated for the same id.
    Raises MlnodeError if nothing waits."""
    _needs_root(host, "undo")
    with locked(host, wait_seconds):
        waiting = store.load_pending(host)
        if waiting is not None and change_id in ("", waiting.id):
            return _put_back(host, waiting)
        before = _record(host, change_id)
        if before is None:
            raise MlnodeError(_nothing(host, change_id, waiting))
        return before


def undo_when_due(host: Host, change_id: str) -> Undone | None:
    """The work of a restore: wait for the end of the time to confirm, then undo the change. Returns None if
    the change was confirmed or undone meanwhile. Raises MlnodeError."""
    _needs_root(host, "undo")
    armed = store.load_pending(host)
    while armed is not None and armed.id == change_id:
        if not armed.lapsed(host):
            time.sleep(min(_LOOK, armed.left))
            armed = _looked(host, armed)
            continue
        with locked(host, UNDO_WAIT):
            reloaded = store.load_pending(host)
            if reloaded == armed:
                return _put_back(host, armed)
        # A run held the lock until now. It has decided, or has begun the time again.
        armed = reloaded
    return None


def _looked(host: Host, before: Pending) -> Pending | None:
    try:
        return store.load_pending(host)
    except MlnodeError:  # the decision is made from a read under the lock
        return before


# -- the restore ---------------------------------------------------------------------------------


def _start(host: Host, armed: Pending) -> None:
    try:
        if host.systemd_runs():
            _require_agent(host)
            timer(host, armed, [AGENT_COMMAND])
        else:
            detached.start(partial(undo_when_due, host, armed.id))
    except (OSError, HostError) as error:
        consequence = "nothing was changed, as it could not be undone: no restore could be started"
        raise MlnodeError(f"{consequence} ({error})") from error


def timer(host: Host, armed: Pending, agent: Sequence[str]) -> None:
    """Start a systemd timer: a process would end with its session (logind.conf(5), KillUserProcesses).
    A daemon-reload makes systemd before 254 count again (core/timer.c: timer_enter_waiting): the restore may
    come late then, but never early. agent: its command. Raises HostError."""
    command = ["systemd-run", "--collect", f"--unit={_unit(armed)}", f"--on-active={armed.seconds}"]
    command += ["--timer-property=AccuracySec=1s", *agent, "undo", _WHEN_DUE, armed.id]
    host.must_run(command, "start the restore with")


def _require_agent(host: Host) -> None:
    if not host.exists(AGENT_COMMAND):
        raise HostError("find", AGENT_COMMAND, None, "install the agent first (module agent, or any role)")
    # An older one would refuse the option too late, and without a message.
    if _WHEN_DUE not in host.run([AGENT_COMMAND, "undo", "--help"]).out:
        raise HostError(
            "use", AGENT_COMMAND, None, "it is too old, or does not start: install the agent again"
        )


def _unit(armed: Pending) -> str:
    return f"mlnode-undo-{armed.id}"


def disarm(host: Host, armed: Pending) -> None:
    """Stop the timer. If it cannot be stopped, it may stay, as it would find nothing to undo."""
    store.remove(host, armed.path)
    if host.systemd_runs():
        try:
            host.run(["systemctl", "stop", f"{_unit(armed)}.timer"])
        except HostError:
            pass


def _put_back(host: Host, armed: Pending) -> Undone:
    """Undo the change, under the lock. Safe to repeat after a kill, as PENDING is removed last."""
    same_boot = armed.boot == boot_id(host)
    # A new boot resets values and reuses device numbers; only files persist.
    entries = [entry for entry in armed.entries if same_boot or "file" in entry]
    why = f"it was not confirmed over a new connection within {armed.seconds} s"
    if not same_boot:
        why = "the node was booted before it was confirmed"
    elif armed.left:
        why = "that was requested before its time was over"
    with undisturbed():
        stuck = _rolled_back(host, entries)
        stuck += transaction.notify_again(host, _readers(entries))
        if not stuck:
            stuck += _forget(host, armed.fresh)
        host.forget()
        undone_at = time.strftime(store.TIME, time.gmtime())
        done = Undone(armed.id, armed.name, undone_at, why, armed.words, tuple(stuck))
        store.save(host, done)
        # A new file would make the change again at the next boot, and a new value may still keep users out.
        # The next run tries both again.
        if all(_is_back(host, entry) for entry in entries):
            disarm(host, armed)
    return done


def _rolled_back(host: Host, entries: Sequence[Entry]) -> list[str]:
    """Entries that could not be put back. Retries, as a driver refuses writes during a reset only."""
    until = time.monotonic() + STUBBORN
    while True:
        _undone, stuck = transaction.roll_back(host, entries)
        if not stuck or time.monotonic() >= until:
            return stuck
        time.sleep(_LOOK)


def _readers(entries: Sequence[Entry]) -> list[str]:
    """Readers of these files, without duplicates."""
    return [name for name in dict.fromkeys(str(entry.get("notify", "")) for entry in entries) if name]


def _is_back(host: Host, entry: Entry) -> bool:
    try:
        return is_back(host, entry)
    except HostError:
        return False


def _forget(host: Host, fresh: Sequence[str]) -> list[str]:
    """Forget the origin of the undone change: a later first change must record a new one."""
    try:
        origin = Origin.load(host)
        origin.forget([entry for entry in origin.entries() if entry["id"] in fresh])
    except MlnodeError as error:
        return [f"the record of the original state ({error})"]
    return []


@contextmanager
def undisturbed() -> Iterator[None]:
    """Ignore signals, such as the hangup of the connection that this restore cuts: none may end it half
    way."""
    before = [
        (number, signal.signal(number, signal.SIG_IGN))
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
    ]
    try:
        yield
    finally:
        for number, handler in before:
            if handler is not None:  # a handler not set by Python cannot be set again
                signal.signal(number, handler)


# -- details -------------------------------------------------------------------------------------


def deadline(seconds: int) -> str:
    """For people, by the clock of the node."""
    return time.strftime(store.TIME, time.gmtime(time.time() + seconds))


def _record(host: Host, change_id: str) -> Undone | None:
    """The undo record of this change; None if it was not undone."""
    undone_change = store.load_undone(host)
    return undone_change if undone_change is not None and undone_change.id == change_id else None


def _nothing(host: Host, change_id: str, other: Pending | None) -> str:
    """Reason why nothing can be confirmed or undone."""
    before = _record(host, change_id)
    if before is not None:
        return before.text
    if change_id and store.confirmed(host) == change_id:
        return f"{change_id} has been confirmed: there is nothing to undo"
    answer = "no change waits to be confirmed" + (f" as {change_id!r}" if change_id else "")
    return f"{answer}; {other.id} does" if other is not None else answer


def _needs_root(host: Host, action: str) -> None:
    if not host.is_superuser():
        raise HostError(action, "a change of this node", None, "root is needed")


def _connection(host: Host) -> str:
    """The nearest connection over which this process was started, by both addresses and both ports. Empty if
    there is none, or if it cannot be read."""
    connections = (text for process in ssh.processes(host, os.getpid()) for text in process.connections)
    try:
        return next(connections, "")
    except HostError:
        return ""
