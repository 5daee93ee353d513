# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files in memory, by the storage below them: a tmpfs, a RAM disk, an overlay with its changes in one, or a
disk made of one, as in stateless nodes, live images, overlayroot and systemd.volatile=. Files written there
are gone with the next boot."""

from __future__ import annotations

import re
from typing import Sequence

from ..host import mountinfo
from ..host.host import Host
from ..host.mountinfo import Mount
from ..model.errors import HostError
from ..model.record import NamedTuple, regex
from . import mounts

#: rootfs is the initramfs itself, which is a tmpfs or a ramfs (ramfs-rootfs-initramfs.rst)
_IN_MEMORY = ("tmpfs", "ramfs", "rootfs", "devtmpfs")
#: File systems on disks of this node or of a server, with a device number that sysfs does not list
_KEPT = (
    "nfs", "nfs4", "cifs", "smb3", "ceph", "lustre", "gpfs", "beegfs", "9p", "virtiofs", "zfs", "ubifs",
    "jffs2", "fuse.glusterfs",
)  # fmt: skip
_OVERLAYS = ("overlay", "overlayfs")
#: systemd.volatile=overlay mounts a tmpfs there, and detaches it before the boot ends (src/volatile-root)
_OF_SYSTEMD = "/run/systemd/overlay-sysroot/"
#: Nested file systems: an overlay in an overlay on a loop device over a mapping is the deepest known one.
#: The kernel allows two overlays (FILESYSTEM_MAX_STACK_DEPTH).
_DEPTH = 8

#: Linux allocated devices (admin-guide/devices.txt); zram.rst
_RAM_DISK = regex(r"z?ram[0-9]+(?:p[0-9]+)?\Z", re.ASCII)
_LOOP = regex(r"(loop[0-9]+)(?:p[0-9]+)?\Z", re.ASCII)
#: Devices of hardware, of a hypervisor or of a server: they keep their content
_DISK = regex(r"(?:sd|hd|vd|xvd|nvme|mmcblk|pmem|dasd|nbd|rbd|drbd|zd)[a-z0-9]+\Z", re.ASCII)
_DELETED = " (deleted)"


def in_memory(host: Host, path: str) -> str:
    """The storage in memory that contains a file, for people; empty if it is on a disk or in an image, or in
    a container, whose files its host manages. Raises HostError if that is unknown."""
    if host.once("container", lambda: mountinfo.container(host)):
        return ""
    known, own = _mounts(host)
    real = mountinfo.resolved(host, path)
    if not known:
        return ""
    mount = _carrying(known, real)
    if mount is not None and mount.kind == "autofs":  # such as systemd's for /efi, unmounted while unused
        host.exists(real)
        known, own = _tables(host)
    _refuse_another(known, own, path, real)
    return _Storage(host, path).of_path(known, real, 0)


def is_overlay(host: Host, path: str) -> bool:
    """True if unchanged files of a folder come from an image below. Raises HostError."""
    real = mountinfo.resolved(host, path)
    mount = _carrying(_mounts(host)[0], real)
    return mount is not None and mount.kind in _OVERLAYS


class _Tables(NamedTuple):
    """The system's mounts, none if a captured tree has no table, and those of this process."""

    known: Sequence[Mount]
    own: Sequence[Mount]


def _mounts(host: Host) -> _Tables:
    """Raises HostError."""
    return host.once("mounts of the system", lambda: _tables(host))


def _tables(host: Host) -> _Tables:
    text = mounts.table(host)
    rows = tuple(mountinfo.parse(text))
    lines = [line for line in text.split("\n") if line]
    if len(rows) != len(lines) or (host.live and not rows):
        raise HostError(
            "look at", mounts.SYSTEM, None, "it has lines of another form: its mounts are unknown"
        )
    return _Tables(rows, tuple(mountinfo.parse(host.text(mountinfo.TABLE))))


def _refuse_another(known: Sequence[Mount], own: Sequence[Mount], path: str, real: str) -> None:
    """Raises HostError if this process sees another file than the system, as in a sandbox of its service."""
    seen, mount = _carrying(own, real), _carrying(known, real)
    if seen and mount and _source(seen, real) != _source(mount, real):
        reason = f"{real} is on {seen.source} here ({seen.where}), and on {mount.source} for the system"
        raise HostError("look at", path, None, f"{reason}: run mlnode outside of this mount namespace")


def _source(mount: Mount, real: str) -> tuple[str, str]:
    """The file system of a path, and its place there, which a bind mount does not change."""
    below = real if mount.point == "/" else real[len(mount.point) :]
    return mount.device, f"{mount.root.rstrip('/')}{below}"


def _carrying(known: Sequence[Mount], path: str) -> Mount | None:
    # A node with containers has thousands of mounts, and few on the way to a folder.
    return mountinfo.carrying([mount for mount in known if mount.covers(path)], path)


class _Storage:
    """The search for the storage of one file. Its functions return the words for a storage in memory, empty
    for a lasting one, and raise HostError for an unknown one."""

    def __init__(self, host: Host, path: str) -> None:
        self._host, self._path = host, path

    def _unknown(self, reason: str) -> HostError:
        return HostError("look at", self._path, None, f"{reason}: whether a boot keeps the file is not known")

    def of_path(self, known: Sequence[Mount], real: str, depth: int) -> str:
        mount = _carrying(known, real)
        if mount is None or depth > _DEPTH:
            raise self._unknown(f"no mount of {real} is to be seen here")
        if mount.kind in _IN_MEMORY:
            return f"{mount.point} is in memory ({mount.kind} {mount.source})"
        if mount.kind in mountinfo.IMAGES or mount.kind in _KEPT:
            return ""
        rest = [other for other in known if other is not mount]
        if mount.kind in _OVERLAYS:
            return self._of_overlay(mount, rest, depth)
        folder = _folder(self._host, mount)
        name = (folder or mount.source).rpartition("/")[2]
        if not folder and not mount.source.startswith("/dev/"):
            raise self._unknown(f"{mount.point} is of the kind {mount.kind} ({mount.source})")
        below = self._of_device(folder, name, rest, depth)
        if below == name:
            return f"{mount.point} is in memory ({mount.kind} {mount.source})"
        return f"{mount.point} is on {mount.source}, that is {below}" if below else ""

    def _of_overlay(self, mount: Mount, rest: Sequence[Mount], depth: int) -> str:
        upper = mountinfo.plain(mount.option("upperdir"))
        if not upper:  # nothing can be written through it
            return ""
        text = f"{mount.point} is an overlay that keeps its changes in {upper}"
        if upper.startswith(_OF_SYSTEMD):
            return f"{text}, and systemd.volatile=overlay has it in memory"
        inner = self._of_file(text, upper, rest, depth)
        # An overlay shows the size of the file system with its changes (fs/overlayfs/super.c: ovl_statfs).
        if self._host.live and self._size(mount.point) != self._size(upper):
            raise self._unknown(f"{text}, which is another folder now")
        return f"{text}, and {inner}" if inner else ""

    def _size(self, path: str) -> tuple[int, int]:
        space = self._host.space(path)
        return space.f_frsize, space.f_blocks

    def _of_file(self, text: str, path: str, rest: Sequence[Mount], depth: int) -> str:
        """Storage of a file or folder that another file system is made of. Its path is the one in the
        initramfs, from which it may no longer be reached."""
        hidden = not path.startswith("/") or _carrying(rest, path) is None
        if hidden or (self._host.live and not self._host.exists(path)):
            raise self._unknown(f"{text}, which is not to be seen here")
        return self.of_path(rest, path, depth + 1)

    def _of_device(self, folder: str, name: str, rest: Sequence[Mount], depth: int) -> str:
        """folder: of the device in sysfs; empty if it is absent there. Returns its name if it is a RAM
        disk."""
        if _RAM_DISK.match(name):
            return name
        loop = _LOOP.match(name)
        if loop:
            return self._of_loop(loop[1], rest, depth)
        if folder and self._host.exists(f"{folder}/partition"):
            disk = folder.rpartition("/")[0]
            return self._of_device(disk, disk.rpartition("/")[2], rest, depth)
        parts = self._host.names(f"{folder}/slaves") if folder else []
        if depth < _DEPTH and parts:
            words = [self._of_device(_device(self._host, part), part, rest, depth + 1) for part in parts]
            below = next(filter(None, words), "")
            return f"{name} on {below}" if below else ""
        if _DISK.match(name) or (folder and "/devices/virtual/" not in folder):
            return ""
        raise self._unknown(f"{self._path} is on the device {name}, whose storage is not known")

    def _of_loop(self, name: str, rest: Sequence[Mount], depth: int) -> str:
        """Storage of a file used as a disk, which may be in memory itself (root=live:, toram)."""
        file = (self._host.value(f"/sys/block/{name}/loop/backing_file").text or "").strip()
        if file.endswith(_DELETED) and not self._host.exists(file):
            return f"{file[: -len(_DELETED)]}, which is deleted"
        inner = self._of_file(f"it is on {name}, that is {file}", file, rest, depth)
        return f"{file}, and {inner}" if inner else ""


def _folder(host: Host, mount: Mount) -> str:
    """Folder of a mount's device in sysfs; empty if it is absent. btrfs has an anonymous number, and shows
    the device as its source. Raises HostError."""
    target = host.link_target(f"/sys/dev/block/{mount.device}")
    if target or not mount.source.startswith("/dev/"):
        return _in_sysfs(target)
    real = mountinfo.resolved(host, mount.source)
    return _device(host, real.rpartition("/")[2])


def _device(host: Host, name: str) -> str:
    return _in_sysfs(host.link_target(f"/sys/class/block/{name}"))


def _in_sysfs(target: str) -> str:
    """A link of sysfs as a path: ../../devices/virtual/block/zram0."""
    return f"/sys/{target.lstrip('./')}" if target else ""
