# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""System calls behind Host: reading files and running programs; writing.py has the others.

A read can neither block nor fill the memory, whatever the file is. A program gets no shell, no terminal, a
fixed environment and a time limit.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from functools import partial
from typing import Callable, Sequence

from ..model.errors import HostError, UnansweredError
from ..model.record import NamedTuple

# -- reading -----------------------------------------------------------------------------------

#: The largest file that is read is the cache of an InfiniBand subnet (checks/subnet/): 207 bytes for a node
#: and 104 for a port (libibnetdisc/ibnetdisc_cache.c), 6 MB for the 40,000 ports of 10,000 nodes. The origin
#: has 2 MB with 16 NICs of 64 queues, modules.dep 0.7 MB.
LIMIT = 64 << 20
_MAX_LINKS = 40  # as the kernel's own limit, path_resolution(7)
#: /proc/interrupts is the longest: 11 bytes for each CPU in each line (kernel/irq/proc.c: show_interrupts),
#: 110 MB for 512 CPUs with 20,000 interrupts
KERNEL_LIMIT = 256 << 20

# Without O_NONBLOCK a FIFO waits for a writer, and a terminal for its line (open(2)).
_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC

#: Most files of the kernel are shorter: a file of /proc or /sys is one page (fs/seq_file.c, sysfs.rst)
_CHUNK = 1 << 16

#: A mask is a link to this device; major 1, minor 3 (admin-guide/devices.txt)
_NULL = os.makedev(1, 3)

_NAMES = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a character device",
    stat.S_IFBLK: "a block device",
}


def inside(root: str, path: str, follow: bool, folders: set[str]) -> str:
    """Path to open for a path of the tree below root; its links stay inside the tree. Raises HostError.

    folders: known folders that are not links; they are not checked again.
    """
    here, links = root, 0
    folder, _slash, name = path.rpartition("/")
    if root + folder in folders and name not in ("", ".", ".."):
        here, todo = root + folder, [name]
    else:
        todo = [part for part in path.split("/") if part not in ("", ".")]
    while todo:
        part = todo.pop(0)
        if part == "..":
            here = root if here == root else os.path.dirname(here)
            continue
        inner = f"{here}/{part}"
        target = _link_or_folder(inner, folders) if todo or follow else ""
        if target is None and ".." not in todo:  # nor is anything below it
            return "/".join([inner, *todo])
        if not target:
            here = inner
            continue
        links += 1
        if links > _MAX_LINKS:
            raise HostError("resolve", path, errno.ELOOP)
        here = root if target.startswith("/") else here
        todo = [piece for piece in target.split("/") if piece not in ("", ".")] + todo
    return here


def _link_or_folder(path: str, folders: set[str]) -> str | None:
    """Target of a link; empty for everything else; None if the path is absent. Folders are remembered."""
    if path in folders:
        return ""
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        return ""
    if stat.S_ISDIR(mode):
        folders.add(path)
    return os.readlink(path) if stat.S_ISLNK(mode) else ""


def contents(real: str, path: str) -> bytes:
    """The whole file at real; errors contain path. Raises HostError.

    Everything below /proc and /sys is a regular file, too: procfs, sysfs, debugfs and configfs have only
    files, folders and links.
    """
    try:
        handle = os.open(real, _FLAGS)
    except OSError as error:
        raise _not_opened(real, path, error) from error
    try:
        return _all(handle, path, _least(handle, path, real))
    except OSError as error:
        raise HostError("read", path, error.errno) from error
    finally:
        os.close(handle)


def beginning(real: str, path: str, most: int, seconds: float) -> tuple[bytes, bool]:
    """As much of a kernel file as arrives within this many bytes and seconds, and whether that is all of it:
    the kernel makes some files during the read, which may take long. Raises HostError."""
    chunks: list[bytes] = []
    end, left = time.monotonic() + seconds, most
    try:
        handle = os.open(real, _FLAGS)
    except OSError as error:
        raise _not_opened(real, path, error) from error
    try:
        while left > 0 and time.monotonic() < end:
            chunk = os.read(handle, min(_CHUNK, left))
            if not chunk:
                return b"".join(chunks), True
            chunks.append(chunk)
            left -= len(chunk)
        return b"".join(chunks), False
    except OSError as error:
        raise HostError("read", path, error.errno) from error
    finally:
        os.close(handle)


def _not_opened(real: str, path: str, error: OSError) -> HostError:
    """Error of open(2). ENXIO would count as absent, but a socket answers it as well."""
    if error.errno == errno.ENXIO:
        try:
            name = _NAMES.get(stat.S_IFMT(os.stat(real).st_mode))
        except OSError:
            name = None
        if name:
            return _unfit(path, name)
    return HostError("read", path, error.errno)


def _unfit(path: str, name: str) -> HostError:
    return HostError("read", path, None, f"it is {name} and not a regular file")


def _least(handle: int, path: str, real: str) -> int:
    """Bytes that a file shows as its size. Raises HostError unless it is a regular file or a mask."""
    # Files of processes are regular, and show no size (fs/proc/base.c). A node has thousands of them.
    if real.startswith("/proc/") and "0" <= real[6:7] <= "9":
        return 0
    status = os.fstat(handle)
    if stat.S_ISCHR(status.st_mode) and status.st_rdev == _NULL:
        return 0
    if stat.S_ISDIR(status.st_mode):
        raise HostError("read", path, errno.EISDIR)
    if not stat.S_ISREG(status.st_mode):
        raise _unfit(path, _NAMES.get(stat.S_IFMT(status.st_mode), "something else"))
    return status.st_size


def _all(handle: int, path: str, least: int) -> bytes:
    limit = KERNEL_LIMIT if path.startswith(("/proc/", "/sys/")) else LIMIT
    chunks: list[bytes] = []
    left = limit if least <= limit else -1  # the size that files of the kernel show means nothing
    size = max(least + 1, _CHUNK)
    while left >= 0:
        chunk = os.read(handle, min(size, left + 1))
        if not chunk:
            return b"".join(chunks)
        chunks.append(chunk)
        left -= len(chunk)
    raise HostError("read", path, errno.EFBIG)


#: A record of the kernel's log fits: PRINTK_MESSAGE_MAX of kernel/printk/internal.h
_RECORD = 1 << 13
#: More than the greatest ring has (log_buf_len= is at most 2 GiB, and is a few MiB in practice)
_MOST_RECORDS = 1 << 20


def records(real: str, path: str) -> list[str]:
    """The records that the kernel's log still has, each as /dev/kmsg gives it (ABI/testing/dev-kmsg). Raises
    HostError."""
    texts: list[str] = []
    try:
        handle = os.open(real, _FLAGS)
        try:
            while len(texts) < _MOST_RECORDS:
                try:
                    record = os.read(handle, _RECORD)
                except BrokenPipeError:  # it was overwritten meanwhile: the next read gives the oldest one
                    continue
                if not record:
                    break
                texts.append(record.decode("utf-8", "replace"))
        finally:
            os.close(handle)
    except BlockingIOError:  # the last one was read
        pass
    except OSError as error:
        raise HostError("read", path, error.errno) from error
    return texts


# -- programs ----------------------------------------------------------------------------------

#: How long a helper program may take; modprobe of a driver is the slowest of most
USUAL_SECONDS = 60.0


class Finished(NamedTuple):
    """Result of a command: exit status and its two outputs."""

    rc: int
    out: str
    err: str


def run(command: Sequence[str], seconds: float, given: str = "") -> Finished:
    """Run a program. given: its standard input. Raises HostError if it cannot be started or takes longer."""
    return begin(command, seconds, given)()


def begin(command: Sequence[str], seconds: float, given: str = "") -> Callable[[], Finished]:
    """Begin run(); the returned function waits for the end and gives the result."""
    # Only here: most commands start no program.
    import subprocess

    try:
        # The same code runs at boot, without an AnsibleModule.
        process = subprocess.Popen(  # pylint: disable=ansible-bad-function,consider-using-with
            list(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"},
        )
    except OSError as error:
        raise HostError("run", command[0], error.errno) from error

    def end() -> Finished:
        with process:
            try:
                out, err = process.communicate(given, timeout=seconds)
            except subprocess.TimeoutExpired as error:
                process.kill()
                raise UnansweredError("run", command[0], None, f"no answer in {seconds:.0f} s") from error
            except BaseException:
                process.kill()
                raise
        return Finished(process.returncode, out, err)

    return end


class Programs:
    """Runs programs if root is /, and refuses for a captured tree."""

    def __init__(self, root: str) -> None:
        self.root = os.path.abspath(root)

    @property
    def live(self) -> bool:
        """False for a captured tree, on which nothing can be run."""
        return self.root == "/"

    def run(self, command: Sequence[str], seconds: float = USUAL_SECONDS) -> Finished:
        """Run a program without a shell. Raises HostError if it cannot be started or takes longer."""
        if not self.live:
            raise HostError("run", command[0], None, f"{self.root} is a captured tree, not a machine")
        return run(command, seconds)

    def begin(self, command: Sequence[str], seconds: float = USUAL_SECONDS) -> Callable[[], Finished]:
        """Start a program as run() does, and return at once: the result waits for its end. Both raise
        HostError."""
        return begin(command, seconds) if self.live else partial(self.run, command, seconds)

    def must_run(self, command: Sequence[str], purpose: str, seconds: float = USUAL_SECONDS) -> str:
        """The output of a program that ended successfully. Raises HostError with the program's last words."""
        done = self.run(command, seconds)
        if done.rc != 0:
            messages = done.err.strip().splitlines() or [f"exit status {done.rc}"]
            raise HostError(purpose, command[0], None, messages[-1])
        return done.out
