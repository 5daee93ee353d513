# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Processes of jobs, each with its namespaces, control group and identity (proc(5)).

A job process has a GPU or an RDMA device open, or is chosen by its number, control group, container, Slurm
job or pod.
"""

from __future__ import annotations

import re
import sys
from contextlib import contextmanager
from functools import partial
from typing import Callable, Iterator, Mapping, Sequence

from ..host.host import Host
from ..host.namespaces import Ids
from ..model.errors import DeclarationError, HostError
from ..model.record import NamedTuple, regex
from . import cgroup_names, job_status, jobs
from .cgroup_names import Group, Job

#: Namespaces that decide on the values of a process; pid and mnt tell containers apart
NAMESPACES = ("net", "mnt", "pid", "ipc", "uts")
#: Fields of /proc/PID/stat after the name (proc_pid_stat(5): 4, ppid; 22, starttime; 23, vsize)
_PARENT, _STARTED, _MEMORY = 4 - 3, 22 - 3, 23 - 3
#: Identity for file access is the last number (filesystem UID) of Uid and Gid
_NUMBER = regex(r"[0-9]+\Z", re.ASCII)
#: Generations between a task and its step's daemon: a launcher, a shell, a container's first process
_MOST_PARENTS = 32


class JobProcess(NamedTuple):
    """started: in clock ticks since the boot; it distinguishes two processes with the same number. root: root
    folder as the kernel shows it. namespaces: as in NAMESPACES, such as net:[4026531840]."""

    pid: int
    started: str
    name: str
    devices: tuple[str, ...]
    ids: Ids
    group: Group
    namespaces: tuple[str, ...]
    root: str

    @property
    def job(self) -> Job:
        return self.group.job

    def namespace(self, name: str) -> str:
        return self.namespaces[NAMESPACES.index(name)]


class Choice(NamedTuple):
    """Processes to look at apart from those with a device. Containers are ids, or the beginning of one; pods
    are uids."""

    pids: tuple[int, ...] = ()
    cgroups: tuple[str, ...] = ()
    containers: tuple[str, ...] = ()
    slurm_jobs: tuple[str, ...] = ()
    pods: tuple[str, ...] = ()

    @property
    def by_group(self) -> bool:
        return bool(self.cgroups or self.containers or self.slurm_jobs or self.pods)


class Seen(NamedTuple):
    """unseen: findings about processes that could not be read. met: field of Choice and word of each choice
    → its processes, the unreadable ones included."""

    processes: tuple[JobProcess, ...]
    unseen: tuple[str, ...]
    met: Mapping[tuple[str, str], Sequence[int]] = {}


def with_devices(host: Host) -> Seen:
    """All processes with a device. Raises HostError if no processes can be read."""
    processes: list[JobProcess] = []

    def process(pid: int) -> None:
        # Most processes of a node hold no device: their names are not read.
        try:
            devices = jobs.held(host, pid)
        except HostError:
            if not jobs.is_service(host, pid, jobs.name_of(host, pid)):
                raise
            return
        if devices:
            holder = _read(host, pid, devices)
            processes.extend([] if jobs.is_service(host, pid, holder.name) else [holder])

    unseen = jobs.each(host, process)
    return Seen(tuple(processes), unseen)


def chosen(host: Host, choice: Choice) -> Seen:
    """The chosen processes. Raises HostError if no processes can be read."""
    processes: list[JobProcess] = []
    met: dict[tuple[str, str], list[int]] = {}

    def process(pid: int) -> None:
        hits = _hits(host, pid, choice)
        if hits:
            with _met(met, hits, pid):
                processes.append(_chosen(host, pid))

    if choice.by_group:
        unseen = jobs.each(host, process)
    else:
        unseen = _of_pids(host, choice.pids, processes, met)
    return Seen(tuple(processes), unseen, met)


@contextmanager
def _met(met: dict[tuple[str, str], list[int]], hits: Sequence[tuple[str, str]], pid: int) -> Iterator[None]:
    """Note a process for its choices, unless it has ended."""
    try:
        yield
    except HostError as error:
        if jobs.is_gone(error):
            hits = ()
        raise
    finally:
        for hit in hits:
            met.setdefault(hit, []).append(pid)


def _of_pids(
    host: Host, pids: Sequence[int], processes: list[JobProcess], met: dict[tuple[str, str], list[int]]
) -> tuple[str, ...]:
    """Processes by their numbers alone, without a look at others."""
    unseen = []
    for pid in dict.fromkeys(pids):
        try:
            with _met(met, [("pids", str(pid))], pid):
                processes.append(_chosen(host, pid))
        except HostError as error:
            unseen += [] if jobs.is_gone_by(host, pid, error) else [str(error)]
    return tuple(unseen)


def _chosen(host: Host, pid: int) -> JobProcess:
    """Raises HostError."""
    return _read(host, pid, jobs.devices(host, pid, jobs.name_of(host, pid)))


def _hits(host: Host, pid: int, choice: Choice) -> list[tuple[str, str]]:
    """The choices that a process meets. A step's daemon belongs to Slurm and not to the job."""
    hits = [("pids", str(pid))] if pid in choice.pids else []
    if not choice.by_group:
        return hits
    group = cgroup_names.parse(host.text(f"/proc/{pid}/cgroup"))
    if group.job.kind == cgroup_names.SLURM and _is_daemon(host, pid):
        return hits
    job = _job(host, _birth(host, pid).parent, group) if choice.slurm_jobs else group.job
    tests: tuple[tuple[str, Sequence[str], Callable[[str], bool]], ...] = (
        ("cgroups", choice.cgroups, partial(_is_below, cgroup_names.paths(group.text))),
        ("containers", choice.containers, lambda word: _is_container(job, word)),
        ("slurm_jobs", choice.slurm_jobs, lambda word: job.kind == cgroup_names.SLURM and job.id == word),
        ("pods", choice.pods, lambda word: job.kind == cgroup_names.POD and job.id == word),
    )
    return hits + [(field, word) for field, words, test in tests for word in words if test(word)]


def _is_below(paths: Sequence[str], path: str) -> bool:
    """True if a process is in a group, or below it, in any hierarchy."""
    return any(f"{own}/".startswith(f"{path.rstrip('/')}/") for own in paths)


def _is_container(job: Job, word: str) -> bool:
    """word: the beginning of an id, or a name, which LXC and nspawn have alone. A short name, such as a1, may
    begin the id of another container."""
    is_begin = _HEX.match(word) is not None and job.container.startswith(word)
    return is_begin or (job.kind == cgroup_names.CONTAINER and job.id == word)


#: Kinds of groups that tasks of Slurm may be in if Slurm makes no groups
_UNSURE = (cgroup_names.UNIT, cgroup_names.SESSION, cgroup_names.OTHER)


def _read(host: Host, pid: int, devices: Sequence[str]) -> JobProcess:
    """The work of linux/inside.py compares the start again. Raises HostError."""
    folder = f"/proc/{pid}"
    name, started, parent, _memory = _birth(host, pid)
    group = cgroup_names.parse(host.read(f"{folder}/cgroup"))
    group = group._replace(job=_job(host, parent, group))
    # Thousands of processes have the same ones, and share their texts.
    names = (*(f"ns/{kind}" for kind in NAMESPACES), "root")
    *namespaces, root = (sys.intern(host.link_target(f"{folder}/{name}")) for name in names)
    if not all((*namespaces, root)):  # a zombie has none
        raise jobs.gone(folder)
    return JobProcess(pid, started, name, tuple(devices), _ids(host, pid), group, tuple(namespaces), root)


class _Birth(NamedTuple):
    name: str
    started: str
    parent: int
    memory: str


def _birth(host: Host, pid: int) -> _Birth:
    """Name, start, parent and bytes of memory of a process. Raises HostError."""
    name, fields = jobs.stat(host, pid)
    if len(fields) <= _MEMORY:
        words = f"expected {_MEMORY + 1} fields, got {len(fields)}"
        raise HostError("understand", f"/proc/{pid}/stat", None, words)
    return _Birth(name, fields[_STARTED], int(fields[_PARENT]), fields[_MEMORY])


def runs(host: Host, process: JobProcess) -> bool:
    """False for a process that has ended or begun to. It loses its memory first (kernel/exit.c: do_exit), and
    then its files and namespaces: what is read of it is empty, refused or invalid. Raises HostError."""
    try:
        birth = _birth(host, process.pid)
    except HostError as error:
        if jobs.is_gone(error):
            return False
        raise
    return birth.started == process.started and birth.memory != "0"


def _ids(host: Host, pid: int) -> Ids:
    path = f"/proc/{pid}/status"
    uids, gids, groups = (job_status.row(host, pid, name).split() for name in ("Uid", "Gid", "Groups"))
    numbers = [*uids, *gids, *groups]
    # real, effective, saved, filesystem
    if len(uids) != 4 or len(gids) != 4 or not all(map(_NUMBER.match, numbers)):
        raise HostError("understand", path, None, "it has no Uid and Gid with four numbers")
    return Ids(int(uids[3]), int(gids[3]), tuple(map(int, groups)))


# -- Slurm jobs whose control groups do not show their number ------------------------------


def _job(host: Host, parent: int, group: Group) -> Job:
    """The job of a process: by the daemon of its step in the groups of its SLUID; by its parents if its
    control group shows none, as with ProctrackType=proctrack/linuxproc. Raises HostError."""
    if group.job.kind == cgroup_names.SLURM and not group.job.id.isdigit():
        by_sluid = host.once("Slurm jobs by their SLUID", partial(_by_sluid, host))
        return by_sluid.get(group.job.id, group.job)
    return (_of_children(host, parent, 0) if group.job.kind in _UNSURE else None) or group.job


def _by_sluid(host: Host) -> dict[str, Job]:
    known: dict[str, Job] = {}

    def process(pid: int) -> None:
        job = _of_title(host, pid) if _is_daemon(host, pid) else None
        known.update({cgroup_names.parse(host.read(f"/proc/{pid}/cgroup")).job.id: job} if job else {})

    jobs.each(host, process)
    return known


def _of_children(host: Host, pid: int, generation: int) -> Job | None:
    """The Slurm job of the children of a process, which many of them ask for. Raises HostError."""
    if pid <= 1 or generation == _MOST_PARENTS:
        return None
    return host.once(f"job of the children of {pid}", partial(_of_step, host, pid, generation))


def _of_step(host: Host, pid: int, generation: int) -> Job | None:
    """The job of a step's daemon, or of one above it."""
    try:
        if not _is_daemon(host, pid):
            return _of_children(host, _birth(host, pid).parent, generation + 1)
        return _of_title(host, pid)
    except HostError as error:
        if jobs.is_gone(error):
            return None
        raise


def _is_daemon(host: Host, pid: int) -> bool:
    """True for a step's daemon: it runs as root in the node's own processes, which no user and no container
    can imitate. Raises HostError."""
    is_step = jobs.name_of(host, pid) == jobs.STEP_NAME and _ids(host, pid).user == 0
    return is_step and host.link_target(f"/proc/{pid}/ns/pid") == host.link_target("/proc/self/ns/pid")


def _of_title(host: Host, pid: int) -> Job | None:
    """Raises HostError."""
    job = jobs.job_of_step(host.read_bytes(f"/proc/{pid}/cmdline"))
    return Job(cgroup_names.SLURM, job) if job else None


# -- names of people -----------------------------------------------------------------------

#: Folder of the kubelet for the logs of a pod (pkg/kubelet/kuberuntime: BuildPodLogsDirectory)
_POD_FOLDER = regex(r"([^_/]+)_([^_/]+)_([^_/]+)\Z")
_HEX = regex(r"[0-9a-f]{4,64}\Z", re.ASCII)
#: Programs that know a container by its name → words that make them print its id
_KNOWING = {
    "podman": ("container", "inspect", "--format", "{{.Id}}"),
    "docker": ("container", "inspect", "--format", "{{.Id}}"),
    "nerdctl": ("container", "inspect", "--format", "{{.Id}}"),
}
_NAME = regex(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}\Z", re.ASCII)


def pods(host: Host) -> dict[str, str]:
    """Uid → NAMESPACE/NAME of the pods on this node, from root's folders of their logs. Raises HostError."""
    matches = (_POD_FOLDER.match(name) for name in host.names(jobs.POD_LOGS))
    return {match.group(3): f"{match.group(1)}/{match.group(2)}" for match in matches if match}


def pod_uids(host: Host, word: str) -> list[str]:
    """Uids of a pod's uid, NAME or NAMESPACE/NAME. Raises HostError."""
    named = [uid for uid, name in pods(host).items() if word in (name, name.partition("/")[2])]
    return named or [word]


def container_ids(host: Host, word: str, seconds: float) -> list[str]:
    """Ids of a container's name, and the word itself, which may be a name in LXC, or the beginning of an id.
    Raises HostError, and DeclarationError for a word with other characters than a name has."""
    if not _NAME.match(word):
        raise DeclarationError(f"container: expected a name or an id, got {word!r}")
    ids, silent = [], []
    for program, words in _KNOWING.items():
        try:
            done = host.run([program, *words, word], seconds)
        except HostError as error:
            silent += [] if error.absent else [error]
            continue
        ids += [line for line in done.out.split() if done.rc == 0 and _HEX.match(line)]
    if not ids and silent and not _HEX.match(word):
        raise silent[0]
    return ids if ids and _HEX.match(word) else [*ids, word]
