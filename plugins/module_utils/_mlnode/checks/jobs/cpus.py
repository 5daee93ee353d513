# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""CPUs of a job: its quota, their number, their NUMA node, and the interrupts that arrive on them."""

from __future__ import annotations

from typing import Generator, Iterator, Mapping, Sequence

from ...drivers.nic import vectors
from ...linux import cgroup_files, irqs, job_status
from ...linux.cgroup_files import Line, Quota
from ...model import cpulist, values
from ...model.errors import HostError, listed, printable
from ...model.record import NamedTuple, replace
from ...model.setting import Severity
from ...topology import numa
from ...topology.model import Topology
from ..model import Check, Subject, Verdict
from . import homes, ranks, readings, remedy, statuses
from .homes import Home
from .model import Node, Place, Process

#: Names of values
_LIMIT, _SET = OF_PLACE = ("cpu quota", "cpuset cpus")
_CPUS, _NODES = OF_PROCESS = ("cpus", "cpu numa nodes")

QUOTA, COUNT, NEAR, IRQS = "job_cpu_quota", "job_cpu_count", "job_cpu_node", "job_cpu_interrupts"

_MOST = 4


class _Bound(NamedTuple):
    """CPUs that a process may run on."""

    process: Process
    cpus: tuple[int, ...]


def checks(place: Place, node: Node) -> Iterator[Check]:
    quotas: list[Quota] = []
    try:
        known = cgroup_files.line(node.host, place.first.pid, "cpu")
        quotas = cgroup_files.quotas(node.host, known)
        hidden = known.hidden
        yield _quota(place, node, known, quotas)
    except HostError as error:
        if node.has_ended(place.first):
            return
        hidden = str(error)
        place.lost((_LIMIT,), hidden)
        yield _subject(place, QUOTA, Severity.HIGH).unknown(hidden)
    within = yield from _cpuset(place, node)
    bound = yield from _bound(place, node)
    if bound:
        yield from _count(place, node, bound, quotas, hidden)
        yield from _by_topology(place, node, bound, within)


_TEXTS = {
    QUOTA: (
        "a rank that is stopped for the rest of a period makes all other ranks wait for it",
        "admin-guide/cgroup-v2.rst: cpu.max, cpu.stat; scheduler/sched-bwc.rst",
    ),
    COUNT: (
        "threads of OpenMP take turns on too few CPUs, and each parallel region waits for the last one",
        "OpenMP API specification, OMP_NUM_THREADS; torchrun",
    ),
    NEAR: (
        "copies to the GPU and launches of kernels go over the link between sockets",
        "admin-guide/mm/numaperf.rst; docs/guide/topology.md",
    ),
    IRQS: (
        "packets of the NIC interrupt the threads that compute on these CPUs",
        "core-api/irq/irq-affinity.rst; networking/scaling.rst",
    ),
}


def _subject(place: Place, name: str, severity: Severity = Severity.MEDIUM) -> Subject:
    reason, reference = _TEXTS[name]
    path = "cgroup" if name == QUOTA else "status"
    source = f"/proc/{place.first.pid}/{path}"
    return place.subject(name, source=source, severity=severity, reason=reason, reference=reference)


def _cpuset(place: Place, node: Node) -> Generator[Check, None, tuple[int, ...]]:
    """CPUs that its control groups allow, all of the node without a limit; empty, and a check, if that is not
    known."""
    try:
        known = cgroup_files.line(node.host, place.first.pid, "cpuset")
        effective = cgroup_files.nearest(node.host, known, _EFFECTIVE[known.version])
        cpus = cpulist.parse(effective[1].strip()) if effective else node.topology.cpus.online
    except HostError as error:
        if node.has_ended(place.first):
            return ()
        problem = str(error)
    except ValueError as error:
        problem = f"cpuset of its control group: {error}"
    else:
        place.values[_SET] = str(len(cpus))
        return cpus
    place.lost((_SET,), problem)
    yield replace(_subject(place, COUNT), source=f"/proc/{place.first.pid}/cgroup").unknown(problem)
    return ()


#: Version → file with the CPUs in force, those of all groups above included
_EFFECTIVE = {1: "cpuset.effective_cpus", 2: "cpuset.cpus.effective"}


# -- the quota -----------------------------------------------------------------------------


class _Throttled(NamedTuple):
    """Periods of a quota: throttled between the readings, and until the first one."""

    quota: Quota
    now: int
    earlier: int


def _quota(place: Place, node: Node, known: Line, quotas: Sequence[Quota]) -> Check:
    subject = _subject(place, QUOTA, Severity.HIGH)
    least = min(quotas, key=lambda quota: quota.cpus, default=None)
    place.limit(_LIMIT, f"{least.cpus:.4g}" if least else None, known.hidden)
    if least is None:
        if known.hidden:
            return subject.unknown(f"no quota is visible; {known.hidden}")
        return subject.judged(True, "no quota", expected="not throttled")
    words = _quota_words(known, least)
    counted = []
    for quota in quotas:
        path = f"{quota.group.folder}/{readings.CPU}"
        rise = readings.rise(node.host, path, "nr_throttled")
        if rise is None:
            return subject.unknown(f"{words}; {path} has no nr_throttled", source=path)
        counted.append(_Throttled(quota, rise.by, rise.before))
    worst = max(counted, key=lambda throttled: (throttled.now, throttled.earlier))
    source = f"{worst.quota.group.folder}/{readings.CPU}"
    if worst.now > 0:
        evidence = f"{_quota_words(known, worst.quota)}: throttled {_times(worst.now)} in {_pause(node)}"
        advice = remedy.cpu_quota(place, worst.quota.group.path)
        return subject.judged(False, evidence, expected="not throttled", source=source, advice=advice)
    if worst.earlier > 0:
        evidence = f"{_quota_words(known, worst.quota)}: throttled {_times(worst.earlier)}, and not now"
        if known.hidden:
            return subject.unknown(f"{evidence}; {known.hidden}", source=source)
        advice = remedy.cpu_quota(place, worst.quota.group.path)
        return subject.skip(evidence, source=source, advice=advice)
    if known.hidden:
        return subject.unknown(f"{words}: never throttled; {known.hidden}", source=source)
    return subject.judged(True, f"{words}: never throttled", expected="not throttled", source=source)


def _quota_words(known: Line, quota: Quota) -> str:
    return f"{quota.cpus:.4g} CPUs by {known.words(quota.group)}"


def _times(count: int) -> str:
    return f"in {count} {'period' if count == 1 else 'periods'}"


def _pause(node: Node) -> str:
    return f"{readings.passed(node.host):.2g} s"


# -- their number --------------------------------------------------------------------------


def _bound(place: Place, node: Node) -> Generator[Check, None, list[_Bound]]:
    """Checks of unreadable processes. Returns the CPUs of the processes that still run."""
    known = yield from statuses.of_processes(place, node, _subject(place, COUNT), OF_PROCESS)
    bound = [_Bound(process, _usable(node, status.cpus)) for process, status in known]
    for process, cpus in bound:
        process.values[_CPUS] = str(len(cpus))
    return bound


def _count(
    place: Place, node: Node, bound: Sequence[_Bound], quotas: Sequence[Quota], hidden: str
) -> Iterator[Check]:
    """hidden: why a lower quota may count; empty if these are all."""
    by_cpus: dict[tuple[int, ...], list[Process]] = {}
    for process, allowed in bound:
        by_cpus.setdefault(allowed, []).append(process)
    quota = min((quota.cpus for quota in quotas), default=None)
    for cpus, processes in by_cpus.items():
        subject = _subject(place, COUNT)
        target = place.target(processes)
        threads = max((_threads(process) or 0 for process in processes), default=0)
        free = _is_free(node.topology, cpus)
        # Ranks of the place share its quota, and all ranks of the job its CPUs.
        own = _sharing(processes, free), len(cpus) if quota is None else min(len(cpus), quota)
        every = _peers(place, node).get(cpus, 1), len(cpus)
        sharing, usable = max(own, every, key=lambda pair: pair[0] / max(pair[1], 1e-6))
        words = f"{usable:.4g} CPU{'s' if usable != 1 else ''}"
        words += f" for {sharing} ranks" if sharing > 1 else ""
        unread = next(filter(None, (process.environment.unknown for process in processes)), "")
        words += f", OMP_NUM_THREADS {threads}" if threads else ""
        if unread and threads * sharing <= usable:
            yield subject.unknown(f"{words}; its environment: {printable(unread)}", target=target)
        elif not threads:
            yield subject.skip(f"{words}; OMP_NUM_THREADS is not set", target=target)
        elif threads * sharing <= usable and hidden:
            yield subject.unknown(f"{words}, or fewer CPUs: its quota is not known: {hidden}", target=target)
        elif threads * sharing <= usable:
            yield subject.judged(True, words, expected="a CPU for each thread", target=target)
        else:
            least = int(usable) // sharing
            advice = f"set OMP_NUM_THREADS to {max(least, 1)}, or {remedy.cpus(place)}"
            yield subject.skip(f"{words}: fewer than threads", target=target, advice=advice)


def _peers(place: Place, node: Node) -> Mapping[tuple[int, ...], int]:
    """CPUs → ranks of the job that may run on them, the same for all places of the job."""
    key = f"ranks on CPUs of the {len(place.peers)} processes with {place.peers[0].pid}"
    return node.host.once(key, lambda: _ranks(place.peers, node))


def _ranks(peers: Sequence[Process], node: Node) -> dict[tuple[int, ...], int]:
    by_cpus: dict[tuple[int, ...], list[Process]] = {}
    for peer in peers:
        try:
            allowed = job_status.read(node.host, peer.pid).cpus
        except HostError:  # reported with its place
            continue
        by_cpus.setdefault(_usable(node, allowed), []).append(peer)
    return {cpus: _sharing(some, _is_free(node.topology, cpus)) for cpus, some in by_cpus.items()}


def _usable(node: Node, cpus: tuple[int, ...]) -> tuple[int, ...]:
    """Without a cpuset, all possible CPUs are allowed, also those that are offline, as with nosmt: these are
    left out."""
    key = f"usable CPUs {cpus}"
    return node.host.once(key, lambda: tuple(filter({*node.topology.cpus.online}.__contains__, cpus)) or cpus)


def _threads(process: Process) -> int | None:
    """The number for the outermost level of a list such as 4,2."""
    return values.number((process.variable("OMP_NUM_THREADS") or "").partition(",")[0])


def _sharing(processes: Sequence[Process], free: bool) -> int:
    """Ranks among processes with the same CPUs: their workers inherit a rank's variables and devices. free:
    all ranks of the node may run on these CPUs."""
    variables = [process.environment.variables for process in processes]
    numbers = {ranks.rank(names).local_rank for names in variables} - {None}
    together = [ranks.local_ranks(names) or 0 for names in variables] if free else []
    return max([len(numbers) or sum(bool(process.about.devices) for process in processes), *together, 1])


# -- their node ----------------------------------------------------------------------------


def _by_topology(place: Place, node: Node, bound: Sequence[_Bound], within: Sequence[int]) -> Iterator[Check]:
    """within: the CPUs of its control groups. Raises HostError."""
    topology = node.topology
    for process, allowed in bound:
        count = len(_cells(topology, allowed)) if topology.nodes else 1  # a kernel without NUMA
        if count:
            process.values[_NODES] = str(count)
        else:
            process.lost((_NODES,), _NOWHERE)
    try:
        homes_by_pid = homes.by_process(place, node)
    except HostError as error:
        yield _subject(place, NEAR).unknown(str(error))
        return
    groups: dict[tuple[Home, tuple[int, ...]], list[Process]] = {}
    for process, allowed in bound:
        groups.setdefault((homes_by_pid[process.pid], allowed), []).append(process)
    for (home, cpus), processes in groups.items():
        near = _near(place, topology, home, cpus, processes)
        if near.verdict is Verdict.WARN and {*within} > {*cpus}:
            near = replace(near, advice=remedy.affinity(home.nodes or ()))
        yield near
        yield from _interrupts(place, node, home, cpus, processes)


_NOWHERE = "no NUMA node has any of its CPUs"


def _cells(topology: Topology, cpus: Sequence[int]) -> list[int]:
    """NUMA nodes of CPUs."""
    return [cell.number for cell in topology.nodes if {*cell.cpus} & {*cpus}]


def _near(
    place: Place, topology: Topology, home: Home, cpus: Sequence[int], processes: Sequence[Process]
) -> Check:
    subject = replace(_subject(place, NEAR), target=place.target(processes))
    allowed = {*cpus} & {*topology.cpus.online}
    words = f"{cpulist.named(allowed)} of node {cpulist.render(_cells(topology, cpus))}"
    if topology.nodes and not _cells(topology, cpus):
        return subject.unknown(_NOWHERE)
    if len(numa.with_cpus(topology.nodes)) < 2:
        return subject.skip("there are not two NUMA nodes with CPUs")
    if _is_free(topology, cpus):
        advice = remedy.cpus(place, home.nodes or ())
        return subject.skip("may run on every CPU", advice=advice)
    if home.nodes is None:
        return subject.unknown(f"{words}; the firmware names no NUMA node for {home.words}")
    if len(home.nodes) != 1:
        home_words = f"{home.words} of nodes {cpulist.render(home.nodes)}" if home.nodes else home.words
        return subject.skip(f"{words}; {home_words}, so no node is right")
    # The NIC nearest to a GPU may be on another node; its CPUs are as good.
    near = {*home.nodes, *(homes.nic_node(topology, nic) for nic in home.nics)}
    wanted = {cpu for cell in topology.nodes if cell.number in near for cpu in cell.cpus}
    nodes = cpulist.render(number for number in near if number is not None)
    expected = f"on node {nodes} of {home.words}{_with_nics(home)}"
    outside = allowed - wanted
    if not allowed:
        return subject.unknown("none of its CPUs is online")
    part = f", {cpulist.named(outside)} among them elsewhere" if outside and outside != allowed else ""
    advice = remedy.cpus(place, home.nodes)
    return subject.judged(not outside, f"{words}{part}", expected=expected, advice=advice, bad=Verdict.WARN)


def _with_nics(home: Home) -> str:
    return f" and {listed(home.nics, _MOST)}" if home.gpus and home.nics else ""


def _is_free(topology: Topology, cpus: Sequence[int]) -> bool:
    """True if a process may run on all CPUs that are available to it."""
    return {*(topology.cpus.allowed or topology.cpus.online)} <= {*cpus}


# -- interrupts ----------------------------------------------------------------------------


def _interrupts(
    place: Place, node: Node, home: Home, cpus: Sequence[int], processes: Sequence[Process]
) -> Iterator[Check]:
    """CPUs of a process that the interrupts of its NICs arrive on. A process that may run on all CPUs avoids
    them by itself."""
    topology = node.topology
    subject = replace(_subject(place, IRQS), target=place.target(processes), source=irqs.effective_path("*"))
    for nic in home.nics:
        address = next((known.address for known in topology.nics if known.name == nic), None)
        address = address or next((known.address for known in topology.rdma if known.name == nic), None)
        if not address:
            yield subject.skip(f"{nic} is not on PCI, and its interrupts are not known")
            continue
        queues = vectors.queue_vectors(node.host, address)
        if queues.problem:
            yield subject.unknown(f"{nic}: {queues.problem}")
            continue
        try:
            effective = [irqs.effective(node.host, vector.irq) for vector in queues.queues]
        except HostError as error:
            yield subject.unknown(f"{nic}: {error}")
            continue
        arriving = [cpus for cpus in effective if cpus is not None]
        if arriving != effective:
            yield subject.unknown(f"{nic}: {irqs.effective_path('*')} is missing")
            continue
        arrives = {cpu for arrival in arriving for cpu in arrival}
        hit = arrives & {*cpus}
        if not arrives:
            yield subject.skip(f"{nic}: no interrupt of a queue is in use")
        elif _is_free(topology, cpus) or not hit:
            yield subject.judged(True, f"{nic}: {_queues(arriving)} on {cpulist.named(arrives)}")
        else:
            yield _hit(subject, topology, nic, arriving, cpus)


def _hit(
    subject: Subject, topology: Topology, nic: str, arriving: Sequence[Sequence[int]], cpus: Sequence[int]
) -> Check:
    """A warning if the NIC's node has CPUs that this process does not use."""
    arrives = {cpu for arrival in arriving for cpu in arrival}
    number = homes.nic_node(topology, nic)
    local = next((cell.cpus for cell in topology.nodes if cell.number == number), ())
    free = {*local} & {*topology.cpus.housekeeping} - {*cpus}
    its = cpulist.named(arrives & {*cpus})
    evidence = f"{nic}: {_queues(arriving)} on {cpulist.named(arrives)}; the job has {its} of them"
    if not free:
        return subject.skip(f"{evidence}, and node {number} has no other CPU")
    return subject.judged(
        False, evidence, expected="interrupts on other CPUs", bad=Verdict.WARN,
        advice=f"see nic_interrupts of mlnode audit, and set irq_affinity of {nic} to CPUs without a job",
    )  # fmt: skip


def _queues(arriving: Sequence[Sequence[int]]) -> str:
    return f"{len(arriving)} {'queue' if len(arriving) == 1 else 'queues'}"
