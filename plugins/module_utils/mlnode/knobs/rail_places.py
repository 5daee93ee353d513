# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which interfaces speak IP for the NICs that a rule means: a bond or VLAN on them may have their address."""

from __future__ import annotations

from typing import Mapping, NamedTuple, Sequence

from ..errors import HostError
from ..host import Host
from ..policy_routes import files
from ..policy_routes.tables import Address
from ..setting import Value
from ..topology import read as topology
from ..topology.model import Nic
from . import nic_targets
from .nic_targets import Target
from .selection import Selection

_NETS = "/sys/class/net"

#: A group of files that an interface in software has, too, and the members of a bond by themselves
_GROUP = "tx_queue_len"

#: What an address may be on instead of the NIC. A macvlan or ipvlan is another machine to the network.
_ABOVE = ("bond", "vlan", "bridge")


class Places(NamedTuple):
    """The interfaces; the rest as in ports.Found, but that there may be several notes."""

    targets: tuple[Target, ...] = ()
    problem: Value = Value()
    notes: tuple[str, ...] = ()
    nowhere: bool = False
    missing: bool = False
    elsewhere: bool = False


def find(host: Host, selection: Selection) -> Places:
    """Where the addresses of the chosen NICs are. Raises nothing: what cannot be told is the problem."""
    chosen = nic_targets.find(host, selection, _GROUP)
    nics = {nic.name: nic for nic in topology.of(host).nics}
    found: dict[str, Target] = {}
    notes = [chosen.note] if chosen.note else []
    try:
        for target in chosen.targets:
            names = _speaking(host, target, nics)
            if names != [target.name]:
                notes.append(f"{target.name}: its address is on {', '.join(names)}, which is what counts")
            for name in names:
                found.setdefault(name, target if name == target.name else Target(name))
    except HostError as error:
        return Places(problem=Value(unreadable=str(error)))
    return Places(
        tuple(found.values()),
        chosen.problem,
        tuple(notes),
        chosen.nowhere,
        chosen.missing,
        chosen.elsewhere,
    )


def _speaking(host: Host, target: Target, nics: Mapping[str, Nic]) -> list[str]:
    """Of an interface and what stands on it, those with an IPv4 address; itself where none has one."""
    stack = [target.name, *(_above(host, target.name, nics) if target.name in nics else ())]
    if len(stack) == 1:
        return stack
    return [name for name in stack if addresses(host, name)] or stack[:1]


def _above(host: Host, name: str, nics: Mapping[str, Nic]) -> list[str]:
    """Nearest first."""
    found: list[str] = []
    todo = [name]
    while todo:
        here = todo.pop(0)
        for entry in host.names(f"{_NETS}/{here}"):
            upper = entry[len("upper_") :]
            known = entry.startswith("upper_") and upper in nics and upper not in found
            if known and nics[upper].kind in _ABOVE:
                found.append(upper)
                todo.append(upper)
    return found


def addresses(host: Host, name: str) -> Sequence[Address]:
    """Those of an interface for other machines. Raises HostError."""
    path = files.addresses_file(name)
    found: Sequence[Address] = host.once(path, lambda: files.parse_addresses(host.read(path)))
    return found


def rail(host: Host, name: str) -> int | None:
    """The lowest rail that an interface is or stands on; None where there is none. Raises HostError."""
    nics = topology.of(host).nics
    below = {name, *nic_targets.beneath(host, name)}
    mine = [nic for nic in nics if nic.name in below]
    # Further interfaces of a port, such as IPoIB with a partition key, have no number of their own.
    ports = {(nic.address, nic.port) for nic in mine if nic.address}
    found = [nic.rail for nic in (*mine, *(nic for nic in nics if (nic.address, nic.port) in ports))]
    return min((number for number in found if number is not None), default=None)


def is_up(host: Host, name: str) -> bool:
    """Whether it was raised, whatever its cable says: the kernel keeps no routes of one that was not.
    Raises HostError."""
    text = host.read(f"{_NETS}/{name}/flags").strip()
    try:
        return bool(int(text, 16) & 1)  # IFF_UP, include/uapi/linux/if.h
    except ValueError:
        raise HostError("understand", f"{_NETS}/{name}/flags", None, f"it reads {text[:40]!r}") from None


def vrf(host: Host, name: str) -> str:
    """The VRF that an interface is in, which has a table of its own; empty without one. Raises HostError."""
    for entry in host.names(f"{_NETS}/{name}"):
        upper = entry[len("upper_") :]
        if entry.startswith("upper_"):
            words = host.value(f"{_NETS}/{upper}/uevent").text or ""
            if "DEVTYPE=vrf" in words.splitlines():
                return upper
    return ""
