# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The look at jobs: what their processes have of the declaration and the hardware. Reads only."""

from __future__ import annotations

import re
from typing import Any, Iterator, Mapping, Sequence

from ...engine import declared
from ...host.host import Host
from ...linux import cgroup_names, job_processes
from ...linux.job_processes import Choice, JobProcess
from ...model.errors import DeclarationError, MlnodeError, printable
from ...model.record import NamedTuple, replace
from ...model.schema import Option, Table
from ...model.setting import Severity
from ...model.version import VERSION
from ...topology import hardware
from .. import module_result
from ..model import BAD, NODE, Check, Subject, Verdict
from . import cpus, devices, gather, hugetlb, limits, memory, nccl, shared_memory, sysctls
from .model import Node, Part, Place

MOUNTS = hardware.MOUNTS

#: Version of the document
FORMAT = 1

PROCESSES, DECLARATION, ASKED = "job_processes", "job_declaration", "job_asked"
SUBJECTS = (
    Part(sysctls.NAME, sysctls.checks),
    Part(limits.NAME, limits.checks),
    Part(nccl.NAME, nccl.checks),
    Part(shared_memory.NAME, shared_memory.checks),
    Part(cpus.QUOTA, cpus.checks, cpus.OF_PLACE + cpus.OF_PROCESS),
    Part(memory.LIMIT, memory.checks, memory.OF_GROUP + memory.OF_PROCESS),
    Part(hugetlb.NAME, hugetlb.checks, (hugetlb.LIMIT,)),
    Part(devices.RAILS, devices.checks, devices.OF_PLACE),
)

#: Checks against the hardware of the node, and their values
_OF_HARDWARE = (cpus.NEAR, cpus.IRQS, memory.NEAR, devices.GPUS, devices.RAILS, devices.GIDS)
_HARDWARE_VALUES = (*cpus.OF_PROCESS, *devices.OF_HARDWARE)

OPTIONS: Table = {
    "pid": Option("list", elements="int", default=[]),
    "cgroup": Option("list", elements="str", default=[]),
    "container": Option("list", elements="str", default=[]),
    "slurm_job": Option("list", elements="str", default=[]),
    "pod": Option("list", elements="str", default=[]),
    **module_result.fail_on("never"),
}

#: A runtime answers about a container at once if CPUs are free: five seconds were too few on a busy node. Its
#: daemon may hang
_RUNTIME_SECONDS = 20.0
#: Looks at jobs while processes end: the second one at a job that ends in between, and one more. A user whose
#: processes end all the time gets no further one.
_LOOKS = 3
#: Folder of the file systems of control groups; their paths begin below it
_MOUNTS = "/sys/fs/cgroup/"
_UP = {".", ".."}
_NUMBER = re.compile(r"[1-9][0-9]{0,9}\Z", re.ASCII)


class Jobs(NamedTuple):
    """unseen: findings about processes that could not be read."""

    places: tuple[Place, ...]
    unseen: tuple[str, ...]
    checks: tuple[Check, ...]

    def document(self) -> dict[str, Any]:
        """As docs/schema/job.schema.json has it."""
        return {
            "format": FORMAT,
            "mlnode": VERSION,
            "places": [place.document() for place in self.places],
            "unseen": [*self.unseen],
            "checks": [check.document() for check in self.checks],
        }


def answer(host: Host, given: Mapping[str, Any], dry: bool) -> dict[str, Any]:
    """Result of the module node_job. Never writes. Raises MlnodeError."""
    del dry
    jobs = look(host, given)
    document = jobs.document()
    result = module_result.result("node_job", jobs.checks, given["fail_on"])
    return {**result, "places": document["places"], "unseen": document["unseen"]}


def look(host: Host, given: Mapping[str, Any]) -> Jobs:
    """given: the options that choose processes. Raises MlnodeError."""
    words = [*dict.fromkeys(_words(host, given))]
    seen = job_processes.chosen(host, _choice(words)) if words else job_processes.with_devices(host)
    errors: list[str] = []
    node = Node(host, declared.load_all(host, errors), errors)
    places, placed, unseen = _placed(node, seen.processes)
    seen = seen._replace(unseen=(*seen.unseen, *unseen))
    checks = [*_general(node, seen, words, places), *_joined(placed)]
    return Jobs(places, seen.unseen, tuple(sorted(checks, key=_rank)))


def _placed(
    node: Node, processes: Sequence[JobProcess]
) -> tuple[tuple[Place, ...], list[tuple[Place, Check]], tuple[str, ...]]:
    """Places of the processes that have not ended meanwhile, their checks, and findings about unseen ones.
    The values of a place are read of its first process, so if one has ended, all is read again. After the
    last look, only places without such a process count: nobody's processes hide those of others. Raises
    MlnodeError."""
    left = [*processes]
    places: tuple[Place, ...] = ()
    placed: list[tuple[Place, Check]] = []
    for _look in range(_LOOKS):
        left = [process for process in left if process.pid not in node.ended]
        places = tuple(gather.places(node, left)) if left else ()
        placed = [
            (place, check)
            for place in places
            for subject in SUBJECTS
            for check in _safely(subject, place, node)
        ]
        if all(process.pid not in node.ended for process in left):
            return places, placed, ()
    whole = [place for place in places if not node.ended & {process.pid for process in place.processes}]
    unseen = len(left) - sum(len(place.processes) for place in whole)
    words = f"{unseen} of {len(left)} processes, as some have ended during each of {_LOOKS} looks"
    firsts = {place.first.pid for place in whole}
    kept = [(place, check) for place, check in placed if place.first.pid in firsts]
    return tuple(whole), kept, (words,)


def _safely(subject: Part, place: Place, node: Node) -> Iterator[Check]:
    """Checks of one subject; a subject that cannot be read is unknown, with its values, and the others still
    count. Paths of control groups contain any sign."""
    try:
        for check in subject.checks(place, node):
            of_hardware = check.name in _OF_HARDWARE and check.verdict in (Verdict.PASS, Verdict.SKIP)
            if of_hardware and node.unread:
                check = replace(check, verdict=Verdict.UNKNOWN, found=f"{check.found}; {node.unread}")
                place.unknown.update(dict.fromkeys(_HARDWARE_VALUES, printable(node.unread)))
            yield replace(
                check, expected=printable(check.expected), found=printable(check.found),
                source=printable(check.source), advice=printable(check.advice),
            )  # fmt: skip
    except MlnodeError as error:
        place.lost(subject.values, str(error))
        yield place.subject(subject.name, source="/proc").unknown(printable(str(error)))


# -- choice --------------------------------------------------------------------------------


class _Word(NamedTuple):
    """A word that chooses processes. field: of Choice. ids: such as the id of a named container; empty if it
    is not known here."""

    label: str
    field: str
    ids: tuple[str, ...]


def _words(host: Host, given: Mapping[str, Any]) -> Iterator[_Word]:
    """Raises MlnodeError."""
    for pid in given.get("pid") or ():
        if pid < 1:
            raise DeclarationError(f"pid: expected the number of a process, got {pid}")
        yield _Word(f"pid {pid}", "pids", (str(pid),))
    for path in given.get("cgroup") or ():
        if not path.startswith("/") or f"{path}/".startswith(_MOUNTS) or _UP & {*path.split("/")}:
            raise DeclarationError(
                "cgroup: expected a path as /proc/PID/cgroup shows it, such as /system.slice/NAME.service, "
                f"got {path!r}"
            )
        yield _Word(f"cgroup {path}", "cgroups", (path,))
    for job in given.get("slurm_job") or ():
        if not _NUMBER.match(job):
            raise DeclarationError(
                f"slurm_job: expected a number as in SLURM_JOB_ID, got {job!r}; for a task of an array or a "
                "part of a heterogeneous job, scontrol show job has it as JobId"
            )
        yield _Word(f"Slurm job {job}", "slurm_jobs", (job,))
    for name in given.get("container") or ():
        ids = job_processes.container_ids(host, name, _RUNTIME_SECONDS)
        yield _Word(f"container {name}", "containers", tuple(ids))
    for name in given.get("pod") or ():
        yield _Word(f"pod {name}", "pods", tuple(job_processes.pod_uids(host, name)))


def _choice(words: Sequence[_Word]) -> Choice:
    by_field: dict[str, list[str]] = {}
    for word in words:
        by_field.setdefault(word.field, []).extend(word.ids)
    pids = tuple(map(int, by_field.pop("pids", ())))
    return Choice(pids, **{field: tuple(ids) for field, ids in by_field.items()})


#: Field of Choice → another way to choose its processes
_ADVICE = {
    "containers": "name a process with --pid if it runs: its control group may not have the id",
}


def _general(
    node: Node, seen: job_processes.Seen, words: Sequence[_Word], places: Sequence[Place]
) -> Iterator[Check]:
    """Checks about the look itself."""
    looked_at = {process.pid for place in places for process in place.processes}
    for word in words:
        about = Subject(ASKED, printable(word.label), "/proc")
        pids = {pid for identity in word.ids for pid in seen.met.get((word.field, identity), ())}
        if not pids:
            yield about.unknown("no such process here", advice=_ADVICE.get(word.field, ""))
        elif not pids & looked_at and not seen.unseen:
            yield about.unknown("it ended meanwhile, or is a thread of the kernel")
    if seen.unseen:
        yield Subject(PROCESSES, NODE, "/proc").unknown(printable("; ".join(seen.unseen)))
    for error in node.errors:
        yield Subject(DECLARATION, NODE, declared.FOLDER).unknown(printable(error))


# -- order ---------------------------------------------------------------------------------

_SEVERITIES = (Severity.HIGH, Severity.MEDIUM, Severity.LOW, None)
_VERDICTS = (*BAD, Verdict.PASS, Verdict.SKIP)


def _rank(check: Check) -> tuple[int, int]:
    return _VERDICTS.index(check.verdict), _SEVERITIES.index(check.severity)


_TARGET = re.compile(r"(.*) \(pid ([0-9]+)(?: and ([0-9]+) more)?\)\Z", re.DOTALL)


def _joined(checks: Sequence[tuple[Place, Check]]) -> list[Check]:
    """Checks with the same finding in several places of one job as one: the ranks of a Slurm job have a
    control group each. Processes without a job may be of several."""
    joined: dict[tuple[object, ...], Check] = {}
    for place, check in checks:
        job: object = place.first.job if place.first.job.kind != cgroup_names.OTHER else place.first
        key = (check.name, job, check.verdict, check.expected, check.found, _no_pids(check.advice))
        known = joined.get(key)
        joined[key] = check if known is None else replace(known, target=_both(known.target, check.target))
    return [*joined.values()]


def _no_pids(advice: str) -> str:
    return re.sub(r"/proc/[0-9]+/", "/proc/PID/", advice)


def _both(target: str, other: str) -> str:
    first, second = _TARGET.match(target), _TARGET.match(other)
    if not first or not second:
        return target
    more = int(first.group(3) or 0) + int(second.group(3) or 0) + 1
    return f"{first.group(1)} (pid {first.group(2)} and {more} more)"
