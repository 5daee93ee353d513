# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Isolated CPUs that the system, GPUs, interrupts, kubelet or containers need, whatever isolates them."""

from __future__ import annotations

import re
from typing import Iterator, Sequence

from ...host.host import Host
from ...linux import cpu_manager, cpusets, daemons, irqs
from ...linux import ranks as rank_files
from ...model import cpulist, values
from ...model.errors import HostError, several
from ...model.record import replace
from ...model.setting import Severity
from ...topology import numa
from ...topology.model import Node, Topology
from ..model import Check, Nothing
from . import isolated
from . import ranks as rank_checks
from .isolated import CMDLINE, Isolation
from .model import Looks, topic

_KERNEL = "kernel-parameters.txt (isolcpus, nohz_full, irqaffinity)"

WORDS = topic(
    "isolation",
    Severity.MEDIUM,
    "the kernel ignores it, and these CPUs do ordinary work",
    f"{_KERNEL}; kernel/sched/isolation.c",
    "remove it, or correct it",
    CMDLINE,
)
HOUSEKEEPING = topic(
    "isolated_housekeeping",
    Severity.HIGH,
    "interrupts and network work wait for few CPUs: a serving node got a third of its tokens per second",
    f"{_KERNEL}; NVIDIA/nodewright-packages, pull request 96",
    "isolate other CPUs: leave CPU 0, and two CPUs on each NUMA node",
    CMDLINE,
)
GPUS = topic(
    "isolated_gpu_cpus",
    Severity.HIGH,
    "GPUs wait for loaders: unbound ones never run there (isolcpus), or pay for each system call (nohz_full)",
    f"{_KERNEL}; admin-guide/cgroup-v2.rst (cpuset.cpus.partition)",
    "isolate CPUs of a node without GPUs, or bind each rank to its isolated CPUs",
    CMDLINE,
)
IRQS = topic(
    "isolated_interrupts",
    Severity.HIGH,
    "interrupts, and the network work that follows them, take time from the isolated job",
    f"{_KERNEL}; core-api/irq/irq-affinity.rst",
    "move them: irq_affinity with strategy housekeeping, and irqaffinity= of CPUs that are not isolated",
    irqs.COUNTS,
)
KUBELET = topic(
    "isolated_kubelet",
    Severity.HIGH,
    "the kernel does not spread threads over isolated CPUs: pods and daemons share one of them",
    f"{_KERNEL}; Kubernetes, Control CPU Management Policies on the Node",
    "drain the node, give kubelet CPUs that are not isolated, and remove its cpu_manager_state",
    "/var/lib/kubelet/cpu_manager_state",
)
CONTAINERS = topic(
    "isolated_containers",
    Severity.MEDIUM,
    "its threads stay on the isolated CPU on which they start, or it gets fewer CPUs than it asked for",
    f"{_KERNEL}; admin-guide/cgroup-v2.rst (cpuset.cpus)",
    "give the container other CPUs, or isolate others",
    cpusets.TOP,
)

#: As knobs/boot/isolation.py: one for interrupts, one for kernel threads and daemons
_LEAST = 2
#: Daemons that hand their CPUs on to pods, containers and jobs
_DAEMONS = ("kubelet", "k3s-agent", "kubelite", "containerd", "dockerd", "crio", "slurmd")
#: The most names in a message
_NAMED = 4


def _isolation(host: Host, topology: Topology) -> Isolation:
    """Raises Nothing if no CPU is isolated."""
    isolation = isolated.read(host, topology)
    if not isolation.takings:
        raise Nothing("no CPU is isolated", CMDLINE)
    return isolation


def _times(host: Host, topology: Topology) -> list[Isolation]:
    """Isolation now, and after the next boot if that differs. Raises HostError."""
    now = isolated.read(host, topology)
    try:
        planned = isolated.planned(host, topology)
    except HostError:  # which _words() reports
        planned = None
    return [now, planned] if planned else [now]


def _isolations(host: Host, topology: Topology) -> list[Isolation]:
    """As _times(). Raises Nothing if no CPU is isolated."""
    isolations = [isolation for isolation in _times(host, topology) if isolation.takings]
    if not isolations:
        raise Nothing("no CPU is isolated", CMDLINE)
    return isolations


def _words(host: Host, topology: Topology) -> Iterator[Check]:
    yield from _words_at(isolated.read(host, topology))
    try:
        planned = isolated.planned(host, topology)
    except HostError as error:
        yield replace(WORDS, target=f"node{isolated.NEXT_BOOT}").unknown(str(error))
        return
    if planned:
        yield from _words_at(planned)


def _words_at(isolation: Isolation) -> Iterator[Check]:
    subject = replace(WORDS, target=f"node{isolation.when}")
    for words, where in isolation.ignored:
        yield subject.judged(False, words, source=where)
    if not isolation.ignored:
        yield subject.skip(isolated.reported(isolation) or "no CPU is isolated")


# -- the system ----------------------------------------------------------------------------


def _housekeeping(host: Host, topology: Topology) -> Iterator[Check]:
    for isolation in _isolations(host, topology):
        yield _kept(topology, isolation)


def _kept(topology: Topology, isolation: Isolation) -> Check:
    subject = replace(HOUSEKEEPING, target=f"node{isolation.when}")
    nodes = [(f"NUMA node {node.number}", node.cpus) for node in numa.with_cpus(topology.nodes)]
    harmful = isolation.taken & {0}
    faults = ["CPU 0 is isolated"] if harmful else []
    for name, cpus in nodes or [("the machine", topology.cpus.online)]:
        lost = isolation.taken & {*cpus}
        if lost and len(cpus) - len(lost) < _LEAST:
            faults.append(f"{name} keeps {len(cpus) - len(lost)} of its {len(cpus)} CPUs")
            harmful |= lost
    expected = f"CPU 0 and {_LEAST} CPUs of each NUMA node not isolated"
    if not faults:
        return subject.judged(True, isolated.reported(isolation), expected=expected)
    words, where = isolation.who(harmful)
    return subject.judged(False, f"{'; '.join(faults)}, by {words}", expected=expected, source=where)


# -- GPUs ----------------------------------------------------------------------------------


def _gpus(host: Host, topology: Topology) -> Iterator[Check]:
    isolations = _isolations(host, topology)
    if not topology.gpus:
        raise Nothing("no GPU is here", CMDLINE)
    homes = {gpu.address: numa.home(topology.nodes, gpu.node) for gpu in topology.gpus}
    lost = [address for address, home in homes.items() if home is None]
    if lost:
        yield GPUS.unknown(f"the NUMA node of {', '.join(lost[:_NAMED])} is not known")
    near = {home.number: home for home in homes.values() if home is not None}
    for number, home in sorted(near.items()):
        count = sum(gpu_home is not None and gpu_home.number == number for gpu_home in homes.values())
        for isolation in isolations:
            yield _near_gpus(host, topology, isolation, home, count)


def _near_gpus(host: Host, topology: Topology, isolation: Isolation, home: Node, gpus: int) -> Check:
    """Judge the CPUs of a node with GPUs that no rank is bound to.

    As many as there are GPUs is a warning: on average each GPU loses a CPU, a worker of its data loader. Half
    of the node is a failure: unbound ranks have the CPUs of half as many GPUs.
    """
    subject = replace(GPUS, target=f"node {home.number}{isolation.when}")
    taken = isolation.taken & {*home.cpus}
    expected = f"fewer isolated CPUs than GPUs ({gpus}) on the node, or ranks bound to them"
    near = f"{len(home.cpus)} CPUs near {gpus} GPU{'s' if gpus > 1 else ''}"
    if not taken:
        return subject.judged(True, f"none of {near}", expected=expected)
    ranks = rank_files.look(host)
    bound = {cpu for rank in ranks.found if rank_checks.is_bound(topology, rank) for cpu in rank.cpus}
    lost = taken - bound
    words, where = isolation.who(taken)
    evidence = f"{len(lost)} of {near} ({100 * len(lost) / len(home.cpus):.0f} %): "
    evidence += cpulist.readable(lost) or "none"
    evidence += f"; {len(taken - lost)} more that ranks are bound to" if taken - lost else ""
    evidence += f"; by {words}"
    if len(lost) < gpus:
        return subject.judged(True, evidence, expected=expected, source=where)
    if ranks.unseen:
        return subject.unknown(f"{evidence}; not known whether ranks are bound to them: {ranks.unseen[0]}")
    if 2 * len(lost) < len(home.cpus):
        subject = replace(subject, severity=Severity.MEDIUM)
    return subject.judged(False, evidence, expected=expected, source=where)


# -- interrupts ----------------------------------------------------------------------------


def _interrupts(host: Host, topology: Topology) -> Iterator[Check]:
    now, *later = _times(host, topology)
    if not any(isolation.takings or isolation.interrupts for isolation in (now, *later)):
        raise Nothing("no CPU is isolated, and irqaffinity= is not given", CMDLINE)
    for isolation in (now, *later):
        yield from _irqaffinity(host, topology, isolation)
    if now.takings:
        yield _arriving(host, now)


def _irqaffinity(host: Host, topology: Topology, isolation: Isolation) -> Iterator[Check]:
    """Judge irqaffinity= itself: unlike isolcpus=, it names the CPUs that interrupts are for."""
    for word in isolation.interrupts:
        both = isolation.taken & {*word.cpus}
        faults = [f"{cpulist.named(both)} isolated by {isolation.who(both)[0]}"] if both else []
        devices = {gpu.node for gpu in topology.gpus} | {nic.node for nic in topology.nics if nic.address}
        homes = [numa.home(topology.nodes, number) for number in devices]
        without = {home.number for home in homes if home is not None and not {*home.cpus} & {*word.cpus}}
        faults += [f"no CPU of node {cpulist.render(without)}, which has NICs or GPUs"] if without else []
        target = f"irqaffinity{isolation.when}"
        subject = replace(IRQS, target=target, severity=Severity.HIGH if both else Severity.MEDIUM)
        evidence = f"{word.text}: {'; '.join(faults) or cpulist.named(word.cpus)}"
        expected = "CPUs that are not isolated, on each node with devices"
        where = isolated.where(host, word.key)
        advice = "name CPUs of each node that are not isolated, or remove irqaffinity="
        yield subject.judged(not faults, evidence, expected=expected, source=where, advice=advice)


def _arriving(host: Host, isolation: Isolation) -> Check:
    """Interrupts of devices that have arrived on isolated CPUs, once a second or more on average since boot,
    and still go there. Rarer ones cost a job less than a hundred-thousandth of its time (10 us each)."""
    uptime = values.number((host.value("/proc/uptime").text or "").partition(".")[0]) or 0
    named, kept = [], 0
    for irq, counts, name in irqs.counted(host):
        if sum(counts.get(cpu, 0) for cpu in isolation.taken) <= uptime:
            continue
        hit = isolation.taken & {*(irqs.effective(host, irq) or irqs.allowed(host, irq) or ())}
        if hit and _is_managed(host, irq, name):
            kept += 1
        elif hit:
            named.append((irq, name, hit))
    expected = "none that could move"
    more = f"{kept} managed by the kernel, which follow the work on their CPU" if kept else ""
    if not named:
        return IRQS.judged(True, more or "none", expected=expected)
    cpus = {cpu for _irq, _name, hit in named for cpu in hit}
    words, where = isolation.who(cpus)
    names = several([f"{irq} {name}".strip() for irq, name, _hit in named], _NAMED)
    evidence = f"{len(named)} on {cpulist.named(cpus)} ({names}); isolated by {words}"
    evidence += f"; {more}" if more else ""
    return IRQS.judged(False, evidence, expected=expected, source=where)


def _is_managed(host: Host, irq: int, name: str) -> bool:
    """True for an interrupt that only the kernel moves: its file is read-only since Linux 6.12
    (kernel/irq/proc.c); before it, NVMe queues are the usual ones (drivers/nvme/host/pci.c)."""
    mode = host.mode(f"/proc/irq/{irq}/smp_affinity_list")
    return (mode is not None and not mode & 0o200) or bool(re.match(r"nvme[0-9]+q[1-9][0-9]*\Z", name))


# -- kubelet and containers ----------------------------------------------------------------


def _kubelet(host: Host, topology: Topology) -> Iterator[Check]:
    isolation = _isolation(host, topology)
    pools = cpu_manager.pools(host)
    running = daemons.running(host, _DAEMONS)
    seen = False
    for pool in pools:
        if not pool.purpose.startswith(cpu_manager.OWN):
            yield _pool(isolation, pool.purpose, pool.where, pool.cpus)
            seen = True
    for daemon in (daemon for name in _DAEMONS for daemon in running.named(name)):
        path = f"/proc/{daemon.pid}/status"
        match = re.search(r"^Cpus_allowed_list:\s*(\S+)$", host.text(path), re.MULTILINE)
        if match:
            yield _pool(isolation, daemon.name, path, cpulist.parse(match[1]))
            seen = True
    if running.hidden:
        yield KUBELET.unknown(f"some processes are hidden: {running.hidden}")
    elif not seen:
        raise Nothing("neither kubelet nor another daemon that starts containers is here", KUBELET.source)


def _pool(isolation: Isolation, purpose: str, where: str, cpus: Sequence[int]) -> Check:
    both = isolation.taken & {*cpus}
    subject = replace(KUBELET, target=purpose, source=where)
    if not both:
        return subject.judged(True, cpulist.named(cpus), expected="no isolated CPU")
    evidence = f"{cpulist.named(both)} of {cpulist.readable(cpus)}; isolated by {isolation.who(both)[0]}"
    return subject.judged(False, evidence, expected="no isolated CPU")


def _containers(host: Host, topology: Topology) -> Check:
    isolation = _isolation(host, topology)
    asked = [(container.file, container.cpus) for container in isolation.sets.containers]
    asked += [
        (f"{pool.where}, {pool.purpose}", pool.cpus)
        for pool in cpu_manager.pools(host)
        if pool.purpose.startswith(cpu_manager.OWN)
    ]
    if not asked:
        raise Nothing("no container or job was given certain CPUs", CONTAINERS.source)
    hit = [(file, isolation.taken & {*cpus}) for file, cpus in asked if isolation.taken & {*cpus}]
    if not hit:
        return CONTAINERS.judged(True, f"none of {len(asked)}", expected="no isolated CPU")
    names = several([f"{cpulist.named(cpus)} in {file}" for file, cpus in hit], _NAMED)
    evidence = f"{names}; isolated by {isolation.who(hit[0][1])[0]}"
    return CONTAINERS.judged(False, evidence, expected="no isolated CPU", source=hit[0][0].partition(",")[0])


LOOKS: Looks = (
    ((WORDS,), _words),
    ((HOUSEKEEPING,), _housekeeping),
    ((GPUS,), _gpus),
    ((IRQS,), _interrupts),
    ((KUBELET,), _kubelet),
    ((CONTAINERS,), _containers),
)
