# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs that have changed the node and were killed, or had nobody left to answer: the next one says so, once.

They are notes in the file of the node's lock, which only root can read, one line of JSON each. A run writes
its own before its first change and takes it away at its end, so that one which is found is that of a killed
run. After a reboot there are none: what they were about, the values of the running kernel, is gone as well,
and the boot service has applied what is declared by then.
"""

from __future__ import annotations

import json
import os
from contextlib import contextmanager
from datetime import datetime, timezone
from typing import Any, Iterator, NamedTuple, Sequence

from .host import Host
from .printable import printable

#: On a tmpfs, so that no reboot ever finds a stale one; flock(2) itself dies with its holder.
LOCK_PATH = "/run/mlnode.lock"

#: More than a node that is killed a hundred times before it is played again leaves, in bytes
_MOST = 65536

KILLED, STOPPED, UNHEARD = "killed", "stopped", "unheard"


class Note(NamedTuple):
    """A run for a declaration. end: how it ended, as far as that is known. completed: the files whose writing
    was finished for it."""

    name: str
    pid: int
    since: str
    end: str = KILLED
    completed: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """For people. What it has done is looked at by the run that shows it."""
        run = f"an earlier run for {self.name} (process {self.pid}, begun {self.since})"
        if self.end == UNHEARD:
            return printable(f"{run} has ended as it should, and could not answer any more")
        if self.end == STOPPED:
            return printable(f"{run} was stopped, and has put back what it had changed")
        files = f"{', '.join(self.completed)} is whole again" if self.completed else "no file is half written"
        return printable(
            f"{run} was killed in the middle: {files}, and what it had not done yet is done by the next run "
            "of that declaration"
        )

    @classmethod
    def of(cls, name: str, end: str = KILLED) -> Note:
        """Of this process, now."""
        return cls(name, os.getpid(), datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"), end)


@contextmanager
def marked(host: Host, name: str) -> Iterator[None]:
    """Around the changes of a run that holds the lock."""
    note = Note.of(name)
    _write(host, [*read(host), note])
    end = ""
    try:
        yield
    except Exception:  # said by the run itself
        raise
    except BaseException:
        end = STOPPED
        raise
    finally:
        others = [one for one in read(host) if one != note]
        _write(host, [*others, note._replace(end=end)] if end else others)


def add(host: Host, note: Note) -> None:
    """For a holder of the lock."""
    _write(host, [*read(host), note])


def complete(host: Host, paths: Sequence[str]) -> None:
    """The files whose writing the holder of the lock has just finished, for the run that was killed last."""
    notes = read(host)
    if paths and notes:
        last = notes.pop()
        _write(host, [*notes, last._replace(completed=(*last.completed, *paths))])


def take(host: Host) -> list[str]:
    """All of them, for a holder of the lock that shows them."""
    notes = read(host)
    if notes:
        _write(host, [])
    return [note.text for note in notes]


def read(host: Host) -> list[Note]:
    """Empty where there are none, or for who may not read them. A line that a killed run has torn is none."""
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
        found: dict[str, Any] = json.loads(line)
        completed = tuple(str(path) for path in found["completed"])
        return Note(str(found["name"]), int(found["pid"]), str(found["since"]), str(found["end"]), completed)
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def _write(host: Host, notes: Sequence[Note]) -> None:
    """Behind the first line, which is the holder's. Best effort: a note is no reason to fail a run."""
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
