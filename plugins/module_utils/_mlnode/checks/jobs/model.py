# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Places of jobs, the values that processes have in them, and the node that they are compared with."""

from __future__ import annotations

from typing import Any, Callable, Iterable, Iterator, Mapping, Sequence

from ...engine.declared import Declaration
from ...host.host import Host
from ...knobs.nccl.file import PATH
from ...linux import job_processes
from ...linux.inside import Environment, Network, Storage
from ...linux.job_processes import JobProcess
from ...model.errors import MlnodeError, listed, printable
from ...model.record import NamedTuple, dataclass, field
from ...model.setting import Value
from ...topology import hardware
from ...topology.model import Topology
from ..model import Check, Subject
from . import ranks
from .defaults import Defaults


@dataclass(frozen=True)
class Process:
    """A process of a place. values, unknown: for a comparison with other ranks of its job, or why there is no
    value."""

    about: JobProcess
    environment: Environment
    values: dict[str, str] = field(default_factory=dict)
    unknown: dict[str, str] = field(default_factory=dict)

    @property
    def pid(self) -> int:
        return self.about.pid

    def variable(self, name: str) -> str | None:
        return self.environment.variables.get(name)

    def lost(self, names: Iterable[str], why: str) -> None:
        """Keep the reason why these values are unknown."""
        self.unknown.update(dict.fromkeys(names, printable(why)))

    def document(self) -> dict[str, Any]:
        rank = ranks.rank(self.environment.variables)
        return {
            "pid": self.pid,
            "name": self.about.name,
            "devices": [*self.about.devices],
            **rank._asdict(),
            "values": dict(sorted(self.values.items())),
            "unknown": dict(sorted(self.unknown.items())),
        }


@dataclass(frozen=True)
class Place:
    """Processes with the same namespaces, control group, root folder, user and job.

    network: kernel values and interfaces of its namespaces. storage: its /dev/shm, or why it is not known.
    own: types of its namespaces that are not the node's. sharers: processes with a device that have the same
    root folder. pod: NAMESPACE/NAME of a pod, if the node knows it. confs: path of a file of NCCL → its
    content, the first in force first. devices: device file of its /dev → MAJOR:MINOR, or why they are not
    known. defaults: declared for new containers of its runtime. older: its first process was started before
    the files of these defaults were last changed. peers: all processes of its job, or its own if it has none.
    values, unknown: for a comparison with other places of the job, or why there is no value.
    """

    processes: tuple[Process, ...]
    network: Network
    storage: Storage | str
    own: tuple[str, ...]
    sharers: int = 1
    pod: str = ""
    confs: Mapping[str, Value] = field(default_factory=dict)
    devices: Mapping[str, str] | str = field(default_factory=dict)
    defaults: Defaults = Defaults()
    older: bool = False
    peers: tuple[Process, ...] = ()
    values: dict[str, str] = field(default_factory=dict)
    unknown: dict[str, str] = field(default_factory=dict)

    @property
    def conf(self) -> str:
        """File of NCCL for all users: the last one that it reads."""
        return [PATH, *self.confs][-1]

    @property
    def first(self) -> JobProcess:
        return self.processes[0].about

    @property
    def name(self) -> str:
        """For people: the job, with short ids, as in the runtimes' own lists."""
        return printable(f"pod {self.pod}") if self.pod else named(self.first)

    def target(self, processes: Sequence[Process] = ()) -> str:
        """Target of a check of these processes, or of the place."""
        listed = processes or self.processes
        more = f" and {len(listed) - 1} more" if len(listed) > 1 else ""
        return f"{self.name} (pid {listed[0].pid}{more})"

    def subject(self, name: str, **fields: Any) -> Subject:
        return Subject(name, **{"target": self.target(), **fields})

    def known(self, name: str, value: Value) -> None:
        """Keep a value for the document. The lack of a file is known."""
        if value.unreadable is not None:
            self.unknown[name] = printable(value.unreadable)
        else:
            text = "does not exist there" if value.text is None else value.text
            self.values[name] = printable(" ".join(text.split()))

    def lost(self, names: Iterable[str], why: str) -> None:
        """Keep the reason why these values, of the place or of its processes, were not read."""
        for name in names:
            held = [self.values, *(process.values for process in self.processes)]
            if not any(name in values for values in held):
                self.unknown.setdefault(name, printable(why))

    def limit(self, name: str, amount: object, hidden: str) -> None:
        """Keep a limit of its control groups, None without one. hidden: why groups above may limit more."""
        if hidden:
            self.unknown[name] = hidden
        else:
            self.values[name] = "max" if amount is None else str(amount)

    def document(self) -> dict[str, Any]:
        first, job = self.first, self.first.job
        return {
            "job": {
                "kind": job.kind,
                "id": printable(job.id),
                "container": job.container,
                "runtime": job.runtime,
            },
            "network": _number(first.namespace("net")) if "net" in self.own else "host",
            "mount": _number(first.namespace("mnt")) if "mnt" in self.own else "host",
            "pid": _number(first.namespace("pid")) if "pid" in self.own else "host",
            "cgroup": printable(first.group.path),
            "user": first.ids.user,
            "processes": [process.document() for process in self.processes],
            "values": dict(sorted(self.values.items())),
            "unknown": {name: printable(why) for name, why in sorted(self.unknown.items())},
        }


def named(process: JobProcess) -> str:
    """`Slurm job 4711`, `pod 5f0e…` with the runtimes' 12 digits of an id, or the name of a unit."""
    job = process.job
    if job.kind == "slurm":
        return f"Slurm job {job.id}"
    if job.kind == "pod" or job.container:
        return f"{job.kind} {job.id[:12]}"
    if job.kind in ("container", "unit", "session"):
        return printable(f"{job.kind} {job.id}")
    return process.name


def _number(namespace: str) -> str:
    """4026532471 of net:[4026532471]."""
    return namespace.partition("[")[2].rstrip("]") or namespace


class Node:
    """The node: declarations, and hardware on demand. errors: why a declaration cannot be used. ended:
    numbers of processes that have ended during the look."""

    def __init__(self, host: Host, declarations: Sequence[Declaration], errors: Sequence[str]) -> None:
        self.host = host
        self.declarations = declarations
        self.errors = [*errors]
        self.ended: set[int] = set()

    def has_ended(self, process: JobProcess) -> bool:
        """Whether the reason for an error is the end of a process. Raises HostError."""
        ended = not job_processes.runs(self.host, process)
        self.ended |= {process.pid} if ended else set()
        return ended

    def unclear(self, declaration: Declaration, area: str, error: MlnodeError) -> None:
        """Note an area of a declaration that cannot be used."""
        line = f"{declaration.path}: {area}: {error}"
        self.errors += [] if line in self.errors else [line]

    def undeclared(self, subject: Subject, words: str) -> Check:
        """Check without a declared value; unknown if a declaration cannot be used."""
        return subject.unknown("a declaration cannot be used") if self.errors else subject.skip(words)

    @property
    def unread(self) -> str:
        """Why the hardware of the node is not known as a whole, apart from the cores of CPUs; empty if it is.
        Raises HostError."""
        every = (problem for problem in self.topology.problems if "/topology/" not in problem.path)
        problems = [problem.what for problem in every if not problem.missing]
        return f"hardware of the node: {listed(problems, 1)}" if problems else ""

    @property
    def topology(self) -> Topology:
        """Raises HostError."""
        return hardware.topology(self.host)


#: A subject's checks of one place
Checks = Callable[[Place, Node], Iterator[Check]]


class Part(NamedTuple):
    """A subject. name: of its first check. values: names of the values that are unknown if it cannot end."""

    name: str
    checks: Checks
    values: Sequence[str] = ()
