# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Facts of a node beside a measurement: kernel, declarations, and the hardware of each rail."""

from __future__ import annotations

import hashlib
import re
from ipaddress import ip_address
from typing import Any, Sequence

from ...engine.declared import FOLDER
from ...host.host import Host
from ...linux import iproute
from ...model.errors import HostError
from ...model.record import regex
from ...topology import links, read
from ...topology.model import Nic, PciDevice, Topology, giga_transfers
from ...topology.nics import RATED

MOUNTS = read.MOUNTS

_FIRMWARE = regex(r"^firmware-version: *(.*)$", re.MULTILINE)

#: As engine/digests.py
_DIGITS = 16


def facts(host: Host, addresses: Sequence[str]) -> dict[str, Any]:
    """All that can be found out; what cannot is null or empty, and never raises."""
    topology = read.of(host)
    return {
        "kernel": host.value("/proc/sys/kernel/osrelease").text or "",
        "declarations": _declarations(host),
        "rails": [_rail(host, topology, interface_of(host, address)) for address in addresses],
    }


def interface_of(host: Host, address: str) -> str:
    """The interface that has an address; "" for none."""
    wanted = ip_address(address)
    try:
        found = iproute.interfaces(host)
    except HostError:
        return ""
    return next((name for name, one in found.items() if any(wanted == own.ip for own in one.addresses)), "")


def _declarations(host: Host) -> dict[str, str]:
    digests = {}
    try:
        names = [name for name in host.names(FOLDER) if name.endswith(".json")]
        for name in names:
            content = host.read_bytes(f"{FOLDER}/{name}")
            digests[name[: -len(".json")]] = hashlib.sha256(content).hexdigest()[:_DIGITS]
    except HostError:  # it may have gone meanwhile, or be root's
        return digests
    return digests


def _rail(host: Host, topology: Topology, name: str) -> dict[str, Any]:
    nic = next((one for one in topology.nics if one.name == name), None)
    if nic is None:
        return {"interface": name, "speed_mbit": None, "mtu": None, "driver": "", "firmware": "", "pcie": []}
    return {
        "interface": name,
        "speed_mbit": nic.speed_mbit if nic.kind in RATED else None,
        "mtu": nic.mtu,
        "driver": nic.driver or "",
        "firmware": _firmware(host, nic),
        "pcie": _links(topology, nic),
    }


def _firmware(host: Host, nic: Nic) -> str:
    if not nic.driver:
        return ""
    for device in nic.rdma:
        version = host.value(f"/sys/class/infiniband/{device}/fw_ver").text
        if version:
            return version
    try:
        done = host.run(["ethtool", "-i", nic.name])
    except HostError:
        return ""
    match = _FIRMWARE.search(done.out) if done.rc == 0 else None
    return match.group(1).strip() if match else ""


def _links(topology: Topology, nic: Nic) -> list[dict[str, Any]]:
    """From the device to the root, without those that a hypervisor makes up."""
    known = {device.address: device for device in topology.pci}
    own = known.get(nic.address or "")
    if own is None or topology.machine.virtual:
        return []
    path = [known[address] for address in reversed(own.path) if address in known]
    return [_link(device) for device in path if device.link and links.faces_up(device)]


def _link(device: PciDevice) -> dict[str, Any]:
    link = device.link
    speed, lanes = (giga_transfers(link.speed), link.width) if link else (0.0, 0)
    return {"address": device.address, "gigatransfers": speed, "lanes": lanes}
