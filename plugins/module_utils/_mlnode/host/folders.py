# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Folders that root writes into: opened step by step from the root, and judged by their handle.

No step of the way can be exchanged between check and use. A folder is root's alone if it and all parents
belong to root and no other user can write to them. Only there does a replaced file keep its owner, its ACL
and its hard links. In any other folder, a file is always created new, no link on the way is followed, and a
process with the rights of the folder's owner does the work.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import contextmanager
from typing import Callable, Iterator

from ..model.record import NamedTuple
from . import selinux

#: All users may read, only root may write
FOLDER_MODE = 0o755

OTHERS = stat.S_IWGRP | stat.S_IWOTH

#: Groups below are the distribution's (Debian Policy 9.2.2, uids and gids 0-99): /usr/local/bin is root:staff
#: 2775 on Debian, and members of such a group are trusted with the programs of root (9.1.2)
_FIRST_FREE_GID = 100

_MAX_LINKS = 40  # as the kernel's own limit, path_resolution(7)

# O_PATH: to walk through a folder needs no right to list it (open(2)).
_STEP = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NOCTTY | os.O_CLOEXEC

_ACL = "system.posix_acl_access"

#: For a process that works as another user, who can stop it with a signal (kill(2)). A write of 1 MB takes
#: 0.05 s on ext4, including 0.02 s for the process; the rest is for a busy disk.
_SECONDS = 30.0

_WORD = "ascii"


class Folder(NamedTuple):
    """An open folder. problem: why it is not root's alone, as a sentence; empty if it is. is_open: others can
    make names in it, as in /tmp. roots: the users who count as root."""

    handle: int
    path: str
    uid: int
    gid: int
    problem: str
    is_open: bool
    roots: tuple[int, ...]

    @property
    def keeps(self) -> bool:
        """True if only root can have put its content there."""
        return not self.problem and not self.is_open

    def do(self, work: Callable[[], object]) -> None:
        """Do the work, as the owner of the folder if that is another user. Raises OSError."""
        if self.problem and self.uid not in self.roots and os.geteuid() == 0:
            _as_owner(self, work)
        else:
            work()


# -- whose a folder is ---------------------------------------------------------------------


def roots(root: str) -> tuple[int, ...]:
    """Users who count as root. The owner of an unpacked tree may own all of it."""
    return (0,) if root == "/" else (0, os.stat(root).st_uid)


def foreign(path: str, status: os.stat_result, owners: tuple[int, ...]) -> str:
    """Why a path belongs to another user, as a sentence; empty if it is root's."""
    if status.st_uid in owners:
        return ""
    return (
        f"{path} belongs to UID {status.st_uid}, not to root, so its content is "
        f"ignored: inspect it, then `chown -h root:root {path}` or remove it"
    )


def changeable(path: str, status: os.stat_result) -> str:
    """The same for a path that is_writable() reports."""
    return (
        f"{path} can be changed by others than root (mode {stat.S_IMODE(status.st_mode):04o}, group "
        f"{status.st_gid}), so its content is ignored: inspect it, then `chmod go-w {path}`"
    )


def is_writable(status: os.stat_result, where: int | str) -> bool:
    """True if others than root and the distribution's groups can write to it. where: a path, or the handle of
    a folder; its ACL is read, which the group bits hide (acl(5), correspondence)."""
    others = status.st_mode & OTHERS
    if not others:
        return False
    return others != stat.S_IWGRP or status.st_gid >= _FIRST_FREE_GID or _has_acl(where)


def _has_acl(where: int | str) -> bool:
    try:
        if isinstance(where, str):
            return bool(os.getxattr(where, _ACL))
        # By the folder: a handle of O_PATH does not work, and /proc is missing during an image build.
        handle = os.open(".", _FOLDER, dir_fd=where)
        try:
            return bool(os.getxattr(handle, _ACL))
        finally:
            os.close(handle)
    except OSError as error:
        return error.errno not in (errno.ENODATA, errno.ENOTSUP, errno.ENOSYS)


class FolderError(OSError):
    """A folder, or the way to it, is not root's alone, or its owner cannot write a file. words: for people;
    the errno is set if there is one."""

    def __init__(self, words: str, number: int | None = None) -> None:
        super().__init__(number, words)
        self.words = words


@contextmanager
def opened(root: str, path: str, make: bool = False, strict: bool = False) -> Iterator[Folder]:
    """A folder of the tree below root, open within the context. make: create it and its missing parents if
    the way is root's alone. strict: refuse all other folders. Raises OSError."""
    walk = _Walk(root, roots(root), make, strict)
    try:
        folder = walk.to(path)
    finally:
        walk.close()
    try:
        yield folder
    finally:
        os.close(folder.handle)


class _Walk:
    """The way to a folder, link by link as the kernel walks it; links of a captured tree stay inside it."""

    def __init__(self, root: str, owners: tuple[int, ...], make: bool, strict: bool) -> None:
        self._live, self._roots, self._make, self._strict = root == "/", owners, make, strict
        self._handles = [os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)]
        self._names: list[str] = []
        self._problem = ""
        self._look("/")

    def to(self, path: str) -> Folder:
        todo, links = _parts(path), 0
        while todo:
            target = self._step(todo.pop(0))
            if target is not None:
                links += 1
                if links > _MAX_LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
                todo = [*_parts(target), *todo]
        handle = os.open(".", _FOLDER, dir_fd=self._handles[-1])
        status = os.fstat(handle)
        is_open = is_writable(status, handle)
        return Folder(handle, self._path, status.st_uid, status.st_gid, self._problem, is_open, self._roots)

    def close(self) -> None:
        for handle in self._handles:
            os.close(handle)

    @property
    def _path(self) -> str:
        return "/" + "/".join(self._names)

    def _step(self, name: str) -> str | None:
        """Into a folder; of a link its target."""
        if name == "..":
            if self._names:
                os.close(self._handles.pop())
                self._names.pop()
            return None
        handle = self._entered(name)
        here = f"{self._path.rstrip('/')}/{name}"
        if not stat.S_ISLNK(os.fstat(handle).st_mode):
            self._handles.append(handle)
            self._names.append(name)
            self._look(here)
            return None
        try:
            self._refuse_link(here, os.fstat(handle))
            target = os.readlink("", dir_fd=handle)
        finally:
            os.close(handle)
        if target.startswith("/"):
            while self._names:
                self._step("..")
        return target

    def _entered(self, name: str) -> int:
        folder = self._handles[-1]
        try:
            return os.open(name, _STEP, dir_fd=folder)
        except FileNotFoundError:
            if not self._make or self._problem:
                raise
        made = f"{self._path.rstrip('/')}/{name}" if self._live else ""
        with selinux.labelled(made, stat.S_IFDIR):
            _make_folder(folder, name)
        return os.open(name, _STEP, dir_fd=folder)

    def _look(self, path: str) -> None:
        """Check whether the last step is root's alone. In a folder with the sticky bit (inode(7)) all users
        can write but not replace files of others, so the next step decides, as in /run of a container of
        podman."""
        handle = self._handles[-1]
        status = os.fstat(handle)
        if not stat.S_ISDIR(status.st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        problem = foreign(path, status, self._roots)
        if not problem and not status.st_mode & stat.S_ISVTX:
            problem = changeable(path, status) if is_writable(status, handle) else ""
        if problem and self._strict:
            raise FolderError(problem)
        self._problem = self._problem or problem

    def _refuse_link(self, path: str, status: os.stat_result) -> None:
        if self._problem or status.st_uid not in self._roots:
            raise FolderError(
                f"{path} is a link that another user than root can have made: name the folder that is meant"
            )


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]


def _make_folder(folder: int, name: str) -> None:
    """Create one folder. makedirs() would give its mode to the last one only; the umask would reduce 0777 for
    the others."""
    try:
        os.mkdir(name, FOLDER_MODE, dir_fd=folder)
    except FileExistsError:  # another process was faster, or a file is in the way
        return
    handle = os.open(name, _FOLDER, dir_fd=folder)
    try:
        # A umask can only have taken bits away meanwhile: at no time may others write.
        os.fchmod(handle, FOLDER_MODE)
        above = os.open("..", _FOLDER, dir_fd=handle)
        try:
            os.fsync(above)
        finally:
            os.close(above)
    finally:
        os.close(handle)


# -- as another user -----------------------------------------------------------------------


def _as_owner(folder: Folder, work: Callable[[], object]) -> None:
    """Run work in a process with the rights of the folder's owner and no way back to root's rights. It ends
    with the work. Raises OSError."""
    # Imported here, because hardly any folder belongs to another user.
    import select
    import signal

    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        _work_as(folder, work, writer)
    os.close(writer)
    answer = b""
    try:
        # Its owner may stop or kill it.
        if select.select([reader], [], [], _SECONDS)[0]:
            answer = os.read(reader, 64)
    finally:
        os.close(reader)
        _end(child, signal.SIGKILL)
    stage, _blank, number = answer.decode(_WORD).partition(" ")
    who = f"the owner of {folder.path}, UID {folder.uid}"
    if not number.isdigit():
        why = f"the process that works as {who} was stopped or killed, or had no end in {_SECONDS:.0f} s"
        raise FolderError(why)
    if int(number):
        detail = f"as {who}" if stage == "work" else f"to become {who} needs CAP_SETUID and CAP_SETGID"
        raise FolderError(detail, int(number))


def _end(child: int, number: int) -> None:
    """Without CAP_KILL it is left to its end, or to systemd, which ends all of a service."""
    try:
        os.kill(child, number)
    except PermissionError:
        os.waitpid(child, os.WNOHANG)
    else:
        os.waitpid(child, 0)


def _work_as(folder: Folder, work: Callable[[], object], writer: int) -> None:
    """Of the child. Does not return."""
    stage, number = "become", 0
    try:
        os.setgroups([])
        os.setresgid(folder.gid, folder.gid, folder.gid)
        os.setresuid(folder.uid, folder.uid, folder.uid)
        if 0 in (*os.getresuid(), *os.getgroups()):
            number = errno.EPERM
        else:
            stage = "work"
            work()
    except OSError as error:
        number = error.errno or errno.EIO
    except BaseException:  # noqa: BLE001  # pylint: disable=broad-exception-caught
        # After any error this process ends here, and its parent reports it.
        number = errno.EIO
    finally:
        os.write(writer, f"{stage} {number}".encode(_WORD))
        os._exit(0)
