# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Interfaces for the values of a rule: rings belong to hardware, an MTU to the bond or VLAN above it."""

from __future__ import annotations

from typing import Callable

from ...host.host import Host
from ...model.record import NamedTuple
from ...model.setting import Value
from ...topology import hardware, management
from ...topology.model import Nic
from ..summary import Target
from . import ports
from .ports import Found
from .selection import ALL, Selection

_NETS = "/sys/class/net"

#: Groups that are files of sysfs
SYSFS = ("tx_queue_len", "mtu")


class Targets(NamedTuple):
    """found: their ports, or why there are none."""

    targets: tuple[Target, ...] = ()
    found: Found = Found()


def find(host: Host, selection: Selection, group: str) -> Targets:
    """The interfaces for values of a group of files.

    A bond, bridge or VLAN in the selection has its own MTU and queue length; other groups apply to the NICs
    below it. A NIC below a bond has the bond's MTU, which the bond passes on.
    """
    nics = {nic.name: nic for nic in hardware.topology(host).nics}
    named = [nics[name] for name in selection.names if name in nics and not _is_hardware(nics[name])]
    if named and selection.management is not None:
        blind = management.unknown(host)
        if blind:
            return Targets(found=Found(problem=Value(unreadable=blind)))
        carrying = management.interfaces(host)
        named = [nic for nic in named if (nic.name in carrying) == selection.management]
    # Interfaces in software do not match criteria for hardware.
    if selection._replace(names=(), link="", management=None) != ALL:
        named = []
    if selection.link:
        named = [nic for nic in named if nic.up == (selection.link == "up")]
    own: list[Target] = []
    names = {name for name in selection.names if name not in nics or _is_hardware(nics[name])}
    for nic in named:
        below = beneath(host, nic.name)
        if group in SYSFS or not below:
            own.append(_target(host, nic, None))
        else:
            names.update(below)
    if selection.names and not names:
        reason = f"no NIC here matches {selection}"
        if own:
            return Targets(tuple(own))
        return Targets(found=Found(problem=Value(absent=reason), nowhere=True, missing=True))
    matches = ports.find(host, selection._replace(names=tuple(sorted(names))))
    targets = [*own]
    for port in matches.ports:
        for nic in port.nics:
            master = nics.get(nic.master or "")
            on = master if group == "mtu" and master is not None and master.kind == "bond" else nic
            targets.append(_target(host, on, port.node))
    unique = {target.name: target for target in targets}
    if not unique and matches.ports:
        reason = f"{', '.join(port.label for port in matches.ports)}: no interface, only an RDMA device"
        return Targets(found=Found(problem=Value(absent=reason)))
    return Targets(tuple(unique.values()), matches)


def above(host: Host, name: str, counts: Callable[[str], bool] = bool) -> list[str]:
    """Interfaces above this one, the nearest first. counts: false excludes one with all above it."""
    uppers: list[str] = []
    todo = [name]
    while todo:
        new = [
            upper for upper in linked(host, todo.pop(0), "upper_") if upper not in uppers and counts(upper)
        ]
        uppers += new
        todo += new
    return uppers


def beneath(host: Host, name: str) -> list[str]:
    """The lowest interfaces below this one; empty if nothing is below it."""
    leaves: list[str] = []
    todo, seen = [name], {name}
    while todo:
        here = todo.pop()
        lower = _lower(host, here)
        if not lower and here != name:
            leaves.append(here)
        todo += [interface for interface in lower if interface not in seen]
        seen.update(lower)
    return sorted(leaves)


def _is_hardware(nic: Nic) -> bool:
    return bool(nic.folder)


def _target(host: Host, nic: Nic, node: int | None) -> Target:
    # An interface in software has no device with a driver.
    driver = nic.driver or host.value(f"/ethtool/{nic.name}/driver/driver").text
    return Target(nic.name, driver, node, _depth(host, nic.name), nic.address or "")


def _depth(host: Host, name: str) -> int:
    depth, here, seen = 0, {name}, {name}
    while True:
        here = {lower for upper in here for lower in _lower(host, upper)} - seen
        if not here:
            return depth
        seen |= here
        depth += 1


def _lower(host: Host, name: str) -> list[str]:
    return linked(host, name, "lower_")


def linked(host: Host, name: str, prefix: str) -> list[str]:
    """Interfaces directly above this one with `upper_`, or directly below it with `lower_`."""
    return [entry[len(prefix) :] for entry in host.names(f"{_NETS}/{name}") if entry.startswith(prefix)]
