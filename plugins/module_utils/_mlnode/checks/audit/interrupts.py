# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Interrupts of all NICs: on one CPU, on the wrong NUMA node, or on CPUs that ranks are bound to.

The plan is irq_affinity's, with the rule declared for the NIC, or else with strategy spread.
"""

from __future__ import annotations

import time
from collections import Counter
from functools import partial
from typing import Iterable, Iterator, Mapping, Sequence

from ...drivers.roce import counters
from ...engine import declared
from ...host.host import Host
from ...knobs.irq import files as irq_files
from ...knobs.irq import parse as irq_parse
from ...knobs.irq import plan
from ...knobs.irq import schema as irq_schema
from ...knobs.irq.parse import Rule
from ...knobs.nics import ports
from ...knobs.nics.ports import Port
from ...knobs.summary import Files
from ...linux import irqs
from ...linux import ranks as rank_files
from ...model import cpulist, values
from ...model.errors import HostError
from ...model.record import NamedTuple, replace
from ...model.setting import KnobFile, Severity
from ...topology import numa
from ...topology.model import Topology
from ..model import Check, Nothing, Subject, findings
from . import ranks as rank_checks
from .model import Looks, topic

IRQS = topic(
    "nic_interrupts",
    Severity.MEDIUM,
    "one core takes the packets of all queues, they cross sockets, or a rank loses its core to them",
    "core-api/irq/irq-affinity.rst; networking/scaling.rst",
    source=irqs.effective_path("*"),
)

#: Packets per second, now or on average since the boot: less than a hundredth of the 1.8 to 4.8 million that
#: one core of Linux can receive and drop (Hoiland-Jorgensen et al., The eXpress Data Path, 2018, 4.1)
_BUSY = 10_000
#: Seconds between two readings of the counters: a thousand packets at _BUSY, far more than a driver batches
_LOOK_SECONDS = 0.1
_EXPECTED = "on several cores of its NUMA node, away from bound ranks"


class _Planned(NamedTuple):
    """Plan for a NIC. by: the declaration with the rule; "" without one."""

    rule: Rule
    isolated_allowed: bool = False
    by: str = ""


class _Seen(NamedTuple):
    """Queue interrupts of a NIC. words: their CPUs. bad: the faults. plan: irq_affinity's CPUs."""

    words: str
    bad: tuple[str, ...] = ()
    plan: str = ""


_SPREAD = _Planned(Rule(strategy="spread"))


def _interrupts(host: Host, topology: Topology) -> Iterator[Check]:
    every = [port for port in ports.ports(topology) if not port.virtual]
    blind = ports.unknown(topology, every)
    if blind:
        yield IRQS.unknown(blind)
        return
    if not every:
        raise Nothing("no NIC is here", IRQS.source)
    for port in every:
        if not port.address:
            yield IRQS.skip("it is not on PCI, and its interrupts are not known", target=port.label)
    yield from findings([IRQS], partial(_of_nics, host, topology, [port for port in every if port.address]))


def _of_nics(host: Host, topology: Topology, here: Sequence[Port]) -> Iterator[Check]:
    begin, before = time.monotonic(), {port.label: _packets(host, port) for port in here}
    planned = [_planned(host, port) for port in here]
    seen_ranks = rank_files.look(host)
    if here and topology.gpus and seen_ranks.unseen:
        words = f"CPUs of ranks are not known: {'; '.join(seen_ranks.unseen)}"
        yield IRQS.unknown(words, source="/proc/*/status")
    bound = [rank for rank in seen_ranks.found if rank_checks.is_bound(topology, rank)]
    ranks = frozenset(cpu for rank in bound for cpu in rank.cpus)
    interrupts = [_seen(host, topology, port, how, ranks) for port, how in zip(here, planned)]
    passed = time.monotonic() - begin
    if host.live and passed < _LOOK_SECONDS:
        time.sleep(_LOOK_SECONDS - passed)
    passed = max(time.monotonic() - begin, _LOOK_SECONDS)
    uptime = _uptime(host)
    for port, seen in zip(here, interrupts):
        if isinstance(seen, Check):
            yield seen
            continue
        first, last = before[port.label], _packets(host, port)
        rates = [] if first is None or last is None else [(last - first) / passed]
        rates += [last / uptime] if last is not None and uptime else []
        yield _judged(replace(IRQS, target=port.label), seen, max(rates, default=None))


def _judged(subject: Subject, seen: _Seen, rate: float | None) -> Check:
    evidence = "; ".join([seen.words, *seen.bad])
    if not seen.bad:
        return subject.judged(True, evidence, expected=_EXPECTED)
    if rate is None:
        return subject.unknown(f"{evidence}; no counter shows whether it is busy")
    evidence += f"; {rate:.0f} packets/s"
    if rate < _BUSY:
        return subject.skip(f"{evidence}, so not busy; {seen.plan}")
    return subject.judged(False, evidence, expected=_EXPECTED, advice=seen.plan)


# -- counters ------------------------------------------------------------------------------


def _packets(host: Host, port: Port) -> int | None:
    """Packets of its interfaces and RDMA ports; None if one is unreadable, or there are none. Raises
    HostError."""
    paths = [
        f"/sys/class/net/{nic.name}/statistics/{way}_packets" for nic in port.nics for way in ("rx", "tx")
    ]
    paths += [
        path
        for device in port.rdma
        for rdma_port in device.ports
        for names in (counters.SENT, counters.RECEIVED)
        for path in counters.paths(
            host, f"/sys/class/infiniband/{device.name}/ports/{rdma_port.number}", names
        )
    ]
    files = [host.value(path) for path in paths]
    counts = [values.number(file.text) for file in files if file.absent is None]
    return None if not counts or None in counts else sum(count or 0 for count in counts)


def _uptime(host: Host) -> int | None:
    return values.number((host.value("/proc/uptime").text or "").partition(".")[0])


# -- the plan ------------------------------------------------------------------------------


def _planned(host: Host, port: Port) -> _Planned:
    """The declared rule for this NIC. Raises HostError."""
    for declaration, setting in declared.settings(host, irq_parse.KIND, irq_schema.OPTIONS, irq_parse.parse):
        if getattr(setting, "topic", "") == "irq" and port in ports.find(host, setting.rule.nics).ports:
            allowed = declaration.kinds[irq_parse.KIND].get("allow", ())
            return _Planned(setting.rule, "isolated_cpus" in allowed, declaration.name)
    return _SPREAD


# -- one NIC -------------------------------------------------------------------------------


def _seen(host: Host, topology: Topology, port: Port, how: _Planned, ranks: frozenset[int]) -> _Seen | Check:
    pools = plan.pools(topology, ports.ports(topology), how.rule, how.isolated_allowed)
    files = irq_files.interrupts(host, port, pools.get(plan.key(port), plan.Pool()))
    arrives: dict[int, tuple[int, ...]] = {}
    for part in files.parts:
        try:
            cpus = _arrives(host, part)
        except HostError as error:
            files.problems.append(str(error))
            continue
        arrives.update({part.number: cpus} if cpus else {})
    if files.problems:
        return IRQS.unknown("; ".join(files.problems), target=port.label)
    if not arrives:
        return IRQS.skip(_nothing(files), target=port.label)
    parts = [part for part in files.parts if part.number in arrives]
    bad = [*_crowded(topology, parts, arrives), *_far(topology, port, arrives)]
    taken, free = _taken(topology, port, arrives, ranks)
    words = _where(arrives)
    words += f"; {files.managed} more that the kernel keeps, and does not let move" if files.managed else ""
    if how.by and not taken and all(cpulist.render(arrives[part.number]) == part.want for part in parts):
        return _Seen(f"{words}; as {how.by} declares")
    todo = files.refusal or files.invalid or _plan(topology, port, how, parts, free if taken else ())
    return _Seen(words, tuple(filter(None, [*bad, taken])), todo)


def _where(arrives: Mapping[int, tuple[int, ...]]) -> str:
    union = {cpu for cpus in arrives.values() for cpu in cpus}
    queues = f"{len(arrives)} {'queue' if len(arrives) == 1 else 'queues'}"
    return f"{queues} on {cpulist.named(union)}"


def _nothing(files: Files) -> str:
    if files.managed:
        return f"the kernel keeps all {files.managed} interrupts of its queues, and does not let them move"
    return "no interrupt of a queue is in use"


def _arrives(host: Host, part: KnobFile) -> tuple[int, ...]:
    """CPUs that receive an interrupt; empty if it was not started. Raises HostError."""
    cpus = irqs.effective(host, part.number)
    if cpus is not None:
        return cpus
    cpus = irqs.allowed(host, part.number) or ()
    if len(cpus) > 1:
        words = f"it does not exist, and smp_affinity_list has several CPUs: {part.runtime}"
        raise HostError("read", irqs.effective_path(part.number), None, words)
    return cpus


def _crowded(
    topology: Topology, parts: Sequence[KnobFile], arrives: Mapping[int, tuple[int, ...]]
) -> Iterator[str]:
    """Text if more than half of the queues are on one core, unless the plan has as many there."""
    planned = _by_core(topology, [(int(part.want),) for part in parts if part.want])
    for core, queues in _by_core(topology, arrives.values()).most_common(1):
        if queues * 2 > len(parts) and planned and queues > max(planned.values()):
            cpus = cpulist.readable(core)
            most = "all" if queues == len(parts) else f"{queues} of them"
            yield f"{most} on one core, CPU{'s' if len(core) > 1 else ''} {cpus}"


def _by_core(topology: Topology, places: Iterable[tuple[int, ...]]) -> Counter[tuple[int, ...]]:
    """CPUs of a core → number of interrupts that arrive only there."""
    siblings = {cpu.number: cpu.siblings or (cpu.number,) for cpu in topology.cpus.all}
    cores = [{siblings.get(cpu, (cpu,)) for cpu in cpus} for cpus in places]
    return Counter(core for group in cores if len(group) == 1 for core in group)


def _far(topology: Topology, port: Port, arrives: Mapping[int, tuple[int, ...]]) -> Iterator[str]:
    """Text if too many interrupts are off the NIC's NUMA node.

    If a node has fewer CPUs than the NIC has queues, drivers continue on the next nearest node.
    """
    home = numa.home(topology.nodes, port.node)
    if home is None or len(numa.with_cpus(topology.nodes)) < 2:
        return
    outside = [irq for irq, cpus in arrives.items() if not {*cpus} <= {*home.cpus}]
    if len(outside) > max(0, len(arrives) - len(home.cpus)):
        yield f"{len(outside)} off its NUMA node {home.number}, CPUs {cpulist.readable(home.cpus)}"


def _taken(
    topology: Topology, port: Port, arrives: Mapping[int, tuple[int, ...]], ranks: frozenset[int]
) -> tuple[str, tuple[int, ...]]:
    """Text for interrupts on CPUs of ranks, and the cores near the NIC without a rank.

    Empty if there is no such core: then no place is better, as if ranks are bound to whole nodes.
    """
    near = frozenset(plan.near(topology, port.node)[0]) - topology.cpus.kept_free
    free = plan.cores(topology.cpus, near - _with_siblings(topology, ranks))
    hit = {irq: {*cpus} & ranks for irq, cpus in arrives.items() if {*cpus} & ranks}
    if not hit or not free:
        return "", ()
    cpus = cpulist.readable(cpu for both in hit.values() for cpu in both)
    return f"{len(hit)} on CPUs that ranks are bound to: {cpus}", free


def _with_siblings(topology: Topology, cpus: frozenset[int]) -> frozenset[int]:
    return cpus.union(*(cpu.siblings for cpu in topology.cpus.all if cpu.number in cpus))


def _plan(
    topology: Topology, port: Port, how: _Planned, parts: Sequence[KnobFile], free: Sequence[int]
) -> str:
    """The declared plan, the plan of strategy spread, or a list of the cores without a rank."""
    if free:
        pool = plan.pool(topology, port.node, Rule(strategy="list", cpus=tuple(free)), False)
        wants = [str(pool.cpus[place % len(pool.cpus)]) for place in range(len(parts))]
        cpus = cpulist.readable(free)
        return f"set irq_affinity with strategy list and cpus {cpus}: queues on CPUs {plan.summary(wants)}"
    todo = f"run mlnode apply, as {how.by} declares" if how.by else "set irq_affinity with strategy spread"
    return f"{todo}: queues on CPUs {plan.summary([part.want for part in parts])}"


LOOKS: Looks = (((IRQS,), _interrupts),)
