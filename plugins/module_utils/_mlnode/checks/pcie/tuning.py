# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Configuration space of the NICs: payload and read requests, ordering, address translation.

In a virtual machine the words are the hypervisor's, and of a virtual function most are reserved and read 0:
they are judged only where something was declared.
"""

from __future__ import annotations

from typing import Callable, Iterator

from ...host.host import Host
from ...topology import pci_config
from ...topology.pci_config import ConfigError, Express
from .. import pcie_values
from ..model import Check, Verdict, judged, skip
from .subjects import NODE, Card, Subjects, severity

NAMES = ("max_payload", "max_read_request", "relaxed_ordering", "ats")

_NO_CARD = "no RDMA device on PCIe"
_HYPERVISORS = "the hypervisor decides it, and what this machine reads is not what the card does"
_CONVENTIONAL = "no PCI Express function: it has no such setting"


def checks(host: Host, subjects: Subjects) -> Iterator[Check]:
    if not subjects.cards:
        for name in NAMES:
            yield skip(name, NODE, _NO_CARD, "/sys/class/infiniband")
    for card in subjects.cards:
        yield _payload(host, subjects, card)
        yield _control(host, subjects, card, "max_read_request", "mrrs", _read_request)
        yield _control(host, subjects, card, "relaxed_ordering", "relaxed_ordering", _relaxed_ordering)
        yield _ats(host, subjects, card)


def _payload(host: Host, subjects: Subjects, card: Card) -> Check:
    """A function that sends more than the next one on the way takes has its packets dropped as malformed."""
    name, expected = "max_payload", "the same all the way to the root port"
    path = card.device.path
    source = ", ".join(pci_config.path(address) for address in path)
    if subjects.virtual:
        return skip(name, card.label, _HYPERVISORS, source)
    if len(path) < 2:
        return skip(name, card.label, "no bridge above it that could differ", source)
    sizes: dict[str, int] = {}
    for address in path:
        try:
            express = pci_config.express(pci_config.read(host, address))
        except ConfigError as error:
            return _unknown(name, card, address, error, expected)
        if express is None:
            return skip(name, card.label, f"{address}: {_CONVENTIONAL}", source)
        sizes[address] = express.payload
    same = len(set(sizes.values())) == 1
    shown = ", ".join(f"{address} {size}" for address, size in sizes.items())
    found = f"{sizes[card.address]} bytes" if same else shown
    advice = (
        "packets that are too large for the next one on the way are dropped: boot with pci=pcie_bus_safe, or "
        "set the payload to auto in the BIOS"
    )
    return judged(name, card.label, same, expected, found, source, advice, Verdict.FAIL)


_Judge = Callable[[Card, Express], Check]


def _control(host: Host, subjects: Subjects, card: Card, name: str, key: str, judge: _Judge) -> Check:
    _want, declared = pcie_values.wanted(card.expect, key)
    source = pci_config.path(card.address)
    if subjects.virtual and not declared:
        return skip(name, card.label, _HYPERVISORS, source)
    try:
        express = pci_config.express(pci_config.read(host, card.address))
    except ConfigError as error:
        return _unknown(name, card, card.address, error)
    if express is None:
        return Check(name, card.label, _no_setting(declared), "", _CONVENTIONAL, source)
    return judge(card, express)


def _no_setting(declared: bool) -> Verdict:
    return Verdict.FAIL if declared else Verdict.SKIP


def _read_request(card: Card, express: Express) -> Check:
    want, declared = pcie_values.wanted(card.expect, "mrrs")
    # setpci(8) changes the bits of the mask only: bits 14 to 12 of Device Control
    code = pcie_values.READ_REQUESTS.index(want) << 12
    advice = (
        f"setpci -s {card.address} CAP_EXP+8.w={code:04x}:7000 until the next boot, as nothing here writes "
        "configuration space, or the BIOS for good"
    )
    return judged(
        "max_read_request",
        card.label,
        express.read_request == want,
        f"{want} bytes",
        f"{express.read_request} bytes",
        pci_config.path(card.address),
        advice,
        severity(declared),
    )


def _relaxed_ordering(card: Card, express: Express) -> Check:
    want, declared = pcie_values.wanted(card.expect, "relaxed_ordering")
    now = "on" if express.relaxed_ordering else "off"
    if want == "on":
        advice = (
            "switch it on in the BIOS; if the kernel log says that Relaxed Ordering is disabled below this "
            "root port, leave it, and declare relaxed_ordering: off"
        )
    else:
        advice = f"setpci -s {card.address} CAP_EXP+8.w=0000:0010 until the next boot, or the BIOS for good"
    source = pci_config.path(card.address)
    return judged("relaxed_ordering", card.label, now == want, want, now, source, advice, severity(declared))


def _ats(host: Host, subjects: Subjects, card: Card) -> Check:
    name, source = "ats", pci_config.path(card.address)
    want, declared = pcie_values.wanted(card.expect, "ats")
    if want == "auto" and subjects.virtual:
        return skip(name, card.label, _HYPERVISORS, source)
    try:
        data = pci_config.read(host, card.address)
        if pci_config.express(data) is None:
            return Check(name, card.label, _no_setting(declared), "", _CONVENTIONAL, source)
        capability = pci_config.ats(data)
    except ConfigError as error:
        return _unknown(name, card, card.address, error)
    now = "on" if capability is not None and capability.enabled else "off"
    if want == "on":
        advice = "set ATS_ENABLED with mlxconfig, switch the IOMMU on, and boot without pci=noats"
    else:
        advice = "boot with pci=noats, or clear ATS_ENABLED with mlxconfig"
    want = "off" if want == "auto" else want
    found = now if capability is not None else "off: the function has no such capability"
    return judged(name, card.label, now == want, want, found, source, advice, severity(declared))


def _unknown(name: str, card: Card, address: str, error: ConfigError, expected: str = "") -> Check:
    path = pci_config.path(address)
    text = str(error)
    found = text if path in text else f"{path}: {text}"
    return Check(name, card.label, Verdict.UNKNOWN, expected, found, path)
