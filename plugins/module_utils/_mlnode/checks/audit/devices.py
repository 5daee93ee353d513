# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""GPUs and their links: anything slower than possible, and reported errors."""

from __future__ import annotations

from collections import Counter
from typing import Iterator, Sequence

from ...drivers.gpu import drivers as gpu_drivers
from ...drivers.gpu import topics
from ...drivers.gpu.driver import GpuDriver
from ...host.host import Host
from ...model.record import replace
from ...model.setting import Severity
from ...model.values import by_key
from ...topology.model import Gpu, Topology
from ..expect import Expectations
from ..model import DEVIATIONS, Check, Nothing, Verdict
from ..pcie import link as pcie_link
from ..pcie import subjects as pcie_subjects
from . import log
from .model import Looks, topic

LINK = topic(
    pcie_link.NAME,
    Severity.HIGH,
    "all that goes over this link is slower by the same factor, and one such GPU slows down the whole job",
    "PCI Express Base Specification; ABI/testing/sysfs-bus-pci",
)
GPU_NODES = topic(
    "gpu_nodes",
    Severity.LOW,
    "a rank that runs at another NUMA node than its GPU copies over the link between sockets",
    "admin-guide/mm/numaperf.rst; docs/guide/topology.md",
    source="/sys/bus/pci/devices/*/numa_node",
)

_SOURCE, _UNREAD = "/sys/bus/pci/devices", "nothing here reads this of GPUs of {}"


def _links(host: Host, topology: Topology) -> Iterator[Check]:
    for check in pcie_link.checks(host, pcie_subjects.subjects(topology, Expectations())):
        # The slot limits the card.
        slot = check.verdict is Verdict.WARN
        yield replace(
            check,
            advice=check.advice if check.verdict in DEVIATIONS else "",
            severity=Severity.MEDIUM if slot else LINK.severity,
            reason=LINK.reason,
            reference=LINK.reference,
        )


def _nodes(_host: Host, topology: Topology) -> Check:
    """Reported only: machines are built this way, and it is right if ranks are bound."""
    if not topology.gpus:
        return GPU_NODES.skip("there is no GPU")
    counts = Counter(
        "a node that the firmware does not name" if gpu.node is None else f"node {gpu.node}"
        for gpu in topology.gpus
    )
    evidence = ", ".join(f"{number} at {where}" for where, number in counts.items())
    bind = "; bind each rank to its GPU's node: mlnode topology" if len(counts) > 1 else ""
    return GPU_NODES.skip(evidence + bind)


def _drivers(topology: Topology) -> Iterator[tuple[GpuDriver, list[Gpu]]]:
    """Drivers of the GPUs here, each with its GPUs. Raises Nothing without any."""
    known = gpu_drivers.for_vendors(gpu.vendor for gpu in topology.gpus)
    if not known:
        others = ", ".join(_unread(topology, ()))
        raise Nothing(_UNREAD.format(others) if others else "there is no GPU", _SOURCE)
    for driver in known:
        yield driver, [gpu for gpu in topology.gpus if gpu.vendor == driver.VENDOR]


def _gpus(host: Host, topology: Topology) -> Iterator[Check]:
    drivers = [*_drivers(topology)]
    for driver, gpus in drivers:
        yield from driver.checks(host, gpus)
    for vendor in _unread(topology, [driver.VENDOR for driver, _gpus in drivers]):
        subject = replace(topics.ANSWERING, target=f"{vendor} GPUs", source=_SOURCE)
        yield subject.skip(_UNREAD.format(vendor))


def _unread(topology: Topology, read: Sequence[str]) -> list[str]:
    """Vendors other than these."""
    return [*dict.fromkeys(gpu.vendor for gpu in topology.gpus if gpu.vendor not in read)]


def messages(host: Host, topology: Topology) -> Iterator[Check]:
    """One check per GPU with an error in the kernel's log. Raises Nothing, HostError if it cannot be read."""
    for driver, _cards in _drivers(topology):
        driver.require(host)
        kernel = log.read(host)
        events = by_key(driver.events(kernel.lines))
        yield from log.checks(driver.MESSAGES, kernel, events)


LOOKS: Looks = (
    ((LINK,), _links),
    ((GPU_NODES,), _nodes),
    ((topics.MESSAGES,), messages),
    (topics.ALL, _gpus),
)
