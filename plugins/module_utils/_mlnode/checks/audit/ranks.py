# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ranks, the processes that hold a GPU: are their CPUs and memory on its NUMA node?

A process that may run on every CPU is only reported. Nothing is bound wrongly, and the scheduler mostly
leaves it on its first node, which its memory reveals.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Iterator, Mapping, Sequence

from ...drivers.gpu import drivers as gpu_drivers
from ...host.host import Host
from ...linux import jobs
from ...linux import ranks as rank_files
from ...linux.ranks import Pages, Rank
from ...model import cpulist, values
from ...model.errors import HostError, listed
from ...model.record import NamedTuple, replace
from ...model.setting import Severity
from ...topology import numa
from ...topology.model import Node, Topology
from ..model import Check, Nothing, Subject, Verdict
from .model import Looks, topic

CPUS = topic(
    "rank_cpus",
    Severity.MEDIUM,
    "copies to the GPU and launches of kernels go over the link between sockets",
    "admin-guide/mm/numaperf.rst; docs/guide/topology.md",
    "bind each rank to its GPU's node, as mlnode topology shows: numactl --cpunodebind, srun --cpu-bind",
    "/proc/*/status",
)
MEMORY = topic(
    "rank_memory",
    Severity.MEDIUM,
    "each access to these pages goes to another socket: half the bandwidth, twice the latency",
    "numa(7), numastat(8); admin-guide/mm/numaperf.rst",
    "start the rank with its memory bound as well: numactl --membind; migratepages(8) moves existing pages",
    "/proc/*/numa_maps",
)

#: With a tenth of the pages at half the bandwidth, reading all of them takes a tenth longer
_SHARE = 0.1
#: Bytes that an interpreter and its libraries use before a launcher binds it
_LEAST = 64 << 20
#: Seconds for the pages of all processes: the kernel walks their page tables
_SECONDS = 2.0
_MOST = 4


class _Finding(NamedTuple):
    verdict: Verdict
    words: str


#: Worst first
_WORST = (Verdict.WARN, Verdict.UNKNOWN, Verdict.SKIP, Verdict.PASS)


def _ranks(host: Host, topology: Topology) -> Iterator[Check]:
    if not topology.gpus:
        raise Nothing("there is no GPU", CPUS.source)
    if len(numa.with_cpus(topology.nodes)) < 2:
        raise Nothing("there are not two NUMA nodes with CPUs", numa.NODES)
    ranks = rank_files.look(host)
    gpus = gpus_of(host, topology, {rank.pid: rank.devices for rank in ranks.found})
    if ranks.unseen:
        yield from (topic.unknown("; ".join(ranks.unseen), source=CPUS.source) for topic in (CPUS, MEMORY))
    elif not ranks.found:
        words = "no process holds a GPU" if ranks.shown else "no process is shown below /proc"
        raise Nothing(words, "/proc/*/fd")
    end = time.monotonic() + _SECONDS
    for together in dict.fromkeys(gpus[rank.pid] for rank in ranks.found):
        here = [rank for rank in ranks.found if gpus[rank.pid] == together]
        yield from _of_gpus(host, topology, together, here, end)


def _of_gpus(
    host: Host, topology: Topology, together: Sequence[str], here: Sequence[Rank], end: float
) -> Iterator[Check]:
    """Checks of the ranks on the same GPUs."""
    target = f"GPU{'s' if len(together) > 1 else ''} {listed(together, _MOST)}" if together else "GPU"
    subjects = [replace(topic, target=target) for topic in (CPUS, MEMORY)]
    homes = _homes(topology, together)
    numbers = sorted({home.number for home in homes if home is not None})
    if len(numbers) != 1 or None in homes:
        who = listed([rank.label for rank in here], _MOST)
        nodes = f"{who}: GPUs of the nodes {', '.join(map(str, numbers))}, so none is right"
        why = "the firmware names no NUMA node for its GPU" if together else "its GPU is not known"
        several = len(numbers) > 1
        yield from (
            subject.skip(nodes) if several else subject.unknown(f"{who}: {why}") for subject in subjects
        )
        return
    home = next(home for home in homes if home is not None)
    expected = f"on node {home.number}, CPUs {cpulist.readable(home.cpus)}"
    yield _worst(subjects[0], [_cpus(topology, home, rank) for rank in here], expected)
    memory = [_memory(host, topology, home, rank, end) for rank in here]
    expected = f"under {_SHARE:.0%} on other nodes than {home.number}"
    yield _worst(subjects[1], [finding for finding in memory if finding is not None], expected)


def _worst(subject: Subject, findings: Sequence[_Finding], expected: str) -> Check:
    """Finding of the worst processes, with their names and the number of unreadable ones."""
    verdicts = {finding.verdict for finding in findings}
    verdict = next((verdict for verdict in _WORST if verdict in verdicts), Verdict.SKIP)
    same = [finding.words for finding in findings if finding.verdict is verdict]
    evidence = listed(same, _MOST) if same else "its processes have ended meanwhile"
    evidence += f"; of {len(findings)} processes" if len(findings) > len(same) else ""
    unread = sum(finding.verdict is Verdict.UNKNOWN for finding in findings)
    evidence += f", and {unread} of them could not be read" if unread and verdict is Verdict.WARN else ""
    judged = verdict in (Verdict.WARN, Verdict.PASS)
    return subject.made(verdict, evidence, expected=expected if judged else "")


# -- GPUs and their nodes ----------------------------------------------------------------------


def gpus_of(
    host: Host, topology: Topology, devices: Mapping[int, Sequence[str]]
) -> dict[int, tuple[str, ...]]:
    """Process id → addresses of its GPUs; empty if unknown. devices: process id → its open device files.
    Raises HostError."""
    known = {gpu.address for gpu in topology.gpus}
    gpus: dict[int, tuple[str, ...]] = {}
    for pid, files in devices.items():
        addresses = {rank_files.address(host, device) for device in files}
        gpus[pid] = tuple(sorted(address for address in addresses if address in known))
    torn = [pid for pid, held in gpus.items() if len({*_homes(topology, held)}) > 1]
    if torn:
        for driver in gpu_drivers.for_vendors(gpu.vendor for gpu in topology.gpus):
            apps = host.once(f"processes on {driver.VENDOR}", partial(driver.computing, host))
            gpus.update({pid: apps[pid] for pid in torn if pid in apps})
    return gpus


def _homes(topology: Topology, gpus: Sequence[str]) -> list[Node | None]:
    """The nodes whose CPUs serve these GPUs; None for a GPU with an unknown node."""
    return [numa.home(topology.nodes, gpu.node) for gpu in topology.gpus if gpu.address in gpus]


# -- CPUs ----------------------------------------------------------------------------------


def is_bound(topology: Topology, rank: Rank) -> bool:
    """True if the process may not run on all CPUs that are available to it."""
    return not {*(topology.cpus.allowed or topology.cpus.online)} <= {*rank.cpus}


def _cpus(topology: Topology, home: Node, rank: Rank) -> _Finding:
    mine = {*rank.cpus} & {*topology.cpus.online}
    outside = mine - {*home.cpus}
    if not is_bound(topology, rank):
        return _Finding(Verdict.SKIP, f"{rank.label}: may run on every CPU{_last(topology, rank)}")
    if not mine:
        return _Finding(Verdict.UNKNOWN, f"{rank.label}: none of its CPUs is online")
    words = f"{rank.label}: {cpulist.named(mine)}"
    if not outside:
        return _Finding(Verdict.PASS, words)
    part = "" if outside == mine else f", among them {cpulist.named(outside)}"
    return _Finding(Verdict.WARN, f"{words}{part} of {_nodes_of(topology, outside)}")


def _last(topology: Topology, rank: Rank) -> str:
    if rank.last is None:
        return ""
    return f"; the last was CPU {rank.last} of {_nodes_of(topology, {rank.last})}"


def _nodes_of(topology: Topology, cpus: set[int]) -> str:
    numbers = [node.number for node in topology.nodes if cpus & {*node.cpus}]
    return f"node {cpulist.render(numbers)}" if numbers else "a node that is not known"


# -- memory --------------------------------------------------------------------------------


def _memory(host: Host, topology: Topology, home: Node, rank: Rank, end: float) -> _Finding | None:
    """None if the process has ended meanwhile."""
    if rank.nodes and home.number not in rank.nodes:
        nodes = cpulist.render(rank.nodes)
        return _Finding(Verdict.WARN, f"{rank.label}: its memory may be on node {nodes} only")
    left = end - time.monotonic()
    if left <= 0:
        return _Finding(Verdict.UNKNOWN, f"{rank.label}: not read, as others took {_SECONDS:.0f} s")
    try:
        pages = rank_files.pages(host, rank.pid, left)
    except HostError as error:
        return None if jobs.is_gone(error) else _Finding(Verdict.UNKNOWN, f"{rank.label}: {error}")
    return _judged(topology, home, rank, pages)


def _judged(topology: Topology, home: Node, rank: Rank, pages: Pages) -> _Finding:
    """Memory on nodes without CPUs, such as a GPU or CXL, was requested explicitly."""
    computing = {node.number for node in numa.with_cpus(topology.nodes)}
    on = {node: size for node, size in sorted(pages.on.items()) if node in computing}
    total, far = sum(on.values()), {node: size for node, size in on.items() if node != home.number}
    if not pages.whole and not _is_far(total, far):
        return _Finding(Verdict.UNKNOWN, f"{rank.label}: not read as a whole")
    parts = ", ".join(f"{values.size(size)} on node {node}" for node, size in (far or on).items())
    words = f"{rank.label}: {parts or 'no memory on nodes with CPUs'}" + (
        f", of {values.size(total)}" if far else ""
    )
    if not total:
        return _Finding(Verdict.SKIP, words)
    return _Finding(Verdict.WARN if _is_far(total, far) else Verdict.PASS, words)


def _is_far(total: int, far: Mapping[int, int]) -> bool:
    elsewhere = sum(far.values())
    return elsewhere >= _LEAST and elsewhere > total * _SHARE


LOOKS: Looks = (((CPUS, MEMORY), _ranks),)
