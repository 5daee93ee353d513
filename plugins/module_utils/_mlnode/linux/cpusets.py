# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Cpusets that take CPUs from all others, and cpusets of containers.

Sources: admin-guide/cgroup-v2.rst (cpuset.cpus.partition), admin-guide/cgroup-v1/cpusets.rst
(cpu_exclusive).
"""

from __future__ import annotations

import re
from typing import Iterator

from ..host.host import Host
from ..model import cpulist
from ..model.errors import HostError
from ..model.record import NamedTuple, regex
from . import cgroup_names

#: Folder of each version; only one of them has the controller
TOP, _V1 = "/sys/fs/cgroup", "/sys/fs/cgroup/cpuset"
#: More than a full node of 250 pods with ten cgroups each, the most that a kubelet of OpenShift allows by
#: default; reading them takes a tenth of a second
_MOST = 4096
#: Files of controllers; folders of systemd have other beginnings
_FILE = regex(
    r"(?:blkio|cgroup|cpu|cpuacct|cpuset|debug|devices|dmem|freezer|hugetlb|io|irq|memory|misc|net_cls"
    r"|net_prio|notify_on_release|perf_event|pids|rdma|release_agent|tasks)(?:\.|\Z)",
    re.ASCII,
)
_JOBS = (cgroup_names.SLURM, cgroup_names.POD, cgroup_names.CONTAINER)


class Cpuset(NamedTuple):
    """file: the file that makes it exclusive. kind: isolated, root (both of version 2) or exclusive.

    cpus: the CPUs that no other cpuset gets. balanced: its scheduler balances load among them. invalid: the
    kernel's reason, if it does not take effect.
    """

    file: str
    kind: str
    cpus: tuple[int, ...]
    balanced: bool
    invalid: str = ""

    @property
    def folder(self) -> str:
        return self.file.rpartition("/")[0]


class Container(NamedTuple):
    """file: with its CPUs. cpus: those that were asked for."""

    file: str
    cpus: tuple[int, ...]


class Cpusets(NamedTuple):
    taking: tuple[Cpuset, ...]
    containers: tuple[Container, ...]


def look(host: Host) -> Cpusets:
    """Raises HostError if a file cannot be read, or if there are too many cgroups to read."""
    top = _V1 if host.exists(f"{_V1}/cpuset.cpus") else TOP
    folders = [folder for folder in _below(host, top, [0]) if folder != top]
    read = _exclusive if top == _V1 else _partition
    taking = [cpuset for folder in folders for cpuset in read(host, folder)]
    own = tuple(f"{cpuset.folder}/" for cpuset in taking if not cpuset.invalid)
    containers = [
        Container(f"{folder}/cpuset.cpus", _cpus(host, f"{folder}/cpuset.cpus"))
        for folder in folders
        if _is_container(folder[len(top) :]) and not f"{folder}/".startswith(own or ("\0",))
    ]
    return Cpusets(tuple(taking), tuple(container for container in containers if container.cpus))


def _is_container(path: str) -> bool:
    """True for groups of Slurm and of the runtimes of containers, and for the kubelet's above its pods."""
    return cgroup_names.of_path(path).kind in _JOBS or path.startswith("/kubepods")


def _below(host: Host, folder: str, seen: list[int]) -> Iterator[str]:
    """Cgroups with a cpuset: a child has the controller only if its parent has it."""
    seen[0] += 1
    if seen[0] > _MOST:
        raise HostError("read", folder, None, f"more than {_MOST} cgroups have a cpuset")
    yield folder
    for name in host.names(folder):
        if not _FILE.match(name) and host.exists(f"{folder}/{name}/cpuset.cpus"):
            yield from _below(host, f"{folder}/{name}", seen)


def _partition(host: Host, folder: str) -> Iterator[Cpuset]:
    file = f"{folder}/cpuset.cpus.partition"
    state, _space, reason = host.text(file).strip().partition(" ")
    if state not in ("isolated", "root"):
        return
    own = _cpus(host, f"{folder}/cpuset.cpus.exclusive.effective")
    cpus = own or _cpus(host, f"{folder}/cpuset.cpus.effective")
    invalid = reason if reason.startswith("invalid") else ""
    yield Cpuset(file, state, cpus, state == "root", invalid)


def _exclusive(host: Host, folder: str) -> Iterator[Cpuset]:
    file = f"{folder}/cpuset.cpu_exclusive"
    cpus = _cpus(host, f"{folder}/cpuset.cpus")
    if host.text(file).strip() == "1" and cpus:
        balanced = host.text(f"{folder}/cpuset.sched_load_balance").strip() != "0"
        yield Cpuset(file, "exclusive", cpus, balanced)


def _cpus(host: Host, path: str) -> tuple[int, ...]:
    """Empty for an absent file. Raises HostError."""
    try:
        return cpulist.parse(host.text(path).strip())
    except ValueError as error:
        raise HostError("understand", path, None, str(error)) from error
