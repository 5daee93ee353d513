# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Speed and width of each PCIe link from NICs and GPUs to the root port, against its ends' limits."""

from __future__ import annotations

from typing import Iterator

from ...host.host import Host
from ...model.record import regex
from ...model.setting import Value
from ...topology import links, pci
from ...topology.model import Link, PciDevice, giga_transfers
from .. import pcie_values
from ..model import Check, Subject, Verdict
from ..pcie_values import LinkWanted
from .subjects import Subjects

NAME = "pcie_link"

_FILES = ("current_link_speed", "current_link_width", "max_link_speed", "max_link_width")
#: Values that the kernel prints for an unknown link (drivers/pci/pci-sysfs.c, pci_speed_string)
_NOTHING = regex(r"Unknown|0\Z|63\Z|255\Z")
_INTERNAL = "on a bus inside the chipset: the link that it shows is a default and not a PCIe link"


def checks(host: Host, subjects: Subjects) -> Iterator[Check]:
    declared = {card.address: pcie_values.wanted(card.expect, "pcie") for card in subjects.cards}
    named = {card.address: card.label for card in subjects.cards}
    named.update({gpu.address: subjects.gpu(gpu.address) for gpu in subjects.topology.gpus})
    if not named:
        yield Subject(NAME, source="/sys/bus/pci/devices").skip("no RDMA device or GPU on PCIe")
    for address, label in {**named, **_bridges(subjects, named)}.items():
        device = subjects.devices[address]
        want, is_declared = declared.get(address, (LinkWanted(), False))
        subject = Subject(NAME, label, f"{_folder(device)}/{{{','.join(_FILES)}}}")
        if device.link is None:
            yield _unknown(host, device, subject, is_declared)
        elif want != LinkWanted():
            yield _as_declared(device.link, subject, want)
        else:
            yield _as_possible(subjects, device, device.link, subject)


def _bridges(subjects: Subjects, named: dict[str, str]) -> dict[str, str]:
    """The switches above; none on a virtual machine, whose hypervisor invents switches and links."""
    if subjects.virtual:
        return {}
    above = {address for below in named for address in subjects.devices[below].path[:-1]}
    bridges = [subjects.devices[address] for address in above if address in subjects.devices]
    return {
        bridge.address: f"PCIe switch {bridge.address}"
        for bridge in sorted(bridges, key=lambda bridge: pci.order(bridge.address))
        if bridge.class_code >> 16 == pci.BRIDGE and links.faces_up(bridge)
    }


def _folder(device: PciDevice) -> str:
    return f"/sys/bus/pci/devices/{device.address}"


def _words(speed: float, width: int) -> str:
    return f"{speed:.1f} GT/s x{width}"


def _now(link: Link) -> str:
    return _words(giga_transfers(link.speed), link.width)


def _as_possible(subjects: Subjects, device: PciDevice, link: Link, subject: Subject) -> Check:
    above = subjects.devices.get(device.path[-2]) if len(device.path) > 1 and not subjects.virtual else None
    seen = above.link if above is not None else None
    other = seen or link
    speed = min(giga_transfers(link.max_speed), giga_transfers(other.max_speed))
    width = min(link.max_width, other.max_width)
    # An idle GPU slows its link down, as does the switch on some GPU boards; neither narrows it.
    sleepy = any(device.address in subjects.devices[gpu.address].path for gpu in subjects.topology.gpus)
    is_slow = giga_transfers(link.speed) < speed
    if link.width < width or (is_slow and not sleepy):
        # If the other end is unknown, the slot may be the limit.
        verdict = Verdict.FAIL if seen else Verdict.WARN
    elif is_slow:
        verdict = Verdict.SKIP
    else:
        # The slot limits the card.
        verdict = (
            Verdict.WARN if speed < giga_transfers(link.max_speed) or width < link.max_width else Verdict.PASS
        )
    best = _words(giga_transfers(link.max_speed), link.max_width)
    expected = best if verdict is Verdict.WARN else _words(speed, width)
    return subject.made(verdict, _now(link), expected=expected, advice=links.words(link, seen, sleepy))


def _as_declared(link: Link, subject: Subject, want: LinkWanted) -> Check:
    speed = want.speed or giga_transfers(link.max_speed)
    width = want.width or link.max_width
    good = giga_transfers(link.speed) >= speed and link.width >= width
    most = _words(giga_transfers(link.max_speed), link.max_width)
    advice = f"reseat the card, look at slot and riser; this end can do {most}"
    return subject.judged(good, _now(link), expected=f"at least {_words(speed, width)}", advice=advice)


def _unknown(host: Host, device: PciDevice, subject: Subject, declared: bool) -> Check:
    """Finding about an unknown link. Hypervisors may hide links: a fault only if one is declared."""
    verdict = Verdict.UNKNOWN if declared else Verdict.SKIP
    if pci.is_internal(device.vendor, device.device):
        return subject.made(verdict, _INTERNAL)
    values = {name: host.value(f"{_folder(device)}/{name}") for name in _FILES}
    reasons = [*filter(None, (_problem(_folder(device), name, value) for name, value in values.items()))]
    if reasons:
        return subject.unknown(reasons[0])
    missing = [value.problem for value in values.values() if value.text is None]
    shown = ", ".join(f"{name} {value.text}" for name, value in values.items() if _nothing(value))
    evidence = missing[0] if missing else f"the kernel knows nothing of this link: {shown}"
    return subject.made(verdict, evidence)


def _nothing(value: Value) -> bool:
    return value.text is not None and bool(_NOTHING.match(value.text))


def _problem(folder: str, name: str, value: Value) -> str:
    """Reason why a file cannot be parsed; "" if it can, is absent or contains Unknown."""
    if value.unreadable is not None:
        return value.unreadable
    if value.text is None or _nothing(value):
        return ""
    if not value.text.strip():
        return f"{folder}/{name} is empty: it could not be read when the tree was captured"
    known = giga_transfers(value.text) if name.endswith("speed") else value.text.strip().isdigit()
    return "" if known else f"{folder}/{name}: {value.text[:60]!r} is neither a speed nor a width"
