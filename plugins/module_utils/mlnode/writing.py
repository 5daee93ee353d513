# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How files and folders are written. Folders are the same whatever the umask of the run is; of a file that is
not ours alone the attributes and the other names stay.

A rename is atomic and makes a new inode. Where the file has more than one name (hard links), only a write in
place reaches all of them: the whole new content lies beside it, on disk, before the first byte of it is
written, so that the next run completes what a killed one has begun.
"""

from __future__ import annotations

import errno
import os
import stat

#: All users may read, only root may write
FOLDER_MODE = 0o755

#: They speak of the content, which is another one now; the kernel makes them itself (ima_policy, evm)
_OF_CONTENT = ("security.ima", "security.evm")
_SELINUX = "security.selinux"
_REFUSED = (errno.EPERM, errno.EACCES, errno.ENOTSUP)


def make_folder(real: str) -> None:
    """The folder and all that are missing above it, on disk before it returns. Raises OSError.

    Each by a mkdir of its own: makedirs() gives its mode to the last one only, and the others get what the
    umask leaves of 0777.
    """
    missing = []
    while not os.path.isdir(real):
        missing.append(real)
        real = os.path.dirname(real)
    for folder in reversed(missing):
        try:
            os.mkdir(folder, FOLDER_MODE)
        except FileExistsError:
            if os.path.isdir(folder):  # another process was faster
                continue
            raise
        # A umask can only have taken bits away meanwhile: at no time may others write.
        os.chmod(folder, FOLDER_MODE)
        sync(os.path.dirname(folder))


def sync(real: str) -> None:
    """The names in a folder are on disk. Raises OSError."""
    handle = os.open(real, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def fill(temporary: str, content: bytes, mode: int | None, target: str) -> None:
    """A new file with this content, on disk before it returns, and with owner, mode and attributes of the
    target, if there is one. Raises OSError."""
    # Anew: what somebody else put there would keep its owner.
    unlink_quietly(temporary)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    handle = os.open(temporary, flags, 0o600)
    try:
        usual = 0o644
        try:
            old = os.lstat(target)
        except FileNotFoundError:
            pass
        else:
            if not stat.S_ISLNK(old.st_mode):  # whose 0777 means nothing
                usual = stat.S_IMODE(old.st_mode)
            if os.geteuid() == 0:
                os.fchown(handle, old.st_uid, old.st_gid)
            if stat.S_ISREG(old.st_mode):
                copy_attributes(target, temporary)
        # After the owner, as a change of owner clears the set-user-ID bit (chown(2)).
        os.fchmod(handle, usual if mode is None else mode)
        left = memoryview(content)
        while left:
            left = left[os.write(handle, left) :]
        os.fsync(handle)
    finally:
        os.close(handle)


def unlink_quietly(path: str) -> None:
    """It may be gone already, or be in the way of nothing."""
    try:
        os.unlink(path)
    except OSError:
        pass


def copy_attributes(source: str, target: str) -> None:
    """ACLs, SELinux label and all other extended attributes (xattr(7), acl(5)). Raises OSError where one
    cannot be copied, as the new file would be open to others than the old one."""
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


def _attributes(path: str) -> list[str]:
    try:
        return os.listxattr(path)
    except OSError as error:
        if error.errno in (errno.ENOTSUP, errno.ENOSYS):  # a file system without any
            return []
        raise


def put(temporary: str, target: str) -> None:
    """Make the target what lies, on disk, in a file beside it, which is gone then. Raises OSError."""
    if not _is_linked(target):
        os.rename(temporary, target)
        return
    journal = journal_of(target)
    os.rename(temporary, journal)
    try:
        sync(os.path.dirname(target))
        _pour(journal, target)
    except OSError as error:
        if not isinstance(error, _TornError):
            os.unlink(journal)
        raise


def complete(target: str) -> bool:
    """Finish put() where it was killed; False where there is nothing to finish. Raises OSError."""
    journal = journal_of(target)
    if not os.path.lexists(journal):
        return False
    if _is_linked(target):
        _pour(journal, target)
    else:
        os.rename(journal, target)
    sync(os.path.dirname(target))
    return True


def journal_of(target: str) -> str:
    """Where the whole new content lies while it is written in place. It ends in no suffix that is read."""
    folder, name = os.path.split(target)
    return os.path.join(folder, f".{name}.mlnode-new")


def _is_linked(path: str) -> bool:
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return False
    return stat.S_ISREG(found.st_mode) and found.st_nlink > 1


class _TornError(OSError):
    """The old content could not be written back either: the journal is the only whole one."""


def _pour(journal: str, target: str) -> None:
    with open(journal, "rb") as stream:
        content = stream.read()
        mode = stat.S_IMODE(os.fstat(stream.fileno()).st_mode)
    with open(target, "rb") as stream:
        before = stream.read()
    handle = os.open(target, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        try:
            _write(handle, content)
            os.fchmod(handle, mode)
        except OSError:
            # The blocks of the old content are still its own, so that there is room for it.
            _write_back(handle, before)
            raise
    finally:
        os.close(handle)
    os.unlink(journal)


def _write_back(handle: int, content: bytes) -> None:
    try:
        _write(handle, content)
    except OSError as error:
        raise _TornError(error.errno, error.strerror) from error


def _write(handle: int, content: bytes) -> None:
    """Over the old bytes, and only then cut off: what is short of space fails before anything is lost."""
    os.lseek(handle, 0, os.SEEK_SET)
    left = memoryview(content)
    while left:
        left = left[os.write(handle, left) :]
    os.ftruncate(handle, len(content))
    os.fsync(handle)
