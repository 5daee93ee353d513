# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check that a file below /proc and /sys is the kernel's own, and reasons why it cannot be written.

A mount over such a file shows another one in its place (mount --bind, tmpfs), or the same one read-only. The
mounts are read from /proc/self/mountinfo (proc_pid_mountinfo(5)): rows of 11 or more fields.
"""

from __future__ import annotations

import os
from typing import Callable, Iterator, Protocol, Sequence, TypeVar

from ..model.errors import HostError
from ..model.record import NamedTuple, regex
from ..model.setting import Value
from . import image_mode

T = TypeVar("T")

TABLE = "/proc/self/mountinfo"
#: Shows the container; readable by root alone, and useless for others
ENVIRON = "/proc/1/environ"

#: Sources of this check itself, which are not checked
_OWN = (TABLE, ENVIRON)

_TREES = ("/proc", "/sys")

#: Folder → the file systems that are at home there. The kernel makes these folders as mount points
#: (sysfs_create_mount_point and proc_create_mount_point in its source); the deepest one counts.
_HOMES = {
    "/proc": ("proc",),
    "/proc/fs/nfsd": ("nfsd",),
    "/proc/sys/fs/binfmt_misc": ("autofs", "binfmt_misc"),
    "/proc/xen": ("xenfs",),
    "/sys": ("sysfs",),
    "/sys/firmware/efi/efivars": ("efivarfs",),
    "/sys/fs/bpf": ("bpf",),
    "/sys/fs/cgroup": ("cgroup", "cgroup2", "tmpfs"),
    "/sys/fs/fuse/connections": ("fusectl",),
    "/sys/fs/pstore": ("pstore",),
    "/sys/fs/resctrl": ("resctrl",),
    "/sys/fs/selinux": ("selinuxfs",),
    "/sys/fs/smackfs": ("smackfs",),
    "/sys/kernel/config": ("autofs", "configfs"),
    "/sys/kernel/debug": ("autofs", "debugfs"),
    "/sys/kernel/debug/tracing": ("tracefs", "debugfs", "autofs"),
    "/sys/kernel/security": ("securityfs",),
    "/sys/kernel/tracing": ("tracefs", "autofs"),
}

#: They cannot be written: each boot gets their files from an image again, even from a copy in memory
IMAGES = ("squashfs", "erofs", "cramfs", "romfs", "iso9660", "udf")

#: The user ids of the machine itself, and no others (user_namespaces(7))
_ALL_USERS = ["0", "0", "4294967295"]

_ESCAPE = regex(r"\\([0-7]{3})")


class Files(Protocol):
    """The part of Host that is used here; Host uses this module in turn."""

    root: str

    @property
    def live(self) -> bool: ...
    def is_superuser(self) -> bool: ...
    def once(self, key: str, make: Callable[[], T]) -> T: ...
    def exists(self, path: str) -> bool: ...
    def link_target(self, path: str) -> str: ...
    def real(self, path: str) -> str: ...
    def text(self, path: str) -> str: ...
    def value(self, path: str) -> Value: ...


class Mount(NamedTuple):
    """A row. device: MAJOR:MINOR of its file system. point: the folder or file it is mounted over. root: the
    part of its file system that is shown there. options: of the mount and of the file system."""

    number: int
    parent: int
    device: str
    root: str
    point: str
    kind: str
    source: str
    options: tuple[str, ...]
    row: int

    @property
    def where(self) -> str:
        return f"{TABLE}:{self.row}"

    @property
    def read_only(self) -> bool:
        return "ro" in self.options

    def option(self, name: str) -> str:
        """Text after `name=`; empty if there is no such option."""
        return next((option[len(name) + 1 :] for option in self.options if option.startswith(f"{name}=")), "")

    def covers(self, path: str) -> bool:
        return self.point == "/" or path == self.point or path.startswith(f"{self.point}/")

    def is_kernels(self, path: str) -> bool:
        """True if the mount shows the kernel's own file at a path. A file system that is not mounted, such as
        efivarfs, leaves its folder to the one above."""
        homes = (point for point in _HOMES if path == point or path.startswith(f"{point}/"))
        return any(self._is_of(home, path) for home in homes)

    def _is_of(self, home: str, path: str) -> bool:
        if self.kind not in _HOMES[home]:
            return False
        if self.kind not in ("proc", "sysfs"):
            return True
        return f"{self.root.rstrip('/')}{path[len(self.point) :]}" == path[len(home) :] or path == home


def parse(text: str) -> Iterator[Mount]:
    """All rows; lines of another form are skipped."""
    for row, line in enumerate(text.split("\n"), start=1):
        fields = line.split(" ")
        at = fields.index("-") if "-" in fields[6:] else len(fields)
        if len(fields) < at + 4 or not (fields[0].isdigit() and fields[1].isdigit()):
            continue
        options = [*fields[5].split(","), *fields[at + 3].split(",")]
        root, point, source = plain(fields[3]), plain(fields[4]), plain(fields[at + 2])
        numbers = int(fields[0]), int(fields[1])
        yield Mount(*numbers, fields[2], root, point, fields[at + 1], source, tuple(options), row)


def plain(field: str) -> str:
    r"""Blanks, line ends and backslashes are octal there: \040."""
    return _ESCAPE.sub(lambda match: chr(int(match.group(1), 8)), field)


def carrying(mounts: Sequence[Mount], path: str) -> Mount | None:
    """The mount whose file system contains the end of a path, as the kernel walks it: of the mounts on one
    mount, the first on the way counts, and then the mounts on that one."""
    numbers = {mount.number for mount in mounts}
    level = [mount for mount in mounts if mount.parent not in numbers or mount.parent == mount.number]
    carrier: Mount | None = None
    while True:
        # The shortest, as it hides earlier mounts below it; of two at one place, the later one.
        on_way = [mount for mount in level if mount.covers(path) and mount is not carrier]
        if not on_way:
            return carrier
        carrier = min(reversed(on_way), key=lambda mount: len(mount.point))
        level = [mount for mount in mounts if mount.parent == carrier.number and mount is not carrier]


# -- questions about a file ----------------------------------------------------------------


def over(host: Files, path: str) -> str:
    """Reason why a path does not show the kernel's own file; empty if it does, and in a container, whose
    runtime decides on the content (lxcfs, masked files). Raises HostError."""
    if not path.startswith(_TREES) or path in _OWN:
        return ""
    if not host.once("mounted over", lambda: _is_mounted_over(host)) or _container(host):
        return ""
    real = _resolved(host, path)
    mount = carrying(_mounts(host), real) if real.startswith(_TREES) else None
    if mount is None or mount.point == "/" or mount.is_kernels(real):
        return ""
    return (
        f"it is not the kernel's own file: {mount.source} ({mount.kind}, {mount.root}) is mounted over "
        f"{mount.point} ({mount.where}): umount {mount.point}"
    )


def _is_mounted_over(host: Files) -> bool:
    """True if there is any such mount; the answer is kept, because every read of a file needs it."""
    return any(mount.point != "/" and not mount.is_kernels(mount.point) for mount in _mounts(host))


def blocked(host: Files, path: str) -> str:
    """Reason why no user of this node can write a kernel file, by decision of the kernel or of the
    container's administrator; empty if it can be written, or if barred() gives the reason."""
    return _owner(host, path) if _denied(host, path) else ""


def barred(host: Files, path: str) -> str:
    """Reason why a kernel file cannot be written though it is this machine's to set; empty if it can be."""
    denial = _denied(host, path) if path.startswith(_TREES) else ""
    return "" if denial and _owner(host, path) else denial


def _denied(host: Files, path: str) -> str:
    try:
        real = _resolved(host, path)
        mount = carrying(_mounts(host), real)
    except HostError as error:
        return str(error)
    if mount is not None and mount.point != "/" and mount.read_only:
        return (
            f"{path} is read-only: {mount.kind} is mounted read-only on {mount.point} ({mount.where}): "
            f"umount it, or mount -o remount,bind,rw {mount.point}"
        )
    # Ask the kernel (access(2)), because mode bits do not suffice: in a network namespace, a file of
    # /proc/sys may have the mode 0644 and still answer EACCES. The mode bits of a captured tree are not the
    # machine's.
    if not host.live or not host.is_superuser() or not os.path.exists(real) or os.access(real, os.W_OK):
        return ""
    return f"{path} may not be written, even by root: a security module or lockdown denies it"


def read_only(host: Files, path: str) -> str:
    """The read-only mount of a file, and a remedy; empty if there is none, or if that is unknown."""
    try:
        mount = carrying(tuple(parse(host.text(TABLE))), resolved(host, path))
    except HostError:
        return ""
    if mount is None or not mount.read_only:
        return ""
    problem = f"{mount.source} ({mount.kind}) is mounted read-only on {mount.point} ({mount.where})"
    try:
        system = image_mode.running_system(host)
    except HostError:
        system = None
    if system is not None:
        way = system.kernel_arguments if path.startswith("/boot/") else system.files
        return f"{problem}, as this system is deployed as an image ({system.name}): {way}"
    name = _container(host)
    if name:
        return f"{problem} in this container ({name}): start it with a writable one"
    if mount.kind in IMAGES:
        return f"{problem}, and is never written: build the file into the image that the node boots"
    return f"{problem}: look into dmesg and /etc/fstab for the reason, then mount -o remount,rw {mount.point}"


def _owner(host: Files, path: str) -> str:
    """Reason why only another system can set this file; empty if this machine can."""
    name = _container(host)
    if name:
        return f"{path} cannot be written in this container ({name}): set it on the container's host"
    users = host.value("/proc/self/uid_map").text
    if users is not None and users.split() != _ALL_USERS:
        return f"{path} cannot be written in a separate user namespace: set it outside of it"
    if path.startswith("/proc/sys/net/") and _namespace(host, "self") != _namespace(host, "1"):
        return f"{path} cannot be written in a separate network namespace: set it outside of it"
    try:
        # Without a write bit, not even root may write (fs/proc/proc_sysctl.c: test_perm).
        if host.live and path.startswith("/proc/sys/") and not os.stat(path).st_mode & 0o222:
            return f"{path} is read-only in this kernel"
    except OSError:
        pass
    return ""


def _namespace(host: Files, process: str, kind: str = "net") -> str:
    try:
        return host.link_target(f"/proc/{process}/ns/{kind}")
    except HostError:
        return ""


def _container(host: Files) -> str:
    return host.once("container", lambda: container(host))


def _mounts(host: Files) -> tuple[Mount, ...]:
    """All mounts; empty if the table is absent, as in most captured trees. Raises HostError."""
    return host.once("mounts", lambda: tuple(filter(_matters, parse(host.text(TABLE)))))


def _matters(mount: Mount) -> bool:
    """True if the mount is on the way to /proc and /sys, or in them."""
    return mount.point in ("/", *_TREES) or mount.point.startswith(tuple(f"{tree}/" for tree in _TREES))


def _resolved(host: Files, path: str) -> str:
    """The path without links, because mounts are on the targets of links."""
    return os.path.realpath(path) if host.live else host.real(path)[len(host.root) :]


resolved = _resolved


# -- containers -----------------------------------------------------------------------------

#: Numbers of a kernel's first namespaces: include/linux/proc_ns.h, PROC_PID_INIT_INO and PROC_UTS_INIT_INO.
#: The first mount namespace has no fixed number.
_FIRST = {"pid": "pid:[4026531836]", "uts": "uts:[4026531838]"}


def _is_first(host: Files) -> bool:
    """True if this process is in the namespaces that the kernel began with: a marker of a container came with
    the image that the root file system of this machine was made of."""
    if any(_namespace(host, "self", kind) != first for kind, first in _FIRST.items()):
        return False
    first = _namespace(host, "1", "mnt")  # only root may see it
    return not first or first == _namespace(host, "self", "mnt")


def container(host: Files, note: Callable[[str, str], None] = lambda _path, _words: None) -> str:
    """docker, podman, lxc ...: the runtime of this container, from its marker files (systemd:
    src/basic/virt.c); empty outside of one.

    note: called with each path that could not be read, and why.
    """
    try:
        named = host.text("/run/systemd/container").strip()
        if named:
            return named
    except HostError as error:
        note("/run/systemd/container", str(error))
    for path, name in (("/run/.containerenv", "podman"), ("/.dockerenv", "docker")):
        try:
            if host.exists(path) and not _is_first(host):
                return name
        except HostError as error:
            note(path, str(error))
    try:
        entries = host.text(ENVIRON).split("\0")
    except HostError:
        return ""
    given = next((entry[len("container=") :] for entry in entries if entry.startswith("container=")), "")
    if given:
        return given
    return "kubernetes" if any(entry.startswith("KUBERNETES_SERVICE_HOST=") for entry in entries) else ""
