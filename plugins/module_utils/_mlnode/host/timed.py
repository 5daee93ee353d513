# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A program of the user, timed, whose processes end with it.

host.system runs helpers whose output is short and trusted. This program may hang, print without end, or leave
processes behind that keep its output open. They are ended also if they have left its process group, as the
workers of torchrun do (start_new_session): this process is their subreaper (prctl(2)). All of them end as
well if no one reads the output of this process any more: its controller is gone.
"""

from __future__ import annotations

import ctypes
import os
import select
import shutil
import signal
import threading
import time
from typing import IO, Any, Sequence, cast

from ..model.errors import HostError, printable
from ..model.record import NamedTuple

#: Seconds between SIGTERM and SIGKILL: mpirun and srun end the processes of other nodes in that time
_GRACE = 10.0

#: Seconds for the rest of the output after the end: it is in a pipe, which holds 64 KiB (pipe(7))
_REST = 5.0

#: Seconds between two looks at processes that are killed
_PAUSE = 0.01

#: include/uapi/linux/prctl.h
_SET_CHILD_SUBREAPER = 36

#: Signals to this process that would leave the others behind
_STOPS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)

_GONE = "its controller is gone"

#: Bytes of one read
_CHUNK = 1 << 16

#: Bytes and lines of the standard error for a message: mpirun of Open MPI 4 adds six lines to those of the
#: process that failed
_TAIL = 2000
_LINES = 8


class Ran(NamedTuple):
    """rc: exit status, negative for a signal. seconds: wall time. out: standard output, as UTF-8, and without
    NUL. problem: the reason for which its output is not a measurement, "" without one. early: it was ended
    before its own end, whatever its exit status says."""

    rc: int
    seconds: float
    out: str
    problem: str
    early: bool


def is_installed(program: str) -> bool:
    """Whether run() can start it: a path, or a name in PATH."""
    return shutil.which(program) is not None


def run(command: Sequence[str], seconds: float, most: int) -> Ran:
    """Run a program with the environment of this process and no input. seconds: time limit. most: bytes of
    output, after which it is ended. No other thread may start processes meanwhile: they would be ended, too.
    Raises HostError if it cannot be started."""
    # Only here: most modules start no program.
    import subprocess

    others = _children()
    _adopt(True)
    group = _Group()
    handlers = [(number, signal.signal(number, group.stopped)) for number in _STOPS]
    begin = time.perf_counter()
    try:
        # A new session is a new process group, without a terminal.
        process = subprocess.Popen(  # pylint: disable=ansible-bad-function,consider-using-with
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        _adopt(False)
        _restore(handlers)
        raise HostError("run", printable(command[0]), getattr(error, "errno", None), str(error)) from error
    group.begin(process.pid)
    out, err = (
        _Output(cast("IO[bytes]", stream), bound, group)
        for stream, bound in ((process.stdout, most), (process.stderr, 0))
    )
    timer = threading.Timer(seconds, group.end, (f"no end within {seconds:g} s",))
    timer.daemon = True
    timer.start()
    ended, end = os.pipe()
    threading.Thread(target=_end_without_reader, args=(group, ended), daemon=True).start()
    try:
        # Not reaped yet: its number belongs to no other group.
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        took = time.perf_counter() - begin
    finally:
        timer.cancel()
        group.kill()
        os.close(end)
        _restore(handlers)
        rc = process.wait()
        _end_orphans(others)
        _adopt(False)
    out.join(_REST)
    err.join(_REST)
    problem = group.problem or _failure(rc, err.text or out.text[-_TAIL:])
    return Ran(rc, took, out.text, problem, bool(group.problem))


def _end_without_reader(group: _Group, ended: int) -> None:
    """Wait until the standard output has no reader, or the other end of the pipe `ended` is closed."""
    poll = select.poll()
    poll.register(1, 0)
    poll.register(ended, 0)
    ready = dict(poll.poll())
    if ready.get(1) == select.POLLNVAL:  # it was closed from the start
        poll.unregister(1)
        ready = dict(poll.poll())
    if ended not in ready:
        group.end(_GONE)
    os.close(ended)


def _restore(handlers: Sequence[tuple[signal.Signals, Any]]) -> None:
    for number, handler in handlers:
        signal.signal(number, handler)


def _adopt(wanted: bool) -> None:
    """Whether processes that lose their parent become children of this one instead of init's."""
    ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, int(wanted), 0, 0, 0)


def _children() -> set[int]:
    """Numbers of all children of this process."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        own = os.readlink("/proc/self")
    except OSError:  # ChildProcessError: it has none
        return set()
    return {int(name) for name in os.listdir("/proc") if name.isdigit() and _parent(name) == own}


def _parent(number: str) -> str:
    try:
        with open(f"/proc/{number}/stat", encoding="utf-8", errors="replace") as stream:
            # proc_pid_stat(5): the fields after the name, which may contain anything
            return stream.read().rpartition(")")[2].split()[1]
    except (OSError, IndexError):
        return ""


def _end_orphans(others: set[int]) -> None:
    """Kill all new children, and theirs, which then become children. others: the old ones."""
    end = time.monotonic() + _REST
    while True:
        orphans = _children() - others
        for number in orphans:
            try:
                os.kill(number, signal.SIGKILL)
                os.waitpid(number, os.WNOHANG)
            except (ProcessLookupError, PermissionError, ChildProcessError):
                # It is gone, or another user's.
                pass
        if not orphans or time.monotonic() > end:
            return
        time.sleep(_PAUSE)


def _failure(rc: int, said: str) -> str:
    if rc == 0:
        return ""
    ended = f"it ended with exit status {rc}" if rc > 0 else f"it was ended by signal {-rc}"
    # mpirun draws lines between its words.
    words = [line for line in map(str.strip, said.splitlines()) if line.strip("-=*")]
    last = [printable(line) for line in words[-_LINES:]]
    return f"{ended}: {' / '.join(last)}" if last else ended


class _Group:
    """A process group, which may be ended before it has begun. problem: why it was ended early, "" if it was
    not."""

    def __init__(self) -> None:
        self._number = 0
        self._begun = threading.Event()
        self._over = threading.Event()
        self.problem = ""

    def begin(self, number: int) -> None:
        self._number = number
        self._begun.set()

    def end(self, problem: str) -> None:
        """SIGTERM, and after a while SIGKILL, unless it ended before."""
        self._begun.wait()
        self.problem = self.problem or problem
        self._signal(signal.SIGTERM)
        if not self._over.wait(_GRACE):
            self._signal(signal.SIGKILL)

    def stopped(self, _signal: int, _frame: object) -> None:
        """Handle a signal to this process, which waits for the group meanwhile."""
        threading.Thread(target=self.end, args=(_GONE,), daemon=True).start()

    def kill(self) -> None:
        """Before its leader is reaped."""
        self._over.set()
        self._signal(signal.SIGKILL)

    def _signal(self, number: int) -> None:
        try:
            os.killpg(self._number, number)
        except (ProcessLookupError, PermissionError):
            # It is gone, or its last process is another user's, who has no group of this one.
            pass


class _Output:
    """Reads a stream to its end and keeps it. The group ends if the stream has more than `most` bytes. With
    most=0 the stream may have any length, and its last _TAIL bytes are kept."""

    def __init__(self, stream: IO[bytes], most: int, group: _Group) -> None:
        self._stream, self._most, self._group = stream, most, group
        self._kept = bytearray()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        with self._stream as stream:
            while True:
                chunk = os.read(stream.fileno(), _CHUNK)
                if not chunk:
                    return
                if not self._most:
                    self._kept = (self._kept + chunk)[-_TAIL:]
                elif len(self._kept) + len(chunk) <= self._most:
                    # In place: a program may print each byte alone.
                    self._kept += chunk
                else:
                    self._group.end(f"it printed more than {self._most} bytes")
                    return

    def join(self, seconds: float) -> None:
        self._thread.join(seconds)

    @property
    def text(self) -> str:
        # Answers of nodes with NUL are refused.
        return bytes(self._kept).decode("utf-8", "replace").replace("\0", "\ufffd")
