# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ports that are rails: the GPUs' RDMA network, numbered as it is cabled, in bus order."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Iterable, Mapping, Sequence

from ..model.record import regex
from . import distance
from .distance import Port
from .management import RECORD, record, unknown
from .model import Distance, Gpu, Nic, PciDevice, RdmaDevice
from .nics import NETS
from .sysfs import Reader

#: Only this kind of entry in the management record (management.py) counts here
_ROUTE = "default route"

_ROUTES, _ROUTES6 = "/proc/net/route", "/proc/net/ipv6_route"

# Destination and mask 0, flags with RTF_UP; columns: proc_net(5), net/ipv6/route.c
_DEFAULT = regex(
    r"^(\S+)\s+00000000\s+[0-9A-F]{8}\s+[0-9A-F]{3}[13579BDF]\s(?:\S+\s+){3}00000000\s", re.MULTILINE
)
_DEFAULT6 = regex(r"^0{32} 00 0{32} 00 [0-9a-f]{32} (?:\S+ ){3}[0-9a-f]{7}[13579bdf] +(\S+)$", re.MULTILINE)


def management(reader: Reader, nics: Sequence[Nic]) -> frozenset[str]:
    """Interfaces that carry the default route, and the interfaces below them. Read only if the node has RDMA.

    Without a default route, as early at boot, the management record decides. Otherwise the management port
    would be a rail for a moment and shift the numbers of all later rails.
    """
    if not any(nic.rdma for nic in nics):
        return frozenset()
    text = reader.text(_ROUTES) or ""
    text6 = reader.text(_ROUTES6, needed=False) or ""
    names = {*_DEFAULT.findall(text), *_DEFAULT6.findall(text6)} - {"lo"} or _recorded(reader, nics)
    by_name = {nic.name: nic for nic in nics}
    todo = [name for name in names if name in by_name]
    while todo:
        name = todo.pop()
        # Bonds, bridges and VLANs have a link for each interface below them.
        below = {
            item[len("lower_") :] for item in _links(reader, name, by_name[name]) if item.startswith("lower_")
        }
        below.update(nic.name for nic in nics if nic.master == name)
        todo += [lower for lower in below - names if lower in by_name]
        names |= below
    return frozenset(names)


def _recorded(reader: Reader, nics: Sequence[Nic]) -> set[str]:
    """Interfaces of the record, by their present names; empty without a record.

    Connections do not count, because they differ between runs.
    """
    content = record(reader.host, pid=0)  # no process, so no connection
    if content is None:
        if reader.exists(RECORD):
            reader.note(RECORD, unknown(reader.host, pid=0))
        return set()
    names: set[str] = set()
    for entry in json.loads(content)["interfaces"]:
        if entry["carries"] != _ROUTE:
            continue
        there = {nic.name for nic in nics if entry["address"] and nic.address == entry["address"]}
        # Two ports may share an address; only the name distinguishes them.
        names |= {entry["name"]} if entry["name"] in there or not there else there
    return names


def choose(
    ports: Sequence[Port],
    gpus: Sequence[Gpu],
    distances: Sequence[Distance],
    devices: Mapping[str, PciDevice],
    avoid: Iterable[str],
) -> tuple[Port, ...]:
    """The rails in the order of their numbers.

    Candidates are ports with hardware RDMA devices, or, without any, with software ones (Soft-RoCE).

    1. On a node with GPUs: ports at the nearest distance to at least one GPU; all ports if no distance is
       known. A port on a GPU's coherent link to the CPU (C2C) counts as nearest.
    2. From these, ports of the most frequent model: rails are bought alike.
    3. From these, ports that do not carry the default route, unless all do.

    The choice ignores link state: a failing cable does not renumber rails.
    """
    able = [port for port in ports if port.rdma]
    capable = [port for port in able if not port.software] or able
    names = [port.name for port in capable]
    near = {name for gpu in gpus for name in distance.nearest(distances, gpu.address, names)[1]}
    near.update(name for gpu in gpus for name in distance.coherent(distances, gpu, names))
    candidates = [port for port in capable if not near or port.name in near]
    models = Counter(_model(port, devices) for port in candidates)
    most = max(models.values(), default=0)
    alike = tuple(port for port in candidates if models[_model(port, devices)] == most)
    unwanted = {*avoid}
    return tuple(port for port in alike if port.name not in unwanted) or alike


def _model(port: Port, devices: Mapping[str, PciDevice]) -> tuple[int, int] | None:
    """(vendor, device) of a port; None if it is on no PCI bus."""
    device = devices.get(port.address)
    return (device.vendor, device.device) if device else None


def numbered(
    nics: Sequence[Nic], rdma: Sequence[RdmaDevice], rails: Sequence[Port]
) -> tuple[tuple[Nic, ...], tuple[RdmaDevice, ...]]:
    """Interfaces and RDMA devices with rail numbers. Bond members that share an RDMA device are one rail."""
    numbers: dict[tuple[str, ...], int] = {}
    for port in rails:
        numbers.setdefault(_rail(port), len(numbers))
    by_name = {port.name: numbers[_rail(port)] for port in rails}
    by_rdma = {name: numbers[_rail(port)] for port in reversed(rails) for name in port.rdma}
    return (
        tuple(nic._replace(rail=by_name.get(nic.name)) for nic in nics),
        tuple(device._replace(rail=by_rdma.get(device.name)) for device in rdma),
    )


def _rail(port: Port) -> tuple[str, ...]:
    return (port.bond, *port.rdma) if port.bond else (port.name,)


def _links(reader: Reader, name: str, nic: Nic) -> list[str]:
    return [] if nic.folder else reader.names(f"{NETS}/{name}", needed=False)
