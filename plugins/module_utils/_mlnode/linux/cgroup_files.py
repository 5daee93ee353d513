# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Control groups of a process and of its ancestors, with their limits and counters (cgroups(7);
admin-guide/cgroup-v2.rst; admin-guide/cgroup-v1/).

A limit of any ancestor counts. A controller may be in version 1 and the others in version 2 (hybrid).
"""

from __future__ import annotations

from typing import Iterator, Sequence

from ..host import mountinfo
from ..host.host import Host
from ..host.mountinfo import Mount
from ..model import values
from ..model.errors import HostError, printable
from ..model.record import NamedTuple
from ..model.setting import Value
from . import cgroup_names, jobs

#: cgroup_show_path of kernel/cgroup/cgroup.c, for a group outside of the reader's cgroup namespace
_OUTSIDE = "/.."
#: The same file shows it after the path of a removed group (proc_cgroup_show)
_REMOVED = " (deleted)"
#: Files that only the root of a hierarchy has (version 1), or does not have (version 2)
_ONLY_ROOT, _NOT_ROOT = "release_agent", "cgroup.type"
#: Version → its file system
_KINDS = {1: "cgroup", 2: "cgroup2"}


class Group(NamedTuple):
    """path: as /proc/PID/cgroup shows it. folder: its files."""

    path: str
    folder: str


class Line(NamedTuple):
    """Groups of a process in the hierarchy of one controller, its own first, without the root, which limits
    nothing; none if the kernel does not offer the controller. hidden: why there may be more groups above;
    empty if all are here."""

    controller: str
    version: int
    groups: tuple[Group, ...]
    hidden: str = ""

    def words(self, group: Group) -> str:
        """A group for people: ranks of one job with a group each have the same finding. Podman and systemd in
        a container put the processes into groups below the container's."""
        if group == self.groups[0]:
            return "its own group"
        container = cgroup_names.of_path(self.groups[0].path).container
        same = container and cgroup_names.of_path(group.path).container == container
        return "its container's group" if same else group.path


def line(host: Host, pid: int, controller: str) -> Line:
    """Raises HostError if the groups are not known, and one of a process that has ended."""
    path = f"/proc/{pid}/cgroup"
    rows = _rows(host, pid)
    if rows and not {controller, ""} & {*rows} and not _mounts_with(host, controller, (1, 2)):
        return Line(controller, 1, ())
    version = 1 if controller in rows else 2
    own = rows.get(controller, rows.get(""))
    if own is None:
        raise HostError("find", controller, None, f"{path} has no group with it")
    mount = _mount(host, version, controller, own)
    offered = version == 1 or is_offered(host, mount.point, controller)
    if not offered and _mounts_with(host, controller, (1,)):
        raise HostError("find", controller, None, f"the kernel does not offer it at {mount.point}")
    groups = tuple(_groups(mount, own))
    if own.endswith(_REMOVED) and not host.exists(groups[0].folder):
        raise jobs.gone(path)
    top = groups[-1]
    name = _ONLY_ROOT if version == 1 else _NOT_ROOT
    is_root = host.exists(f"{top.folder}/{name}") == (version == 1)
    hidden = "" if is_root else f"{mount.point} is not the root, so groups above it are not visible"
    if not offered:
        return Line(controller, version, (), hidden)
    return Line(controller, version, groups[:-1] if is_root else groups, hidden)


def is_offered(host: Host, folder: str, controller: str) -> bool:
    """True if a group of version 2 has a controller. Raises HostError."""
    path = f"{folder}/cgroup.controllers"
    controllers = value(host, path)
    if controllers.text is None:
        raise HostError("read", path, None, controllers.problem)
    return controller in controllers.text.split()


def _rows(host: Host, pid: int) -> dict[str, str]:
    """Controller → path of the group; version 2 has an empty name. Raises HostError."""
    rows = [row.split(":", 2) for row in host.read(f"/proc/{pid}/cgroup").split("\n")]
    return {name: row[2] for row in rows if len(row) == 3 for name in row[1].split(",")}


def _mount(host: Host, version: int, controller: str, path: str) -> Mount:
    """The mount that shows a group. Raises HostError."""
    if path.startswith(_OUTSIDE):
        raise HostError("find", controller, None, f"its group {printable(path)} is outside of this namespace")
    for mount in _mounts_with(host, controller, (version,)):
        if mount.root == "/" or f"{path}/".startswith(f"{mount.root}/"):
            return mount
    words = f"no control groups of version {version} with it are mounted here"
    raise HostError("find", controller, None, words)


def _mounts_with(host: Host, controller: str, versions: Sequence[int]) -> list[Mount]:
    """Mounts of version 2, and those of version 1 that have the controller. Raises HostError."""
    every = host.once("mounts of control groups", lambda: _mounts(host))
    kinds = [_KINDS[version] for version in versions]
    return [
        mount
        for mount in every
        if mount.kind in kinds and (mount.kind == _KINDS[2] or controller in mount.options)
    ]


def _mounts(host: Host) -> tuple[Mount, ...]:
    """Those with the most groups first. Raises HostError."""
    rows = [row for row in mountinfo.parse(host.text(mountinfo.TABLE)) if row.kind in _KINDS.values()]
    return tuple(sorted(rows, key=lambda mount: (len(mount.root), len(mount.point))))


def _groups(mount: Mount, path: str) -> Iterator[Group]:
    """The group and all above it, up to the mount."""
    root = mount.root.rstrip("/")
    while True:
        below = path[len(root) :].rstrip("/")
        yield Group(path, f"{mount.point}{below}")
        if not below:
            return
        path = path.rpartition("/")[0] or "/"


# -- files ---------------------------------------------------------------------------------


def value(host: Host, path: str) -> Value:
    """Content of a file, read once for all processes below the group."""
    return host.once(f"control group file {path}", lambda: host.value(path))


def texts(host: Host, known: Line, name: str) -> list[tuple[Group, str]]:
    """Text of a file in each group with the controller, the own group first. Raises HostError if a limit is
    not known, and one of a process that has ended if its group has."""
    texts_of_groups = []
    for group in known.groups:
        content = value(host, f"{group.folder}/{name}")
        if content.text is not None:
            texts_of_groups.append((group, content.text))
        elif content.unreadable is not None:
            raise HostError("read", f"{group.folder}/{name}", None, content.unreadable)
        elif not host.exists(group.folder):
            raise jobs.gone(group.folder)
        elif known.version == 1 or is_offered(host, group.folder, known.controller):
            raise HostError("read", f"{group.folder}/{name}", None, "this kernel does not have the file")
    return texts_of_groups


def pairs(text: str) -> dict[str, int]:
    """Counters of a file such as cpu.stat: name → number."""
    rows = [row.split() for row in text.split("\n")]
    numbers = {row[0]: values.number(row[1]) for row in rows if len(row) == 2}
    return {name: number for name, number in numbers.items() if number is not None}


# -- limits --------------------------------------------------------------------------------


class Limit(NamedTuple):
    """A limit in force. group: its origin."""

    amount: int
    group: Group


class Quota(NamedTuple):
    """CPU time, in microseconds, for each period."""

    quota: int
    period: int
    group: Group

    @property
    def cpus(self) -> float:
        return self.quota / self.period


def quotas(host: Host, known: Line) -> list[Quota]:
    """Quotas on the line of the controller cpu. Raises HostError."""
    if known.version == 2:
        rows = [(group, text.split()) for group, text in texts(host, known, "cpu.max")]
    else:
        periods = dict(texts(host, known, "cpu.cfs_period_us"))
        rows = [
            (group, ["max" if text.strip() == "-1" else text.strip(), periods[group].strip()])
            for group, text in texts(host, known, "cpu.cfs_quota_us")
        ]
    return [quota for group, words in rows for quota in _quota(group, words)]


def _quota(group: Group, words: Sequence[str]) -> Iterator[Quota]:
    if len(words) == 2 and words[0] == "max":
        return
    quota, period = (values.number(word) for word in words) if len(words) == 2 else (None, None)
    if not quota or not period:
        raise HostError("understand", "the CPU quota", None, f"{group.folder} has {' '.join(words)[:60]!r}")
    yield Quota(quota, period, group)


#: PAGE_COUNTER_MAX of include/linux/page_counter.h, which version 1 shows for no limit: 2^63, down to a whole
#: page, of at most 64 KiB
_NO_LIMIT = (1 << 63) - (1 << 16)


def limits(host: Host, known: Line, name: str) -> list[Limit]:
    """The limits of a file with bytes or `max`, without the groups that have `max`. Raises HostError."""
    known_limits = []
    for group, text in texts(host, known, name):
        amount = values.number(text)
        if amount is None and text.strip() != "max":
            raise HostError("understand", f"{group.folder}/{name}", None, f"got {text[:60]!r}")
        if amount is not None and amount < _NO_LIMIT:
            known_limits.append(Limit(amount, group))
    return known_limits


def limit(host: Host, known: Line, name: str) -> Limit | None:
    """The least limit; None without any. Raises HostError."""
    known_limits = limits(host, known, name)
    return min(known_limits, key=lambda known_limit: known_limit.amount) if known_limits else None


def nearest(host: Host, known: Line, name: str) -> tuple[Group, str] | None:
    """The nearest group that has a file, and its text; None if none has it. Raises HostError."""
    return next(iter(texts(host, known, name)), None)


# -- devices -------------------------------------------------------------------------------


class Devices(NamedTuple):
    """The devices that a group of version 1 allows (admin-guide/cgroup-v1/devices.rst)."""

    rows: tuple[str, ...]

    def allows(self, number: str) -> bool:
        """True if a character device, such as 231:192, may be read and written."""
        major, _colon, minor = number.partition(":")
        for row in self.rows:
            words = row.split()
            if len(words) != 3 or words[0] not in ("a", "c") or not {"r", "w"} <= {*words[2]}:
                continue
            its_major, _colon, its_minor = words[1].partition(":")
            if its_major in ("*", major) and its_minor in ("*", minor):
                return True
        return False


def devices(host: Host, pid: int) -> Devices | None:
    """None if a BPF program decides, as in version 2, which no file shows. Raises HostError."""
    if "devices" not in _rows(host, pid):
        return None
    own_list = nearest(host, line(host, pid, "devices"), "devices.list")
    return Devices(("a *:* rwm",) if own_list is None else tuple(own_list[1].split("\n")))
