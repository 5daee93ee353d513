# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files ifcfg-NAME of Red Hat's distributions up to 9: shell variables, which NetworkManager's plugin
ifcfg-rh reads (nm-settings-ifcfg-rh(5)), or the old service `network` (initscripts: sysconfig.txt)."""

from __future__ import annotations

import shlex
from typing import Mapping

from ..host import Host
from . import nic_owner, nic_owner_commands
from .nic_owner import Device, Found, Word, source

FOLDER = "/etc/sysconfig/network-scripts"
UNIT = "network.service"
OWNER = "network-scripts"

#: What is no profile: initscripts' network-functions: __sed_discard_ignored_files, and NetworkManager's
#: nms-ifcfg-rh-utils.c: utils_should_ignore_file
_IGNORED = ("~", ".bak", ".orig", ".old", ".rpmsave", ".rpmorig", ".rpmnew", ".augsave", ".augnew", ".tmp")

#: TYPE= → the type of a device; what is left out is one of these by its name
_TYPES = {"": "ether", "ethernet": "ether", "infiniband": "infiniband"}


def paths(host: Host, found: Found) -> list[str]:
    names = found.names(host, FOLDER)
    return [
        f"{FOLDER}/{name}"
        for name in names
        if name.startswith("ifcfg-") and name != "ifcfg-lo" and not name.endswith(_IGNORED)
    ]


def parse(text: str) -> dict[str, tuple[str, int]]:
    """The last value of each variable, and its line."""
    found: dict[str, tuple[str, int]] = {}
    for number, line in enumerate(text.split("\n"), start=1):
        try:
            words = shlex.split(line, comments=True)
        except ValueError:  # a quote that is not closed: neither reader takes such a line
            continue
        name, equals, value = words[0].partition("=") if words else ("", "", "")
        if equals:
            found[name] = (value, number)
    return found


def value(variables: Mapping[str, tuple[str, int]], name: str) -> str:
    return variables.get(name, ("", 0))[0]


def applies(variables: Mapping[str, tuple[str, int]], device: Device) -> bool | None:
    """At boot, to this device; None where nobody can tell."""
    if nic_owner.switch(value(variables, "ONBOOT")) == "off":
        return False
    name, address = value(variables, "DEVICE"), value(variables, "HWADDR")
    if name and name != device.name:
        return False
    if address and nic_owner.mac(address) != device.mac:
        return False if device.own_mac else None
    if name or address:
        return True
    return None if device.type is None else _TYPES.get(value(variables, "TYPE").lower()) == device.type


def words(variables: Mapping[str, tuple[str, int]], path: str, device: Device, owner: str) -> list[Word]:
    found = []
    text, line = variables.get("MTU", ("", 0))
    size = nic_owner.number(text)
    if size and size != "0":
        found.append(Word("mtu", size, source(path, line), owner))
    text, line = variables.get("ETHTOOL_OPTS", ("", 0))
    text = text.replace("${DEVICE}", device.name).replace("$DEVICE", device.name)
    found += [
        Word(said.file, said.value, source(path, line), owner)
        for command in text.split(";")
        for said in nic_owner_commands.ethtool(command.split())
        if said.interface == device.name
    ]
    return found
