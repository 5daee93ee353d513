# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The CPU that serves each queue. Pure: a topology and a rule in, CPUs out."""

from __future__ import annotations

from collections import Counter
from typing import Iterable, Mapping, Sequence

from ...model import cpulist, values
from ...model.record import NamedTuple
from ...model.schema import unless_allowed
from ...topology import numa
from ...topology.model import Cpus, Topology
from ..nics.ports import Port
from .parse import Rule

#: Physical cores of a socket that strategy housekeeping gives to interrupts. A choice, not a measurement:
#: scaling.rst recommends as few queues as keep the CPUs unsaturated, and the other cores are needed for
#: requests. Four for each NUMA node would be 32 of 128 cores with four nodes per socket (NPS4, SNC4),
#: although the NICs are the same. A rule's cpus override it.
HOUSEKEEPING_CORES = 4

#: NIC interrupts on one core. x86 has about 200 vectors on each CPU (asm/irq_vectors.h: NR_EXTERNAL_VECTORS),
#: shared with disks and other devices. If no vector is free, a move fails with ENOSPC.
_PER_CORE = 128

#: The most runs of CPUs, and the most characters, that a summary spells out; longer lists are not readable
_SPELLED, _READABLE = 6, 60


class Pool(NamedTuple):
    """The CPUs that serve a NIC's queues, in their order.

    note: a remark about them. refusal: the guard that refuses them. invalid: why they cannot be used.
    """

    cpus: tuple[int, ...] = ()
    note: str = ""
    refusal: str = ""
    invalid: str = ""


def cores(cpus: Cpus, among: Iterable[int]) -> tuple[int, ...]:
    """The first thread of each physical core among these CPUs.

    Second threads are not used: a queue there shares the core's units with the first thread, and disturbs
    both.
    """
    siblings = {cpu.number: cpu.siblings for cpu in cpus.all}
    threads: list[int] = []
    taken: set[int] = set()
    for cpu in sorted(among):
        if cpu not in taken:
            threads.append(cpu)
            taken.update(siblings.get(cpu, ()))
    return tuple(threads)


def near(topology: Topology, node: int | None) -> tuple[tuple[int, ...], str]:
    """The online CPUs of a NIC's NUMA node, or of the nearest node that has some.

    A note is added if these are the CPUs of the whole machine.
    """
    home = numa.home(topology.nodes, node)
    if home is not None:
        return home.cpus, ""
    everywhere = topology.cpus.online
    if not numa.with_cpus(topology.nodes):
        return everywhere, ""
    if node is None:
        return everywhere, "the firmware names no NUMA node for it, so the CPUs of all nodes serve it"
    return everywhere, (
        f"its NUMA node {node} has no CPU online, and the firmware does not say which node is near it, so "
        "the CPUs of all nodes serve it"
    )


def _instead(topology: Topology, node: int | None) -> str:
    """Note about a NIC that is served by CPUs of another node."""
    home = numa.home(topology.nodes, node)
    if home is None or node in (None, home.number):
        return ""
    return f"its NUMA node {node} has no CPU online; CPUs of node {home.number} serve it"


def pool(topology: Topology, node: int | None, rule: Rule, isolated_allowed: bool) -> Pool:
    """The CPUs on which a rule puts the interrupts of a NIC on this node."""
    quiet = frozenset() if isolated_allowed else topology.cpus.kept_free
    if rule.cpus:
        wrong = unusable(topology, rule.cpus)
        if wrong:
            return Pool(invalid=wrong)
        isolated = quiet & {*rule.cpus}
        if isolated:
            return Pool(refusal=unless_allowed(_GUARD, _isolated(isolated), ()))
    if rule.strategy == "list":
        return Pool(rule.cpus)
    local, note = near(topology, node)
    note = note or _instead(topology, node)
    if rule.strategy == "housekeeping":
        base = frozenset(rule.cpus or housekeeping(topology, quiet))
        fitting = tuple(sorted(base & {*local}))
        if fitting or not base:
            return _unless_empty(fitting, note, topology)
        return Pool(
            tuple(sorted(base)), f"NUMA node {node} has none of the housekeeping CPUs, so all serve it"
        )
    return _unless_empty(cores(topology.cpus, frozenset(local) - quiet), note, topology, node)


def pools(
    topology: Topology, among: Sequence[Port], rule: Rule, isolated_allowed: bool
) -> Mapping[str, Pool]:
    """The pool of each NIC of the machine, by its key().

    NICs with the same CPUs begin at different ones, as far apart as possible: the first queues are the
    busiest and should not share a CPU. The order is by node and PCI address, which no boot changes. All NICs
    count, so that each rule can place a NIC identically. Virtual functions come and go, but displace only
    each other.
    """
    nodes = {port.node for port in among}
    of_node = {node: pool(topology, node, rule, isolated_allowed) for node in nodes}
    sharing: dict[tuple[tuple[int, ...], bool, bool], list[Port]] = {}
    for port in sorted(among, key=lambda port: (port.node is None, port.node or 0)):
        sharing.setdefault((of_node[port.node].cpus, port.virtual, not port.address), []).append(port)
    return {
        key(port): _from(of_node[port.node], place, len(together), rule)
        for together in sharing.values()
        for place, port in enumerate(together)
    }


def key(port: Port) -> str:
    """Identifier of a NIC: its bus address, which does not change with its name."""
    return port.address or port.label


def _from(node_pool: Pool, place: int, places: int, rule: Rule) -> Pool:
    """The pool of the NIC at this place. A list is used in its own order; with more NICs than CPUs,
    neighbours do not share a CPU.
    """
    count = len(node_pool.cpus)
    start = place * count // places if places < count else place % max(1, count)
    start = 0 if rule.strategy == "list" else start
    return node_pool._replace(cpus=(*node_pool.cpus[start:], *node_pool.cpus[:start]))


_GUARD = "isolated_cpus"


def _unless_empty(cpus: tuple[int, ...], note: str, topology: Topology, node: int | None = None) -> Pool:
    if cpus:
        return Pool(cpus, note)
    where = "this machine" if node is None else f"NUMA node {node}"
    kept = cpulist.render(topology.cpus.kept_free)
    reason = f"{where} has no CPU but those that isolcpus or nohz_full keep free ({kept})"
    return Pool(refusal=unless_allowed(_GUARD, reason, ()))


def _isolated(cpus: Iterable[int]) -> str:
    return f"{_cpus(cpus)} kept free by isolcpus or nohz_full"


def _cpus(cpus: Iterable[int]) -> str:
    numbers = sorted(cpus)
    return f"CPU {numbers[0]} is" if len(numbers) == 1 else f"CPUs {cpulist.render(numbers)} are"


def unusable(topology: Topology, cpus: Sequence[int]) -> str:
    """Reason why some of these CPUs cannot serve anything here; empty if all can."""
    present = {*topology.cpus.present, *topology.cpus.online}
    unknown = {*cpus} - present
    if unknown:
        return f"{_cpus(unknown)} not on this machine, which has {cpulist.render(present)}"
    offline = {*cpus} - {*topology.cpus.online}
    return f"{_cpus(offline)} offline" if offline else ""


def housekeeping(topology: Topology, quiet: frozenset[int]) -> tuple[int, ...]:
    """The first cores of each socket, among them CPU 0, which the kernel itself keeps busy.

    The NUMA nodes of a socket contribute in turn, each with as many cores as the interrupts of its NICs need.
    """
    threads: list[int] = []
    for nodes in _sockets(topology):
        free = [cores(topology.cpus, cpus - quiet) for _node, cpus in nodes]
        turns = [at for turn in range(HOUSEKEEPING_CORES) for at, own in enumerate(free) if turn < len(own)]
        dealt = Counter(turns[:HOUSEKEEPING_CORES])
        for at, (node, _cpus) in enumerate(nodes):
            threads += free[at][: max(dealt[at], _needed(topology, node))]
    return tuple(sorted(threads))


def _needed(topology: Topology, node: int) -> int:
    """Cores that the interrupts of a node's NICs need; at least one if it has a NIC. Virtual functions do not
    count, as rules apply to them only by name.
    """
    here = (nic for nic in topology.nics if nic.address and nic.node == node)
    queues = [nic.rx_queues for nic in here if nic.kind != "virtual function"]
    return -(-max(1, sum(queues)) // _PER_CORE) if queues else 0


def _sockets(topology: Topology) -> Sequence[Sequence[tuple[int, frozenset[int]]]]:
    """NUMA nodes with their online CPUs, grouped by socket.

    A node with several sockets counts as one, as in a virtual machine with a socket for each CPU. A node with
    an unknown socket forms its own group.
    """
    online = frozenset(topology.cpus.online)
    packages = {cpu.number: cpu.package for cpu in topology.cpus.all}
    sockets: dict[tuple[bool, int], list[tuple[int, frozenset[int]]]] = {}
    for node in topology.nodes:
        cpus = online & {*node.cpus}
        known = [package for package in map(packages.get, cpus) if package is not None]
        socket = (True, min(known)) if known else (False, node.number)
        sockets.setdefault(socket, []).append((node.number, cpus))
    return [*sockets.values()] or [[(0, online)]]


class Takers(NamedTuple):
    """RPS `auto`: CPUs that take over packets from each queue of a NIC; none if it has enough queues.

    note and refusal as in Pool.
    """

    cpus: tuple[int, ...] = ()
    note: str = ""
    refusal: str = ""


def receiving(topology: Topology, node: int | None, queues: int) -> Takers:
    """CPUs for RPS `auto` of a NIC with so many queues.

    scaling.rst: RPS is redundant with a queue for each CPU; else use the CPUs of the same memory domain. A
    queue for each physical core counts as one for each CPU, as strategy spread uses no more cores.
    """
    local, elsewhere = near(topology, node)
    if elsewhere:
        return Takers(note="its NUMA node is not known, so auto leaves RPS off; give a list of CPUs")
    free = frozenset(local) - topology.cpus.kept_free
    if not free:
        return Takers(refusal=f"{_isolated(local)}, and the kernel takes such CPUs out of rps_cpus")
    return Takers(tuple(sorted(free)) if queues < len(cores(topology.cpus, free)) else ())


def sending(
    topology: Topology, node: int | None, queues: int, served: Sequence[int] = ()
) -> tuple[tuple[int, ...], ...]:
    """XPS `auto`: the CPUs that send through each of so many queues. served: the pool of strategy spread.

    scaling.rst: each CPU maps onto one queue. The core that takes the interrupts of queue i also sends
    through it. Then follow the other cores of the NIC's node and cores of other nodes. All threads of a core
    use the same queue. Isolated CPUs are included, as their processes send as well.
    """
    siblings = {cpu.number: cpu.siblings for cpu in topology.cpus.all}
    taken = frozenset(cpu for first in served for cpu in (first, *siblings.get(first, ())))
    local = frozenset(near(topology, node)[0]) - taken
    others = frozenset(topology.cpus.online) - local - taken
    masks: list[set[int]] = [set() for _queue in range(queues)]
    order = (*served, *cores(topology.cpus, local), *cores(topology.cpus, others))
    for at, first in enumerate(order):
        masks[at % queues].update((first, *siblings.get(first, ())))
    return tuple(tuple(sorted(cpus)) for cpus in masks)


def flows(entries: int, queues: int) -> int:
    """Flows of one of so many queues: the power of two below the equal share, or 0 if the share is less than
    one.

    The kernel itself would round up. scaling.rst: rps_flow_cnt is entries divided by queues.
    """
    share = entries // queues
    return 1 << (share.bit_length() - 1) if share else 0


def summary(lists: Sequence[str]) -> str:
    """The CPUs of many queues in one line: `0..27` is queue 0 on CPU 0, queue 1 on CPU 1 and so on;
    `0..54:2` takes every second CPU, `0-7 x4` is four queues that may all use CPUs 0 to 7."""
    groups: list[tuple[str, int]] = []
    for run in _runs(lists):
        if groups and groups[-1][0] == run:
            groups[-1] = (run, groups[-1][1] + 1)
        else:
            groups.append((run, 1))
    text = " ".join(run if times == 1 else f"{run} x{times}" for run, times in groups)
    if len(groups) > _SPELLED or (len(groups) > 1 and len(text) > _READABLE):
        return f"{len(lists)} queues over {_union(lists)}"
    return text


def _runs(lists: Sequence[str]) -> list[str]:
    """Queues on single CPUs with evenly rising numbers, joined to runs; all others are listed one by one."""
    runs: list[str] = []
    at = 0
    while at < len(lists):
        end, step = _rise(lists, at)
        if end - at > 1 or (end - at == 1 and step == 1):
            runs.append(f"{lists[at]}..{lists[end]}" + (f":{step}" if step > 1 else ""))
            at = end + 1
        else:
            runs.append(lists[at] or "none")
            at += 1
    return runs


def _rise(lists: Sequence[str], at: int) -> tuple[int, int]:
    """End of an even rise that begins here, and its step."""
    step = _step(lists, at)
    end = at
    while step > 0 and _step(lists, end) == step:
        end += 1
    return end, step


def _step(lists: Sequence[str], at: int) -> int:
    numbers = [values.number(text) for text in lists[at : at + 2]]
    low, high = numbers if len(numbers) == 2 else (None, None)
    return 0 if low is None or high is None else high - low


def _union(lists: Sequence[str]) -> str:
    try:
        return cpulist.render(cpu for text in lists for cpu in cpulist.parse(text)) or "none"
    except ValueError:
        return "several values"
