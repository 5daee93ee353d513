# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How files are written, linked, removed and locked: by handles, in a folder of folders.py.

A rename is atomic and makes a new inode. If a file has several names (hard links), only a write in place
reaches all of them. The whole new content is then on disk in a second file before the first byte is written,
so the next run can complete the write of a killed one.
"""

from __future__ import annotations

import errno
import os
import stat

from .folders import Folder, FolderError, foreign

# Without O_NONBLOCK a FIFO waits for its other end.
_OLD = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_IN_PLACE = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_LOCK = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

#: They describe the old content; the kernel makes new ones itself (ima_policy, evm)
_OF_CONTENT = ("security.ima", "security.evm")
_SELINUX = "security.selinux"
_REFUSED = (errno.EPERM, errno.EACCES, errno.ENOTSUP)

# -- files ---------------------------------------------------------------------------------


def replace(
    folder: Folder,
    name: str,
    content: bytes,
    mode: int | None,
    keeps: bool,
    owner: tuple[int, int] | None = None,
) -> None:
    """Write a file with this content: old or new after a power cut. keeps: preserve owner, mode, attributes
    and other names of an existing file. owner: instead of the existing owner. Raises OSError."""
    keeps = keeps and folder.keeps
    folder.do(lambda: _replace(folder.handle, name, content, mode, keeps, owner))


def _replace(
    folder: int, name: str, content: bytes, mode: int | None, keeps: bool, owner: tuple[int, int] | None
) -> None:
    temporary = temporary_of(name)
    try:
        _fill(folder, temporary, content, mode, name if keeps else "", owner)
        if keeps:
            _put(folder, temporary, name)
        else:
            _rename(folder, temporary, name)
    except BaseException:
        unlink_quietly(folder, temporary)
        raise
    os.fsync(folder)


def replace_link(folder: Folder, name: str, target: str) -> None:
    """Make a symbolic link, replacing any existing file. Raises OSError."""
    temporary = temporary_of(name)

    def work() -> None:
        unlink_quietly(folder.handle, temporary)
        try:
            os.symlink(target, temporary, dir_fd=folder.handle)
            _rename(folder.handle, temporary, name)
        except BaseException:
            unlink_quietly(folder.handle, temporary)
            raise
        os.fsync(folder.handle)

    folder.do(work)


def remove(folder: Folder, name: str, mark: bytes = b"") -> None:
    """Remove a file and the temporary file of a killed write. mark: only a file that begins with it. Raises
    OSError."""

    def work() -> None:
        if mark and not _begins(folder.handle, name, mark):
            return
        for left in (temporary_of(name), journal_of(name)):
            unlink_quietly(folder.handle, left)
        os.unlink(name, dir_fd=folder.handle)
        os.fsync(folder.handle)

    folder.do(work)


def _begins(folder: int, name: str, mark: bytes) -> bool:
    try:
        handle = _old(folder, name)
    except PermissionError:  # as another name of a file that the owner of the folder may not read
        return False
    if handle is None:
        return False
    try:
        return os.read(handle, len(mark)) == mark
    finally:
        os.close(handle)


def temporary_of(name: str) -> str:
    """One fixed name for each file: a killed run leaves at most one, and the next run reuses it. No program
    reads files with its suffix."""
    return f".{name}.mlnode-tmp"


def journal_of(name: str) -> str:
    """Name of the whole new content during a write in place. No program reads files with its suffix."""
    return f".{name}.mlnode-new"


def _fill(
    folder: int, temporary: str, content: bytes, mode: int | None, target: str, owner: tuple[int, int] | None
) -> None:
    """A new file with this content, on disk before the return, with owner, mode and attributes of the target
    if it is given and exists."""
    # A new one: a file of another user would keep its owner.
    unlink_quietly(folder, temporary)
    handle = os.open(temporary, _NEW, 0o600, dir_fd=folder)
    try:
        usual = _like(folder, target, handle) if target else 0o644
        if owner and os.geteuid() == 0:
            os.fchown(handle, *owner)
        # After the owner, as a change of owner clears the set-user-ID bit (chown(2)).
        os.fchmod(handle, usual if mode is None else mode)
        left = memoryview(content)
        while left:
            left = left[os.write(handle, left) :]
        os.fsync(handle)
    finally:
        os.close(handle)


def _like(folder: int, target: str, handle: int) -> int:
    """Give a new file owner and attributes of the target; the mode that it should have."""
    try:
        there = os.stat(target, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return 0o644
    if os.geteuid() == 0:
        os.fchown(handle, there.st_uid, there.st_gid)
    if stat.S_ISLNK(there.st_mode):  # 0777 of a link means nothing
        return 0o644
    source = _old(folder, target)
    if source is not None:
        try:
            copy_attributes(source, handle)
        finally:
            os.close(source)
    return stat.S_IMODE(there.st_mode)


def _old(folder: int, name: str) -> int | None:
    """A handle of a regular file; None if the path is absent or something else."""
    try:
        if not stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            return None
        handle = os.open(name, _OLD, dir_fd=folder)
    except FileNotFoundError:
        return None
    if stat.S_ISREG(os.fstat(handle).st_mode):
        return handle
    os.close(handle)
    return None


def unlink_quietly(folder: int, name: str) -> None:
    """Remove a file. A failure is harmless: the file is gone already, or blocks no other one."""
    try:
        os.unlink(name, dir_fd=folder)
    except OSError:
        pass


def _rename(folder: int, name: str, to: str) -> None:
    os.rename(name, to, src_dir_fd=folder, dst_dir_fd=folder)


def copy_attributes(source: int, target: int) -> None:
    """Copy ACLs, SELinux label and all other extended attributes (xattr(7), acl(5)) from handle to handle.
    Raises OSError if one cannot be copied, because the new file could be open to more users than the old one.
    """
    for name in _attributes(source):
        if name in _OF_CONTENT:
            continue
        try:
            os.setxattr(target, name, os.getxattr(source, name))
        except OSError as error:
            if error.errno == errno.ENODATA:  # gone since it was listed
                continue
            # Other security modules label new files themselves, and some refuse that to all others.
            if error.errno in _REFUSED and name.startswith("security.") and name != _SELINUX:
                continue
            raise


def _attributes(handle: int) -> list[str]:
    try:
        return os.listxattr(handle)
    except OSError as error:
        if error.errno in (errno.ENOTSUP, errno.ENOSYS):  # a file system without any
            return []
        raise


# -- in place ------------------------------------------------------------------------------


def _put(folder: int, temporary: str, target: str) -> None:
    """Give the target the content of a temporary file on disk in the same folder, and remove that file."""
    if not _is_linked(folder, target):
        _rename(folder, temporary, target)
        return
    journal = journal_of(target)
    _rename(folder, temporary, journal)
    try:
        os.fsync(folder)
        _pour(folder, journal, target)
    except OSError as error:
        if not isinstance(error, _TornError):
            os.unlink(journal, dir_fd=folder)
        raise


def complete(folder: Folder, name: str) -> bool:
    """Finish a killed replace(); False if there is nothing to finish, or if another user can have put it
    there. Raises OSError."""
    journal = journal_of(name)
    if not folder.keeps or not _is_there(folder.handle, journal):
        return False
    if _is_linked(folder.handle, name):
        _pour(folder.handle, journal, name)
    else:
        _rename(folder.handle, journal, name)
    os.fsync(folder.handle)
    return True


def _is_there(folder: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _is_linked(folder: int, name: str) -> bool:
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return stat.S_ISREG(status.st_mode) and status.st_nlink > 1


class _TornError(OSError):
    """The old content could not be written back either: the journal is the only whole one."""


def _pour(folder: int, journal: str, target: str) -> None:
    source = os.open(journal, _OLD, dir_fd=folder)
    try:
        content, status = _all(source), os.fstat(source)
    finally:
        os.close(source)
    handle = os.open(target, _IN_PLACE, dir_fd=folder)
    try:
        before, was = _all(handle), os.fstat(handle)
        try:
            _write(handle, content)
            if (was.st_uid, was.st_gid) != (status.st_uid, status.st_gid) and os.geteuid() == 0:
                os.fchown(handle, status.st_uid, status.st_gid)
            os.fchmod(handle, stat.S_IMODE(status.st_mode))
        except OSError:
            # The old content still owns its blocks, so there is room to restore it.
            _write_back(handle, before)
            raise
    finally:
        os.close(handle)
    os.unlink(journal, dir_fd=folder)


def _all(handle: int) -> bytes:
    chunks = []
    while chunk := os.read(handle, 1 << 20):
        chunks.append(chunk)
    return b"".join(chunks)


def _write_back(handle: int, content: bytes) -> None:
    try:
        _write(handle, content)
    except OSError as error:
        raise _TornError(error.errno, error.strerror) from error


def _write(handle: int, content: bytes) -> None:
    """Overwrite, then truncate: if space runs out, the write fails before anything is lost."""
    os.lseek(handle, 0, os.SEEK_SET)
    left = memoryview(content)
    while left:
        left = left[os.write(handle, left) :]
    os.ftruncate(handle, len(content))
    os.fsync(handle)


# -- locks ---------------------------------------------------------------------------------


def open_lock(folder: Folder, name: str) -> int:
    """A handle of a lock file, created if needed, for root alone: flock(2) needs only an open file, so any
    user could hold a lock file that others may read. Raises OSError."""
    handle = os.open(name, _LOCK, 0o600, dir_fd=folder.handle)
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise FolderError("it is not a regular file: remove it")
        owner = foreign(f"{folder.path}/{name}", status, folder.roots)
        if owner and os.geteuid() == 0:
            raise FolderError(owner)
        # Remove the permissions of others that an earlier version or a umask has left.
        if stat.S_IMODE(status.st_mode) != 0o600:
            os.fchmod(handle, 0o600)
    except BaseException:
        os.close(handle)
        raise
    return handle


def is_current(handle: int, real: str) -> bool:
    """True if a handle still belongs to the file at a path: a holder removes its lock file at the end."""
    try:
        return os.path.samestat(os.fstat(handle), os.lstat(real))
    except FileNotFoundError:
        return False
