# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One writer at a time: two playbooks, or a playbook and the boot service, must not interleave. The next run
also reports, once, runs that changed the node and were killed or could not answer any more.

These notes are in the file of the node's lock, which only root can read, one line of JSON each. A run writes
its own before its first change and removes it at its end: a note that is found belongs to a killed run. After
a reboot there are none: their subject, the values of the running kernel, is gone too, and the boot service
has applied the declarations by then.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import time
from contextlib import contextmanager
from typing import Any, Iterator, Sequence

from ..host import places, trust, writing
from ..host.host import Host
from ..model.errors import HostError, LockTimeoutError, printable
from ..model.record import NamedTuple

LOCK_PATH = places.RUN_LOCK

#: An apply takes well under a second; a minute covers a machine that swaps heavily.
WAIT_SECONDS = 60.0

_POLL_SECONDS = 0.05


@contextmanager
def locked(host: Host, wait_seconds: float = WAIT_SECONDS) -> Iterator[list[str]]:
    """Hold the node's lock, and restrict root's files to root. Yields the paths that needed this repair.
    Raises LockTimeoutError naming the holder's process id, or HostError for a user other than root."""
    try:
        handle = _wait(host, wait_seconds)
    except HostError as error:
        if error.errno in (errno.EACCES, errno.EPERM) and not host.is_superuser():
            raise HostError("change", "this node", None, "root is needed") from error
        raise
    try:
        _sign(handle, read_notes(host))
        yield trust.repair(host)
    finally:
        # Removed while still held: a run that waits on this inode detects its removal in _take. A file with
        # notes stays, for a run that reports them.
        try:
            if not read_notes(host):
                os.unlink(host.real(LOCK_PATH, follow=False))
        except OSError:  # gone already, or left for the next run, which can use it
            pass
        finally:
            os.close(handle)


def is_held(host: Host) -> bool:
    """True while another run changes this node, as far as this user can see."""
    try:
        handle = os.open(host.real(LOCK_PATH, follow=False), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:  # the holder removes it
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return False
    except OSError:
        return True
    finally:
        os.close(handle)


@contextmanager
def alone(host: Host, path: str) -> Iterator[bool]:
    """Hold another of our lock files, which exists meanwhile; False if another process holds it. Raises
    HostError."""
    handle = _take(host, path)
    try:
        yield handle is not None
    finally:
        if handle is not None:
            # While it is held: a process waiting on this inode detects its removal.
            host.remove_file(path)
            os.close(handle)


def _wait(host: Host, seconds: float) -> int:
    deadline = time.monotonic() + seconds
    while (handle := _take(host, LOCK_PATH)) is None:
        if time.monotonic() >= deadline:
            holder = "".join(_lines(host)[:1]).strip() or "unknown"
            raise LockTimeoutError(
                f"another mlnode run (process {holder}) has held {LOCK_PATH} for more than "
                f"{seconds:.0f} s: wait for it to end, then run again"
            )
        time.sleep(_POLL_SECONDS)
    return handle


def _take(host: Host, path: str) -> int | None:
    """The handle of a lock file, created if necessary and locked; None while another process holds it."""
    while True:
        handle = host.open_lock(path)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if writing.is_current(handle, host.real(path, follow=False)):
                return handle
        except BlockingIOError:
            os.close(handle)
            return None
        except BaseException as error:
            os.close(handle)
            if isinstance(error, OSError):
                raise HostError("lock", path, error.errno) from error
            raise
        os.close(handle)  # its holder has removed the file


def _sign(handle: int, notes: Sequence[Note]) -> None:
    try:
        os.ftruncate(handle, 0)
        os.write(handle, f"{os.getpid()}\n{render(notes)}".encode("ascii"))
    except OSError as error:
        raise HostError("write", LOCK_PATH, error.errno) from error


# -- notes of runs ------------------------------------------------------------------------

#: Bytes; more than a node leaves that is killed a hundred times without a report
_MOST = 65536

#: Characters of a message: a rollback lists each value that could not be put back
_LONGEST = 4096

KILLED, STOPPED, UNHEARD, UNKNOWN = "killed", "stopped", "unheard", "unknown"


class Note(NamedTuple):
    """A run for a declaration. end: how it ended, as far as known. completed: the files whose writing was
    finished for it. error: its message, if it failed."""

    name: str
    pid: int
    since: str
    end: str = KILLED
    completed: tuple[str, ...] = ()
    error: str = ""

    @property
    def text(self) -> str:
        """For people. Its changes are reported by the run that shows the note."""
        if self.end == UNKNOWN:
            return printable(f"{self.name}: the result of the notification is unknown: {self.error}")
        run = f"an earlier run for {self.name} (process {self.pid}, begun {self.since})"
        if self.end == UNHEARD and self.error:
            return printable(f"{run} has failed, and could not answer any more: {self.error}")
        if self.end == UNHEARD:
            return printable(f"{run} has ended well, and could not answer any more")
        if self.end == STOPPED:
            return printable(f"{run} was stopped, and has put back its changes")
        files = f"{', '.join(self.completed)} is whole again" if self.completed else "no file is half written"
        return printable(
            f"{run} was killed in the middle: {files}, and the next run of that declaration does the rest"
        )

    @classmethod
    def of_this_process(cls, name: str, end: str = KILLED, error: str = "") -> Note:
        """A note of this process, now."""
        since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        return cls(name, os.getpid(), since, end, error=error[:_LONGEST])


@contextmanager
def marked(host: Host, name: str) -> Iterator[None]:
    """Keep a note around the changes of a run that holds the lock."""
    note = Note.of_this_process(name)
    _write_notes(host, [*read_notes(host), note])
    end = ""
    try:
        yield
    except Exception:  # the run itself reports it
        raise
    except BaseException:
        end = STOPPED
        raise
    finally:
        others = [other for other in read_notes(host) if other != note]
        _write_notes(host, [*others, note._replace(end=end)] if end else others)


def add_note(host: Host, note: Note) -> None:
    """Add a note, for a holder of the lock."""
    _write_notes(host, [*read_notes(host), note])


def completed(host: Host, paths: Sequence[str]) -> None:
    """Add files whose writing the holder of the lock has just finished to the last note of a killed run."""
    notes = read_notes(host)
    if paths and notes:
        last = notes.pop()
        _write_notes(host, [*notes, last._replace(completed=(*last.completed, *paths))])


def take_notes(host: Host) -> list[str]:
    """Remove and return all notes, for a holder of the lock that reports them."""
    notes = read_notes(host)
    if notes:
        _write_notes(host, [])
    return [note.text for note in notes]


def read_notes(host: Host) -> list[Note]:
    """All notes; empty if there are none, or if this user may not read them. Ignores lines torn by a kill."""
    return [note for note in map(_parsed, _lines(host)[1:]) if note]


def render(notes: Sequence[Note]) -> str:
    return "".join(f"{json.dumps(note._asdict())}\n" for note in notes)


def _lines(host: Host) -> list[str]:
    try:
        handle = os.open(host.real(LOCK_PATH, follow=False), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return []
    try:
        return os.pread(handle, _MOST, 0).decode("utf-8", "replace").split("\n")
    except OSError:
        return []
    finally:
        os.close(handle)


def _parsed(line: str) -> Note | None:
    try:
        note: dict[str, Any] = json.loads(line)
        completed = tuple(str(path) for path in note["completed"])
        name, since, end, error = (str(note[field]) for field in ("name", "since", "end", "error"))
        return Note(name, int(note["pid"]), since, end, completed, error)
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def _write_notes(host: Host, notes: Sequence[Note]) -> None:
    """Write notes after the first line, which is the holder's. Best effort: no run fails for a note."""
    try:
        handle = os.open(host.real(LOCK_PATH, follow=False), os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return
    try:
        first = os.pread(handle, _MOST, 0).partition(b"\n")[0] + b"\n"
        os.ftruncate(handle, len(first))
        os.pwrite(handle, render(notes).encode("ascii"), len(first))
    except OSError:
        pass
    finally:
        os.close(handle)
