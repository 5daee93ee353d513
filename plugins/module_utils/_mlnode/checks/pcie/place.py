# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Distance of NICs to their GPUs, their interrupts and the CPUs that serve them."""

from __future__ import annotations

import re
from functools import partial
from typing import Iterator, Sequence

from ...drivers.nic import vectors as irq_vectors
from ...host.host import Host
from ...linux import irqs
from ...model import cpulist
from ...model.errors import HostError
from ...model.record import regex, replace
from ...topology import distance, numa
from ...topology.model import KINDS, UNKNOWN, Binding, Node, RdmaDevice
from ..model import Check, Subject, Verdict, findings
from .subjects import BELOW_ONE_BRIDGE, Card, Subjects

NAMES = ("numa_locality", "gpu_distance", "irq_locality")

#: The distance across two sockets
_ACROSS = "SYS"
#: Files that show the NUMA nodes and their CPUs
_NODE_FILE = regex(re.escape(numa.NODES) + r"/(online|node[0-9]+/cpulist)\Z", re.ASCII)


def checks(host: Host, subjects: Subjects) -> Iterator[Check]:
    if not subjects.cards:
        for name in NAMES:
            yield Subject(name, source="/sys/class/infiniband").skip("no RDMA device on PCIe")
        return
    computing = numa.with_cpus(subjects.topology.nodes)
    for card in subjects.cards:
        about = card.about("numa_locality", _node_file(card.address))
        few = _few(subjects, about, computing)
        yield few or _node(host, subjects, card, about, computing)
    yield from _distances(subjects)
    for card in subjects.cards:
        about = card.about("irq_locality", irq_vectors.msi_folder(card.address))
        yield from findings([about], partial(_interrupts, host, subjects, card, about))


def _node_file(address: str) -> str:
    return f"/sys/bus/pci/devices/{address}/numa_node"


def _bad(subjects: Subjects) -> Verdict:
    """Warn in a virtual machine: the hypervisor reports the places, and may be wrong."""
    return Verdict.WARN if subjects.virtual else Verdict.FAIL


def _few(subjects: Subjects, subject: Subject, computing: Sequence[Node]) -> Check | None:
    """With fewer than two nodes every place is right, unless the nodes could not be read."""
    if len(computing) >= 2:
        return None
    problems = [problem for problem in subjects.topology.problems if _NODE_FILE.match(problem.path)]
    if computing and not problems:
        evidence, missing = "one NUMA node has all the CPUs, so everything is near", True
    else:
        evidence = problems[0].what if problems else "this kernel knows no NUMA nodes"
        missing = all(problem.missing for problem in problems)
    return subject.made(Verdict.SKIP if missing else Verdict.UNKNOWN, evidence, source=numa.NODES)


def _node(host: Host, subjects: Subjects, card: Card, subject: Subject, computing: Sequence[Node]) -> Check:
    node = card.device.node
    if node is None:
        return _nowhere(host, subjects, subject)
    others = {label: other for label, other in _around(subjects, card).items() if other != node}
    cpus = next((cpulist.render(numa_node.cpus) for numa_node in computing if numa_node.number == node), "")
    evidence = f"NUMA node {node}" + (f", CPUs {cpus}" if cpus else "")
    if not others:
        return subject.judged(True, evidence, expected="the node of its bridge and GPUs")
    elsewhere = ", ".join(f"{label} on node {other}" for label, other in others.items())
    advice = (
        "devices on one bridge are on one node: the firmware is wrong, or numa_node was written to; update "
        "the BIOS, and look at the slot"
    )
    expected = f"NUMA node {', '.join(sorted({str(other) for other in others.values()}))}"
    evidence = f"{evidence}; {elsewhere}"
    return subject.judged(False, evidence, expected=expected, advice=advice, bad=_bad(subjects))


def _nowhere(host: Host, subjects: Subjects, subject: Subject) -> Check:
    value = host.value(subject.source)
    if value.text is None:
        return subject.missing(value)
    text = value.text.strip()
    if text != "-1":
        return subject.unknown(f"{subject.source}: {text[:60]!r} is not a NUMA node")
    advice = "the firmware does not say which; update the BIOS, and bind by hand until then"
    return subject.judged(False, "-1", expected="a NUMA node", advice=advice, bad=_bad(subjects))


def _around(subjects: Subjects, card: Card) -> dict[str, int]:
    """NUMA nodes of the bridge above a card and of the GPUs that share a switch with it."""
    nodes: dict[str, int] = {}
    above = subjects.devices.get(card.device.path[-2]) if len(card.device.path) > 1 else None
    if above is not None and above.node is not None:
        nodes[f"PCIe bridge {above.address}"] = above.node
    for address, near in subjects.pairs():
        gpu = subjects.devices[address]
        if near is card and gpu.node is not None:
            nodes[subjects.gpu(address)] = gpu.node
    return nodes


def _distances(subjects: Subjects) -> Iterator[Check]:
    bindings = subjects.topology.bindings
    subject = Subject("gpu_distance", source="/sys/bus/pci/devices")
    if not bindings:
        yield subject.skip("no GPU")
    best = min(
        (KINDS.index(binding.distance) for binding in bindings if binding.distance in KINDS), default=0
    )
    for binding in bindings:
        yield _distance(subjects, replace(subject, target=subjects.gpu(binding.gpu)), binding, KINDS[best])


def _distance(subjects: Subjects, subject: Subject, binding: Binding, best: str) -> Check:
    """Finding about a GPU. It deviates if all its NICs are on another socket.

    It also deviates if, unlike others, it has no NIC on its switch or on the coherent link to its CPU.
    """
    evidence = f"{binding.distance} to {', '.join(binding.nics)}" if binding.nics else binding.distance
    if binding.distance == UNKNOWN:
        return subject.unknown(f"{_node_file(binding.gpu)} or the file of the NICs names no NUMA node")
    if binding.distance == _ACROSS and not distance.one_socket(subjects.topology, binding.gpu, binding.nics):
        advice = "no RDMA NIC on its NUMA node: move one to a slot of this socket, see mlnode topology"
        expected = "a NIC on its NUMA node"
        return subject.judged(False, evidence, expected=expected, advice=advice, bad=_bad(subjects))
    coherent = any(gpu.coherent for gpu in subjects.topology.gpus if gpu.address == binding.gpu)
    if best in BELOW_ONE_BRIDGE and binding.distance not in BELOW_ONE_BRIDGE and not coherent:
        advice = f"other GPUs have a NIC on their switch: is one missing or misplaced?{_strays(subjects)}"
        expected = f"{best}, as other GPUs"
        return subject.judged(False, evidence, expected=expected, advice=advice, bad=Verdict.WARN)
    return subject.judged(True, evidence, expected="a NIC on its switch, NUMA node or socket")


def _strays(subjects: Subjects) -> str:
    """NICs of the rails' model that are not rails, because they are nearest to no GPU."""
    rails = {rdma.address for rdma in subjects.topology.rdma if rdma.rail is not None}
    models = {(device.vendor, device.device) for device in subjects.topology.pci if device.address in rails}

    def strays(rdma: RdmaDevice) -> bool:
        on = subjects.devices.get(rdma.address or "")
        return on is not None and on.address not in rails and (on.vendor, on.device) in models

    far = [f"{rdma.name} ({rdma.address})" for rdma in subjects.topology.rdma if strays(rdma)]
    return f" Near no GPU, but of the rails' model: {', '.join(far)}" if far else ""


def _interrupts(host: Host, subjects: Subjects, card: Card, subject: Subject) -> Check:
    """Raises HostError."""
    few = _few(subjects, subject, numa.with_cpus(subjects.topology.nodes))
    if few is not None:
        return few
    home = numa.home(subjects.topology.nodes, card.device.node)
    if home is None:
        return subject.skip("its NUMA node is not known", source=_node_file(card.address))
    vectors = irq_vectors.queue_vectors(host, card.address)
    if vectors.problem:
        return subject.unknown(vectors.problem)
    queues = [vector.irq for vector in vectors.queues]
    if not queues:
        return subject.skip("no interrupt of a queue is in use")
    outside = [irq for irq in queues if not {*_cpus(host, irq)} <= {*home.cpus}]
    evidence = f"{len(outside)} of {len(queues)} elsewhere"
    evidence += f": IRQ {cpulist.render(outside)}" if outside else ""
    subject = replace(
        subject,
        source=irqs.effective_path("*"),
        expected=f"on the CPUs of NUMA node {home.number} ({cpulist.render(home.cpus)})",
        advice="declare irq_affinity with strategy spread for this NIC",
        bad=Verdict.WARN,
    )
    # If a node has fewer CPUs than the card has queues, drivers continue on the next nearest node.
    return subject.judged(len(outside) <= max(0, len(queues) - len(home.cpus)), evidence)


def _cpus(host: Host, irq: int) -> tuple[int, ...]:
    """CPUs that receive an interrupt. Raises HostError."""
    cpus = irqs.effective(host, irq)
    if not cpus:
        raise HostError("understand", irqs.effective_path(irq), None, "it names no CPU")
    return cpus
