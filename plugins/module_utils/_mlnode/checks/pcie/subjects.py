# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The judged PCI functions, and the common data of their checks."""

from __future__ import annotations

from typing import Any, Iterator, Mapping

from ...model.record import dataclass
from ...topology import pci
from ...topology.model import PciDevice, RdmaDevice, Topology
from ...topology.pci_config import ConfigError
from ..expect import Expectations
from ..model import Check, Subject, Verdict

#: Distances below a common bridge: farther apart, all traffic passes the CPU
BELOW_ONE_BRIDGE = ("PIX", "PXB")


@dataclass(frozen=True)
class Card:
    """A PCI function with judged RDMA devices. expect: its expectations."""

    label: str
    device: PciDevice
    expect: Mapping[str, Any]

    @property
    def address(self) -> str:
        return self.device.address

    def about(self, name: str, source: str) -> Subject:
        return Subject(name, self.label, source)


@dataclass(frozen=True)
class Subjects:
    """A node and its judged functions. expect: all expectations."""

    topology: Topology
    expect: Expectations
    cards: tuple[Card, ...]
    devices: Mapping[str, PciDevice]

    @property
    def virtual(self) -> bool:
        return self.topology.machine.virtual

    def gpu(self, address: str) -> str:
        """Name of a GPU, as in the topology's table."""
        numbers = {gpu.address: number for number, gpu in enumerate(self.topology.gpus)}
        return f"GPU{numbers[address]} ({address})"

    def pairs(self) -> Iterator[tuple[str, Card]]:
        """Each GPU with the cards below the same bridge, by the GPU's address."""
        # Names as in distances: the interface, or else the RDMA device.
        addresses = {nic.name: nic.address for nic in self.topology.nics}
        addresses.update({rdma.name: rdma.address for rdma in self.topology.rdma})
        cards = {card.address: card for card in self.cards}
        for distance in self.topology.distances:
            card = cards.get(addresses.get(distance.nic) or "")
            if card is not None and distance.kind in BELOW_ONE_BRIDGE:
                yield distance.gpu, card


def subjects(topology: Topology, expect: Expectations) -> Subjects:
    """Physical functions of the declared RDMA devices; without a declaration, of the rails or of all.

    Most registers of a virtual function are reserved; its physical function's registers count.
    """
    devices = pci.by_address(topology.pci)
    rails = any(rdma.rail is not None for rdma in topology.rdma)
    sharing: dict[str, list[RdmaDevice]] = {}
    for rdma in topology.rdma:
        function = devices.get(rdma.address or "")
        judged = any(expect.judges(rdma, port.number, virtual=False, rails=rails) for port in rdma.ports)
        if function is not None and function.physfn is None and judged:
            sharing.setdefault(function.address, []).append(rdma)
    cards = tuple(
        Card(
            "+".join(rdma.name for rdma in here),
            devices[address],
            expect.section(here[0].name, None, here[0].rail),
        )
        for address, here in sharing.items()
    )
    return Subjects(topology, expect, cards, devices)


def unreadable(subject: Subject, error: ConfigError) -> Check:
    """Unknown finding for unreadable configuration space, the subject's source."""
    text = str(error)
    return subject.unknown(text if subject.source in text else f"{subject.source}: {text}")


def severity(declared: bool) -> Verdict:
    """Verdict for a loss of speed alone: fail only if it contradicts a declaration."""
    return Verdict.FAIL if declared else Verdict.WARN
