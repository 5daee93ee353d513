# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""PCIe links below their possible speed or width, judged by the capability of both ends. Pure functions."""

from __future__ import annotations

from typing import Mapping, Sequence

from . import pci
from .model import Link, PciDevice, giga_transfers


def look(
    subjects: Mapping[str, str],
    gpus: Sequence[str],
    devices: Mapping[str, PciDevice],
    virtual: bool = False,
) -> list[tuple[str, str]]:
    """Name and description of each bad link, for the subjects (address → name) and the switches above them.

    virtual: the hypervisor invents the bridges and their links, so the other end of a link is unknown.
    """
    named = dict(subjects)
    for address in () if virtual else subjects:
        named.update(
            {above: f"PCIe switch {above}" for above in devices[address].path[:-1] if above not in named}
        )
    # An idle GPU slows its link down, and so does the switch that some carry on their board.
    sleepy = {address for gpu in gpus for address in devices[gpu].path}
    deficits = []
    for address, name in named.items():
        device = devices.get(address)
        if device is None or device.link is None or not faces_up(device):
            continue
        above = devices.get(device.path[-2]) if len(device.path) > 1 and not virtual else None
        text = words(device.link, above.link if above else None, address in sleepy)
        if text:
            deficits.append((name, text))
    return deficits


def faces_up(device: PciDevice) -> bool:
    """True if the device's link leads towards the CPU.

    A root port or a switch's downstream port shows the link below it, like the device at its other end. From
    a root port on, ports face down and up alternately.
    """
    if device.class_code >> 16 != pci.BRIDGE:
        return True
    domain = device.address.partition(":")[0]
    return sum(above.startswith(f"{domain}:") for above in device.path[:-1]) % 2 == 1


def words(link: Link, above: Link | None, sleepy: bool) -> str:
    """Description of a deficit; "" if the link has no deficit. above: the other end, None if unknown."""
    other = above or link
    speed = min(link.max_speed, other.max_speed, key=giga_transfers)
    width = min(link.max_width, other.max_width)
    is_slow = giga_transfers(link.speed) < giga_transfers(speed)
    now, could, best = (
        _words(link.speed, link.width),
        _words(speed, width),
        _words(link.max_speed, link.max_width),
    )
    if link.width < width or (is_slow and not sleepy):
        if above is None:
            return (
                f"PCIe link at {now}, but this end can do {could}; the limit of its other end is not known: "
                "look at the slot, and reseat the card if the slot can do as much"
            )
        return f"PCIe link at {now}, but both ends can do {could}: reseat the card, look at slot and riser"
    if is_slow:
        return f"PCIe link at {now} of {could}: normal while the GPU is idle, so look again under load"
    if could != best:
        return f"the slot gives {could}, but {best} could be used"
    return ""


def _words(speed: str, width: int) -> str:
    return f"{speed.replace(' PCIe', '')} x{width}"
