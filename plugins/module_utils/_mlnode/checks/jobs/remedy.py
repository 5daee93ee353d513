# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Remedies, by the runtime of a job: in the words of its manual, for one container and for all new ones.

Sources: podman-run(1), podman-pod-create(1), podman-systemd.unit(5), containers.conf(5); docker run, Docker
daemon configuration; crio.conf(5); Kubernetes, Using sysctls in a cluster, and Volumes (emptyDir);
slurm.conf(5); systemd.exec(5); limits.conf(5); lxc.container.conf(5); LXD, Instance options;
systemd.nspawn(5).
"""

from __future__ import annotations

from typing import Mapping, Sequence

from ...knobs.containers.parse import SHM_SIZE, SYSCTLS, ULIMITS
from ...knobs.containers.render.text import csv_field, word
from ...knobs.limits.parse import Amount, Limit
from ...linux import cgroup_names
from ...model import cpulist
from ...model.errors import printable
from .model import Place

#: The node itself differs from its declaration
NODE = "the node itself has this value: run mlnode check, then mlnode apply"

PODMAN, DOCKER, CONTAINERD, CRIO = "podman", "docker", "containerd", "crio"
LXC, NSPAWN = "lxc", "nspawn"
POD, SLURM, UNIT, LOGIN = "pod", "slurm", "unit", "login"

#: End of a remedy for one container
_ALL = "; for all new containers declare the area containers"
_DECLARED = "; the area containers is declared, and mlnode status shows if new containers have it"
_RENDER_POD = "; mlnode render pod prints it"

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
    if job.kind == cgroup_names.UNIT and job.id.endswith(".scope"):  # its caller starts it, not systemd
        return LOGIN
    return _KINDS.get(job.kind, "")


def _all(place: Place, topic: str) -> str:
    return _DECLARED if topic in place.defaults.topics else _ALL


def _older(place: Place, topic: str) -> str:
    """The remedy for a container that was made before a declared default; empty for any other."""
    if not place.older or topic not in place.defaults.topics:
        return ""
    unit = ", by a restart of its unit" if cgroup_names.is_in_service(place.first.group.path) else ""
    return f"create it again{unit}: the defaults of its runtime have changed since its start"


def _podman(place: Place, options: str, shared: bool = False) -> str:
    """shared: the containers of a pod have it in common."""
    if shared and cgroup_names.is_in_podman_pod(place.first.group.path):
        return f"podman pod create {options}, for the pod that it is in"
    if cgroup_names.is_in_service(place.first.group.path):
        return f"PodmanArgs={options} in the Quadlet file of its unit, or podman run {options} in the unit"
    return f"podman run {options}"


def sysctl(place: Place, key: str, value: str, type_: str) -> str:
    """type_: of the namespace that has the value."""
    setting, more = word(f"{key}={value}"), _all(place, SYSCTLS)
    by_hand = f"nsenter --{type_}=/proc/{place.first.pid}/ns/{type_} sysctl -w {setting}"
    advice = {
        PODMAN: _podman(place, f"--sysctl {word(csv_field(f'{key}={value}'))}", shared=True) + more,
        DOCKER: f"docker run --sysctl {setting}; dockerd has no default for it: see mlnode render docker-run",
        CONTAINERD: f"nerdctl run --sysctl {setting}",
        CRIO: f"default_sysctls = [\"{key}={value}\"] in /etc/crio/crio.conf.d{more}",
        POD: f"securityContext.sysctls of the pod: {{name: {key}, value: \"{value}\"}}, and {key} in "
        "allowedUnsafeSysctls of the kubelet, unless it is a safe one; mlnode render pod and mlnode render "
        "kubelet print them",
        SLURM: f"by the program that made its namespace, such as podman run --sysctl; now: {by_hand}",
        UNIT: f"in ExecStartPre=+ of the unit, as it has its own namespace: sysctl -w {setting}",
        LXC: f"lxc.sysctl.{key} = {value} in its configuration; with LXD, linux.sysctl.{key}",
        NSPAWN: f"in /etc/sysctl.d of the container: {key} = {value}",
    }  # fmt: skip
    return _older(place, SYSCTLS) or advice.get(form(place), f"in its namespace: {by_hand}")


def limit(place: Place, limit: Limit, amount: Amount) -> str:
    soft, hard = (-1 if number is None else number for number in amount)
    option = f"--ulimit {limit.name}={soft}:{hard}"
    more = _all(place, ULIMITS)
    name, systemd = limit.name, f"{limit.key}={amount.in_systemd()}"
    of_crio = f'default_ulimits = ["{name}={soft}:{hard}"] in /etc/crio/crio.conf.d{more}'
    older = _older(place, ULIMITS)
    if older or (form(place) == POD and place.first.job.runtime == CRIO):
        return older or of_crio
    advice = {
        PODMAN: _podman(place, option) + more,
        DOCKER: f"docker run {option}{more}",
        CONTAINERD: f"nerdctl run {option}; for all new containers {systemd} for containerd",
        CRIO: of_crio,
        POD: f"a pod cannot say it: {systemd} for the runtime's service, or its default_ulimits",
        SLURM: f"PropagateResourceLimitsExcept={name.upper()} in slurm.conf, and {systemd} for slurmd: the "
        "user's limit at submission counts otherwise",
        UNIT: f"{systemd} in the unit",
        LXC: f"lxc.prlimit.{name} = {amount} in its configuration; with LXD, limits.kernel.{name}",
        NSPAWN: f"{systemd} in [Exec] of its .nspawn file",
    }  # fmt: skip
    return advice.get(form(place), f"mlnode check shows {name}; log in again, as a session keeps its limits")


def shm(place: Place, size: str) -> str:
    """size: such as 1g, or in bytes."""
    by_hand = f"mount -o remount,size={size} /dev/shm, for the next jobs in /etc/fstab"
    if "ipc" not in place.own and form(place) in (PODMAN, DOCKER, CONTAINERD, POD, CRIO):
        # --ipc=host and hostIPC share /dev/shm as well; podman refuses --shm-size with it.
        return f"it shares the node's /dev/shm: {by_hand}"
    more = _all(place, SHM_SIZE)
    advice = {
        PODMAN: _podman(place, f"--shm-size={size}", shared=True) + f" or --ipc=host{more}",
        DOCKER: f"docker run --shm-size={size} or --ipc=host{more}",
        CONTAINERD: f"nerdctl run --shm-size={size} or --ipc=host",
        POD: f"mount an emptyDir {{medium: Memory}} at /dev/shm of the pod{_RENDER_POD}",
        CRIO: f"mount an emptyDir {{medium: Memory}} at /dev/shm of the pod{_RENDER_POD}",
        LXC: f"lxc.mount.entry = tmpfs dev/shm tmpfs size={size},create=dir 0 0",
    }
    return _older(place, SHM_SIZE) or advice.get(form(place), by_hand)


def nccl_file(place: Place) -> str:
    conf = place.conf
    advice = {
        PODMAN: _podman(place, f"-v {conf}:{conf}:ro"),
        DOCKER: f"docker run -v {conf}:{conf}:ro",
        CONTAINERD: f"nerdctl run -v {conf}:{conf}:ro",
        POD: f"mount {conf} of the node as a hostPath volume of type File{_RENDER_POD}",
        CRIO: f"mount {conf} of the node as a hostPath volume of type File{_RENDER_POD}",
        LXC: f"lxc.mount.entry = {conf} {conf[1:]} none bind,ro,create=file 0 0",
        NSPAWN: f"BindReadOnly={conf} in [Files] of its .nspawn file",
    }
    in_image = f"mount the node's {conf} into its root folder; mlnode render enroot prints a mount"
    return advice.get(form(place), in_image if "mnt" in place.own else "run mlnode check, then mlnode apply")


# -- resources -----------------------------------------------------------------------------


def cpu_quota(place: Place, group: str) -> str:
    """group: path of the control group with the quota."""
    advice = {
        PODMAN: "podman update --cpus=N, or podman run without --cpus and --cpu-quota",
        DOCKER: "docker update --cpus=N, or docker run without --cpus and --cpu-quota",
        CONTAINERD: "nerdctl update --cpus=N, or nerdctl run without --cpus and --cpu-quota",
        POD: "raise resources.limits.cpu of the pod, or leave it out; for whole CPUs without a quota, "
        "integer requests equal to limits and cpuManagerPolicy: static of the kubelet",
    }
    return _of_group(place, group, advice, "CPUQuota=")


def memory(place: Place, group: str) -> str:
    """group: path of the control group with the limit."""
    advice = {
        PODMAN: "podman update --memory=SIZE, or podman run with a greater --memory",
        DOCKER: "docker update --memory=SIZE --memory-swap=SIZE, or docker run with a greater --memory",
        CONTAINERD: "nerdctl update --memory=SIZE, or nerdctl run with a greater --memory",
        POD: "raise resources.limits.memory of the pod",
        SLURM: "ask for more memory with sbatch --mem",
    }
    return _of_group(place, group, advice, "MemoryMax=")


def memory_high(place: Place, group: str) -> str:
    """group: path of the control group with memory.high, which `update` of no runtime changes."""
    advice = {
        PODMAN: "podman run --cgroup-conf=memory.high=BYTES with a greater number, or without the option",
        POD: "raise resources.limits.memory of the pod, or memoryThrottlingFactor of the kubelet",
        SLURM: "ask for more memory with sbatch --mem",
    }
    return _of_group(place, group, advice, "MemoryHigh=")


def _of_group(place: Place, group: str, advice: Mapping[str, str], settings: str) -> str:
    """The runtime's remedy for a group of the job itself; systemd's for a slice above it."""
    of_group = cgroup_names.of_path(group)
    job = place.first.job
    # A Slurm job's group may have another name of it.
    own = of_group.kind == job.kind and (job.kind == cgroup_names.SLURM or of_group.id == job.id)
    if own and form(place) in advice:
        return advice[form(place)]
    name = printable(group.rpartition("/")[2])
    if name.endswith((".slice", ".service", ".scope")):
        return f"{settings} of {name}, with systemctl set-property"
    return f"raise the limit of the group {printable(group)}, as its owner"


def cpus(place: Place, nodes: Sequence[int] = ()) -> str:
    """nodes: NUMA nodes of the GPU; empty for more CPUs of any node."""
    number = str(nodes[0]) if len(nodes) == 1 else "N"
    advice = {
        PODMAN: _podman(place, f"--cpuset-cpus=LIST --cpuset-mems={number}"),
        DOCKER: f"docker run --cpuset-cpus=LIST --cpuset-mems={number}",
        CONTAINERD: f"nerdctl run --cpuset-cpus=LIST --cpuset-mems={number}",
        POD: "integer CPU requests equal to limits in the pod, and cpuManagerPolicy: static with "
        "topologyManagerPolicy: single-numa-node in the kubelet",
        SLURM: "srun --cpus-per-task=COUNT --cpu-bind=cores --gpu-bind=closest, with Cores= in gres.conf",
        UNIT: f"CPUAffinity=numa, NUMAPolicy=bind and NUMAMask={number} in the unit",
    }
    by_hand = f"numactl --cpunodebind={number} --membind={number}, as mlnode topology shows"
    return advice.get(form(place), by_hand)


def affinity(nodes: Sequence[int]) -> str:
    """For CPUs that a program chose within its control group (sched_setaffinity(2)). nodes: of the GPU."""
    number = cpulist.render(nodes)
    by_hand = f"numactl --cpunodebind={number} --membind={number}"
    return f"its launcher binds it, not its control group: {by_hand}, as mlnode topology shows"


def hugetlb(place: Place, size: str) -> str:
    """size: such as 2MB, as in the name of the limit."""
    if form(place) == POD:
        name = f"hugepages-{size.replace('B', 'i')}"
        return f"resources.limits of the pod: {name}, and a volume emptyDir {{medium: HugePages}}"
    return f"raise hugetlb.{size}.max of its control group; runtimes set hugepageLimits in the OCI bundle"


def swappiness(place: Place, value: str, path: str) -> str:
    advice = {
        PODMAN: _podman(place, f"--memory-swappiness={value}"),
        DOCKER: f"docker run --memory-swappiness={value}",
    }
    return advice.get(form(place), f"echo {value} > {path}")


def rdma_devices(place: Place) -> str:
    advice = {
        PODMAN: _podman(place, "--device=/dev/infiniband"),
        DOCKER: "docker run --device=/dev/infiniband",
        CONTAINERD: "nerdctl run --device=/dev/infiniband",
        POD: "the resource of the RDMA or SR-IOV device plugin in resources.limits, once for each rail",
        SLURM: "with enroot MELLANOX_VISIBLE_DEVICES=all; else do not list RDMA devices in gres.conf",
        UNIT: "DeviceAllow=char-infiniband_verbs rw and PrivateDevices=no in the unit",
    }
    return advice.get(form(place), "bind /dev/infiniband of the node into its root folder")


def gids(place: Place) -> str:
    advice = {
        PODMAN: _podman(place, "--network=host", shared=True) + ", without --sysctl net.*",
        DOCKER: "docker run --network=host, without --sysctl net.*",
        CONTAINERD: "nerdctl run --network=host, without --sysctl net.*",
        POD: "hostNetwork: true, or a secondary network on each rail (Multus with SR-IOV or macvlan)",
    }
    return advice.get(form(place), "start it in the node's network namespace, or move the rails into its own")


def exclusive(place: Place, device: str) -> str:
    """A new mode is refused (EBUSY) while there is another network namespace (rdma_compatdev_set of
    drivers/infiniband/core/device.c)."""
    return (
        f"rdma dev set {device} netns /proc/{place.first.pid}/ns/net, as the CNI plugin rdma does; or share "
        "devices from the next boot on: options ib_core netns_mode=1 in /etc/modprobe.d"
    )
