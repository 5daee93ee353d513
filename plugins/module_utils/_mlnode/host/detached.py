# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Work that continues when the process, its connection and its session are gone.

In an Ansible module, all that the work needs must be imported already, because Ansible deletes the code when
the module ends. The agent's file stays open (agent/archive.py), so a late import is still from this agent.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
from typing import Callable, Iterator, Sequence

#: Signals at the end of a terminal or session, or to its process group
_SESSION = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP)

#: Upper limit if /proc cannot list the open files; no caller opens that many
_MOST_FILES = 4096


def start(work: Callable[[], object]) -> None:
    """Run work in a detached process. Raises OSError if the process cannot be started."""
    reader, writer = os.pipe()
    try:
        child = os.fork()
    except OSError:
        os.close(reader)
        os.close(writer)
        raise
    if not child:
        _fork_again(writer, work)
    os.close(writer)
    try:
        ready = os.read(reader, 1)
    finally:
        os.close(reader)
        os.waitpid(child, 0)
    if not ready:
        raise OSError(errno.ECHILD, "the process ended before it was ready")


def program(words: Sequence[str]) -> None:
    """Run a program in a detached process. Raises OSError if the process cannot be started."""
    start(lambda: os.execv(words[0], [*words]))  # noqa: S606  # no shell is wanted


def _fork_again(writer: int, work: Callable[[], object]) -> None:
    """In the child. The second fork gives the process to init: no other waits for it, and it can never get a
    terminal again (credentials(7))."""
    try:
        os.setsid()
        if not os.fork():
            settle(writer)
            os.write(writer, b"1")
            os.close(writer)
            work()
    except BaseException:  # noqa: BLE001  # no caller is left, and this is a copy of it
        os._exit(1)
    os._exit(0)


def settle(writer: int) -> None:
    """Let go of all that belongs to the caller: its signals, its folder, its files and the locks on them.
    writer: the one handle to keep."""
    for number in _SESSION:
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.chdir("/")
    os.umask(0o022)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for handle in (0, 1, 2):
        os.dup2(nowhere, handle)
    kept = {0, 1, 2, writer, _own_file()}
    for handle in _open_files():
        if handle not in kept:
            try:
                os.close(handle)
            except OSError:  # the one with which the folder was listed
                pass


def _own_file() -> int:
    """Handle of the agent's file, from which modules are imported late; -1 in another program. It is opened
    read-only and has no lock."""
    handle = vars(sys.modules["__main__"]).get("opened")
    return handle if isinstance(handle, int) else -1


def _open_files() -> Iterator[int]:
    try:
        yield from [int(name) for name in os.listdir("/proc/self/fd")]
    except OSError:
        yield from range(3, _MOST_FILES)
