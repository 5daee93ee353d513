# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules and routes of policy routing (IPv4), as `ip -j -N` tells them and as one line of text. Pure.

What is ours carries our own number of a routing protocol, and nothing that we would not put there: all else
belongs to somebody else, and is never touched.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Any, Callable, Mapping, NamedTuple, Sequence, TypeVar

T = TypeVar("T")

#: Whose a rule or route is: include/uapi/linux/rtnetlink.h leaves numbers over 4 to programs, and neither it
#: nor iproute2's rt_protos nor FRRouting (186 to 198) has this one
PROTOCOL = 109
#: Of our rules: before main (32766) and rules that were given no number (32765 downwards, ip-rule(8)), after
#: what overlay networks set (Cilium up to 112, the AWS VPC CNI up to 1536)
PRIORITY = 20000

#: default, main and local (include/uapi/linux/rtnetlink.h); 0 is none
RESERVED = (0, 253, 254, 255)
#: 32 bits, of which some tools take the first for a sign
MOST = (1 << 31) - 1

DEFAULT = "default"
_EVERYWHERE = "0.0.0.0/0"
#: The text where there is nothing
NONE = "none"

_NIC = r"[^\s/,]{1,15}"
_ADDRESS = r"[0-9]{1,3}(?:\.[0-9]{1,3}){3}"
_RULE = re.compile(rf"from ({_ADDRESS})\Z", re.ASCII)
_ROUTE = re.compile(rf"(default|{_ADDRESS}/[0-9]{{1,2}})(?: via ({_ADDRESS}))? dev ({_NIC})\Z", re.ASCII)

#: What a route of ours is told with; flags change with the cable, and the scope follows from the gateway
_ROUTE_KEYS = frozenset({"dst", "gateway", "dev", "table", "protocol", "scope", "flags"})
_RULE_KEYS = frozenset({"priority", "src", "table", "protocol"})


class Rule(NamedTuple):
    """Packets from an address are looked up in a table. words: all of it, of a rule that is not ours."""

    table: int
    address: str = ""
    words: str = ""

    @property
    def text(self) -> str:
        return self.words or f"from {self.address}"


class Route(NamedTuple):
    """Where a table leads. network: DEFAULT or with its length. words: as of a rule."""

    table: int
    network: str
    via: str = ""
    nic: str = ""
    words: str = ""

    @property
    def text(self) -> str:
        return self.words or f"{self.network}{f' via {self.via}' if self.via else ''} dev {self.nic}"

    @property
    def order(self) -> tuple[bool, bool, ipaddress.IPv4Network, str]:
        """What is on the link itself comes first, as a gateway has to be reached by it."""
        everywhere = self.network == DEFAULT
        network = ipaddress.IPv4Network(_EVERYWHERE if everywhere else self.network)
        return bool(self.via), everywhere, network, self.text


class Address(NamedTuple):
    """An address of an interface, and the network that it makes reachable on the link."""

    ip: ipaddress.IPv4Address
    network: ipaddress.IPv4Network


# -- as text -------------------------------------------------------------------------------


def rules_text(rules: Sequence[Rule]) -> str:
    """Ours of one table, in one line."""
    return _joined(sorted({rule.address for rule in rules}, key=ipaddress.IPv4Address), "from {}".format)


def routes_text(routes: Sequence[Route]) -> str:
    return _joined(sorted({*routes}, key=lambda route: route.order), lambda route: route.text)


def _joined(items: Sequence[T], text: Callable[[T], str]) -> str:
    return ", ".join(text(item) for item in items) or NONE


def parse_rules(table: int, text: str) -> list[Rule]:
    """The inverse of rules_text(). Raises ValueError."""
    found = []
    for item in _items(text):
        match = _RULE.match(item)
        if match is None:
            raise ValueError(f"{item!r} is no rule")
        found.append(Rule(table, str(ipaddress.IPv4Address(match.group(1)))))
    return found


def parse_routes(table: int, text: str) -> list[Route]:
    """The inverse of routes_text(). Raises ValueError."""
    found = []
    for item in _items(text):
        match = _ROUTE.match(item)
        if match is None:
            raise ValueError(f"{item!r} is no route")
        network, via, nic = match.groups()
        found.append(Route(table, normal(network), str(ipaddress.IPv4Address(via)) if via else "", nic))
    return found


def _items(text: str) -> list[str]:
    return [] if text.strip() == NONE else [item.strip() for item in text.split(",")]


def normal(network: str) -> str:
    """As ip(8) tells it, with its length. Raises ValueError."""
    text = _EVERYWHERE if network == DEFAULT else str(ipaddress.IPv4Network(network))
    return DEFAULT if text == _EVERYWHERE else text


# -- as ip(8) tells them -------------------------------------------------------------------


def rules(answer: Any) -> list[Rule]:
    """Of `ip -j -N -4 rule show`; only those that look up a table. Raises ValueError."""
    return [_rule(entry) for entry in _entries(answer) if "table" in entry]


def _rule(entry: Mapping[str, Any]) -> Rule:
    table = _number(entry, "table")
    address = entry.get("src")
    if (
        _is_ours(entry)
        and {*entry} <= _RULE_KEYS
        and entry.get("priority") == PRIORITY
        and isinstance(address, str)
        and address != "all"
    ):
        return Rule(table, str(ipaddress.IPv4Address(address)))
    return Rule(table, words=f"the rule {_words(entry)}")


def routes(answer: Any) -> list[Route]:
    """Of `ip -j -N -4 route show table all`. Raises ValueError."""
    return [_route(entry) for entry in _entries(answer)]


def _route(entry: Mapping[str, Any]) -> Route:
    table = _number(entry, "table") if "table" in entry else 254  # main is left out
    network, nic = entry.get("dst"), entry.get("dev", "")
    if not isinstance(network, str) or not isinstance(nic, str):
        raise ValueError(f"a route reads {_words(entry)}")
    if _is_ours(entry) and {*entry} <= _ROUTE_KEYS and nic:
        via = entry.get("gateway")
        return Route(table, normal(network), str(ipaddress.IPv4Address(via)) if via else "", nic)
    return Route(table, network, nic=nic, words=f"the route {_words(entry)}")


def addresses(answer: Any) -> dict[str, list[Address]]:
    """Interface → its IPv4 addresses, of `ip -j -N -4 addr show`, without those of the link or the machine
    only. Raises ValueError."""
    found: dict[str, list[Address]] = {}
    for entry in _entries(answer):
        if not entry:  # iproute2 before 5.1 leaves a hole for what has no such address
            continue
        name = entry.get("ifname")
        if not isinstance(name, str):
            raise ValueError(f"an interface has no name: {_words(entry)}")
        for one in _entries(entry.get("addr_info", [])):
            if one.get("family") == "inet" and str(one.get("scope")) in ("0", "global"):
                found.setdefault(name, []).append(_address(one))
    return found


def _address(entry: Mapping[str, Any]) -> Address:
    local = ipaddress.IPv4Address(entry.get("local"))
    # At the other end of a point-to-point link there is another address, and no network of our own.
    near = entry.get("address", str(local))
    network = ipaddress.IPv4Network(f"{near}/{_number(entry, 'prefixlen')}", strict=False)
    return Address(local, network)


def _is_ours(entry: Mapping[str, Any]) -> bool:
    return str(entry.get("protocol")) == str(PROTOCOL)


def _entries(answer: Any) -> Sequence[Mapping[str, Any]]:
    if not isinstance(answer, list) or not all(isinstance(entry, dict) for entry in answer):
        raise ValueError("it is no list of objects")
    return answer


def _number(entry: Mapping[str, Any], key: str) -> int:
    text = str(entry.get(key))
    if not re.match(r"[0-9]{1,10}\Z", text, re.ASCII):
        raise ValueError(f"{key} is {text[:40]!r} and no number")
    return int(text)


#: Key of the JSON → word of the command, where they differ
_SAID = {"src": "from", "dst": "to", "gateway": "via", "priority": "pref"}


def _words(entry: Mapping[str, Any]) -> str:
    """For people; flags come and go with the cable."""
    texts = (
        f"{_SAID.get(key, key)} {value}"
        for key, value in entry.items()
        if key not in ("flags", "table") and value not in (None, [])
    )
    return " ".join(texts)[:100]
