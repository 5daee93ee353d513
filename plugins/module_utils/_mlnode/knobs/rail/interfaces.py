# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Interfaces with the IP addresses of a rule's NICs: a bond or VLAN above a NIC may have its address."""

from __future__ import annotations

from ...host.host import Host
from ...linux import iproute
from ...model.errors import HostError
from ...model.setting import Value
from ...topology import hardware
from ..nics import targets as nic_targets
from ..nics.ports import Found
from ..nics.selection import Selection
from ..nics.targets import Targets, above
from ..summary import Target

#: A group of files that software interfaces and members of a bond have as well
_GROUP = "tx_queue_len"

#: Interfaces that may have the address instead of the NIC. A macvlan or ipvlan is another host to the
#: network.
_ABOVE = ("bond", "vlan", "bridge")


def find(host: Host, selection: Selection) -> Targets:
    """Interfaces with the addresses of the chosen NICs. Raises nothing: the result holds any problem."""
    chosen = nic_targets.find(host, selection, _GROUP)
    targets: dict[str, Target] = {}
    notes = [chosen.found.note] if chosen.found.note else []
    try:
        for target in chosen.targets:
            names = speaking(host, target.name)
            if names != [target.name]:
                notes.append(f"{target.name}: its address is on {', '.join(names)}, which is set instead")
            for name in names:
                targets.setdefault(name, target if name == target.name else Target(name))
    except HostError as error:
        return Targets(found=Found(problem=Value(unreadable=str(error))))
    return Targets(tuple(targets.values()), chosen.found._replace(note="; ".join(notes)))


def speaking(host: Host, name: str) -> list[str]:
    """An interface and those above it, if they have an address; itself if none has. Raises HostError."""
    nics = {nic.name: nic for nic in hardware.topology(host).nics}
    uppers = (
        above(host, name, lambda upper: upper in nics and nics[upper].kind in _ABOVE) if name in nics else []
    )
    if not uppers:
        return [name]
    stack = [name, *uppers]
    return [interface for interface in stack if interface in iproute.interfaces(host)] or stack[:1]
