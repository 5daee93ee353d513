# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Remedies, by the runtime of a job: in the words of its manual, for one container and for all new ones.

Sources: podman-run(1), containers.conf(5); docker run, Docker daemon configuration; crio.conf(5); Kubernetes,
Using sysctls in a cluster, and Volumes (emptyDir); slurm.conf(5); systemd.exec(5); limits.conf(5).
"""

from __future__ import annotations

from ...knobs.limits.parse import Amount, Limit
from ...linux import cgroup_names
from .model import Place

#: The node itself differs from its declaration
NODE = "the node itself has this value: run mlnode check, then mlnode apply"

PODMAN, DOCKER, CONTAINERD, CRIO = "podman", "docker", "containerd", "crio"
POD, SLURM, UNIT, LOGIN = "pod", "slurm", "unit", "login"

#: End of a remedy for one container
_ALL = "; for all new containers declare the area containers"

#: Kind of a job without a known runtime → the form of its remedies
_KINDS = {
    cgroup_names.POD: POD,
    cgroup_names.SLURM: SLURM,
    cgroup_names.UNIT: UNIT,
    cgroup_names.SESSION: LOGIN,
}


def form(place: Place) -> str:
    """How the processes of a place were started; empty if that is not known."""
    job = place.first.job
    if job.kind == cgroup_names.CONTAINER and job.runtime:
        return job.runtime
    return _KINDS.get(job.kind, "")


def sysctl(place: Place, key: str, value: str, type_: str) -> str:
    """type_: of the namespace that has the value."""
    setting = f"{key}={value}" if " " not in value else f"'{key}={value}'"
    advice = {
        PODMAN: f"podman run --sysctl {setting}{_ALL}",
        DOCKER: f"docker run --sysctl {setting}; dockerd has no default for it",
        CONTAINERD: f"nerdctl run --sysctl {setting}{_ALL}",
        CRIO: f"default_sysctls = [\"{key}={value}\"] in /etc/crio/crio.conf.d{_ALL}",
        POD: f"securityContext.sysctls of the pod: {{name: {key}, value: \"{value}\"}}, and {key} in "
        "allowedUnsafeSysctls of the kubelet, unless it is a safe one",
        SLURM: f"in the step's namespace, such as in TaskProlog: sysctl -w {setting}",
        UNIT: f"in ExecStartPre=+ of the unit, as it has its own namespace: sysctl -w {setting}",
    }  # fmt: skip
    by_hand = f"nsenter --{type_}=/proc/{place.first.pid}/ns/{type_} sysctl -w {setting}"
    return advice.get(form(place), f"in its namespace: {by_hand}")


def limit(place: Place, limit: Limit, amount: Amount) -> str:
    soft, hard = (-1 if number is None else number for number in amount)
    option = f"--ulimit {limit.name}={soft}:{hard}"
    name, systemd = limit.name, f"{limit.key}={amount.in_systemd()}"
    advice = {
        PODMAN: f"podman run {option}{_ALL}",
        DOCKER: f"docker run {option}{_ALL}",
        CONTAINERD: f"nerdctl run {option}{_ALL}",
        CRIO: f"default_ulimits = [\"{name}={soft}:{hard}\"] in /etc/crio/crio.conf.d{_ALL}",
        POD: f"a pod cannot say it: {systemd} for the runtime's service, or its default_ulimits",
        SLURM: f"PropagateResourceLimitsExcept={name.upper()} in slurm.conf, and {systemd} for slurmd: the "
        "user's limit at submission counts otherwise",
        UNIT: f"{systemd} in the unit",
    }  # fmt: skip
    return advice.get(form(place), f"mlnode check shows {name}; log in again, as a session keeps its limits")


def shm(place: Place, size: str) -> str:
    """size: such as 1g."""
    advice = {
        PODMAN: f"podman run --shm-size={size} or --ipc=host{_ALL}",
        DOCKER: f"docker run --shm-size={size} or --ipc=host{_ALL}",
        CONTAINERD: f"nerdctl run --shm-size={size} or --ipc=host",
        POD: "mount an emptyDir {medium: Memory} at /dev/shm of the pod",
        CRIO: "mount an emptyDir {medium: Memory} at /dev/shm of the pod",
    }
    return advice.get(form(place), f"mount -o remount,size={size} /dev/shm, for the next jobs in /etc/fstab")


def nccl_file(place: Place) -> str:
    advice = {
        PODMAN: "podman run -v /etc/nccl.conf:/etc/nccl.conf:ro",
        DOCKER: "docker run -v /etc/nccl.conf:/etc/nccl.conf:ro",
        CONTAINERD: "nerdctl run -v /etc/nccl.conf:/etc/nccl.conf:ro",
        POD: "mount /etc/nccl.conf of the node as a hostPath volume of type File",
        CRIO: "mount /etc/nccl.conf of the node as a hostPath volume of type File",
    }
    in_image = "mount the node's /etc/nccl.conf into its root folder, as with /etc/enroot/mounts.d"
    return advice.get(form(place), in_image if "mnt" in place.own else "run mlnode check, then mlnode apply")
