# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The path of a data set: disks, NFS mounts, and free space on local file systems.

Only read-ahead and the scheduler can be declared; fstab and the server determine the rest.
"""

from __future__ import annotations

from typing import Iterator, Sequence

from ...host import mountinfo
from ...host.host import Host
from ...host.mountinfo import Mount
from ...knobs.storage import kind as storage
from ...knobs.storage.schema import TYPES
from ...knobs.summary import grouped
from ...linux import mounts
from ...model import values
from ...model.errors import HostError, listed
from ...model.record import replace
from ...model.setting import Severity, Value
from ...topology.model import Topology
from ..model import NODE, Check, Nothing, Verdict, content
from .model import Looks, topic

DISKS = topic(
    "disks",
    *storage.kind.info("storage.disks.read_ahead_kb", Value()),
    source=f"{storage.BLOCK}/*/queue",
)
NVME = topic(
    "nvme_scheduler",
    *storage.kind.info("storage.disks.scheduler", Value()),
    "set it to none, and find the cause of the change (udev, tuned): the module storage_queue",
    f"{storage.BLOCK}/*/queue/scheduler",
)
NFS = topic(
    "nfs_mounts",
    Severity.LOW,
    "each request carries little, so a file needs more round trips",
    "nfs(5); AWS, EFS, recommended mount settings; Google Cloud NetApp Volumes, Linux NFS mount options",
    "mount it with rsize=1048576,wsize=1048576,proto=tcp: the server may offer less",
    mounts.SYSTEM,
)
SPACE = topic(
    "file_systems",
    Severity.MEDIUM,
    "a checkpoint or a log that does not fit is lost, and kubelet evicts pods before that",
    "node_exporter, docs/node-mixin (NodeFilesystemAlmostOutOfSpace); Kubernetes, Node-pressure Eviction",
    "make room, or move growing data to another file system",
    mountinfo.TABLE,
)

_DISKS = storage.Devices(types=TYPES)
#: Bytes. The smallest size that a vendor advises (Google, for databases). AWS advises nfs(5)'s maximum, 1
#: MiB.
_LEAST_NFS = 256 << 10
#: The threshold of node_exporter's alerts
_LEAST_LEFT = 0.05
_LOCAL = ("ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs")
#: File systems that a path may cross as well
_PASSED = (*_LOCAL, "rootfs", "ramfs", "tmpfs", "devtmpfs")
_MOST = 5


# -- disks ---------------------------------------------------------------------------------


def _disks(host: Host, _topology: Topology) -> Iterator[Check]:
    names = [name for name in host.names(storage.BLOCK) if storage.is_meant(host, name, _DISKS)]
    disks = [(storage.bus(host, name), _scheduler(host, name), name) for name in names]
    texts = [(_disk(host, *disk), disk[-1]) for disk in disks]
    yield DISKS.skip("; ".join(grouped(texts)) or "no disk is here")
    schedulers = [(scheduler, name) for bus, scheduler, name in disks if bus == "nvme" and scheduler]
    if not schedulers:
        raise Nothing("no NVMe drive with a scheduler is here", DISKS.source)
    good = all(scheduler == "none" for scheduler, _name in schedulers)
    yield NVME.judged(good, "; ".join(grouped(schedulers)), expected="none")


def _disk(host: Host, bus: str, scheduler: str, name: str) -> str:
    ahead = _queue(host, name, "read_ahead_kb")
    parts = [
        bus,
        "rotational" if _queue(host, name, "rotational") == "1" else "",
        f"scheduler {scheduler}" if scheduler else "",
        f"read-ahead {ahead} KiB" if ahead else "",
    ]
    return ", ".join(filter(None, parts))


def _scheduler(host: Host, name: str) -> str:
    """Scheduler of a disk; "" if the device passes its requests on."""
    return values.chosen(_queue(host, name, "scheduler"))


def _queue(host: Host, name: str, file: str) -> str:
    return host.text(f"{storage.BLOCK}/{name}/queue/{file}").strip()


# -- NFS -----------------------------------------------------------------------------------


def _nfs(host: Host, _topology: Topology) -> Iterator[Check]:
    """Checks from the kernel's own tables: asking an unreachable server would hang."""
    table = mounts.table(host)
    exports = mounts.nfs(table)
    for number, nfs_mounts in exports.items():
        yield _export(host, number, nfs_mounts)
    if not exports:
        yield NFS.skip("no NFS is mounted" if table else f"{mounts.SYSTEM} does not exist")


def _export(host: Host, number: str, nfs_mounts: Sequence[Mount]) -> Check:
    first, path = nfs_mounts[0], f"{storage.BDI}/{number}/read_ahead_kb"
    subject = replace(NFS, target=listed([mount.point for mount in nfs_mounts], _MOST))
    ahead, protocol = host.value(path), first.option("proto")
    sizes = [values.number(first.option(name)) for name in ("rsize", "wsize")]
    known = [size for size in sizes if size is not None]
    if ahead.unreadable is not None:
        return subject.unknown(ahead.unreadable, source=path)
    if len(known) < len(sizes) or not protocol:
        return subject.unknown("its row has no rsize, wsize or proto")
    text = (
        f"vers {first.option('vers') or '?'}, proto {protocol}, nconnect {first.option('nconnect') or 1}, "
        f"rsize {known[0] >> 10} KiB, wsize {known[1] >> 10} KiB, "
        f"read-ahead {f'{ahead.text} KiB' if ahead.text else ahead}"
    )
    good = min(known) >= _LEAST_NFS and not protocol.startswith("udp")
    expected = f"rsize and wsize of at least {_LEAST_NFS >> 10} KiB, not over UDP"
    return subject.judged(good, text, source=f"{mounts.SYSTEM}; {path}", expected=expected)


# -- free space ------------------------------------------------------------------------------


def _file_systems(host: Host, _topology: Topology) -> Iterator[Check]:
    rows = [*mountinfo.parse(content(host, mountinfo.TABLE))]
    # A file system mounted in several places is shown once, at its first mount.
    points = {row.device: row.point for row in reversed(rows) if _is_asked(row, rows)}
    seen = [check for point in sorted(points.values()) for check in _file_system(host, point)]
    bad = [check for check in seen if check.verdict is not Verdict.PASS]
    yield from bad
    if not seen:
        yield SPACE.skip("no local file system that can be written is mounted")
    elif not bad:
        texts = "; ".join(f"{check.target}: {check.found}" for check in seen)
        yield replace(seen[0], target=NODE, found=texts)


def _is_asked(mount: Mount, rows: Sequence[Mount]) -> bool:
    """True for a local file system whose path crosses only local ones.

    statvfs(3) hangs on a mount whose server is unreachable, and so does every path through one
    (node_exporter, issue 868).
    """
    way = (row.kind for row in rows if row.covers(mount.point))
    return mount.kind in _LOCAL and not mount.read_only and {*way} <= {*_PASSED}


def _file_system(host: Host, point: str) -> Iterator[Check]:
    subject = replace(SPACE, target=point)
    try:
        space = host.space(point)
    except HostError as error:
        if not error.absent:  # it may have been unmounted meanwhile
            yield subject.unknown(str(error))
        return
    # Shares available to users, without root's reserve. btrfs reports no number of inodes.
    space_left = space.f_bavail / space.f_blocks if space.f_blocks else 1
    inodes_left = space.f_favail / space.f_files if space.f_files else 1
    size = space.f_blocks * space.f_frsize / (1 << 30)
    evidence = f"{100 * space_left:.3g} % of {size:.4g} GiB left, {100 * inodes_left:.3g} % of inodes"
    good = min(space_left, inodes_left) >= _LEAST_LEFT
    expected = f"at least {100 * _LEAST_LEFT:.0f} % of each left"
    yield subject.judged(good, evidence, source="statvfs(3)", expected=expected)


LOOKS: Looks = (((DISKS, NVME), _disks), ((NFS,), _nfs), ((SPACE,), _file_systems))
