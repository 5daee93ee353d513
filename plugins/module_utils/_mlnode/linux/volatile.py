# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Folders in memory: a tmpfs or a RAM disk, and an overlay with its changes in one, as in live images,
overlayroot and systemd.volatile=. Files written there are gone with the next boot."""

from __future__ import annotations

import re
from typing import Sequence

from ..host import mountinfo
from ..host.host import Host
from ..host.mountinfo import Mount
from ..model.errors import HostError
from ..model.record import regex
from . import mounts

#: rootfs is the initramfs itself, which is a tmpfs or a ramfs (ramfs-rootfs-initramfs.rst)
_IN_MEMORY = ("tmpfs", "ramfs", "rootfs")
_RAM_DISK = regex(r"/dev/z?ram[0-9]+\Z", re.ASCII)
#: The snapshot that makes dracut's live images writable (dmsquash-live-root): only the initramfs knows the
#: place of its changes
_LIVE = "/dev/mapper/live-rw"
_OVERLAYS = ("overlay", "overlayfs")
#: Unions of other kinds, whose branches mountinfo does not show as folders (live-boot(7), union=)
_UNIONS = ("aufs", "unionfs", "fuse.unionfs", "fuse.unionfs-fuse", "fuse.fuse-overlayfs")
#: A file used as a disk, which may be in memory itself (root=live:, toram)
_LOOP = regex(r"/dev/(loop[0-9]+)(?:p[0-9]+)?\Z", re.ASCII)
#: Nested overlays; the kernel allows two (FILESYSTEM_MAX_STACK_DEPTH)
_DEPTH = 2


def in_memory(host: Host, path: str) -> str:
    """The file system in memory that contains a path, for people; empty if it is on a disk, or in a
    container, whose files its host manages. Raises HostError if that is unknown."""
    if host.once("container", lambda: mountinfo.container(host)):
        return ""
    return _place_in_memory(host, _mounts(host), mountinfo.resolved(host, path), path, 0)


def is_overlay(host: Host, path: str) -> bool:
    """True if unchanged files of a folder come from an image below. Raises HostError."""
    real = mountinfo.resolved(host, path)
    mount = _carrying(_mounts(host), real)
    return mount is not None and mount.kind in _OVERLAYS


def _mounts(host: Host) -> Sequence[Mount]:
    """Raises HostError."""
    return host.once("mounts of the system", lambda: tuple(mountinfo.parse(mounts.table(host))))


def _carrying(known: Sequence[Mount], path: str) -> Mount | None:
    # A node with containers has thousands of mounts, and few on the way to a folder.
    return mountinfo.carrying([mount for mount in known if mount.covers(path)], path)


def _place_in_memory(host: Host, known: Sequence[Mount], real: str, path: str, depth: int) -> str:
    mount = _carrying(known, real)
    if mount is None:
        return ""
    if mount.kind in _IN_MEMORY or _RAM_DISK.match(mount.source):
        return f"{mount.point} is in memory ({mount.kind} {mount.source})"
    if mount.source == _LIVE:
        raise HostError("look at", path, None, f"whether {_LIVE} keeps its changes in memory is not known")
    if mount.kind in _UNIONS:
        reason = f"where {mount.point}, a union ({mount.kind}), keeps its changes is not known"
        raise HostError("look at", path, None, reason)
    loop = _LOOP.match(mount.source)
    upper = mountinfo.plain(mount.option("upperdir")) if mount.kind in _OVERLAYS else ""
    if loop:
        below = (host.value(f"/sys/block/{loop[1]}/loop/backing_file").text or "").strip()
        words = f"{mount.point} is on {mount.source}, that is {below}"
    else:
        below, words = upper, f"{mount.point} is an overlay that keeps its changes in {upper}"
    if not loop and not upper:
        return ""
    rest = [other for other in known if other is not mount]
    if depth >= _DEPTH or not below.startswith("/") or _carrying(rest, below) is None:
        reason = f"{words}, which is not to be seen here: whether a boot keeps them is not known"
        raise HostError("look at", path, None, reason)
    inner = _place_in_memory(host, rest, below, path, depth + 1)
    return f"{words}, and {inner}" if inner else ""
