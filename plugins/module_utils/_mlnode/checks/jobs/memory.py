# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Memory of a job: limits of its control groups, swap, NUMA nodes, and huge pages."""

from __future__ import annotations

from typing import Callable, Iterator, Sequence

from ...linux import cgroup_files
from ...linux.cgroup_files import Limit, Line
from ...model import cpulist, values
from ...model.errors import HostError
from ...model.record import NamedTuple, replace
from ...model.setting import Severity
from ...topology import numa
from ..model import Check, Subject, Verdict
from . import homes, readings, remedy, statuses
from .homes import Home
from .model import Node, Place, Process

#: Names of values
_LIMIT, _HIGH, _SWAP_LIMIT, _OWN_SWAPPINESS = OF_GROUP = (
    "memory limit", "memory high", "memory swap limit", "memory swappiness",
)  # fmt: skip
_NODES, _HUGE = OF_PROCESS = ("memory numa nodes", "thp")

LIMIT, HIGH, KILLS = "job_memory_limit", "job_memory_high", "job_memory_kills"
SWAP, NEAR, THP = "job_memory_swap", "job_memory_node", "job_thp"

#: Share of a limit from which the kernel reclaims before the next allocations. Kubernetes began to throttle
#: there (KEP-2570, memoryThrottlingFactor 0.9), so its authors expected no rest for bursts above it.
_NEAR = 0.9

_THP = "/sys/kernel/mm/transparent_hugepage/enabled"
_SWAPPINESS = "/proc/sys/vm/swappiness"
#: As in knobs/sysctl/cgroup1.py
_FORCED = "/proc/sys/vm/force_cgroup_v2_swappiness"

_TEXTS = {
    LIMIT: (
        Severity.MEDIUM,
        "at its limit the kernel reclaims memory in each allocation, and then kills a process",
        "admin-guide/cgroup-v2.rst: memory.max; admin-guide/cgroup-v1/memory.rst",
    ),
    HIGH: (
        Severity.HIGH,
        "above memory.high each allocation waits for reclaim, up to two seconds",
        "admin-guide/cgroup-v2.rst: memory.high; mm/memcontrol.c: MEMCG_MAX_HIGH_DELAY_JIFFIES",
    ),
    KILLS: (
        Severity.MEDIUM,
        "a killed worker or rank ends the job, or makes it wait",
        "admin-guide/cgroup-v2.rst: memory.events, oom_kill; admin-guide/cgroup-v1/memory.rst: oom_control",
    ),
    SWAP: (
        Severity.MEDIUM,
        "a rank waits for each page that comes back from swap, and all other ranks wait for it",
        "admin-guide/cgroup-v2.rst: memory.swap.max; mm/memcontrol-v1.c: memory.swappiness",
    ),
    NEAR: (
        Severity.MEDIUM,
        "each access to these pages goes to another socket: half the bandwidth, twice the latency",
        "proc_pid_status(5): Mems_allowed_list; admin-guide/mm/numaperf.rst",
    ),
    THP: (
        Severity.MEDIUM,
        "without huge pages, large arrays cost more page faults and TLB misses",
        "PR_SET_THP_DISABLE(2const); admin-guide/mm/transhuge.rst",
    ),
}


def checks(place: Place, node: Node) -> Iterator[Check]:
    try:
        known = cgroup_files.line(node.host, place.first.pid, "memory")
    except HostError as error:
        if node.has_ended(place.first):
            return
        place.lost(OF_GROUP, str(error))
        yield _subject(place, LIMIT).unknown(str(error))
    else:
        yield from _of_group(place, node, known)
    yield from _of_processes(place, node)


def _subject(place: Place, name: str) -> Subject:
    severity, reason, reference = _TEXTS[name]
    source = f"/proc/{place.first.pid}/{'status' if name in (NEAR, THP) else 'cgroup'}"
    return place.subject(name, source=source, severity=severity, reason=reason, reference=reference)


# -- the control groups --------------------------------------------------------------------


class _Files(NamedTuple):
    """Names of files. high: empty in version 1, where no limit throttles."""

    most: str
    current: str
    high: str
    inactive: str
    events: str


#: Version 1 counts the groups below with total_ (admin-guide/cgroup-v1/memory.rst, 5.2)
_FILES = {
    1: _Files(
        "memory.limit_in_bytes", "memory.usage_in_bytes", "", "total_inactive_file", "memory.oom_control"
    ),
    2: _Files("memory.max", "memory.current", "memory.high", "inactive_file", "memory.events"),
}


def _of_group(place: Place, node: Node, known: Line) -> Iterator[Check]:
    parts = (
        (LIMIT, (_LIMIT,), _limit),
        (HIGH, (_HIGH,), _high),
        (KILLS, (), _kills),
        (SWAP, (_SWAP_LIMIT if known.version == 2 else _OWN_SWAPPINESS,), _swap),
    )
    for name, lost, part in parts:
        try:
            yield from part(place, node, known)
        except HostError as error:
            if node.has_ended(place.first):
                return
            place.lost(lost, str(error))
            yield _subject(place, name).unknown(str(error))


def _limit(place: Place, node: Node, known: Line) -> Iterator[Check]:
    """Raises HostError."""
    files, subject = _FILES[known.version], _subject(place, LIMIT)
    limits = cgroup_files.limits(node.host, known, files.most)
    _keep(place, known, _LIMIT, limits)
    if not limits:
        yield _unlimited(known, subject)
        return
    yield _judged(place, node, known, subject, limits, remedy.memory)


def _keep(place: Place, known: Line, name: str, limits: Sequence[Limit]) -> None:
    place.limit(name, min((limit.amount for limit in limits), default=None), known.hidden)


def _unlimited(known: Line, subject: Subject) -> Check:
    if known.hidden:
        return subject.unknown(f"no limit is visible; {known.hidden}")
    return subject.judged(True, "no limit", expected="")


def _judged(
    place: Place,
    node: Node,
    known: Line,
    subject: Subject,
    limits: Sequence[Limit],
    advise: Callable[[Place, str], str],
) -> Check:
    """The memory in use that cannot be dropped, against the limit with the least left. advise: the remedy for
    the path of a group. Raises HostError."""
    in_use = [(_working_set(node, known, limit), limit) for limit in limits]
    used, limit = max(in_use, key=lambda pair: pair[0] / max(pair[1].amount, 1))
    evidence = f"{values.size(used)} in use of {values.size(limit.amount)} by {known.words(limit.group)}"
    good = used < _NEAR * limit.amount
    if good and known.hidden:
        return subject.unknown(f"{evidence}; {known.hidden}")
    return subject.judged(
        good, evidence, expected=f"under {_NEAR:.0%} of the limit", source=limit.group.folder,
        advice=advise(place, limit.group.path), bad=Verdict.WARN,
    )  # fmt: skip


def _working_set(node: Node, known: Line, limit: Limit) -> int:
    """Bytes in use without the cache of files that were used once, as the kubelet counts them
    (memory.current - inactive_file). Raises HostError."""
    files, folder = _FILES[known.version], limit.group.folder
    current = values.number(_text(node, f"{folder}/{files.current}"))
    inactive = cgroup_files.pairs(_text(node, f"{folder}/memory.stat")).get(files.inactive)
    if current is None or inactive is None:
        raise HostError("understand", folder, None, f"it has no {files.current} or no {files.inactive}")
    return max(current - inactive, 0)


def _text(node: Node, path: str) -> str:
    """Raises HostError."""
    value = cgroup_files.value(node.host, path)
    if value.text is None:
        raise HostError("read", path, None, value.problem)
    return value.text


def _high(place: Place, node: Node, known: Line) -> Iterator[Check]:
    """Raises HostError."""
    files, subject = _FILES[known.version], _subject(place, HIGH)
    if not files.high:  # nothing throttles in version 1
        place.values[_HIGH] = "max"
        return
    limits = cgroup_files.limits(node.host, known, files.high)
    _keep(place, known, _HIGH, limits)
    if not limits:
        yield _unlimited(known, subject)
        return
    rises = []
    for limit in limits:
        path = readings.high_events(node.host, limit.group)
        rise = readings.rise(node.host, path, "high")
        if rise is None:
            yield subject.unknown(f"{path} has no number of high", source=path)
            return
        rises.append((rise.by, rise.before, limit, path))
    count, before, limit, path = max(rises, key=lambda row: row[:2])
    words = f"{values.size(limit.amount)} by {known.words(limit.group)}"
    advice = remedy.memory_high(place, limit.group.path)
    if count > 0:
        evidence = f"{words}: exceeded {count} times in {readings.passed(node.host):.2g} s"
        yield subject.judged(False, evidence, expected="not exceeded", source=path, advice=advice)
        return
    near = _judged(place, node, known, subject, limits, remedy.memory_high)
    if before > 0 and near.verdict is Verdict.PASS:
        evidence = f"{words}: exceeded {before} times, and not now; {near.found}"
        yield subject.skip(evidence, source=path, advice=advice)
    else:
        yield near


def _kills(place: Place, node: Node, known: Line) -> Iterator[Check]:
    """Killed processes of the nearest group; a group above counts other jobs as well. Raises HostError."""
    if not known.groups:
        return
    path = f"{known.groups[0].folder}/{_FILES[known.version].events}"
    if known.version == 2 and not cgroup_files.is_offered(node.host, known.groups[0].folder, "memory"):
        return
    count = cgroup_files.pairs(_text(node, path)).get("oom_kill")
    subject = replace(_subject(place, KILLS), source=path)
    if count is None:
        yield subject.unknown(f"{path} has no oom_kill, which Linux 4.13 brought")
        return
    killed = f"{count} {'process' if count == 1 else 'processes'} killed for lack of memory since its start"
    advice = f"{remedy.memory(place, known.groups[0].path)}; dmesg shows which process"
    yield subject.judged(not count, killed, expected="0", advice=advice, bad=Verdict.WARN)


def _swap(place: Place, node: Node, known: Line) -> Iterator[Check]:
    """Raises HostError."""
    if known.version == 1:
        yield from _swappiness(place, node, known)
        return
    subject = _subject(place, SWAP)
    if not _swap_is_on(node):
        place.values[_SWAP_LIMIT] = "no swap"
        yield subject.skip("the node has no swap")
        return
    least = cgroup_files.limit(node.host, known, "memory.swap.max")
    place.limit(_SWAP_LIMIT, least and least.amount, known.hidden)
    counted = cgroup_files.nearest(node.host, known, "memory.swap.current")
    if counted is None and known.hidden:
        yield subject.unknown(f"no group that counts its swap is visible; {known.hidden}")
        return
    if counted is None:
        yield subject.skip("its groups do not control memory, so its swap is not counted")
        return
    used = values.number(counted[1])
    if used is None:
        yield subject.unknown(f"memory.swap.current of {counted[0].path} is {counted[1][:60]!r}")
        return
    limit = (
        "no limit"
        if least is None
        else f"a limit of {values.size(least.amount)} by {known.words(least.group)}"
    )
    evidence = f"{values.size(used)} of {known.words(counted[0])} in swap; {limit}"
    if known.hidden and not used:
        yield subject.unknown(f"{evidence}; {known.hidden}")
        return
    advice = "give it memory, and declare vm.swappiness 1, or swapoff -a"
    yield subject.judged(not used, evidence, expected="nothing in swap", advice=advice, bad=Verdict.WARN)


def _swap_is_on(node: Node) -> bool:
    """Raises HostError."""
    return len(node.host.text("/proc/swaps").strip().split("\n")) > 1


def _swappiness(place: Place, node: Node, known: Line) -> Iterator[Check]:
    """With version 1, a group keeps the value that its parent had at its creation. Raises HostError."""
    subject = _subject(place, SWAP)
    own = cgroup_files.nearest(node.host, known, "memory.swappiness")
    wanted = node.host.value(_SWAPPINESS)
    if own is None or node.host.value(_FORCED).text == "1":
        yield subject.skip("the node's vm.swappiness counts for it")
        return
    group, text = own
    place.values[_OWN_SWAPPINESS] = text.strip()
    if wanted.text is None:
        yield subject.unknown(wanted.problem, source=_SWAPPINESS)
        return
    path = f"{group.folder}/memory.swappiness"
    own_number, expected = values.number(text), values.number(wanted.text)
    good = own_number is not None and expected is not None and own_number <= expected
    yield subject.judged(
        good, f"memory.swappiness {text.strip()}", expected=f"at most vm.swappiness {wanted.text.strip()}",
        source=path, advice=remedy.swappiness(place, wanted.text.strip(), path), bad=Verdict.WARN,
    )  # fmt: skip


# -- the processes -------------------------------------------------------------------------


def _of_processes(place: Place, node: Node) -> Iterator[Check]:
    """Raises HostError."""
    by_nodes: dict[tuple[int, ...], list[Process]] = {}
    by_huge: dict[bool | None, list[Process]] = {}
    known = yield from statuses.of_processes(place, node, _subject(place, NEAR), OF_PROCESS)
    for process, status in known:
        process.values[_NODES] = str(len(status.nodes))
        by_nodes.setdefault(status.nodes, []).append(process)
        by_huge.setdefault(status.huge, []).append(process)
    for huge, processes in by_huge.items():
        check = _thp(place, node, huge)
        for process in processes:
            if huge is None and check.verdict is Verdict.UNKNOWN:
                process.lost((_HUGE,), check.found)
            else:
                process.values[_HUGE] = _HUGE_WORDS[huge]
        yield replace(check, target=place.target(processes))
    try:
        homes_by_pid = homes.by_process(place, node)
    except HostError as error:
        yield _subject(place, NEAR).unknown(str(error))
        return
    by_home: dict[tuple[Home, tuple[int, ...]], list[Process]] = {}
    for nodes, processes in by_nodes.items():
        for process in processes:
            by_home.setdefault((homes_by_pid[process.pid], nodes), []).append(process)
    for (home, nodes), processes in by_home.items():
        yield replace(_near(place, node, home, nodes), target=place.target(processes))


#: None: Linux does not say, and the node has none for any process
_HUGE_WORDS = {True: "allowed", False: "disabled", None: "off on the node"}


def _near(place: Place, node: Node, home: Home, nodes: Sequence[int]) -> Check:
    subject = _subject(place, NEAR)
    topology = node.topology
    if len(numa.with_cpus(topology.nodes)) < 2:
        return subject.skip("there are not two NUMA nodes with CPUs")
    words = f"its memory may be on node {cpulist.render(nodes)}"
    if home.nodes is None:
        return subject.unknown(f"{words}; the firmware names no NUMA node for {home.words}")
    if not home.nodes:
        return subject.skip(f"{words}; {home.words}")
    lacking = {*home.nodes} - {*nodes}
    return subject.judged(
        not lacking, words, expected=f"node {cpulist.render(home.nodes)} of {home.words} among them",
        advice=remedy.cpus(place, home.nodes), bad=Verdict.WARN,
    )  # fmt: skip


def _thp(place: Place, node: Node, huge: bool | None) -> Check:
    subject = _subject(place, THP)
    mode = node.host.value(_THP)
    if mode.text is None:
        return subject.missing(mode, source=_THP, expected="")
    if values.chosen(mode.text) == "never":
        return subject.skip("transparent huge pages are off on the node", source=_THP)
    if huge is None:
        return subject.unknown("its status has no THP_enabled, which Linux 5.0 brought")
    advice = "it, or a program that started it, called prctl(PR_SET_THP_DISABLE): start it without that call"
    evidence = "transparent huge pages are " + ("allowed" if huge else "disabled by prctl")
    return subject.judged(huge, evidence, expected="allowed", advice=advice, bad=Verdict.WARN)
