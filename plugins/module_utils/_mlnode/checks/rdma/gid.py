# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Addresses of a port that peers can reach: the GID table, and the settings of RDMA-CM.

A driver fills the table as interfaces get addresses, so the index of an entry cannot be declared. The right
index is reported here and may differ after the next boot.
"""

from __future__ import annotations

import ipaddress
from typing import Sequence

from ...host.host import Host
from ...model.errors import HostError
from ...model.record import dataclass, replace
from ...model.setting import Value
from ...topology.model import Topology
from ...topology.sysfs import integer
from ..expect import Expectations
from ..model import DEVIATIONS, Check, Verdict
from . import ipv6, ports
from .ports import CLASS, ETHERNET, Port

NAMES = ("gid", "rdma_cm")

#: The routable type, which every current RoCE NIC has (RoCE v1 stays within one Ethernet)
ROUTED = "RoCE v2"

CM = "/sys/kernel/config/rdma_cm"

#: Number of entries in a message; mlx5 has 256
_SHOWN = 4


@dataclass(frozen=True)
class Gid:
    """One entry in use. kind, netdev: None if unreadable."""

    index: int
    address: ipaddress.IPv6Address
    kind: str | None
    netdev: str | None

    @property
    def routed(self) -> bool:
        return not self.address.is_link_local

    def __str__(self) -> str:
        shown = self.address.ipv4_mapped or self.address
        parts = [f"index {self.index}:", str(shown), self.kind or "of unknown type"]
        return " ".join(parts + ([f"on {self.netdev}"] if self.netdev else []))


def checks(host: Host, topology: Topology, expect: Expectations) -> list[Check]:
    checks = []
    for port in ports.subjects(topology, expect).ports:
        checks += [_gid(host, port), _rdma_cm(host, port)]
    return checks


def table(host: Host, port: Port) -> tuple[list[Gid], str]:
    """The entries in use, and why some could not be read; "" if all could.

    Empty entries read as zeros, and their attributes return EINVAL.
    """
    path = f"{port.folder}/gids"
    try:
        numbers = [number for number in map(integer, host.names(path)) if number is not None]
    except HostError as error:
        return [], str(error)
    entries, problem = [], "" if numbers else f"{path} does not exist"
    for number in sorted(numbers):
        value = ports.read(host, f"{path}/{number}")
        try:
            address = ipaddress.IPv6Address((value.text or "").strip())
        except ValueError:
            strange = f"{path}/{number} says {(value.text or '')[:60]!r}, which is not a GID"
            problem = problem or value.problem or strange
            continue
        if int(address):
            kind = ports.read(host, f"{port.folder}/gid_attrs/types/{number}").text
            netdev = ports.read(host, f"{port.folder}/gid_attrs/ndevs/{number}").text
            entries.append(Gid(number, address, kind, netdev))
    return entries, problem


def reachable(entries: Sequence[Gid], kind: str = ROUTED, netdev: str | None = None) -> list[Gid]:
    """Routable entries of a RoCE port. For RoCE v1, which is never routable, all entries."""
    right = [entry for entry in entries if entry.kind == kind and _is_on(entry, netdev)]
    return [entry for entry in right if entry.routed or kind != ROUTED]


def _gid(host: Host, port: Port) -> Check:
    subject = port.about("gid", "gids", "an entry")
    if is_iwarp(host, port):
        return subject.skip("iWARP has no GIDs to choose from")
    entries, problem = table(host, port)
    if not entries and problem:
        return subject.unknown(problem)
    if not entries:
        advice = "the port has no address: check that its interface is up and has one"
        return _explained(host, port, subject.judged(False, "all entries are empty", advice=advice))
    if port.layer != ETHERNET:
        evidence = "; ".join(f"index {entry.index}: {entry.address}" for entry in entries[:_SHOWN])
        return subject.judged(True, evidence, value=str(entries[0].index))
    return _explained(host, port, _roce(port, entries, problem))


def _roce(port: Port, entries: Sequence[Gid], problem: str) -> Check:
    kind = port.expect.get("gid_type", ROUTED)
    netdev = port.expect.get("netdev")
    expected = f"a routable {kind} entry" if kind == ROUTED else f"a {kind} entry"
    subject = port.about("gid", "gids", expected + (f" on {netdev}" if netdev else ""))
    usable = reachable(entries, kind, netdev)
    if usable:
        return subject.judged(True, _shown(usable), value=str(usable[0].index))
    dark = [entry for entry in entries if entry.kind is None or entry.netdev is None]
    if dark or problem:
        evidence = problem or f"{_shown(dark)}: its type or interface cannot be read"
        return subject.unknown(evidence, source=f"{port.folder}/gid_attrs")
    right = [entry for entry in entries if entry.kind == kind and _is_on(entry, netdev)]
    if right:
        advice = "link-local addresses work within one subnet only: give the interface an IP address"
        return subject.judged(False, _shown(right), advice=advice, bad=Verdict.WARN)
    advice = f"give the interface an address, and have the driver make {kind} of it (RoCE mode of the NIC)"
    return subject.judged(False, _shown(entries), advice=advice)


def _explained(host: Host, port: Port, check: Check) -> Check:
    """The check with the reason for a lack of IPv6 addresses. InfiniBand makes its GIDs without them."""
    name = port.expect.get("netdev") or (port.nic.name if port.nic is not None else "")
    lack = ipv6.explain(host, name) if name and check.verdict in DEVIATIONS else None
    if lack is None or port.layer != ETHERNET:
        return check
    advice = "; ".join(filter(None, (check.advice, lack.remedy)))
    return replace(check, found=f"{check.found}; {lack.words}", advice=advice)


def _is_on(entry: Gid, netdev: str | None) -> bool:
    """True if an entry is on the declared interface. VLANs have separate entries, so the default is any."""
    return entry.netdev is not None and netdev in (None, entry.netdev)


def _shown(entries: Sequence[Gid]) -> str:
    shown = "; ".join(map(str, entries[:_SHOWN]))
    return shown if len(entries) <= _SHOWN else f"{shown}; and {len(entries) - _SHOWN} more"


def is_iwarp(host: Host, port: Port) -> bool:
    return (host.value(f"{CLASS}/{port.device.name}/node_type").text or "").startswith("4:")


# -- RDMA-CM -------------------------------------------------------------------------------


def _rdma_cm(host: Host, port: Port) -> Check:
    """Defaults of RDMA-CM (drivers/infiniband/core/cma_configfs.c).

    A program must create the folder first; a check never makes this change.
    """
    folder = f"{CM}/{port.device.name}/ports/{port.number}"
    subject = port.about("rdma_cm", folder)
    if port.layer != ETHERNET or is_iwarp(host, port):
        return subject.skip("no RoCE port")
    mode, tos = port.expect.get("rdma_cm_mode", ROUTED), port.expect.get("rdma_cm_tos")
    declared = tos is not None or "rdma_cm_mode" in port.expect
    expected = mode + ("" if tos is None else f", ToS {tos}")
    texts = []
    for name in ("default_roce_mode", "default_roce_tos"):
        value = ports.read(host, f"{folder}/{name}")
        if value.absent:
            brings = f"mkdir {CM}/{port.device.name} brings it, and no check does that"
            value = Value(absent=f"{value.absent}: {brings}")
        if value.text is None:
            return subject.missing(value, source=f"{folder}/{name}", expected=expected if declared else "")
        texts.append(value.text.strip())
    good = texts[0] == mode and tos in (None, integer(texts[1]))
    advice = "set it with roce_qos, to put connections made through RDMA-CM into the lossless class"
    return subject.judged(good, f"{texts[0]}, ToS {texts[1]}", expected=expected, advice=advice)
