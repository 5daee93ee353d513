# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Data Direct of a ConnectX-8: a second function of the NIC, below a GPU's root port.

It reads and writes the GPU's memory while the NIC itself is at another root port. From kernel-boot/rdma_topo
of rdma-core (August 2026): both functions have the same identifier in their vital product data, and three
bridges need specific ACS bits.
"""

from __future__ import annotations

from typing import Iterator, Mapping

from ...host.host import Host
from ...model.errors import HostError
from ...model.record import dataclass
from ...topology import distance, pci
from ..model import Nothing
from .subjects import Card, Subjects

#: PCI identity of the function (drivers/infiniband/hw/mlx5/data_direct.c), regardless of its class
_VENDOR, _DEVICE = 0x15B3, "0x2100"

#: Requests towards the function and completions towards the GPU are not redirected. The root port does not
#: validate sources, which makes the kernel put everything below it into one IOMMU group.
_TO_FUNCTION, _TO_GPU, _ROOT = "xx110x1", "xx101x1", "xx111x0"

#: Flag of a large resource, the read-only resource, the field (PCI Local Bus Specification 3.0, appendix I)
_LARGE, _READ_ONLY, _IDENTIFIER = 0x80, 0x90, b"V3"


@dataclass(frozen=True)
class Way:
    """Path between a GPU and the Data Direct function of a card. bits: bridge → its required bits."""

    gpu: str
    card: Card
    bits: Mapping[str, str]


def functions(host: Host, subjects: Subjects) -> Iterator[str]:
    """Addresses of all such functions. Raises HostError."""
    if not any(card.device.vendor == _VENDOR for card in subjects.cards):
        return
    for address in host.names(pci.DEVICES):
        device, vendor = (f"{pci.DEVICES}/{address}/{file}" for file in ("device", "vendor"))
        if host.value(device).text == _DEVICE and host.value(vendor).text == f"0x{_VENDOR:04x}":
            yield address


def ways(host: Host, subjects: Subjects, address: str) -> list[Way]:
    """Paths from this function to each GPU below its root port.

    Raises Nothing if its NIC or GPU is not judged, HostError if this is unknown.
    """
    card = _card(host, subjects, address)
    path = pci.upstream(host.link_target(f"{pci.DEVICES}/{address}"))[1]
    gpu_ways = []
    for gpu in subjects.topology.gpus:
        other = subjects.devices[gpu.address].path
        shared = distance.common(path, other)
        # Each must be below a separate port of a switch.
        if shared and min(len(path), len(other)) > shared + 1:
            bits = {path[0]: _ROOT, path[shared]: _TO_FUNCTION, other[shared]: _TO_GPU}
            gpu_ways.append(Way(gpu.address, card, bits))
    if not gpu_ways:
        raise Nothing(f"no GPU is behind the switch of {address}", vpd(address))
    return gpu_ways


def _card(host: Host, subjects: Subjects, address: str) -> Card:
    own = _identifier(host, address)
    if not own:
        why = "no field V3 is in it, by which a NIC and its Data Direct are paired"
        raise HostError("read", vpd(address), None, why)
    unread: HostError | None = None
    for card in subjects.cards:
        try:
            is_nic = card.device.vendor == _VENDOR and card.address != address
            if is_nic and _identifier(host, card.address) == own:
                return card
        except HostError as error:
            unread = error
    if unread is not None:
        raise unread
    raise Nothing(f"no NIC that is judged has its identifier, {own}", vpd(address))


def vpd(address: str) -> str:
    return f"{pci.DEVICES}/{address}/vpd"


def _identifier(host: Host, address: str) -> str:
    data = host.once(vpd(address), lambda: host.content(vpd(address))) or b""
    return _field(_resource(data, _READ_ONLY), _IDENTIFIER).decode("ascii", "replace").strip("\0 ")


def _resource(data: bytes, wanted: int) -> bytes:
    """Content of a large resource; the list ends at the first small one."""
    at = 0
    while at + 3 <= len(data) and data[at] & _LARGE:
        size = int.from_bytes(data[at + 1 : at + 3], "little")
        if data[at] == wanted:
            return data[at + 3 : at + 3 + size]
        at += 3 + size
    return b""


def _field(data: bytes, wanted: bytes) -> bytes:
    at = 0
    while at + 3 <= len(data):
        end = at + 3 + data[at + 2]
        if data[at : at + 2] == wanted and end <= len(data):
            return data[at + 3 : end]
        at = end
    return b""
