# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""PCI functions that are judged, and the data that all checks of them need."""

from __future__ import annotations

from typing import Any, Iterator, Mapping

from ...model.record import dataclass
from ...topology import pci
from ...topology.model import PciDevice, RdmaDevice, Topology
from ..expect import Expectations
from ..model import Verdict

#: What a check is about where there is nothing to look at
NODE = "node"

#: Distances below a common bridge: farther apart, all traffic passes the CPU
BELOW_ONE_BRIDGE = ("PIX", "PXB")


@dataclass(frozen=True)
class Card:
    """A PCI function with RDMA devices that are judged. expect: all that is declared of it."""

    label: str
    device: PciDevice
    expect: Mapping[str, Any]

    @property
    def address(self) -> str:
        return self.device.address


@dataclass(frozen=True)
class Subjects:
    """A node and what is judged of it. expect: what is declared of all of it."""

    topology: Topology
    expect: Mapping[str, Any]
    cards: tuple[Card, ...]
    devices: Mapping[str, PciDevice]

    @property
    def virtual(self) -> bool:
        return self.topology.machine.virtual

    def gpu(self, address: str) -> str:
        """As in the table of the topology."""
        numbers = {gpu.address: number for number, gpu in enumerate(self.topology.gpus)}
        return f"GPU{numbers[address]} ({address})"

    def pairs(self) -> Iterator[tuple[str, Card]]:
        """Each GPU with the cards below the same bridge, by the GPU's address."""
        # As distances name them: by the interface, or else by the RDMA device.
        addresses = {nic.name: nic.address for nic in self.topology.nics}
        addresses.update({rdma.name: rdma.address for rdma in self.topology.rdma})
        cards = {card.address: card for card in self.cards}
        for distance in self.topology.distances:
            card = cards.get(addresses.get(distance.nic) or "")
            if card is not None and distance.kind in BELOW_ONE_BRIDGE:
                yield distance.gpu, card


def of(topology: Topology, expect: Mapping[str, Any]) -> Subjects:
    """The physical functions of the RDMA devices that are declared; where none is, of the rails, or of all.

    Of a virtual function most registers are reserved, and those of its physical function count.
    """
    devices = pci.by_address(topology.pci)
    sharing: dict[str, list[RdmaDevice]] = {}
    for rdma in topology.rdma:
        function = devices.get(rdma.address or "")
        if function is not None and function.physfn is None and _judged(rdma, topology, expect):
            sharing.setdefault(function.address, []).append(rdma)
    cards = tuple(
        Card("+".join(one.name for one in here), devices[address], _declared(here[0], expect))
        for address, here in sharing.items()
    )
    return Subjects(topology, expect, cards, devices)


def _judged(rdma: RdmaDevice, topology: Topology, expect: Mapping[str, Any]) -> bool:
    rails = any(one.rail is not None for one in topology.rdma)
    if isinstance(expect, Expectations):
        return any(expect.judges(rdma, port.number, virtual=False, rails=rails) for port in rdma.ports)
    return rdma.rail is not None or not rails


def _declared(rdma: RdmaDevice, expect: Mapping[str, Any]) -> Mapping[str, Any]:
    return expect.of(rdma.name, None, rdma.rail) if isinstance(expect, Expectations) else expect


def severity(declared: bool) -> Verdict:
    """Of what costs speed alone: it fails where something else was declared."""
    return Verdict.FAIL if declared else Verdict.WARN
