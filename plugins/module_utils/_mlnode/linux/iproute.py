# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""IP addresses of a host, and the outgoing interface of a packet, from the kernel through ip(8)."""

from __future__ import annotations

import json
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any, Callable, Mapping, TypeVar, Union

from ..host.host import Host
from ..model.errors import HostError
from ..model.record import NamedTuple

T = TypeVar("T")

IP = Union[IPv4Address, IPv6Address]
Network = Union[IPv4Network, IPv6Network]

#: Flags of IPv6 addresses that the kernel does not use: duplicates, or not yet checked for them
_UNUSED = ("tentative", "dadfailed")


class Address(NamedTuple):
    """An address of an interface, and the network that it reaches on the link."""

    ip: IP
    network: Network


class Interface(NamedTuple):
    """up: administratively up, with any cable state. vrf: its VRF, which has a separate table."""

    addresses: tuple[Address, ...]
    up: bool
    vrf: str


def interfaces(host: Host) -> Mapping[str, Interface]:
    """Name → interface with an address for machines beyond its link. Raises HostError."""
    return host.once("interfaces with addresses", lambda: _asked(host, _interfaces, "-d", "addr", "show"))


def leaves_by(host: Host, source: IP, to: IP, vrf: str = "") -> str:
    """The interface that the kernel's rules and tables choose for a packet. Raises HostError, also without a
    route."""
    inside = ("vrf", vrf) if vrf else ()
    route = ("route", "get", str(to), "from", str(source), *inside)
    return _asked(host, lambda routes: str(routes[0]["dev"]), *route)


def largest_mtus(host: Host) -> Mapping[str, int]:
    """Interface → the largest MTU of its driver, if reported. Raises HostError."""
    return host.once("largest MTUs", lambda: _asked(host, _largest_mtus, "-d", "link", "show"))


def xdp(host: Host) -> Mapping[str, str]:
    """Interface → the mode of its attached XDP program. Raises HostError."""
    return host.once("XDP programs", lambda: _asked(host, _xdp, "-d", "link", "show"))


def _xdp(answer: Any) -> dict[str, str]:
    return {str(entry["ifname"]): str(entry["xdp"].get("mode", "")) for entry in answer if entry.get("xdp")}


def _asked(host: Host, understand: Callable[[Any], T], *arguments: str) -> T:
    command = ["ip", "-j", *arguments]
    try:
        out = host.must_run(command, "ask")
    except HostError as error:
        if not error.absent:
            raise
        # A missing program does not answer the question.
        raise HostError("ask", command[0], None, "it is not installed: install iproute2") from error
    try:
        return understand(json.loads(out.strip() or "[]"))  # an empty result may be an empty output
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        shown = " ".join(command)
        raise HostError("understand", shown, None, f"it printed {out.strip()[:60]!r}") from error


def _interfaces(answer: Any) -> dict[str, Interface]:
    interfaces = {}
    for entry in answer:
        # iproute2 before 5.1 prints {} for an interface without such an address.
        addresses = tuple(_address(address) for address in entry.get("addr_info", ()) if _is_used(address))
        if addresses:
            in_vrf = entry.get("linkinfo", {}).get("info_slave_kind") == "vrf"
            interfaces[str(entry["ifname"])] = Interface(
                addresses, "UP" in entry["flags"], str(entry["master"]) if in_vrf else ""
            )
    return interfaces


def _largest_mtus(answer: Any) -> dict[str, int]:
    # iproute2 before 4.19 does not print it; 0 means that the driver reports no limit.
    return {str(entry["ifname"]): int(entry["max_mtu"]) for entry in answer if entry.get("max_mtu")}


def _is_used(entry: Mapping[str, Any]) -> bool:
    return entry.get("scope") == "global" and not any(entry.get(flag) for flag in _UNUSED)


def _address(entry: Mapping[str, Any]) -> Address:
    local = ip_address(entry["local"])
    # The other end of a point-to-point link has a different address, and this end has no network.
    near = entry.get("address", local)
    return Address(local, ip_network(f"{near}/{int(entry['prefixlen'])}", strict=False))
