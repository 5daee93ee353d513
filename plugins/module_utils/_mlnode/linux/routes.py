# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kernel's routes from /proc/net: for IPv4 of the table main, for IPv6 of all tables, each with its first
next hop."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Iterator, Match, Pattern, Sequence, Union

from ..host.host import Host
from ..model.errors import HostError
from ..model.record import NamedTuple, regex

if TYPE_CHECKING:
    import ipaddress

    Address = Union[ipaddress.IPv4Address, ipaddress.IPv6Address]

IPV4, IPV6 = "/proc/net/route", "/proc/net/ipv6_route"

# include/uapi/linux/route.h
_UP, _REJECT = 0x0001, 0x0200

#: net/ipv4/fib_trie.c: fib_route_seq_show. The numbers are in the CPU's byte order; "*" means no interface.
_LINE = regex(
    r"(?P<nic>[^\s/]+)\t(?P<network>[0-9A-F]{8})\t[0-9A-F]{8}\t(?P<flags>[0-9A-F]{4})"
    r"\t\d+\t\d+\t-?\d+\t(?P<mask>[0-9A-F]{8})\t",
    re.ASCII,
)
#: net/ipv6/ip6_fib.c: ipv6_route_native_seq_show. A route may have no interface.
_LINE6 = regex(
    r"(?P<network>[0-9a-f]{32}) (?P<length>[0-9a-f]{2}) [0-9a-f]{32} [0-9a-f]{2} [0-9a-f]{32}"
    r"(?: [0-9a-f]{8}){3} (?P<flags>[0-9a-f]{8}) +(?P<nic>[^\s/]*)\Z",
    re.ASCII,
)

#: Routes that IPv6 gives every interface, even without another end: fe80::/10 and ff00::/8, as their first
#: bits and number of bits. ipaddress would do, and takes 5 ms to import.
_EVERYWHERE = ((0x3FA, 10), (0xFF, 8))
_IPV6_BITS = 128


class Route(NamedTuple):
    """A route through an interface, to all addresses that begin with the first length bits of network."""

    nic: str
    version: int
    network: int
    length: int

    @property
    def is_default(self) -> bool:
        return self.length == 0

    @property
    def is_everywhere(self) -> bool:
        return self.version == 6 and any(
            self.network >> (_IPV6_BITS - length) == bits for bits, length in _EVERYWHERE
        )

    def leads_to(self, address: Address) -> bool:
        if self.version != address.version:
            return False
        rest = address.max_prefixlen - self.length
        return int(address) >> rest == self.network >> rest


def ipv4(host: Host) -> list[Route]:
    """Raises HostError, also if the file is absent: a namespace without routes has an empty one."""
    routes = []
    for match in _matches(IPV4, host.read(IPV4).splitlines()[1:], _LINE):
        network, mask = (_number(match[part]) for part in ("network", "mask"))
        routes += _usable(match, 4, network, bin(mask).count("1"))
    return routes


def ipv6(host: Host) -> list[Route]:
    """Raises HostError. A kernel without IPv6 has no such file, and no routes."""
    routes = []
    for match in _matches(IPV6, host.text(IPV6).splitlines(), _LINE6):
        length = int(match["length"], 16)
        if length > _IPV6_BITS:
            raise HostError("understand", IPV6, None, f"a network has {length} bits")
        routes += _usable(match, 6, int(match["network"], 16), length)
    return routes


def longest(routes: Sequence[Route], address: Address) -> list[Route]:
    """The possible routes of an address: all equally long ones, as only metrics choose between them."""
    fitting = [route for route in routes if route.leads_to(address)]
    length = max((route.length for route in fitting), default=0)
    return [route for route in fitting if route.length == length]


def _matches(path: str, lines: Sequence[str], pattern: Pattern[str]) -> Iterator[Match[str]]:
    for line in lines:
        match = pattern.match(line)
        if match is None:
            raise HostError("understand", path, None, f"a line reads {line[:100]!r}")
        yield match


def _number(text: str) -> int:
    """An address as a number whose first bits are the network's."""
    return int.from_bytes(int(text, 16).to_bytes(4, sys.byteorder), "big")


def _usable(match: Match[str], version: int, network: int, length: int) -> list[Route]:
    """The route; empty if it leads nowhere, or back to this machine."""
    flags = int(match["flags"], 16)
    if match["nic"] in ("", "*", "lo") or not flags & _UP or flags & _REJECT:
        return []
    return [Route(match["nic"], version, network, length)]
