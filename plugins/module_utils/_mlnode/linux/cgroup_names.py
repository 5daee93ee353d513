# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The job, pod or container of a process, from the path of its control group (cgroups(7)).

A container or a user can make any name below its own group. Every pattern is therefore anchored at the root
of the hierarchy, and the outermost group that is not a slice decides: systemd makes slices for root alone.
Below a user's own service, a container is that user's claim, and no name there makes it a pod or a Slurm job.
"""

from __future__ import annotations

import functools
import re

from ..model.record import NamedTuple, regex

#: Kinds of jobs
SLURM, POD, CONTAINER, UNIT, SESSION, OTHER = "slurm", "pod", "container", "unit", "session", "other"

#: Containers' ids are 64 hex digits: SHA-256 numbers of their runtimes
_ID = "[0-9a-f]{64}"
_UID = "[0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32}"
_SLICES = r"(?:/[^/]+\.slice)*"

#: cgroup/v2 of slurmd: its scope may have the node's name before it (Slurm's guide, cgroup_v2.html), in the
#: slice of slurmd. From Slurm 26.05 on, a group has the SLUID of the job (src/common/sluid.c: print_sluid)
#: instead, unless cgroup.conf has CgroupJobIdPaths=yes
_SLURM_2 = regex(
    rf"{_SLICES}/(?:[^/]+_)?slurmstepd\.scope/(?:job_([0-9]{{1,10}})|(s[0-9A-HJKMNP-TV-Z]{{13}}))(?:/|\Z)",
    re.ASCII,
)
#: cgroup/v1: /slurm or /slurm_NODE, then the user and the job
_SLURM_1 = regex(r"/slurm(?:_[^/]+)?/uid_[0-9]{1,10}/job_([0-9]{1,10})(?:/|\Z)", re.ASCII)
#: kubelet with systemd's driver: the uid has _ for -. docker is cri-dockerd's.
_POD_SLICE = regex(
    rf"{_SLICES}/(?:[^/]+-)?kubepods(?:-[a-z]+)?-pod({_UID})\.slice"
    rf"(?:/(cri-containerd|crio|docker)-({_ID})(?:\.scope)?(?=/|\Z))?(?:/|\Z)",
    re.ASCII,
)
#: One of containerd and the kubelet has systemd's driver, the other cgroupfs: SLICE:PREFIX:ID becomes a name.
#: k3s and RKE2 start their own containerd.
_POD_NAME = regex(
    rf"{_SLICES}(?:/(?:containerd|k3s(?:-agent)?|rke2-(?:server|agent))\.service)?/(?:[^/:]+-)?kubepods(?:-[a-z]+)?-pod({_UID})\.slice:"
    rf"(cri-containerd):({_ID})(?:/|\Z)",
    re.ASCII,
)
#: kubelet with the driver cgroupfs, maybe below a slice (--cgroup-root)
_POD_FOLDER = regex(
    rf"{_SLICES}/kubepods(?:/(?:burstable|besteffort|guaranteed))?/pod({_UID})(?:/(crio-)?({_ID}))?(?:/|\Z)",
    re.ASCII,
)
#: A runtime's scope in slices; nerdctl is containerd's own client
_SCOPE = regex(rf"{_SLICES}/(libpod|docker|nerdctl|crio|cri-containerd)-({_ID})\.scope(?:/|\Z)", re.ASCII)
#: The same without systemd. A pod of Podman has a group of its own above its containers.
_FOLDER = regex(rf"/(docker|default|k8s\.io|moby)/({_ID})(?:/|\Z)", re.ASCII)
_PODMAN_FOLDER = regex(rf"/(libpod_parent)/(?:{_ID}/)?libpod-({_ID})(?:/|\Z)", re.ASCII)
#: podman run --cgroups=split, which Quadlet uses: below the unit that started it
_SPLIT = regex(rf"{_SLICES}/[^/]+\.service/(libpod)-payload-({_ID})(?:/|\Z)", re.ASCII)
#: A pod of Podman: libpod/container_internal_linux.go, getOCICgroupPath()
_PODMAN_POD = regex(
    rf"(?:(?:/user\.slice/user-[0-9]{{1,10}}\.slice/user@[0-9]{{1,10}}\.service)?{_SLICES}"
    rf"/[^/]+-libpod_pod_{_ID}\.slice|/libpod_parent/{_ID})/libpod-{_ID}",
    re.ASCII,
)
#: LXC and LXD; /lxc before LXC 4.0
_LXC = regex(r"/(?:lxc\.payload\.|lxc/)([^/]{1,64})(?:/|\Z)")
#: systemd-nspawn, by its template unit or by a scope that it registers itself (systemd-nspawn(1))
_NSPAWN = regex(
    rf"{_SLICES}/(?:systemd-nspawn@([^/]{{1,200}})\.service|machine-([^/]{{1,200}})\.scope)/payload(?:/|\Z)"
)
#: A sign of a name in the name of a unit (systemd.unit(5), String Escaping for Inclusion in Unit Names)
_ESCAPED = regex(r"\\x([0-9a-f]{2})", re.ASCII)
_USERS = regex(r"/user\.slice/user-([0-9]{1,10})\.slice/user@\1\.service(/.*)?\Z", re.ASCII | re.DOTALL)
_SESSION = regex(r"/user\.slice/user-[0-9]{1,10}\.slice/session-([^/]{1,64})\.scope(?:/|\Z)", re.ASCII)
_UNIT = regex(rf"{_SLICES}/([^/]+\.(?:service|scope))(?:/|\Z)")

_RUNTIMES = {
    "libpod": "podman",
    "libpod_parent": "podman",
    "docker": "docker",
    "moby": "docker",
    "nerdctl": "containerd",
    "default": "containerd",
    "k8s.io": "containerd",
    "cri-containerd": "containerd",
    "crio": "crio",
}
#: Prefix of a pod's container → runtime
_DRIVERS = {"crio": "crio", "crio-": "crio", "docker": "docker"}
#: Which of several hierarchies counts: version 1 may have a job in some of them only
_ORDER = (SLURM, POD, CONTAINER, UNIT, SESSION, OTHER)
_ROW = regex(r"^[0-9]{1,10}:[^:\n]*:(/[^\n]*)$", re.MULTILINE | re.ASCII)


class Job(NamedTuple):
    """kind: one of the above. id: number or SLUID of the job, or id of the pod, container, unit or session.
    container: its id, empty outside of one; LXC and nspawn have names alone. runtime: podman, docker,
    containerd, crio, lxc or nspawn; empty if unknown."""

    kind: str
    id: str
    container: str = ""
    runtime: str = ""


class Group(NamedTuple):
    """path: as the file shows it. text: all of the file, which differs between groups of any hierarchy."""

    path: str
    job: Job
    text: str = ""


def paths(text: str) -> list[str]:
    """Groups of a process in all hierarchies, from its /proc/PID/cgroup."""
    return _ROW.findall(text) or ["/"]


@functools.lru_cache(maxsize=1024)  # the processes of a container share their text
def parse(text: str) -> Group:
    """The group of a process, from its /proc/PID/cgroup."""
    groups = [Group(path, of_path(path), text) for path in paths(text)]
    # The last of several with the same job: version 2 comes last, and has no group if it controls nothing.
    return min(reversed(groups), key=lambda group: (_ORDER.index(group.job.kind), group.path == "/"))


def of_path(path: str) -> Job:
    """The job of a path below the root of a hierarchy."""
    slurm = _SLURM_2.match(path) or _SLURM_1.match(path)
    if slurm:
        return Job(SLURM, slurm.group(slurm.lastindex or 1))
    pod = _POD_SLICE.match(path) or _POD_NAME.match(path) or _POD_FOLDER.match(path)
    if pod:
        uid, driver, container = pod.groups()
        runtime = "" if container is None else _DRIVERS.get(driver or "", "containerd")
        return Job(POD, uid.replace("_", "-"), container or "", runtime)
    users = _USERS.match(path)
    if users:
        inner = _SCOPE.match(users.group(2) or "") or _SPLIT.match(users.group(2) or "")
        own = _container(inner) if inner and inner.group(1) in ("libpod", "docker", "nerdctl") else None
        return own or Job(SESSION, f"user@{users.group(1)}")
    scope = _SCOPE.match(path) or _FOLDER.match(path) or _PODMAN_FOLDER.match(path) or _SPLIT.match(path)
    if scope:
        return _container(scope)
    machine = _LXC.match(path)
    if machine:
        return Job(CONTAINER, machine.group(1), "", "lxc")
    machine = _NSPAWN.match(path)
    if machine:
        name = machine.group(1) or machine.group(2)
        return Job(CONTAINER, _ESCAPED.sub(lambda sign: chr(int(sign.group(1), 16)), name), "", "nspawn")
    session = _SESSION.match(path)
    if session:
        return Job(SESSION, session.group(1))
    unit = _UNIT.match(path)
    return Job(UNIT, unit.group(1)) if unit else Job(OTHER, path)


def is_in_service(path: str) -> bool:
    """True for a container of Podman that a unit of root started in its own group."""
    return _SPLIT.match(path) is not None


def is_in_podman_pod(path: str) -> bool:
    """True for a container in a pod of Podman, whose containers share namespaces."""
    return _PODMAN_POD.match(path) is not None


def _container(match: re.Match[str]) -> Job:
    return Job(CONTAINER, match.group(2), match.group(2), _RUNTIMES[match.group(1)])
