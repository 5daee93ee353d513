# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The only door to a machine. Every path is below a root, so a captured tree or a test's folder can stand in
for a node, and no caller has to know."""

from __future__ import annotations

import base64
import errno
import fnmatch
import os
import stat
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, Callable, Iterator, Mapping, Protocol

from ..model.errors import HostError, NotMountedError
from ..model.setting import Value
from . import folders, mountinfo, places, selinux, system, writing
from .memory import Memory
from .system import Programs


class Driver(Protocol):
    """Shows settings without kernel files as files below one folder. Its functions are named
    as in Host, and all raise HostError."""

    def read(self, host: Host, path: str) -> bytes: ...
    def write(self, host: Host, path: str, value: str) -> None: ...
    def names(self, host: Host, path: str) -> list[str]: ...
    def exists(self, host: Host, path: str) -> bool: ...
    def blocked(self, host: Host, path: str) -> str: ...


#: Folder, one of places.DRIVEN → function that returns the driver mounted there, called for each access
Mounts = Mapping[str, Callable[[], Driver]]


class Host(Memory, Programs):
    """A machine seen through its file system below root, and its commands if root is /."""

    def __init__(self, root: str = "/", mounts: Mounts = MappingProxyType({})) -> None:
        Memory.__init__(self)
        Programs.__init__(self, root)
        self.mounts = mounts
        #: Real folders of a captured tree, not links: each path passes through some of them
        self._folders: set[str] = set()
        #: Changes that the run under way is about to make, for concurrent readers of the node
        self.under_way: dict[str, Any] = {}
        #: Id of the lease on the node's state for which this run changes it
        self.lease = ""

    def forget(self, files: bool = True) -> None:
        super().forget(files)
        self._folders.clear()

    def systemd_runs(self) -> bool:
        """As sd_booted(3): false in a chroot, an image build or a container without init."""
        return self.exists("/run/systemd/system")

    def is_superuser(self) -> bool:
        return os.geteuid() == 0

    # -- reading ---------------------------------------------------------------------------

    def real(self, path: str, follow: bool = True) -> str:
        """The path to open for a path of the machine; links of a captured tree stay inside it."""
        if self.live:
            return places.checked(path)
        return system.inside(self.root, places.checked(path), follow, self._folders)

    def read_bytes(self, path: str) -> bytes:
        """The whole file. Raises HostError, whose .absent distinguishes missing from unreadable."""
        if driver := self._driver(path):
            return driver.read(self, path)
        if fake := mountinfo.over(self, path):
            raise HostError("read", path, None, fake)
        return self.stored(path)

    def stored(self, path: str) -> bytes:
        """Like read_bytes(), but below a driver's folder the captured file in the tree itself."""
        return system.contents(self.real(path), path)

    def beginning(self, path: str, most: int, seconds: float) -> tuple[bytes, bool]:
        """Begin of a kernel file, within these bytes and seconds, and whether it is all. Raises HostError."""
        return system.beginning(self.real(path), path, most, seconds)

    def content(self, path: str) -> bytes | None:
        """The whole file, or None if it is absent. Raises HostError if it cannot be read."""
        try:
            return self.read_bytes(path)
        except HostError as error:
            if error.absent:
                return None
            raise

    def text(self, path: str) -> str:
        """As read(); empty where the file does not exist."""
        return (self.content(path) or b"").decode("utf-8", "surrogateescape")

    def read(self, path: str) -> str:
        """The file as text; bytes that are not UTF-8 survive a round trip."""
        return self.read_bytes(path).decode("utf-8", "surrogateescape")

    def value(self, path: str) -> Value:
        """Content of a kernel file without its line end, or why there is none. Some kernels print the NUL at
        the end of a C string: an empty nohz_full of RHEL 7 is a NUL and a line end."""
        try:
            return Value(text=self.read(path).rstrip("\n\0"))
        except HostError as error:
            if error.absent:
                return Value(absent=error.missing)
            return Value(unreadable=str(error))

    def names(self, path: str) -> list[str]:
        """Sorted names in a folder; empty if it does not exist. Raises HostError if unreadable."""
        if driver := self._driver(path):
            return driver.names(self, path)
        try:
            return sorted(os.listdir(self.real(path)))
        except OSError as error:
            problem = HostError("list", path, error.errno)
            if problem.absent:
                return []
            raise problem from error

    def matching(self, pattern: str) -> list[str]:
        """Existing paths for a pattern; * stays within one folder, as in glob(7)."""
        paths = [""]
        for part in pattern.strip("/").split("/"):
            if any(sign in part for sign in "*?["):
                paths = [
                    f"{folder}/{name}"
                    for folder in paths
                    for name in self.names(folder or "/")
                    if fnmatch.fnmatchcase(name, part)
                ]
            else:
                paths = [f"{folder}/{part}" for folder in paths]
        return [path for path in paths if self.exists(path)]

    def exists(self, path: str) -> bool:
        """True if the path exists, links followed. Raises HostError if that is unknown."""
        if driver := self._driver(path):
            return driver.exists(self, path)
        return self._stat(path, follow=True) is not None

    def is_link(self, path: str) -> bool:
        status = self._stat(path, follow=False)
        return status is not None and stat.S_ISLNK(status.st_mode)

    def is_file(self, path: str) -> bool:
        """True if it leads to a regular file, which a device is not. Raises HostError."""
        status = self._stat(path, follow=True)
        return status is not None and stat.S_ISREG(status.st_mode)

    def is_executable(self, path: str) -> bool:
        """True if root may run it: a regular file with any of the three bits (execve(2), capabilities(7))."""
        status = self._stat(path, follow=True)
        return status is not None and stat.S_ISREG(status.st_mode) and bool(status.st_mode & 0o111)

    def link_target(self, path: str) -> str:
        """Target of a link, as written; empty if the path is not a link. Raises HostError."""
        try:
            return os.readlink(self.real(path, follow=False))
        except OSError as error:
            problem = HostError("read link", path, error.errno)
            if problem.absent or error.errno == errno.EINVAL:
                return ""
            raise problem from error

    def mode(self, path: str) -> int | None:
        """Permission bits of a path, links followed; None if it is absent. Raises HostError."""
        status = self._stat(path, follow=True)
        return None if status is None else stat.S_IMODE(status.st_mode)

    def changed(self, path: str) -> float | None:
        """Time of the last change of content or attributes, links followed; None if the path is absent.
        Raises HostError."""
        status = self._stat(path, follow=True)
        # No program can set the first; on FAT it is the time at which the file was made.
        return None if status is None else max(status.st_ctime, status.st_mtime)

    def identity(self, path: str) -> str:
        """Identity of a path: it differs once the path is created again, as by a reload of its driver; empty
        if the path is absent. Raises HostError."""
        status = self._stat(path, follow=True)
        return "" if status is None else f"{status.st_dev}:{status.st_ino}"

    def space(self, path: str) -> os.statvfs_result:
        """Blocks and inodes of the file system of a path, by statvfs(3), which waits for ever for a lost
        server. Raises HostError, always for a captured tree."""
        if not self.live:
            raise HostError("look at", path, None, f"the space left was not captured in {self.root}")
        try:
            return os.statvfs(self.real(path))
        except OSError as error:
            raise HostError("look at", path, error.errno) from error

    def kernel_log(self, path: str) -> list[str]:
        """The records of /dev/kmsg, a device, which a captured tree does not have. Raises HostError."""
        return system.records(self.real(path), path) if self.live else []

    def blocked(self, path: str) -> str:
        """Reason why this node cannot set a kernel file, as in a container; empty if it can: see
        mountinfo."""
        if driver := self._driver(path):
            return driver.blocked(self, path)
        return mountinfo.blocked(self, path)

    def _stat(self, path: str, follow: bool) -> os.stat_result | None:
        try:
            real = self.real(path, follow)
            return os.stat(real) if follow else os.lstat(real)
        except OSError as error:
            problem = HostError("look at", path, error.errno)
            if problem.absent:
                return None
            raise problem from error

    def _driver(self, path: str) -> Driver | None:
        """The driver mounted over a path; None for a file of the machine itself."""
        folder = f"/{path[1:].partition('/')[0]}"
        if folder in self.mounts:
            return self.mounts[folder]()
        if folder in places.DRIVEN:
            raise NotMountedError(folder, path)
        return None

    def is_mounted(self, path: str) -> bool:
        """False if the path is below the folder of a driver that was not given."""
        folder = f"/{path[1:].partition('/')[0]}"
        return folder in self.mounts or folder not in places.DRIVEN

    # -- writing ---------------------------------------------------------------------------

    def write_kernel(self, path: str, value: str) -> None:
        """One write(2) into a file the kernel made; never creates one. Raises HostError."""
        if driver := self._driver(path):
            driver.write(self, path, value)
            return
        if fake := mountinfo.over(self, path):
            raise HostError(f"write {value!r} to", path, None, fake)
        try:
            # O_NONBLOCK: without a reader a FIFO would wait for one. No kernel file has one.
            handle = os.open(self.real(path), os.O_WRONLY | os.O_TRUNC | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                # The line end matters: a write of no bytes at all would never reach the kernel's
                # handler, so an empty list could not be restored.
                os.write(handle, (value + "\n").encode("utf-8", "surrogateescape"))
            finally:
                os.close(handle)
        except OSError as error:
            cause = mountinfo.barred(self, path)
            raise HostError(f"write {value!r} to", path, error.errno, cause=cause) from error

    @contextmanager
    def _folder(self, action: str, path: str, makes: int = 0) -> Iterator[tuple[folders.Folder, str]]:
        """The open folder of a path, and the name in it. makes: the type of the file that the block makes
        there; missing folders are then made, too. Raises HostError for one of the product's own paths in a
        folder that others than root can change, and for an OSError in the block."""
        parent, _slash, name = places.checked(path).rpartition("/")
        try:
            with folders.opened(self.root, parent, bool(makes), strict=places.is_roots(path)) as folder:
                made = f"{folder.path}/{name}" if makes and self.live else ""
                with selinux.labelled(made, makes):
                    yield folder, name
        except folders.FolderError as error:
            raise HostError(
                action, path, error.errno, error.words, cause=error.words if error.errno else ""
            ) from error
        except OSError as error:
            cause = mountinfo.read_only(self, path) if error.errno == errno.EROFS else ""
            raise HostError(action, path, error.errno, cause=cause) from error

    def write_file(
        self,
        path: str,
        content: bytes,
        mode: int | None = None,
        fresh: bool = False,
        owner: tuple[int, int] | None = None,
    ) -> None:
        """Replace a whole file: after a power cut it is either old or new, never half of it; see writing for
        files with several names, and for a folder of another user.

        A shared file keeps its owner, its ACL and other extended attributes, and its mode if none is given. A
        file of mlnode, or a fresh one, becomes root's with mode 0644, whatever was there. Raises HostError.
        """
        if len(content) > system.LIMIT:  # and could not be read again
            raise HostError("write", path, errno.EFBIG)
        keeps = not fresh and not places.is_own(path)
        with self._folder("write", path, stat.S_IFREG) as (folder, name):
            writing.replace(folder, name, content, mode, keeps, owner)

    def write_link(self, path: str, target: str) -> None:
        """Make path a symbolic link to target, replacing any existing file. Raises HostError."""
        with self._folder("link", path, stat.S_IFLNK) as (folder, name):
            writing.replace_link(folder, name, target)

    def remove_file(self, path: str, mark: bytes = b"") -> None:
        """Remove an own file and the temporary file of a killed write. Absent is fine. mark: remove it only
        if it begins with this."""
        try:
            with self._folder("remove", path) as (folder, name):
                writing.remove(folder, name, mark)
        except HostError as error:
            if error.errno != errno.ENOENT:
                raise

    def complete(self, path: str) -> bool:
        """Finish the write of a file that a killed run has begun; False if there is nothing to finish. Raises
        HostError."""
        parent, _slash, name = places.checked(path).rpartition("/")
        try:
            with folders.opened(self.root, parent) as folder:
                return writing.complete(folder, name)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            raise HostError("finish writing", path, error.errno) from error

    def tidy(self, path: str) -> None:
        """Remove the temporary file that a killed run has left in the folder of a right file."""
        try:
            with self._folder("tidy", path) as (folder, name):
                folder.do(lambda: writing.unlink_quietly(folder.handle, writing.temporary_of(name)))
        except HostError:  # a leftover is harmless
            pass

    def open_lock(self, path: str) -> int:
        """A handle of one of our lock files, created if needed. Raises HostError."""
        with self._folder("lock", path, stat.S_IFREG) as (folder, name):
            return writing.open_lock(folder, name)

    def make_folder(self, path: str) -> None:
        """Create one folder in configfs, in which the kernel then creates its files. Refused in a captured
        tree, which has no such kernel. Raises HostError."""
        if not self.live:
            raise HostError("look into", path, None, f"it was not captured in {self.root}")
        try:
            os.mkdir(path)
        except OSError as error:
            raise HostError("make", path, error.errno) from error

    def remove_folder_if_empty(self, path: str, may_stay: bool = False) -> None:
        """Remove a folder we made, unless others put something into it. may_stay: ignore a read-only file
        system, such as a StateDirectory= in the sandbox of its service (systemd.exec(5))."""
        stays = (errno.ENOENT, errno.ENOTEMPTY, errno.EEXIST, errno.EBUSY)
        try:
            with self._folder("remove", path) as (folder, name):
                os.rmdir(name, dir_fd=folder.handle)
        except HostError as error:
            if error.errno not in stays and not (may_stay and error.errno == errno.EROFS):
                raise

    def missing_folders(self, path: str) -> tuple[str, ...]:
        """The parents of path that do not exist yet, outermost first."""
        missing: list[str] = []
        folder = os.path.dirname(path)
        while folder not in ("", "/") and not self.exists(folder):
            missing.insert(0, folder)
            folder = os.path.dirname(folder)
        return tuple(missing)

    def snapshot(self, path: str) -> dict[str, str | int] | None:
        """A file's content and attributes, ready for JSON; None if it is not there."""
        status = self._stat(path, follow=False)
        if status is None:
            return None
        if stat.S_ISLNK(status.st_mode):
            return {"link": self.link_target(path)}
        return {
            "content": base64.b64encode(self.read_bytes(path)).decode("ascii"),
            "mode": stat.S_IMODE(status.st_mode),
            "uid": status.st_uid,
            "gid": status.st_gid,
        }

    def put_back(self, path: str, saved: Mapping[str, str | int] | None) -> None:
        """Make a file what snapshot() saw."""
        if saved is None:
            self.remove_file(path)
            return
        if "link" in saved:
            self.write_link(path, str(saved["link"]))
            return
        owner = (int(saved["uid"]), int(saved["gid"])) if self.is_superuser() else None
        self.write_file(path, base64.b64decode(str(saved["content"])), int(saved["mode"]), owner=owner)
