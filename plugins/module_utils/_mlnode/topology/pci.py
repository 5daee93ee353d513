# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The part of the PCI tree that matters for traffic. Documentation/ABI/testing/sysfs-bus-pci."""

from __future__ import annotations

import re
from typing import Iterable

from ..model import accelerators
from ..model.record import regex
from .model import Link, PciDevice, giga_transfers
from .sysfs import Reader, integer

DEVICES = "/sys/bus/pci/devices"

# The domain has four digits, or more behind Intel VMD and on Hyper-V, whose domains continue from 10000.
_FUNCTION = regex(r"([0-9a-f]{4,8}):([0-9a-f]{2}:[0-9a-f]{2}\.[0-7])\Z", re.ASCII)
_ROOT = regex(r"pci[0-9a-f]{4,8}:[0-9a-f]{2}\Z", re.ASCII)
_HEX = regex(r"0x[0-9a-fA-F]{1,8}\Z", re.ASCII)

#: Base classes that are read whole: storage, network, display, processing accelerators (PCI Code and ID
#: Assignment). A server has hundreds of chipset functions, which move no data.
_ENDPOINTS = (0x01, 0x02, 0x03, 0x12)
#: InfiniBand among the serial buses, the class of a ConnectX-2 or an InfiniHost
_SERIAL_INFINIBAND = 0x0C06
BRIDGE = 0x06

_INTEL = 0x8086
#: X722 and X550EM: network functions on a bus inside the chipset or the processor. The PCIe link that they
#: show is a default, 2.5 GT/s x1, and their drivers do not judge it either (i40e_devids.h and
#: I40E_HW_CAP_NO_PCI_LINK_CHECK of i40e_main.c; ixgbe_type.h and ixgbe_bus_type_internal of ixgbe_x550.c).
_INTERNAL = {
    *(0x0DDA, *range(0x37CE, 0x37D4)),
    *(*range(0x15AA, 0x15AF), 0x15B0),
    *(0x15C2, 0x15C3, 0x15C4, 0x15C6, 0x15C7, 0x15C8, 0x15CE, 0x15E4, 0x15E5),
}

#: Lanes a link can have (PCI Express Base Specification). 0, 63 and 255 are a kernel's "Unknown".
_WIDTHS = (1, 2, 4, 8, 12, 16, 32)


def normal(address: str) -> str | None:
    """A function's address as sysfs writes it; None if the text is not an address.

    nvidia-smi and others write 00000000:41:00.0, sysfs writes 0000:41:00.0.
    """
    match = _FUNCTION.match(address.lower())
    if match is None:
        return None
    return f"{match.group(1).lstrip('0').rjust(4, '0')}:{match.group(2)}"


def upstream(folder: str) -> tuple[str, tuple[str, ...]]:
    """Host bridge and functions, root first, of a path in sysfs."""
    parts = folder.split("/")
    roots = [part for part in parts if _ROOT.match(part)]
    functions = [address for address in map(normal, parts) if address]
    return (roots[0] if roots else ""), tuple(functions)


def read(reader: Reader) -> tuple[PciDevice, ...]:
    """Storage, network, display and accelerator functions and the bridges above them, by address."""
    folders: dict[str, str] = {}
    classes: dict[str, int] = {}
    for name in reader.names(DEVICES):
        folder = reader.link(f"{DEVICES}/{name}")
        if folder:
            folders[name] = folder
            classes[name] = _hex(reader, f"{folder}/class")
    kept: set[str] = set()
    for name, folder in folders.items():
        if _moves_data(reader, folder, classes[name]):
            kept.update(upstream(folder)[1])
    return tuple(
        _device(reader, name, folders[name], classes[name])
        for name in sorted(kept, key=order)
        if name in folders
    )


def _moves_data(reader: Reader, folder: str, class_code: int) -> bool:
    kind = class_code >> 8
    if kind >> 8 in _ENDPOINTS or kind == _SERIAL_INFINIBAND:
        return True
    if kind not in accelerators.CLASSES:
        return False
    # The chipset has system peripherals as well.
    vendor, device = (_hex(reader, f"{folder}/{name}") for name in ("vendor", "device"))
    return accelerators.vendor_of(vendor, device, class_code) is not None


def order(address: str) -> tuple[int, str]:
    """Sort key: domain, then bus, device and function."""
    domain, _colon, rest = address.partition(":")
    return int(domain, 16), rest


def by_address(devices: Iterable[PciDevice]) -> dict[str, PciDevice]:
    return {device.address: device for device in devices}


def is_internal(vendor: int, device: int) -> bool:
    """True for a network function on a bus inside the chipset, which has no PCIe link to judge."""
    return vendor == _INTEL and device in _INTERNAL


def _device(reader: Reader, name: str, folder: str, class_code: int) -> PciDevice:
    root, path = upstream(folder)
    physfn = reader.link(f"{folder}/physfn").rpartition("/")[2]
    node = reader.number(f"{folder}/numa_node", needed=False)
    vendor, device = _hex(reader, f"{folder}/vendor"), _hex(reader, f"{folder}/device")
    return PciDevice(
        address=name,
        vendor=vendor,
        device=device,
        class_code=class_code,
        path=path,
        root=root,
        driver=reader.link(f"{folder}/driver").rpartition("/")[2] or None,
        # -1: the firmware does not report the node. Never assume node 0.
        node=node if node is not None and node >= 0 else None,
        link=None if physfn or is_internal(vendor, device) else _link(reader, folder),
        physfn=physfn or None,
    )


def _link(reader: Reader, folder: str) -> Link | None:
    """PCIe link of a function; None without one, as for most functions of a virtual machine."""
    speed = reader.quiet(f"{folder}/current_link_speed")
    width = integer(reader.quiet(f"{folder}/current_link_width")) or 0
    max_speed = reader.quiet(f"{folder}/max_link_speed")
    max_width = integer(reader.quiet(f"{folder}/max_link_width")) or 0
    if width not in _WIDTHS or max_width not in _WIDTHS:
        return None
    if not giga_transfers(speed) or not giga_transfers(max_speed):
        return None
    return Link(speed, width, max_speed, max_width)


def _hex(reader: Reader, path: str) -> int:
    text = reader.text(path)
    if text is None:
        return 0
    if not _HEX.match(text):
        reader.note(path, f"{path}: {text[:60]!r} is not a hexadecimal number")
        return 0
    return int(text, 16)
