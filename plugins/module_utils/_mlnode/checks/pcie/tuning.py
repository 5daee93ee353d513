# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Configuration space of the NICs: payload and read requests, ordering, address translation.

In a virtual machine the hypervisor provides the registers; in a virtual function most are reserved and read
0. Both are judged only if a value is declared.
"""

from __future__ import annotations

from typing import Any, Callable, Iterator

from ...host.host import Host
from ...model.record import replace
from ...topology import pci_config
from ...topology.pci_config import ConfigError, Express
from .. import pcie_values
from ..model import Check, Subject
from .subjects import Card, Subjects, severity, unreadable

_HYPERVISORS = "the hypervisor decides it, and this machine cannot read the card's own value"
_CONVENTIONAL = "no PCI Express function: it has no such setting"


def checks(host: Host, subjects: Subjects) -> Iterator[Check]:
    if not subjects.cards:
        for name in NAMES:
            yield Subject(name, source="/sys/class/infiniband").skip("no RDMA device on PCIe")
    for card in subjects.cards:
        yield _payload(host, subjects, card)
        for key, (name, judge) in _JUDGES.items():
            subject = card.about(name, pci_config.path(card.address))
            try:
                yield _control(host, subjects, card, subject, key, judge)
            except ConfigError as error:
                yield unreadable(subject, error)


def _payload(host: Host, subjects: Subjects, card: Card) -> Check:
    """Check of the payload. A function drops packets larger than its payload as malformed."""
    path = card.device.path
    subject = card.about(_PAYLOAD, ", ".join(pci_config.path(address) for address in path))
    subject = replace(subject, expected="the same all the way to the root port")
    if subjects.virtual:
        return subject.skip(_HYPERVISORS)
    if len(path) < 2:
        return subject.skip("no bridge above it that could differ")
    sizes: dict[str, int] = {}
    for address in path:
        try:
            express = pci_config.express(pci_config.read(host, address))
        except ConfigError as error:
            return unreadable(replace(subject, source=pci_config.path(address)), error)
        if express is None:
            return subject.skip(f"{address}: {_CONVENTIONAL}")
        sizes[address] = express.payload
    same = len(set(sizes.values())) == 1
    shown = ", ".join(f"{address} {size}" for address, size in sizes.items())
    advice = (
        "packets that are too large for the next one on the way are dropped: boot with pci=pcie_bus_safe, or "
        "set the payload to auto in the BIOS"
    )
    return subject.judged(same, f"{sizes[card.address]} bytes" if same else shown, advice=advice)


def _control(host: Host, subjects: Subjects, card: Card, subject: Subject, key: str, judge: _Judge) -> Check:
    """Raises ConfigError."""
    want, declared = pcie_values.wanted(card.expect, key)
    if subjects.virtual and (not declared or want == "auto"):
        return subject.skip(_HYPERVISORS)
    data = pci_config.read(host, card.address)
    express = pci_config.express(data)
    if express is not None:
        return judge(replace(subject, bad=severity(declared)), card, want, express, data)
    return subject.judged(False, _CONVENTIONAL) if declared else subject.skip(_CONVENTIONAL)


def _read_request(subject: Subject, card: Card, want: int, express: Express, _data: bytes) -> Check:
    # setpci(8) changes only the bits of the mask: bits 14 to 12 of Device Control
    code = pcie_values.READ_REQUESTS.index(want) << 12
    advice = (
        f"setpci -s {card.address} CAP_EXP+8.w={code:04x}:7000 until the next boot, as nothing here writes "
        "configuration space, or the BIOS for good"
    )
    good, evidence = express.read_request == want, f"{express.read_request} bytes"
    return subject.judged(good, evidence, expected=f"{want} bytes", advice=advice)


def _relaxed_ordering(subject: Subject, card: Card, want: str, express: Express, _data: bytes) -> Check:
    now = "on" if express.relaxed_ordering else "off"
    advice = f"setpci -s {card.address} CAP_EXP+8.w=0000:0010 until the next boot, or the BIOS for good"
    if want == "on":
        advice = (
            "switch it on in the BIOS; if the kernel log says that Relaxed Ordering is disabled below this "
            "root port, leave it, and declare relaxed_ordering: off"
        )
    return subject.judged(now == want, now, expected=want, advice=advice)


def _ats(subject: Subject, _card: Card, want: str, _express: Express, data: bytes) -> Check:
    """Raises ConfigError."""
    capability = pci_config.ats(data)
    now = "on" if capability is not None and capability.enabled else "off"
    advice = "boot with pci=noats, or clear ATS_ENABLED with mlxconfig"
    if want == "on":
        advice = "set ATS_ENABLED with mlxconfig, switch the IOMMU on, and boot without pci=noats"
    want = "off" if want == "auto" else want
    evidence = now if capability is not None else "off: the function has no such capability"
    return subject.judged(now == want, evidence, expected=want, advice=advice)


_Judge = Callable[[Subject, Card, Any, Express, bytes], Check]

_PAYLOAD = "max_payload"
#: Key of a declaration → name of its check, and its function
_JUDGES: dict[str, tuple[str, _Judge]] = {
    "mrrs": ("max_read_request", _read_request),
    "relaxed_ordering": ("relaxed_ordering", _relaxed_ordering),
    "ats": ("ats", _ats),
}
NAMES = (_PAYLOAD, *(name for name, _judge in _JUDGES.values()))
