# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The calls of the system behind Host: how files are read and written, and programs run.

A file is read so that it can neither block nor fill the memory, whatever stands in its place. Folders get
the same mode whatever the umask of the run is; of a file that is not mlnode's alone the attributes and the
other names stay. A rename is atomic and makes a new inode. Where a file has several names (hard links), only
a write in place reaches all of them: the whole new content lies beside it, on disk, before the first byte of
it is written, so that the next run completes what a killed one has begun. A program gets no shell, no
terminal, an environment of our own, and a limit of time.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import Sequence

from ..model.errors import HostError
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

#: What masks a file of the system is a link to it; major 1, minor 3 (admin-guide/devices.txt)
_NULL = os.makedev(1, 3)

_NAMES = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a character device",
    stat.S_IFBLK: "a block device",
}


def inside(root: str, path: str, follow: bool, folders: set[str]) -> str:
    """The path to open for a path of the tree below root, inside which its links lead. Raises HostError.

    folders: what was found to be a folder and no link, which is not looked at twice.
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
    """Target of a link; empty for all else, of which folders are remembered; None where nothing is."""
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
    """The whole file at real, which errors call path. Raises HostError.

    All that is read below /proc and /sys is a regular file, too: procfs, sysfs, debugfs and configfs make no
    others but folders and links.
    """
    try:
        handle = os.open(real, _FLAGS)
    except OSError as error:
        raise _not_opened(real, path, error) from error
    try:
        return _all(handle, path)
    except OSError as error:
        raise HostError("read", path, error.errno) from error
    finally:
        os.close(handle)


def _not_opened(real: str, path: str, error: OSError) -> HostError:
    """ENXIO would count as absent, and is also what a socket answers (open(2))."""
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


def _all(handle: int, path: str) -> bytes:
    status = os.fstat(handle)
    if stat.S_ISCHR(status.st_mode) and status.st_rdev == _NULL:
        return b""
    if stat.S_ISDIR(status.st_mode):
        raise HostError("read", path, errno.EISDIR)
    if not stat.S_ISREG(status.st_mode):
        raise _unfit(path, _NAMES.get(stat.S_IFMT(status.st_mode), "something else"))
    limit = KERNEL_LIMIT if path.startswith(("/proc/", "/sys/")) else LIMIT
    chunks: list[bytes] = []
    left = limit if status.st_size <= limit else -1  # the size that files of the kernel show means nothing
    size = max(status.st_size + 1, _CHUNK)
    while left >= 0:
        chunk = os.read(handle, min(size, left + 1))
        if not chunk:
            return b"".join(chunks)
        chunks.append(chunk)
        left -= len(chunk)
    raise HostError("read", path, errno.EFBIG)


# -- writing -----------------------------------------------------------------------------------

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


def open_lock(real: str) -> int:
    """A handle of a lock file, which is made if need be, with its folder. For root alone: flock(2) needs no
    more than a file that can be opened, so that any user could hold one that others may read. Raises
    OSError."""
    make_folder(os.path.dirname(real))
    # O_NONBLOCK: a FIFO in its place would wait.
    handle = os.open(real, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise FileExistsError(errno.EEXIST, "not a regular file")
    # What another mode has left, an earlier version or a umask, is closed to others from here on.
    os.fchmod(handle, 0o600)
    return handle


def is_current(handle: int, real: str) -> bool:
    """True if a handle is that of the file at a path: a holder removes its lock file at the end."""
    try:
        return os.path.samestat(os.fstat(handle), os.lstat(real))
    except FileNotFoundError:
        return False


def take(real: str) -> int | None:
    """A handle that holds a lock file as long as it is open; None where another process does. Raises
    OSError."""
    # Only here: no other command holds one.
    import fcntl

    while True:
        handle = open_lock(real)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if is_current(handle, real):
                return handle
        except BlockingIOError:
            os.close(handle)
            return None
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)


def fill(temporary: str, content: bytes, mode: int | None, target: str) -> None:
    """A new file with this content, on disk before it returns, and with owner, mode and attributes of the
    target, if there is one. Raises OSError."""
    # A new one: a file of another user would keep its owner.
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
    """Path of the whole new content while it is written in place. It ends in no suffix that is read."""
    folder, name = os.path.split(target)
    return os.path.join(folder, f".{name}.mlnode-new")


def _is_linked(path: str) -> bool:
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return False
    return stat.S_ISREG(status.st_mode) and status.st_nlink > 1


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


# -- programs ----------------------------------------------------------------------------------

#: How long a helper program may take; modprobe of a driver is the slowest of most
USUAL_SECONDS = 60.0


class Finished(NamedTuple):
    """Result of a command: exit status and its two outputs."""

    rc: int
    out: str
    err: str


def run(command: Sequence[str], seconds: float, given: str = "") -> Finished:
    """given: its standard input. Raises HostError where it cannot be started or takes longer."""
    # Only here: most commands start no program.
    import subprocess

    try:
        # The same runs at boot, where there is no module.
        done = subprocess.run(  # pylint: disable=ansible-bad-function
            list(command),
            input=given,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=seconds,
            check=False,
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"},
        )
    except subprocess.TimeoutExpired as error:
        raise HostError("run", command[0], None, f"no answer in {seconds:.0f} s") from error
    except OSError as error:
        raise HostError("run", command[0], error.errno) from error
    return Finished(done.returncode, done.stdout, done.stderr)
