# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""RDMA devices, and the interfaces they share a port with. See the kernel's
Documentation/ABI/stable/sysfs-class-infiniband."""

from __future__ import annotations

from dataclasses import replace
from typing import Mapping, Sequence

from . import nics
from .model import Nic, PciDevice, RdmaDevice, RdmaPort
from .reader import Reader, integer, natural

RDMA = "/sys/class/infiniband"


def read(reader: Reader, known: Sequence[Nic], devices: Mapping[str, PciDevice]) -> tuple[RdmaDevice, ...]:
    """All RDMA devices by name; none where no driver of one is loaded."""
    names = sorted(reader.names(RDMA, needed=False), key=natural)
    found = [(name, reader.link(f"{RDMA}/{name}")) for name in names]
    return tuple(_device(reader, name, folder, known, devices) for name, folder in found if folder)


def joined(known: Sequence[Nic], rdma: Sequence[RdmaDevice]) -> tuple[Nic, ...]:
    """The interfaces, each with its RDMA devices."""
    return tuple(
        replace(nic, rdma=tuple(device.name for device in rdma if nic.name in device.netdevs))
        for nic in known
    )


def _device(
    reader: Reader, name: str, folder: str, known: Sequence[Nic], devices: Mapping[str, PciDevice]
) -> RdmaDevice:
    behind = nics.behind(folder, "infiniband")
    address = nics.function(behind)
    on = devices.get(address or "")
    numbers = [integer(port) for port in reader.names(f"{folder}/ports")]
    ports = tuple(_port(reader, folder, number) for number in numbers if number is not None)
    return RdmaDevice(
        name=name,
        address=address,
        node=on.node if on else None,
        ports=ports,
        netdevs=_netdevs(reader, folder, behind, ports, known),
    )


def _port(reader: Reader, folder: str, number: int) -> RdmaPort:
    at = f"{folder}/ports/{number}"
    return RdmaPort(
        number,
        link_layer=reader.text(f"{at}/link_layer") or "",
        state=(reader.text(f"{at}/state") or "").rpartition(": ")[2],  # 4: ACTIVE
        rate=reader.quiet(f"{at}/rate"),
    )


def _netdevs(
    reader: Reader, folder: str, behind: str, ports: Sequence[RdmaPort], known: Sequence[Nic]
) -> tuple[str, ...]:
    """By the common device, by the first GID (of a bond: the bond), and by what Soft-RoCE says it is on."""
    same = [nic for nic in known if behind and nic.folder == behind and nic.kind != "virtual"]
    if len(same) > 1:
        # One function with several ports, as on ConnectX-3: dev_port counts from 0 and RDMA from 1. Alone, a
        # function's dev_port says nothing: it may be the port of the card.
        same = [nic for nic in same if nic.port + 1 in {port.number for port in ports}]
    names = [nic.name for nic in same]
    names += [reader.quiet(f"{folder}/ports/{port.number}/gid_attrs/ndevs/0") for port in ports]
    names.append(reader.quiet(f"{folder}/parent"))
    here = {nic.name for nic in known}
    return tuple(name for name in dict.fromkeys(names) if name in here)
