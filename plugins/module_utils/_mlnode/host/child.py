# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads that may hang or that need another namespace, in a forked child with a deadline.

A kernel waits for a FUSE file system without an end, and not even SIGKILL ends that wait (fs/fuse/dev.c:
request_wait_answer). A stalled child is therefore killed and left to itself; the next child does the rest.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import time
from typing import Any, Callable, Sequence

from ..model.errors import HostError
from ..model.record import NamedTuple
from . import detached

#: Returns plain data for JSON, and raises HostError
Work = Callable[[], Any]

#: A child answers with this many bytes at most for one work: 200 variables of 1 KiB, a file of 64 KiB and
#: some keys fit
_MOST_BYTES = 1 << 20
_CHUNK = 1 << 16
#: Seconds in which answers gather: a switch of processes for each of 2,000 takes a fifth of the CPU time
_PAUSE = 0.001
#: Exit status of a child; its parent ignores it
_DONE = 0


class Answer(NamedTuple):
    """unknown: why there is no value; empty if there is one. errno: of the HostError, if the kernel gave
    one."""

    value: Any
    unknown: str = ""
    errno: int | None = None


def direct(work: Work) -> Answer:
    """The answer of a work in this process."""
    try:
        return Answer(work())
    except HostError as error:
        return Answer(None, str(error), error.errno)


class _Child(NamedTuple):
    pid: int
    reader: int


def answers(works: Sequence[Work], each: float, total: float) -> list[Answer]:
    """The answers, in the order of the works. each: seconds for one of them. total: seconds for all.

    A work that takes longer is unknown. Raises HostError if no child can be started.
    """
    received: list[Answer] = []
    end = time.monotonic() + total
    while len(received) < len(works):
        if time.monotonic() >= end:
            late = Answer(None, f"not read, as others took {total:.0f} s")
            return [*received, *[late] * (len(works) - len(received))]
        child = _start(works[len(received) :])
        try:
            stalled = _take(child, received, len(works), each, end)
        finally:
            _leave(child)
        if stalled:
            received.append(Answer(None, stalled))
    return received


def _take(child: _Child, received: list[Answer], count: int, each: float, end: float) -> str:
    """Append the answers of a child. Returns why the next one will not come; empty if all came."""
    held = b""
    due = min(time.monotonic() + each, end)
    while len(received) < count:
        left = due - time.monotonic()
        if left <= 0 or not select.select([child.reader], [], [], left)[0]:
            return f"no answer in {each:g} s"
        chunk = os.read(child.reader, _CHUNK)
        if not chunk:
            return "the process that reads it ended early"
        held += chunk
        *lines, held = held.split(b"\n")
        if len(held) > _MOST_BYTES:
            return f"expected at most {_MOST_BYTES} bytes, got more"
        received += [_answer(line) for line in lines]
        if lines:
            time.sleep(_PAUSE)
            due = min(time.monotonic() + each, end)
    return ""


def _answer(line: bytes) -> Answer:
    return Answer(*json.loads(line))


def _start(works: Sequence[Work]) -> _Child:
    reader, writer = os.pipe()
    try:
        pid = os.fork()
    except OSError as error:
        os.close(reader)
        os.close(writer)
        raise HostError("start", "a child process", error.errno) from error
    if not pid:
        _run(works, writer)
    os.close(writer)
    return _Child(pid, reader)


def _run(works: Sequence[Work], writer: int) -> None:
    """In the child. It keeps none of the parent's files: a stalled child would hold their pipes open, and the
    reader of the parent's output would wait for it."""
    try:
        gc.disable()  # a collection would copy pages that both share
        detached.settle(writer)
        for work in works:
            _send(writer, work)
    finally:
        os._exit(_DONE)


def _send(writer: int, work: Work) -> None:
    line = json.dumps(direct(work)).encode("ascii")
    if len(line) > _MOST_BYTES:
        line = json.dumps([None, f"expected at most {_MOST_BYTES} bytes, got {len(line)}"]).encode("ascii")
    line += b"\n"
    while line:
        line = line[os.write(writer, line) :]


def _leave(child: _Child) -> None:
    """Kill the child, and wait only if it ends at once: init inherits any other."""
    os.close(child.reader)
    try:
        os.kill(child.pid, signal.SIGKILL)
        end = time.monotonic() + _LAST_SECONDS
        while os.waitpid(child.pid, os.WNOHANG) == (0, 0) and time.monotonic() < end:
            time.sleep(0.001)
    except OSError:
        pass


#: A killed process ends within a tick of the scheduler, unless it waits for FUSE
_LAST_SECONDS = 0.1
