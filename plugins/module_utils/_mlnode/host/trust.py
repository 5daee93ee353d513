# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files that root may act on: files of root, in folders in which no other user can replace them.

Their content decides what root writes and runs. So a reader refuses a file that another user owns or can
change, a run removes the write permission of others from root's files, and a check of the node reports both.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import Iterator

from ..model.errors import HostError, UntrustedError
from . import places
from .folders import FOLDER_MODE, OTHERS, changeable, foreign, is_writable, roots
from .host import Host

#: Target of the link of a masked unit (systemctl(1), mask): any user may write to it, and it is always empty
_NOTHING = "/dev/null"

_MAX_LINKS = 40  # as the kernel's own limit, path_resolution(7)

_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


def problems(host: Host) -> list[str]:
    """One line for each file or folder that root must not act on. Never raises."""
    messages: dict[str, None] = {}
    for path in _own(host, messages):
        try:
            _check(host, path)
        except HostError as error:
            _report(host, error, messages)
        except UntrustedError as error:
            messages[str(error)] = None
    return list(messages)


def require(host: Host, path: str) -> None:
    """Raises UntrustedError if root must not act on a file of places.FOLDERS. An absent file is fine, and so
    is a file that this user may not read."""
    try:
        _check(host, path)
    except HostError:
        if host.is_superuser():
            raise


def read(host: Host, path: str) -> bytes:
    """As Host.read_bytes(), of a file that root may act on. Raises UntrustedError, HostError."""
    require(host, path)
    return host.read_bytes(path)


def is_right(host: Host, path: str) -> bool:
    """False if an own file exists with an owner or mode that we would not give it. Its folders are checked
    elsewhere. Raises HostError."""
    status = _look(host, path)
    if status is None or stat.S_ISLNK(status.st_mode) or not places.is_own(path):
        return True
    return status.st_uid in roots(host.root) and not status.st_mode & OTHERS


def repair(host: Host) -> list[str]:
    """Remove the write permission of others from root's files, and make our folders readable. The caller
    holds the node's lock. Returns the changed paths. require() refuses files that cannot be repaired."""
    done = []
    # One by one, because a repaired folder is entered.
    for path in _own(host, {}) if host.is_superuser() else ():
        try:
            if _mended(host, path):
                done.append(path)
        except (HostError, OSError):
            continue
    return done


# -- one path ------------------------------------------------------------------------------


def _check(host: Host, path: str) -> None:
    """Raises UntrustedError for the first step on the way to a path that others than root can change;
    HostError if a step cannot be examined."""
    link, is_folder = "", False
    for here, status, is_path in _way(host, path):
        owner = foreign(here, status, roots(host.root))
        if owner:
            raise UntrustedError(owner)
        is_folder = stat.S_ISDIR(status.st_mode)
        if stat.S_ISLNK(status.st_mode):  # the mode of a link means nothing
            link = here if is_path else link
        elif here != _NOTHING and _is_open(host, here, status):
            raise UntrustedError(changeable(here, status))
    if link and not is_folder and path.startswith(tuple(f"{folder}/" for folder in places.FOLDERS)):
        raise UntrustedError(
            f"{link} is a link to {host.link_target(link)}, not a regular file, so its content is ignored: "
            "inspect it, then replace it with a file or remove it"
        )


def _is_open(host: Host, path: str, status: os.stat_result) -> bool:
    if path in places.FOLDERS or places.is_own(path):
        return bool(status.st_mode & OTHERS)
    if stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX:
        # Only root can replace root's files there (inode(7)), as in /run of a container of podman.
        return False
    return is_writable(status, host.real(path, follow=False))


def _way(host: Host, path: str) -> Iterator[tuple[str, os.stat_result, bool]]:
    """Every folder and link from / to a path, and the path itself, as far as they exist. The last value is
    whether it is the path itself. Links are followed, as the kernel does."""
    here, todo, links, is_path = "/", _parts(path), 0, True
    top = _look(host, "/")
    if top is not None:
        yield "/", top, False
    while todo:
        part = todo.pop(0)
        if part == "..":
            here = os.path.dirname(here)
            continue
        here = os.path.join(here, part)
        status = _look(host, here)
        if status is None:
            return
        yield here, status, is_path and not todo
        if stat.S_ISLNK(status.st_mode):
            links += 1
            if links > _MAX_LINKS:
                raise HostError("resolve", path, errno.ELOOP)
            target = host.link_target(here)
            is_path = is_path and bool(todo)  # the target of a final link is not the path itself
            todo = [*_parts(target), *todo]
            here = "/" if target.startswith("/") else os.path.dirname(here)


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]


def _look(host: Host, path: str) -> os.stat_result | None:
    try:
        return os.lstat(host.real(path, follow=False))
    except OSError as error:
        problem = HostError("look at", path, error.errno)
        if problem.absent:
            return None
        raise problem from error


# -- all of them ---------------------------------------------------------------------------


def _own(host: Host, messages: dict[str, None]) -> Iterator[str]:
    """Every path of the product that exists. An untrusted folder is not entered, because one line about it
    suffices. messages: receives errors about folders that cannot be listed."""
    own = (place.pattern for place in places.OWN if not place.path.startswith(places.FOLDERS))
    for pattern in dict.fromkeys(own):
        try:
            yield from host.matching(pattern)
        except HostError as error:
            _report(host, error, messages)
    todo = list(places.FOLDERS)
    while todo:
        path = todo.pop(0)
        yield path
        try:
            _check(host, path)
            seen = _look(host, path)
            # A link below could form a loop.
            if seen is not None and (stat.S_ISDIR(seen.st_mode) or path in places.FOLDERS):
                todo += [f"{path}/{name}" for name in host.names(path)]
        except HostError as error:
            _report(host, error, messages)
        except UntrustedError:
            continue


def _report(host: Host, error: HostError, messages: dict[str, None]) -> None:
    """Add an error to the messages, but only for root: another user cannot read everything."""
    if host.is_superuser():
        messages[str(error)] = None


def _mended(host: Host, path: str) -> bool:
    """Through a handle, so no other file can take its place meanwhile. Raises OSError."""
    status = _look(host, path)
    if status is None or _due(host, path, status) is None:  # as nearly always
        return False
    handle = os.open(host.real(path, follow=False), _OPEN)
    try:
        mode = _due(host, path, os.fstat(handle))
        if mode is None:
            return False
        os.fchmod(handle, mode)
        return True
    finally:
        os.close(handle)


def _due(host: Host, path: str, status: os.stat_result) -> int | None:
    """Mode that a file or folder of root is to get; None if it has it, or is left for require() to refuse."""
    if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
        return None
    mode = stat.S_IMODE(status.st_mode)
    is_folder = stat.S_ISDIR(status.st_mode) and path.startswith(places.FOLDERS)
    right = FOLDER_MODE if is_folder else mode & ~OTHERS
    return right if status.st_uid in roots(host.root) and mode != right else None
