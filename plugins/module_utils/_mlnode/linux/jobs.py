# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Work on a node that would suffer if a link went down for a moment: jobs of Slurm, and processes that hold
a GPU or an RDMA device (proc(5)).

Invisible without a process: file systems that the kernel itself reaches over a NIC (NFS, Lustre, NVMe).
"""

from __future__ import annotations

import errno
import re
from typing import Callable, Sequence

from ..host.host import Host
from ..model import accelerators
from ..model.errors import HostError, printable
from ..model.record import NamedTuple, regex
from . import cgroup_names, job_status

#: Most findings in a message that people still read
_MOST = 8

#: A whole device that a guest, or a driver outside the kernel, owns. /dev/vfio/vfio owns none.
VFIO = r"vfio/(?:noiommu-)?[0-9]{1,5}|vfio/devices/(?:noiommu-)?vfio[0-9]{1,5}"
#: A process with one of these open computes on an accelerator, or bypasses the kernel's network stack: queue
#: pairs of uverbsN break with the link.
#: The mark is the kernel's, for a node that was removed after it had been opened (fs/d_path.c).
_DEVICE = regex(
    rf"(/dev/(?:{'|'.join(accelerators.FILES)}|infiniband/uverbs[0-9]{{1,5}}|{VFIO}))(?: \(deleted\))?\Z",
    re.ASCII,
)

#: /proc/PID/comm, cut to 15 characters, of services that hold a device all the time and are not jobs. Any
#: process may call itself so: see is_service()
_SERVICES = {
    **{name: why for vendor in accelerators.VENDORS.values() for name, why in vendor.services},
    "ibacm": "answers questions for addresses, and asks again after a reset",
    "Xorg": "a screen, which no network matters to",
    "gnome-shell": "as Xorg",
}

#: User id of root or of a system account, which starts no jobs: people begin at 1000 (login.defs(5), UID_MIN;
#: systemd, Users, Groups, UIDs and GIDs)
_SYSTEM_USER = regex(r"[0-9]{1,3}\Z", re.ASCII)
#: Folders of pods, by kubelet: NAMESPACE_NAME_UID
POD_LOGS = "/var/log/pods"
#: Namespaces that a cluster's users may not use: Kubernetes' own, and those in the guides of operators for
#: GPUs (NVIDIA GPU Operator, with Helm and on OpenShift; NVIDIA device plugin, with Helm; AMD GPU Operator)
_SYSTEM_PODS = ("kube-system", "gpu-operator", "nvidia-gpu-operator", "nvidia-device-plugin", "kube-amd-gpu")

STEP_NAME = "slurmstepd"
#: The title that slurmstepd sets: [4711.0], [4711.batch], [4711.extern], and [4711] in old versions
_STEP = regex(rb"slurmstepd: \[([0-9]{1,20})[^0-9]")
#: One of these keeps Slurm's control group alive all the time (cgroup_v2.c of Slurm: _init_new_scope_dbus)
_IDLE_STEP = b"infinity"

#: proc(5), /proc/PID/stat: starttime is field 22, the 20th after the name, in clock ticks since the boot.
#: Programs are shown 100 a second on every architecture with GPUs (USER_HZ).
_START, _TICKS = 19, 100

#: Errors of reading a process that has ended, apart from missing files (fs/proc/base.c)
_GONE = (errno.ESRCH,)


class Holder(NamedTuple):
    """A process that is not a known service, and its open devices, in their order."""

    pid: int
    name: str
    devices: tuple[str, ...]


class Holders(NamedTuple):
    """unseen: as in Seen."""

    found: tuple[Holder, ...]
    unseen: tuple[str, ...]


class Seen(NamedTuple):
    """Findings for people. unseen: about unreadable processes."""

    running: tuple[str, ...]
    unseen: tuple[str, ...]


def running(host: Host) -> list[str]:
    """Both findings of look(); an empty list is good news. Raises HostError."""
    seen = look(host)
    return [*seen.running, *seen.unseen]


def look(host: Host) -> Seen:
    """Findings about jobs; empty for a captured tree without processes. Raises HostError if no processes can
    be read."""
    slurm: set[int] = set()
    other: list[str] = []

    def process(pid: int) -> None:
        words = _process(host, pid, slurm)
        other.extend([words] if words else [])

    unseen = each(host, process)
    findings = _shortened([f"Slurm job {job}" for job in sorted(slurm)] + other)
    return Seen(tuple(findings), unseen)


def holders(host: Host) -> Holders:
    """The processes that hold a device, in the order of their numbers. Raises HostError as look()."""
    processes: list[Holder] = []

    def process(pid: int) -> None:
        holder = _holder(host, pid, name_of(host, pid))
        processes.extend([holder] if holder.devices else [])

    unseen = each(host, process)
    return Holders(tuple(processes), unseen)


def each(host: Host, process: Callable[[int], None]) -> tuple[str, ...]:
    """Call process with the number of each process, in their order, and ignore its errors for ended
    processes. Returns findings about unreadable ones. Raises HostError as look()."""
    closed: list[HostError] = []
    pids = _pids(host)
    for pid in pids:
        try:
            process(pid)
        except HostError as error:
            if not is_gone_by(host, pid, error):
                closed.append(error)
    hidden = bool(pids) and pids[0] != 1 and not host.is_superuser()
    return tuple(_unseen(closed, hidden))


def since(host: Host) -> float | None:
    """Seconds from the boot to the start of the longest computing process; None without one. An unreadable
    process counts, as it may compute. Raises HostError."""
    starts = []
    for pid in _pids(host):
        try:
            if _computes(host, pid):
                starts.append(int(stat(host, pid).fields[_START]) / _TICKS)
        except HostError as error:
            if not is_gone(error):
                raise
    return min(starts, default=None)


def _computes(host: Host, pid: int) -> bool:
    slurm: set[int] = set()
    try:
        return bool(_process(host, pid, slurm) or slurm)
    except HostError as error:
        return not is_gone(error)


def name_of(host: Host, pid: int) -> str:
    """Name of the program, cut to 15 characters. Raises HostError."""
    return printable(host.read(f"/proc/{pid}/comm").rstrip("\n"))


class Stat(NamedTuple):
    """/proc/PID/stat: the name as of name_of(), and the fields after it."""

    name: str
    fields: list[str]


def stat(host: Host, pid: int) -> Stat:
    """Raises HostError."""
    # The name of the program, in brackets, may hold brackets and blanks itself.
    head, _bracket, fields = host.read(f"/proc/{pid}/stat").rpartition(")")
    return Stat(printable(head.partition("(")[2]), fields.split())


def _process(host: Host, pid: int, slurm: set[int]) -> str:
    """The finding about a process; a step of a job goes to slurm. "" for nothing."""
    name = name_of(host, pid)
    step = _step(host, pid, slurm) if name == STEP_NAME else ""
    return step or _words(_holder(host, pid, name))


def _pids(host: Host) -> list[int]:
    return sorted(int(name) for name in host.names("/proc") if name.isascii() and name.isdigit())


def _holder(host: Host, pid: int, name: str) -> Holder:
    return Holder(pid, name, devices(host, pid, name))


def devices(host: Host, pid: int, name: str) -> tuple[str, ...]:
    """Open devices of a process; none for a service. Raises HostError."""
    return () if is_service(host, pid, name) else held(host, pid)


def is_service(host: Host, pid: int, name: str) -> bool:
    """True for one of the services, and for the daemon of a job's step: by its name, and by an account or a
    pod that no job's user can choose. Raises HostError.

    A process of a container is one only in a system pod: root of a container may be anyone, and so may its
    programs. In doubt it is a job.
    """
    if name not in _SERVICES and name != STEP_NAME:
        return False
    group = host.value(f"/proc/{pid}/cgroup")
    if group.unreadable is not None:
        raise HostError("read", f"/proc/{pid}/cgroup", None, group.unreadable)
    if (
        group.text is not None and ":/" not in group.text
    ):  # not understood; a kernel may have no groups at all
        return False
    job = cgroup_names.parse(group.text or "").job
    if job.kind == cgroup_names.POD:
        return _is_system_pod(host, job.id)
    if job.kind == cgroup_names.CONTAINER or (job.kind == cgroup_names.SLURM and name != STEP_NAME):
        return False
    uids = job_status.row(host, pid, "Uid").split()
    return len(uids) == 4 and all(map(_SYSTEM_USER.match, uids))


def _is_system_pod(host: Host, uid: str) -> bool:
    """Raises HostError."""
    folders = (name.split("_") for name in host.names(POD_LOGS))
    return any(parts[0] in _SYSTEM_PODS and parts[-1] == uid for parts in folders)


def held(host: Host, pid: int) -> tuple[str, ...]:
    """Open devices of any process. Raises HostError."""
    return tuple(sorted(_held(host, pid), key=_natural))


def _words(holder: Holder) -> str:
    """The finding about a process; "" for nothing."""
    held = holder.devices
    if not held:
        return ""
    more = f" and {len(held) - 1} more" if len(held) > 1 else ""
    return f"pid {holder.pid} ({holder.name}) holds {held[0]}{more}"


def _step(host: Host, pid: int, slurm: set[int]) -> str:
    line = host.read_bytes(f"/proc/{pid}/cmdline")
    job = job_of_step(line)
    if job:
        slurm.add(int(job))
        return ""
    if _IDLE_STEP in line.split(b"\0")[1:] and is_service(host, pid, STEP_NAME):
        return ""
    return f"pid {pid} (slurmstepd) runs a Slurm job"  # the process has no title yet


def job_of_step(title: bytes) -> str:
    """The Slurm job of a step's daemon, by its title; empty before it has one."""
    match = _STEP.match(title)
    return match.group(1).decode() if match else ""


def _held(host: Host, pid: int) -> set[str]:
    """Open devices of a process. Raises HostError, also if only its other threads show them."""
    folder = f"/proc/{pid}/fd"
    names = host.names(folder)
    if not names and len(host.names(f"/proc/{pid}/task")) > 1 and _is_zombie(host, pid):
        raise HostError("list", folder, None, "its main thread has ended, and others still run")
    devices = set()
    for name in names:
        try:
            target = host.link_target(f"{folder}/{name}")
        except HostError as error:
            if is_gone(error):  # closed meanwhile
                continue
            raise
        match = _DEVICE.search(target)
        if match and (not match.start() or target[: match.start()] == _chroot(host, pid)):
            devices.add(match.group(1))
    return devices


def _is_zombie(host: Host, pid: int) -> bool:
    return stat(host, pid).fields[:1] == ["Z"]


def _chroot(host: Host, pid: int) -> str:
    """The root folder of a process, which the kernel shows before each of its paths (chroot(2)); empty
    without one."""
    return host.link_target(f"/proc/{pid}/root").rstrip("/")


def is_gone(error: HostError) -> bool:
    """True if the process, or its file, has ended since it was listed."""
    return error.errno in (*HostError.ABSENT, *_GONE)


def is_gone_by(host: Host, pid: int, error: HostError) -> bool:
    """As is_gone(), for any error of a process: the links of one that has just ended are refused, not missing
    (fs/proc/base.c: proc_fd_access_allowed). Raises HostError."""
    return is_gone(error) or not host.exists(f"/proc/{pid}")


def gone(path: str) -> HostError:
    """The error for a process whose number another one has by now."""
    return HostError("read", path, errno.ESRCH)


def _shortened(findings: Sequence[str]) -> list[str]:
    rest = len(findings) - _MOST
    return [*findings[:_MOST], f"{rest} more"] if rest > 0 else [*findings]


def _unseen(closed: Sequence[HostError], hidden: bool) -> list[str]:
    """Findings about processes that may run unseen, which must not look like nothing."""
    causes = []
    if closed:
        noun = "process" if len(closed) == 1 else "processes"
        causes.append(f"{len(closed)} {noun} that cannot be looked into: {closed[0].kernel}")
    if hidden:  # hidepid=invisible, proc(5): process 1 is always there
        causes.append("processes of others, which only root sees here")
    return causes


def _natural(path: str) -> tuple[str, int]:
    """nvidia2 before nvidia10."""
    stem = path.rstrip("0123456789")
    return stem, int(path[len(stem) :] or 0)
