# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One writer at a time: two playbooks, or a playbook and the boot service, must not interleave."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
from contextlib import contextmanager
from typing import Iterator, Sequence

from . import trust, unfinished, writing
from .errors import HostError, LockTimeoutError
from .host import Host
from .unfinished import LOCK_PATH, Note

__all__ = ["LOCK_PATH", "WAIT_SECONDS", "is_held", "locked"]

#: An apply takes well under a second; a minute covers a machine that swaps itself to death.
WAIT_SECONDS = 60.0

_POLL_SECONDS = 0.05


@contextmanager
def locked(host: Host, wait_seconds: float = WAIT_SECONDS) -> Iterator[list[str]]:
    """Hold the node's lock; what is root's is for root alone from here on. Gives the paths for which that had
    to be mended. Raises LockTimeoutError naming the holder's process id, HostError for who is not root."""
    real = host.real(LOCK_PATH, follow=False)
    deadline = time.monotonic() + wait_seconds
    try:
        handle = _take(real, deadline, wait_seconds)
    except HostError as error:
        if error.errno in (errno.EACCES, errno.EPERM) and not host.is_superuser():
            raise HostError("change", "this node", None, "root is needed") from error
        raise
    try:
        _sign(handle, unfinished.read(host))
        yield trust.repair(host)
    finally:
        # Removed while still held: whoever waits on this inode sees in _take that it is gone. One with notes
        # stays, for a run that shows them.
        try:
            if not unfinished.read(host):
                os.unlink(real)
        except OSError:  # gone already, or left for the next run, which does not mind
            pass
        finally:
            os.close(handle)


def is_held(host: Host) -> bool:
    """True while another run changes this node, as far as this user may know."""
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


def _take(real: str, deadline: float, wait_seconds: float) -> int:
    while True:
        handle = _open(real)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_current(handle, real):
                return handle
        except BlockingIOError:
            if time.monotonic() >= deadline:
                first = os.pread(handle, 32, 0).decode("ascii", "replace").partition("\n")[0]
                holder = first.strip() or "unknown"
                os.close(handle)
                raise LockTimeoutError(
                    f"another mlnode run (process {holder}) has held {LOCK_PATH} for more than "
                    f"{wait_seconds:.0f} s: wait for it to end, then run again"
                ) from None
            time.sleep(_POLL_SECONDS)
        except OSError as error:
            os.close(handle)
            raise HostError("lock", LOCK_PATH, error.errno) from error
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)


def _open(real: str) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        writing.make_folder(os.path.dirname(real))
        handle = os.open(real, flags, 0o600)
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            os.close(handle)
            raise HostError("lock", LOCK_PATH, None, "it is not a regular file: remove it")
        # flock(2) needs no more than a readable file: nobody else may hold what a killed run left.
        os.fchmod(handle, 0o600)
        return handle
    except OSError as error:
        raise HostError("lock", LOCK_PATH, error.errno) from error


def _sign(handle: int, notes: Sequence[Note]) -> None:
    try:
        os.ftruncate(handle, 0)
        os.write(handle, f"{os.getpid()}\n{unfinished.render(notes)}".encode("ascii"))
    except OSError as error:
        raise HostError("write", LOCK_PATH, error.errno) from error


def _is_current(handle: int, real: str) -> bool:
    try:
        there = os.stat(real)
    except FileNotFoundError:
        return False
    mine = os.fstat(handle)
    return (mine.st_dev, mine.st_ino) == (there.st_dev, there.st_ino)
