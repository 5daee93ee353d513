# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Distance of NICs to their GPUs, their interrupts and the CPUs that serve them."""

from __future__ import annotations

import re
from typing import Iterator, Sequence

from ...host.host import Host
from ...knobs.irq import vectors as irq_vectors
from ...model import cpulist
from ...model.record import regex
from ...topology import distance, numa
from ...topology.model import KINDS, UNKNOWN, Binding, Node, RdmaDevice
from ..model import Check, Verdict, judged, skip
from .subjects import BELOW_ONE_BRIDGE, NODE, Card, Subjects

NAMES = ("numa_locality", "gpu_distance", "irq_locality")

#: The distance across two sockets
_ACROSS = "SYS"
#: What says which NUMA nodes there are, and which of them have CPUs
_NODE_FILE = regex(re.escape(numa.NODES) + r"/(online|node[0-9]+/cpulist)\Z", re.ASCII)
_NO_CARD = "no RDMA device on PCIe"
_ONE_NODE = "one NUMA node has all the CPUs, so everything is near"


def checks(host: Host, subjects: Subjects) -> Iterator[Check]:
    if not subjects.cards:
        for name in NAMES:
            yield skip(name, NODE, _NO_CARD, "/sys/class/infiniband")
        return
    computing = numa.with_cpus(subjects.topology.nodes)
    for card in subjects.cards:
        yield _node(host, subjects, card, computing)
    yield from _distances(subjects)
    for card in subjects.cards:
        yield _interrupts(host, subjects, card, computing)


def _node_file(address: str) -> str:
    return f"/sys/bus/pci/devices/{address}/numa_node"


def _bad(subjects: Subjects) -> Verdict:
    """In a virtual machine the hypervisor says what is where, and it is not always true."""
    return Verdict.WARN if subjects.virtual else Verdict.FAIL


def _node(host: Host, subjects: Subjects, card: Card, computing: tuple[Node, ...]) -> Check:
    name, source = "numa_locality", _node_file(card.address)
    if len(computing) < 2:
        return _few(subjects, name, card, computing)
    node = card.device.node
    if node is None:
        return _nowhere(host, subjects, card)
    around = _around(subjects, card)
    others = {label: other for label, other in around.items() if other != node}
    cpus = next((cpulist.render(one.cpus) for one in computing if one.number == node), "")
    found = f"NUMA node {node}" + (f", CPUs {cpus}" if cpus else "")
    if not others:
        return Check(name, card.label, Verdict.PASS, "the node of what is around it", found, source)
    elsewhere = ", ".join(f"{label} on node {other}" for label, other in others.items())
    advice = (
        "what hangs on one bridge is on one node: the firmware is wrong, or numa_node was written to; update "
        "the BIOS, and look at the slot"
    )
    expected = f"NUMA node {', '.join(sorted({str(other) for other in others.values()}))}"
    return Check(name, card.label, _bad(subjects), expected, f"{found}; {elsewhere}", source, advice)


def _few(subjects: Subjects, name: str, card: Card, computing: tuple[Node, ...]) -> Check:
    """With fewer than two nodes no place is wrong, unless they could not be read."""
    problems = [one for one in subjects.topology.problems if _NODE_FILE.match(one.path)]
    if computing and not problems:
        return skip(name, card.label, _ONE_NODE, numa.NODES)
    found = problems[0].what if problems else "this kernel knows no NUMA nodes"
    missing = all(one.missing for one in problems)
    return Check(name, card.label, Verdict.SKIP if missing else Verdict.UNKNOWN, "", found, numa.NODES)


def _nowhere(host: Host, subjects: Subjects, card: Card) -> Check:
    name, source = "numa_locality", _node_file(card.address)
    value = host.value(source)
    if value.text is None:
        verdict = Verdict.UNKNOWN if value.unreadable is not None else Verdict.SKIP
        return Check(name, card.label, verdict, "", value.problem, source)
    text = value.text.strip()
    if text != "-1":
        return Check(
            name, card.label, Verdict.UNKNOWN, "", f"{source}: {text[:60]!r} is not a NUMA node", source
        )
    advice = "the firmware does not say which; update the BIOS, and bind by hand until then"
    return Check(name, card.label, _bad(subjects), "a NUMA node", "-1", source, advice)


def _around(subjects: Subjects, card: Card) -> dict[str, int]:
    """The NUMA nodes of the bridge above a card and of the GPUs that share a switch with it."""
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
    if not bindings:
        yield skip("gpu_distance", NODE, "no GPU", "/sys/bus/pci/devices")
    best = min((KINDS.index(one.distance) for one in bindings if one.distance in KINDS), default=0)
    for binding in bindings:
        yield _distance(subjects, binding, KINDS[best])


def _distance(subjects: Subjects, binding: Binding, best: str) -> Check:
    """Wrong is a GPU all of whose NICs are at another socket, or that alone has none on its switch or on the
    coherent link to its CPU."""
    name, label, source = "gpu_distance", subjects.gpu(binding.gpu), "/sys/bus/pci/devices"
    found = f"{binding.distance} to {', '.join(binding.nics)}" if binding.nics else binding.distance
    if binding.distance == UNKNOWN:
        why = f"{_node_file(binding.gpu)} or that of the NICs names no NUMA node"
        return Check(name, label, Verdict.UNKNOWN, "", why, source)
    if binding.distance == _ACROSS and not distance.one_socket(subjects.topology, binding.gpu, binding.nics):
        advice = "no RDMA NIC on its NUMA node: move one to a slot of this socket, see mlnode topology"
        return Check(name, label, _bad(subjects), "a NIC on its NUMA node", found, source, advice)
    coherent = any(gpu.coherent for gpu in subjects.topology.gpus if gpu.address == binding.gpu)
    if best in BELOW_ONE_BRIDGE and binding.distance not in BELOW_ONE_BRIDGE and not coherent:
        advice = f"other GPUs have a NIC on their switch: is one missing or misplaced?{_strays(subjects)}"
        return Check(name, label, Verdict.WARN, f"{best}, as other GPUs", found, source, advice)
    return Check(name, label, Verdict.PASS, "a NIC on its switch, NUMA node or socket", found, source)


def _strays(subjects: Subjects) -> str:
    """NICs of the rails' model that are not rails, as no GPU has them nearest."""
    rails = {rdma.address for rdma in subjects.topology.rdma if rdma.rail is not None}
    models = {(one.vendor, one.device) for one in subjects.topology.pci if one.address in rails}

    def strays(rdma: RdmaDevice) -> bool:
        on = subjects.devices.get(rdma.address or "")
        return on is not None and on.address not in rails and (on.vendor, on.device) in models

    far = [f"{one.name} ({one.address})" for one in subjects.topology.rdma if strays(one)]
    return f" Of the rails' model and near no GPU: {', '.join(far)}" if far else ""


def _interrupts(host: Host, subjects: Subjects, card: Card, computing: tuple[Node, ...]) -> Check:
    name = "irq_locality"
    folder = irq_vectors.msi_folder(card.address)
    if len(computing) < 2:
        return _few(subjects, name, card, computing)
    node = card.device.node
    home = numa.home(subjects.topology.nodes, node)
    if home is None:
        return skip(name, card.label, "its NUMA node is not known", _node_file(card.address))
    vectors = irq_vectors.of(host, card.address)
    if vectors.problem:
        return Check(name, card.label, Verdict.UNKNOWN, "", vectors.problem, folder)
    if not vectors.queues:
        return skip(name, card.label, "no interrupt of a queue is in use", folder)
    outside = []
    for vector in vectors.queues:
        path = f"/proc/irq/{vector.irq}/effective_affinity_list"
        cpus, problem = _cpus(host, path)
        if problem:
            return Check(name, card.label, Verdict.UNKNOWN, "", problem, path)
        if not set(cpus) <= set(home.cpus):
            outside.append(vector.irq)
    return _spread(card, home, len(vectors.queues), outside)


def _cpus(host: Host, path: str) -> tuple[tuple[int, ...], str]:
    """CPUs on which an interrupt arrives, or the reason why they are unknown."""
    value = host.value(path)
    if value.text is None:
        return (), value.problem
    try:
        cpus = cpulist.parse(value.text.strip())
    except ValueError as error:
        return (), f"{path}: {error}"
    return cpus, "" if cpus else f"{path} names no CPU"


def _spread(card: Card, home: Node, queues: int, outside: Sequence[int]) -> Check:
    # Where a node has fewer CPUs than the card has queues, drivers go on with the next nearest node.
    spare = max(0, queues - len(home.cpus))
    found = f"{len(outside)} of {queues} elsewhere" + (f": IRQ {cpulist.render(outside)}" if outside else "")
    return judged(
        "irq_locality",
        card.label,
        len(outside) <= spare,
        f"on the CPUs of NUMA node {home.number} ({cpulist.render(home.cpus)})",
        found,
        "/proc/irq/*/effective_affinity_list",
        "declare irq_affinity with strategy spread for this NIC",
        Verdict.WARN,
    )
