# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""SELinux: the labels of files, and questions to the kernel about its policy.

The kernel labels a new file by its folder and its maker. restorecon(8) labels it by its path, and so does
labelled(), through libselinux. Without SELinux it does nothing.
"""

from __future__ import annotations

import errno
import functools
import os
import stat
from contextlib import contextmanager
from typing import Any, Iterator

from ..model.errors import HostError
from . import system

TOP = "/sys/fs/selinux"
#: Attributes of this thread (proc_pid_attr(5)), such as the label of the next file that it makes
_THREAD = "/proc/thread-self/attr"
#: MATCHPATHCON_NOTRANS of selinux/selinux.h: labels as the kernel has them
_RAW = 4
#: Words of matchpathcon(8) for the types of files
_TYPES = {stat.S_IFREG: "file", stat.S_IFDIR: "dir", stat.S_IFLNK: "lnk_file"}


def is_on() -> bool:
    """As is_selinux_enabled(3): false in a container, which sees the node's policy read-only. Raises
    HostError."""
    try:
        return os.path.exists(f"{TOP}/enforce") and not os.statvfs(TOP).f_flag & os.ST_RDONLY
    except OSError as error:
        raise HostError("read", TOP, error.errno) from error


@contextmanager
def labelled(path: str, kind: int) -> Iterator[None]:
    """Within, a file that this thread makes gets the label that the policy has for a path. kind: its type,
    such as stat.S_IFREG. Without a path, as for a captured tree, nothing is done. Raises HostError."""
    label = _expected(path, kind) if path else b""
    with _attribute("fscreate", label, path):
        yield


@contextmanager
def own_domain(program: str) -> Iterator[None]:
    """Within, a program that this thread starts stays in its domain. A policy lets a program of another
    domain read the usual files only, such as ssh-keygen those with keys. Raises HostError."""
    domain = b""
    if is_on():
        try:
            with open(f"{_THREAD}/current", "rb") as stream:
                domain = stream.read().rstrip(b"\n\0")
        except OSError as error:
            raise HostError("read the SELinux domain of", program, error.errno) from error
    with _attribute("exec", domain, program):
        yield


@contextmanager
def _attribute(name: str, label: bytes, path: str) -> Iterator[None]:
    if label:
        _set(name, label, path)
    try:
        yield
    finally:
        if label:
            _set(name, b"\n", path)


def _set(name: str, label: bytes, path: str) -> None:
    try:
        handle = os.open(f"{_THREAD}/{name}", os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(handle, label)
        finally:
            os.close(handle)
    except OSError as error:
        text = label.decode("ascii", "replace").strip()
        raise HostError(f"give the SELinux label {text} to", path, error.errno) from error


@functools.lru_cache(maxsize=None)
def _library() -> Any:
    """libselinux. Raises HostError, and ImportError or MemoryError if there is no ctypes."""
    # Only here: its import takes as long as a short command.
    import ctypes

    try:
        library = ctypes.CDLL("libselinux.so.1", use_errno=True)
        library.set_matchpathcon_flags(_RAW)
    except (OSError, AttributeError) as error:
        raise HostError("load", "libselinux.so.1", None, str(error)) from error
    return library


def _expected(path: str, kind: int) -> bytes:
    """The label that the policy has for a path; empty if it has none. Raises HostError."""
    if not is_on():
        return b""
    try:
        library = _library()
    except (ImportError, MemoryError):
        return _told(path, kind)
    import ctypes

    label = ctypes.c_char_p()
    if library.matchpathcon(os.fsencode(path), kind, ctypes.byref(label)) != 0:
        number = ctypes.get_errno()
        if number == errno.ENOENT:  # <<none>> in file_contexts(5)
            return b""
        raise HostError("find the SELinux label of", path, number)
    policy_label = label.value or b""
    library.freecon(label)
    return policy_label


def _told(path: str, kind: int) -> bytes:
    """As _expected(), by a program. Before 3.10 Python makes a callback when it imports ctypes, and libffi
    before 3.4 makes it in a file, which fails if all such folders are mounted noexec. Raises HostError."""
    done = system.run(["matchpathcon", "-N", "-n", "-m", _TYPES[kind], path], system.USUAL_SECONDS)
    label = done.out.strip()
    if done.rc != 0 or not label:
        raise HostError("find the SELinux label of", path, None, done.err.strip() or f"exit status {done.rc}")
    return b"" if label == "<<none>>" else label.encode()


def label_of(path: str) -> str:
    """The label of a file; of an absent one the label that it would get. Raises HostError."""
    try:
        label = os.getxattr(path, "security.selinux")
    except FileNotFoundError:
        label = _expected(path, stat.S_IFREG)
    except OSError as error:
        raise HostError("read the SELinux label of", path, error.errno) from error
    if not label:
        raise HostError("find the SELinux label of", path, None, "the policy has none")
    return label.decode("ascii", "replace").rstrip("\0")


def ask(file: str, *words: str) -> str:
    """The kernel's answer to a question, such as create or access (security/selinux/selinuxfs.c). Raises
    HostError."""
    path = f"{TOP}/{file}"
    try:
        handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            os.write(handle, " ".join(words).encode())
            return os.read(handle, 4096).decode("ascii", "replace").rstrip("\n\0")
        finally:
            os.close(handle)
    except OSError as error:
        raise HostError("ask", path, error.errno) from error
