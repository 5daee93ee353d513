# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who else sets the values of a NIC at boot: udev by systemd's .link files, ifupdown, systemd-networkd and
NetworkManager, the last two also for netplan. An owner that nothing starts sets nothing."""

from __future__ import annotations

from typing import Callable, Mapping, Sequence

from ..errors import HostError, printable
from ..ethtool import words as ethtool_words
from ..host import Host
from . import nic_owner, nic_owner_ifupdown, nic_owner_netplan, nic_owner_networkmanager, nic_owner_systemd
from .nic_owner import Device, Found, Target, Word

__all__ = ["Target", "Word", "means", "of", "problems"]

#: In the order in which they act at boot: udev as the interface appears, the others as it is brought up, of
#: which a machine should have one
_READERS: Sequence[Callable[[Host, Sequence[Device], Found], None]] = (
    nic_owner_systemd.read_links,
    nic_owner_ifupdown.read,
    nic_owner_systemd.read_networks,
    nic_owner_networkmanager.read,
)


def of(host: Host, targets: Sequence[Target]) -> Mapping[str, list[Word]]:
    """Interface → what others set there; of several words for one file the last one wins."""
    return _found(host, targets).words


def problems(host: Host, targets: Sequence[Target]) -> list[str]:
    """What could not be read or told, so that there may be more words than of() has."""
    return _found(host, targets).problems


def means(word: Word, group: str, field: str) -> bool:
    """Whether a word is about a file GROUP/FIELD; `feature/tso` is about all features of that family."""
    said, _slash, name = word.file.rpartition("/")
    if said == "feature" == group:
        return bool(ethtool_words.members(name, (field,)))
    return name == field and said in (group, "")


def _found(host: Host, targets: Sequence[Target]) -> Found:
    return host.once(f"owners of {list(targets)}", lambda: _read(host, targets))


def _read(host: Host, targets: Sequence[Target]) -> Found:
    found = Found()
    try:
        devices = [nic_owner.device(host, target) for target in targets]
        nic_owner_netplan.read(host, found)
    except HostError as error:
        found.doubt(printable(str(error)))
        return found
    for read in _READERS:
        try:
            read(host, devices, found)
        except HostError as error:
            found.doubt(printable(str(error)))
    return found
