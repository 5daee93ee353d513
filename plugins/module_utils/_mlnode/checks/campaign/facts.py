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
from ...model.errors import HostError, RefusedError
from ...model.record import regex
from ...topology import links, read
from ...topology.model import Nic, PciDevice, Topology, giga_transfers
from ...topology.nics import RATED
from ..rdma import usable
from ..rdma.ports import ETHERNET, Port
from .kind import End

MOUNTS = read.MOUNTS

_FIRMWARE = regex(r"^firmware-version: *(.*)$", re.MULTILINE)

#: As engine/digests.py
_DIGITS = 16


def facts(host: Host, ends: Sequence[End]) -> dict[str, Any]:
    """All that can be found out; what cannot is null or empty, and never raises."""
    topology = read.of(host)
    return {
        "kernel": host.value("/proc/sys/kernel/osrelease").text or "",
        "declarations": _declarations(host),
        "rails": [_rail(host, topology, end) for end in ends],
    }


def interface_of(host: Host, address: str) -> str:
    """The interface that has an address; "" for none."""
    wanted = ip_address(address)
    try:
        found = iproute.interfaces(host)
    except HostError:
        return ""
    return next((name for name, one in found.items() if any(wanted == own.ip for own in one.addresses)), "")


def required_interface(host: Host, address: str) -> str:
    """Raises RefusedError."""
    name = interface_of(host, address)
    if not name:
        raise RefusedError(f"no interface of this node has the address {address}: give campaign_addresses")
    return name


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


def _rail(host: Host, topology: Topology, end: End) -> dict[str, Any]:
    nic = next((one for one in topology.nics if one.name == end.interface), Nic(end.interface, ""))
    found = {
        "interface": nic.name,
        "device": "",
        "speed_mbit": nic.speed_mbit if nic.kind in RATED else None,
        "mtu": nic.mtu,
        "driver": nic.driver or "",
        "firmware": _firmware(host, nic),
        "pcie": _links(topology, nic.address),
    }
    port = _port(topology, end)
    return {**found, **_of_rdma(host, topology, port)} if port else found


def _port(topology: Topology, end: End) -> Port | None:
    return next(
        (
            Port(device, port.number, port.link_layer, {})
            for device in topology.rdma
            for port in device.ports
            if (device.name, port.number) == (end.device, end.port)
        ),
        None,
    )


def _of_rdma(host: Host, topology: Topology, port: Port) -> dict[str, Any]:
    """Facts of the port itself, in place of those of the interface that has the address."""
    gbits, _why = usable.gbits(port)
    function = next((one for one in topology.pci if one.address == port.device.address), None)
    names = next(one.netdevs for one in port.device.ports if one.number == port.number)
    nic = next((one for one in topology.nics if one.name in names), None)
    return {
        "device": port.name,
        "speed_mbit": None if gbits is None else int(gbits * 1000),
        # The packets of IPoIB have another size than those of RDMA.
        "mtu": nic.mtu if nic is not None and port.layer == ETHERNET else None,
        "driver": (function.driver if function else None) or "",
        "firmware": host.value(f"/sys/class/infiniband/{port.device.name}/fw_ver").text or "",
        "pcie": _links(topology, port.device.address),
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


def _links(topology: Topology, address: str | None) -> list[dict[str, Any]]:
    """From the device to the root, without those that a hypervisor makes up."""
    known = {device.address: device for device in topology.pci}
    own = known.get(address or "")
    if own is None or topology.machine.virtual:
        return []
    path = [known[address] for address in reversed(own.path) if address in known]
    return [_link(device) for device in path if device.link and links.faces_up(device)]


def _link(device: PciDevice) -> dict[str, Any]:
    link = device.link
    speed, lanes = (giga_transfers(link.speed), link.width) if link else (0.0, 0)
    return {"address": device.address, "gigatransfers": speed, "lanes": lanes}
