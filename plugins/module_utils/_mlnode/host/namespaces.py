# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Namespaces of other processes (namespaces(7)), and files as their mount namespace has them.

For a child of host/child.py alone: it changes the namespaces and identity of the process that calls it. No
path leads out of the other process's root, no link of /proc is followed, and nothing but a regular file is
opened: a FIFO would wait for a writer, and opening a device may act on it.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import stat
import struct
from contextlib import contextmanager
from itertools import islice
from typing import Iterator, Sequence

from ..model.errors import HostError
from ..model.record import NamedTuple

#: include/uapi/linux/sched.h: CLONE_NEW*; files of /proc/PID/ns
TYPES = {"net": 0x40000000, "ipc": 0x08000000, "uts": 0x04000000}

#: openat2(2): one number on all architectures of nodes with GPUs (x86, arm64, ppc64le), since Linux 5.6
_OPENAT2 = 437
#: include/uapi/linux/openat2.h: struct open_how (flags, mode, resolve)
_HOW = struct.Struct("@QQQ")
_NO_XDEV, _NO_MAGICLINKS, _NO_SYMLINKS, _BENEATH, _IN_ROOT = 0x01, 0x02, 0x04, 0x08, 0x10
#: openat2(2): a path with `..` fails with EAGAIN if anything was renamed or mounted on the machine meanwhile.
#: Beside processes that rename in a loop 4 % of first attempts failed so, and no second one of 10,000.
_ATTEMPTS = 100

_HANDLE = os.O_PATH | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC

_NAMES = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class Ids(NamedTuple):
    """Identity of a process for file access: user, group, and further groups."""

    user: int
    group: int
    groups: tuple[int, ...]


class Space(NamedTuple):
    """Bytes of a file system; size 0 is unlimited for a tmpfs."""

    size: int
    free: int


def enter(pid: int, types: Sequence[str]) -> None:
    """Move this process into namespaces of another one. Raises HostError."""
    for name in types:
        path = f"/proc/{pid}/ns/{name}"
        try:
            handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise HostError("open", path, error.errno) from error
        try:
            if _libc().setns(handle, TYPES[name]):
                raise HostError("enter", path, ctypes.get_errno())
        finally:
            os.close(handle)


@functools.lru_cache(maxsize=None)
def _libc() -> ctypes.CDLL:
    try:
        return ctypes.CDLL(None, use_errno=True)
    except OSError as error:
        raise HostError("use", "the C library", None, str(error)) from error


@contextmanager
def root_at(path: str) -> Iterator[int]:
    """Handle of a root folder, such as /proc/PID/root. Raises HostError."""
    try:
        handle = os.open(path, _HANDLE | os.O_DIRECTORY)
    except OSError as error:
        raise HostError("open", path, error.errno) from error
    try:
        yield handle
    finally:
        os.close(handle)


@contextmanager
def _opened(root: int, path: str) -> Iterator[int]:
    """Handle of a path below a root. Raises HostError."""
    handle = _openat2(root, path, _IN_ROOT | _NO_SYMLINKS)
    if handle == -errno.ELOOP:
        handle = _by_links(root, path)
    if handle == -errno.EXDEV:
        raise HostError("open", path, None, "a link leads to another file system, and is not followed")
    if handle == -errno.ENOSYS:
        raise HostError("open", path, None, "openat2(2) is missing; it needs Linux 5.6")
    if handle < 0:
        raise HostError("open", path, -handle)
    try:
        yield handle
    finally:
        os.close(handle)


def _by_links(root: int, path: str) -> int:
    """A handle, or a negative error. Links must not cross a mount, as only the mounts on the path itself are
    known: they stay on the root's file system, or below the folder of the path, as in a ConfigMap."""
    handle = _openat2(root, path, _IN_ROOT | _NO_MAGICLINKS | _NO_XDEV)
    if handle != -errno.EXDEV:
        return handle
    above, _slash, name = path.rpartition("/")
    folder = _openat2(root, above, _IN_ROOT | _NO_SYMLINKS)
    if folder < 0:
        return handle
    try:
        return _openat2(folder, name, _BENEATH | _NO_MAGICLINKS | _NO_XDEV)
    finally:
        os.close(folder)


def _openat2(root: int, path: str, resolve: int) -> int:
    """A handle, or a negative error."""
    how = _HOW.pack(_HANDLE, 0, resolve)
    name = path.lstrip("/").encode("utf-8", "surrogateescape") or b"."
    if b"\0" in name:  # the kernel would take the text before it
        return -errno.EINVAL
    for _attempt in range(_ATTEMPTS):
        handle = int(_libc().syscall(_OPENAT2, root, name, how, len(how)))
        if handle >= 0:
            return handle
        if ctypes.get_errno() != errno.EAGAIN:
            break
    return -ctypes.get_errno()


def read(root: int, path: str, most: int) -> bytes:
    """Content of a regular file of at most this many bytes. Raises HostError, .absent if it is missing."""
    try:
        return _read(root, path, most)
    except HostError as error:
        if error.errno != errno.ESTALE:
            raise
    # Another node has replaced it on its file server: it is opened by its name again.
    return _read(root, path, most)


def _read(root: int, path: str, most: int) -> bytes:
    try:
        with _opened(root, path) as handle:
            kind = stat.S_IFMT(os.fstat(handle).st_mode)
            if kind != stat.S_IFREG:
                name = _NAMES.get(kind, "something else")
                raise HostError("read", path, None, f"expected a regular file, got {name}")
            content = _content(handle, most + 1)
    except OSError as error:
        raise HostError("read", path, error.errno) from error
    if len(content) > most:
        raise HostError("read", path, None, f"expected at most {most} bytes, got more")
    return content


def _content(handle: int, most: int) -> bytes:
    """The beginning of a file that is open by its path alone. Raises OSError."""
    reader = os.open(f"/proc/self/fd/{handle}", _READ)
    try:
        content = b""
        while len(content) < most:
            chunk = os.read(reader, most - len(content))
            if not chunk:
                break
            content += chunk
        return content
    finally:
        os.close(reader)


def space(root: int, path: str) -> Space:
    """Space of the file system of a folder. Raises HostError."""
    with _opened(root, path) as handle:
        try:
            known = os.fstatvfs(handle)
        except OSError as error:
            raise HostError("look at", path, error.errno) from error
    return Space(known.f_blocks * known.f_frsize, known.f_bavail * known.f_frsize)


def names(root: int, path: str, most: int) -> list[str]:
    """Names in a folder, in no order. most: expected names. Raises HostError, .absent if it is missing."""
    try:
        with _opened(root, path) as handle:
            reader = os.open(f"/proc/self/fd/{handle}", _READ | os.O_DIRECTORY)
            try:
                with os.scandir(reader) as entries:
                    there = [entry.name for entry in islice(entries, most + 1)]
            finally:
                os.close(reader)
    except OSError as error:
        raise HostError("list", path, error.errno) from error
    if len(there) > most:
        raise HostError("list", path, None, f"expected at most {most} names, got more")
    return there


def device(root: int, path: str) -> str:
    """MAJOR:MINOR of a character device; empty for anything else. Raises HostError."""
    with _opened(root, path) as handle:
        try:
            known = os.fstat(handle)
        except OSError as error:
            raise HostError("look at", path, error.errno) from error
    if not stat.S_ISCHR(known.st_mode):
        return ""
    return f"{os.major(known.st_rdev)}:{os.minor(known.st_rdev)}"


@contextmanager
def as_user(ids: Ids) -> Iterator[None]:
    """Access files with the rights of a user, as its jobs do: root may be refused on a file server. Signals
    still need root (setfsuid(2)). Without root, the own rights stay. Raises HostError."""
    if os.geteuid() != 0:
        yield
        return
    libc = _libc()
    try:
        os.setgroups(ids.groups)
    except OSError as error:
        raise HostError("set", "the groups of a user", error.errno) from error
    libc.setfsgid(ids.group)
    libc.setfsuid(ids.user)
    try:
        yield
    finally:
        libc.setfsuid(0)
        libc.setfsgid(0)
