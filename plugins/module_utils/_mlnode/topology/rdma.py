# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""RDMA devices, and the interfaces that share a port with them.
Documentation/ABI/stable/sysfs-class-infiniband of the kernel.
"""

from __future__ import annotations

from typing import Mapping, Sequence

from ..model.record import NamedTuple
from . import nics
from .model import Nic, PciDevice, RdmaDevice, RdmaPort
from .sysfs import Reader, integer, natural

RDMA = "/sys/class/infiniband"


#: A GID table may have hundreds of entries. The interface's own come first
#: (drivers/infiniband/core/roce_gid_mgmt.c: the default GIDs), and this many include an address of each kind.
_GIDS = 16


class _Known(NamedTuple):
    """The interfaces of this network namespace. owned: devices in sysfs that have an RDMA device."""

    nics: Mapping[str, Nic]
    owned: frozenset[str]


def read(reader: Reader, known: Sequence[Nic], devices: Mapping[str, PciDevice]) -> tuple[RdmaDevice, ...]:
    """All RDMA devices by name; empty without an RDMA driver."""
    names = sorted(reader.names(RDMA, needed=False), key=natural)
    folders = [(name, reader.link(f"{RDMA}/{name}")) for name in names]
    owned = frozenset(nics.behind(folder, "infiniband") for _name, folder in folders)
    here = _Known({nic.name: nic for nic in known}, owned)
    return tuple(_device(reader, name, folder, here, devices) for name, folder in folders if folder)


def joined(known: Sequence[Nic], rdma: Sequence[RdmaDevice]) -> tuple[Nic, ...]:
    """The interfaces, each with its RDMA devices."""
    return tuple(
        nic._replace(rdma=tuple(device.name for device in rdma if nic.name in device.netdevs))
        for nic in known
    )


def _device(
    reader: Reader, name: str, folder: str, known: _Known, devices: Mapping[str, PciDevice]
) -> RdmaDevice:
    behind = nics.behind(folder, "infiniband")
    address = nics.function(behind)
    on = devices.get(address or "")
    numbers = [integer(port) for port in reader.names(f"{folder}/ports")]
    numbered = [number for number in numbers if number is not None]
    ports = tuple(_port(reader, folder, number, behind, len(numbered) > 1, known) for number in numbered)
    return RdmaDevice(
        name=name,
        address=address,
        node=on.node if on else None,
        ports=ports,
        netdevs=tuple(dict.fromkeys(netdev for port in ports for netdev in port.netdevs)),
    )


def _port(reader: Reader, folder: str, number: int, behind: str, several: bool, known: _Known) -> RdmaPort:
    at = f"{folder}/ports/{number}"
    layer = reader.text(f"{at}/link_layer") or ""
    named = _named(reader, folder, at, layer, known)
    same = _same(behind, number, several, known)
    return RdmaPort(
        number,
        link_layer=layer,
        state=(reader.text(f"{at}/state") or "").rpartition(": ")[2],  # 4: ACTIVE
        rate=reader.quiet(f"{at}/rate"),
        netdevs=_on_hardware(reader, named, same, bool(behind), known) if named else same,
    )


# -- the interface of a port ---------------------------------------------------------------


def _named(reader: Reader, folder: str, at: str, layer: str, known: _Known) -> str:
    """Interface of a port as the kernel reports it; "" if there is none in this network namespace.

    The interface of the first GID, which may be the bond; for Soft-RoCE also the parent. An unused GID
    answers EINVAL. InfiniBand GIDs belong to no interface.
    """
    if layer != "InfiniBand":
        indexes = sorted(reader.names(f"{at}/gid_attrs/ndevs", needed=False), key=natural)
        for index in indexes[:_GIDS]:
            name = reader.quiet(f"{at}/gid_attrs/ndevs/{index}").strip()
            if name in known.nics:
                return name
    parent = reader.quiet(f"{folder}/parent").strip()
    return parent if parent in known.nics else ""


def _on_hardware(
    reader: Reader, name: str, same: Sequence[str], hardware: bool, known: _Known
) -> tuple[str, ...]:
    """An interface and, if it is in software, the hardware below it. hardware: of the RDMA device.

    Bond members with their own RDMA devices are left out: RoCE LAG creates one device for all members
    (mellanox/mlx5/core/lag), and without it the bond's addresses are on the devices of both.
    """
    if known.nics[name].folder:
        return (name,)
    below = [
        lower
        for lower in _beneath(reader, name, known)
        if not hardware or known.nics[lower].folder not in known.owned
    ]
    return (*dict.fromkeys((*same, *below)), name)


def _beneath(reader: Reader, name: str, known: _Known) -> list[str]:
    """The hardware below a software interface, such as a bond or a VLAN on it."""
    names: list[str] = []
    todo, seen = [name], {name}
    while todo:
        here = todo.pop(0)
        if known.nics[here].folder:
            names += [here] if here != name else []
            continue
        links = reader.names(f"{nics.NETS}/{here}", needed=False)
        lower = {link[len("lower_") :] for link in links if link.startswith("lower_")}
        lower.update(nic.name for nic in known.nics.values() if nic.master == here)
        fresh = sorted((lower - seen) & {*known.nics}, key=natural)
        seen.update(fresh)
        todo += fresh
    return sorted(names, key=natural)


def _same(behind: str, number: int, several: bool, known: _Known) -> tuple[str, ...]:
    """The last resort: the interfaces of the same function, as rdma-core finds them.

    With several ports, the port numbers must match, as on ConnectX-3: dev_port counts from 0 and RDMA from 1.
    A single function's dev_port proves nothing: it may be the port of the card.
    """
    if not behind:
        return ()
    same = [nic for nic in known.nics.values() if nic.folder == behind and nic.kind != "virtual"]
    if several or len({nic.port for nic in same}) > 1:
        same = [nic for nic in same if nic.port + 1 == number]
    return tuple(nic.name for nic in same)
