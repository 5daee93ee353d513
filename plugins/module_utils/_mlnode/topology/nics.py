# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Network interfaces. Documentation/ABI/testing/sysfs-class-net and sysfs-class-net-queues."""

from __future__ import annotations

import re
from typing import Mapping

from ..model.record import regex
from . import pci
from .model import Nic, PciDevice
from .sysfs import Reader, integer, natural

NETS = "/sys/class/net"

#: Kinds of interface with their own hardware, as far as this machine can see
HARDWARE = ("physical", "virtio")

#: Kinds of interface with a meaningful speed: a bridge, a veth and the like report an arbitrary one
RATED = ("physical", "virtual function", "bond")

#: DEVTYPE of software drivers in uevent (SET_NETDEV_DEVTYPE)
_SOFTWARE = ("bond", "vlan", "bridge")

#: Port of a switch on the NIC, not a NIC: it represents a virtual function, a sub-function or, on a DPU, a
#: whole function of its host (Documentation/networking/devlink/devlink-port.rst)
_REPRESENTOR = regex(r"(c[0-9]+)?pf[0-9]+((vf|sf)[0-9]+)?\Z", re.ASCII)

_DEVTYPE = regex(r"^DEVTYPE=(\w+)$", re.MULTILINE | re.ASCII)


def read(reader: Reader, devices: Mapping[str, PciDevice]) -> tuple[Nic, ...]:
    """All interfaces of this network namespace: PCI functions by address, then the others by name."""
    nics = []
    for name in reader.names(NETS):
        if name == "bonding_masters":  # a file of the bonding driver among the interfaces
            continue
        folder = reader.link(f"{NETS}/{name}")
        if folder:
            nics.append(_nic(reader, name, folder, devices))
    return tuple(sorted(nics, key=_order))


def behind(folder: str, subsystem: str) -> str:
    """The device in sysfs of a class member such as .../0000:1a:00.0/net/eth0; "" for a software device."""
    device, _slash, _name = folder.rpartition(f"/{subsystem}/")
    return "" if not device or device.endswith("/devices/virtual") else device


def function(device: str) -> str | None:
    """PCI function of a device, or of its parent for virtio and sub-functions."""
    parts = device.split("/")
    if re.match(r"virtio[0-9]+\Z", parts[-1], re.ASCII) or ".sf." in parts[-1]:
        parts.pop()
    return pci.normal(parts[-1]) if parts else None


def _order(nic: Nic) -> tuple[bool, tuple[int, str], int, list[tuple[int, str]]]:
    at = pci.order(nic.address) if nic.address else (0, "")
    return nic.address is None, at, nic.port, natural(nic.name)


def _nic(reader: Reader, name: str, folder: str, devices: Mapping[str, PciDevice]) -> Nic:
    device = behind(folder, "net")
    address = function(device)
    on = devices.get(address or "")
    queues = reader.names(f"{folder}/queues", needed=False)
    operstate = reader.quiet(f"{folder}/operstate") or "unknown"
    return Nic(
        name=name,
        kind=_kind(reader, folder, device, on),
        folder=device,
        driver=(reader.link(f"{device}/driver").rpartition("/")[2] or None) if device else None,
        address=address,
        port=integer(reader.quiet(f"{folder}/dev_port")) or 0,
        speed_mbit=_speed(reader.quiet(f"{folder}/speed")),
        operstate=operstate,
        mtu=reader.number(f"{folder}/mtu"),
        node=on.node if on else None,
        rx_queues=sum(queue.startswith("rx-") for queue in queues),
        tx_queues=sum(queue.startswith("tx-") for queue in queues),
        mac=reader.quiet(f"{folder}/address"),
        master=reader.link(f"{folder}/master").rpartition("/")[2] or None,
        # EINVAL unless the interface is up (net/core/net-sysfs.c: carrier_show)
        carrier=operstate == "unknown" and reader.quiet(f"{folder}/carrier") == "1",
    )


def _speed(text: str) -> int | None:
    """Speed in Mbit/s; None for -1 and for EINVAL while the link is down: the driver knows none."""
    speed = integer(text)
    return speed if speed is not None and speed > 0 else None


def _kind(reader: Reader, folder: str, device: str, on: PciDevice | None) -> str:
    last = device.rpartition("/")[2]
    if not device:
        match = _DEVTYPE.search(reader.quiet(f"{folder}/uevent"))
        return match.group(1) if match and match.group(1) in _SOFTWARE else "virtual"
    if last.startswith("virtio"):
        return "virtio"
    if ".sf." in last or (on is not None and on.physfn is not None):
        return "virtual function"
    # Drivers without port names answer EOPNOTSUPP.
    if _REPRESENTOR.match(reader.quiet(f"{folder}/phys_port_name")):
        return "virtual"
    return "physical"
