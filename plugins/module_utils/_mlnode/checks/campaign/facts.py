# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Facts of a node that accompany a measurement: kernel, declarations, and the hardware of each rail."""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import Any, Sequence

from ...engine.declared import FOLDER
from ...engine.digests import digest
from ...host.host import Host
from ...linux import iproute
from ...model.errors import HostError, RefusedError
from ...model.record import regex
from ...topology import hardware, links
from ...topology.model import Nic, Topology, giga_transfers
from ...topology.nics import RATED
from ..rdma import usable
from ..rdma.ports import ETHERNET, Port, function_of
from .kind import End

MOUNTS = hardware.MOUNTS

_FIRMWARE = regex(r"^firmware-version: *(.*)$", re.MULTILINE)


def facts(host: Host, ends: Sequence[End]) -> dict[str, Any]:
    """All facts that can be determined. Others are null or empty; never raises."""
    topology = hardware.topology(host)
    return {
        "kernel": host.value("/proc/sys/kernel/osrelease").text or "",
        "declarations": _declarations(host),
        "rails": [_rail(host, topology, end) for end in ends],
    }


def interface_of(host: Host, address: str) -> str:
    """The interface with an address; "" if there is none."""
    wanted = ip_address(address)
    try:
        interfaces = iproute.interfaces(host)
    except HostError:
        return ""
    owners = (
        name for name, interface in interfaces.items() for own in interface.addresses if own.ip == wanted
    )
    return next(owners, "")


def required_interface(host: Host, address: str) -> str:
    """The interface with an address. Raises RefusedError if there is none."""
    name = interface_of(host, address)
    if not name:
        raise RefusedError(f"no interface of this node has the address {address}: give campaign_addresses")
    return name


def _declarations(host: Host) -> dict[str, str]:
    digests = {}
    try:
        for name in host.names(FOLDER):
            if name.endswith(".json"):
                digests[name[: -len(".json")]] = digest(host.read_bytes(f"{FOLDER}/{name}"))
    except HostError:  # the file may have been removed, or only root can read it
        return digests
    return digests


def _rail(host: Host, topology: Topology, end: End) -> dict[str, Any]:
    nic = next((nic for nic in topology.nics if nic.name == end.interface), Nic(end.interface, ""))
    rail_facts = {
        "interface": nic.name,
        "device": "",
        "speed_mbit": nic.speed_mbit if nic.kind in RATED else None,
        "mtu": nic.mtu,
        "driver": nic.driver or "",
        "firmware": _firmware(host, nic),
        "pcie": _links(topology, nic.address),
    }
    port = usable.named_port(topology, end.device, end.port)
    return {**rail_facts, **_of_rdma(host, topology, port)} if port else rail_facts


def _of_rdma(host: Host, topology: Topology, port: Port) -> dict[str, Any]:
    """Facts of the port itself, instead of the interface with the address."""
    gbits, function = usable.gbits(port), function_of(port.device, topology)
    nic = next((nic for nic in topology.nics if nic.name in port.own.netdevs), None)
    return {
        "device": port.name,
        "speed_mbit": None if gbits is None else int(gbits * 1000),
        # IPoIB packets differ in size from RDMA packets.
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
    """PCIe links from the device to the root; none on a virtual machine, whose hypervisor invents them."""
    known = {device.address: device for device in topology.pci}
    own = known.get(address or "")
    if own is None or topology.machine.virtual:
        return []
    path = [known[address] for address in reversed(own.path) if address in known]
    return [
        {
            "address": device.address,
            "gigatransfers": giga_transfers(device.link.speed),
            "lanes": device.link.width,
        }
        for device in path
        if device.link and links.faces_up(device)
    ]
