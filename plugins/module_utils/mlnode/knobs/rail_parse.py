# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A declaration of rails in IP networks read and checked: all that can be wrong before a machine is asked."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import Any, Mapping, Sequence

from .. import options
from ..errors import DeclarationError
from ..policy_routes import tables
from ..setting import Setting
from . import rules, selection
from .selection import ALL, Selection

KIND = "rail"

#: What can be allowed, and what it lets through
GUARDS = {"management": "changes of the interface over which this node is managed that may cut it off"}

#: Knob of an interface → the values that the kernel knows (Documentation/networking/ip-sysctl.rst); it
#: takes others, which are reserved or count as one of these
VALUES: Mapping[str, Sequence[int]] = {
    "arp_ignore": (0, 1, 2, 3, 8),
    "arp_announce": (0, 1, 2),
    "rp_filter": (0, 1, 2),
}

ROUTING = "source_routing"
#: In the order of application: a rail answers for itself before traffic is led to it
GROUPS = (*VALUES, ROUTING)

#: Words for a gateway that is another one in each subnet
FIRST, LAST, NO_GATEWAY = "first", "last", "none"
_GATEWAYS = (FIRST, LAST, NO_GATEWAY)
TABLE = 1000
#: Of source_routing
FIELDS = ("table", "gateway", "to")

_NUMBER = re.compile(r"[0-9]{1,10}\Z", re.ASCII)
_RULE = ("name", "nics", *GROUPS)


@dataclass(frozen=True)
class Rule:
    """What all settings of a rule share."""

    name: str = ""
    nics: Selection = ALL


@dataclass(frozen=True)
class Routing:
    """table: the number of a rail is added. gateway: a word of _GATEWAYS or an address. to: networks behind
    it; without any it leads everywhere."""

    table: int = TABLE
    gateway: str = NO_GATEWAY
    to: tuple[ipaddress.IPv4Network, ...] = ()

    def __str__(self) -> str:
        behind = f" to {', '.join(map(str, self.to))}" if self.to else ""
        return f"table {self.table} + rail, gateway {self.gateway}{behind}"


@dataclass(frozen=True)
class RailSetting(Setting):
    """One knob of a rule. group: of GROUPS. text: of an interface's file; routing: of source routing."""

    rule: Rule = Rule()
    group: str = ""
    text: str = ""
    routing: Routing = Routing()


def parse(spec: Mapping[str, Any]) -> list[Setting]:
    """Settings in the order in which they are applied. Raises DeclarationError."""
    raw = rules.raw_rules(KIND, spec, GUARDS)
    found = [setting for number, rule in enumerate(raw) for setting in _settings(rule, number)]
    found.sort(key=lambda setting: GROUPS.index(setting.group))
    return rules.unique(found)


def _settings(raw: Any, number: int) -> list[RailSetting]:
    where = f"{KIND}.rules[{number}]"
    given = rules.fields(where, raw, _RULE)
    name = rules.name(where, given.get("name"))
    where = f"{KIND}.{name}"
    rule = Rule(name, selection.parse(f"{where}.nics", given.get("nics")))
    found = [
        _setting(rule, group, given[group], f"{where}.{group}")
        for group in GROUPS
        if given.get(group) is not None
    ]
    if not found:
        raise DeclarationError(f"{where}: give it at least one of {', '.join(GROUPS)}")
    return found


def _setting(rule: Rule, group: str, raw: Any, where: str) -> RailSetting:
    key = f"{KIND}.{rule.name}.{group}"
    if group == ROUTING:
        routing = _routing(where, raw)
        claim = f"{routing} ({rule.nics})"
        path = "/rail/table/*/routes,rules"
        return RailSetting(KIND, key, path, None, claim, rule=rule, group=group, routing=routing)
    text = str(_number(where, raw))
    if int(text) not in VALUES[group]:
        raise DeclarationError(f"{where}: {text} is none of {', '.join(map(str, VALUES[group]))}")
    path = path_of("*", group)
    return RailSetting(KIND, key, path, None, f"{text} ({rule.nics})", rule=rule, group=group, text=text)


def path_of(interface: str, group: str) -> str:
    """The kernel's file of a knob of an interface; of `all` the one that counts for each of them."""
    return f"/proc/sys/net/ipv4/conf/{interface}/{group}"


# -- source routing ------------------------------------------------------------------------


def _routing(where: str, raw: Any) -> Routing:
    if not isinstance(raw, Mapping):
        raise DeclarationError(f"{where}: {raw!r} is no dictionary")
    options.refuse_unknown(where, raw, FIELDS)
    table = _number(f"{where}.table", TABLE if raw.get("table") is None else raw["table"])
    if table in tables.RESERVED or table > tables.MOST:
        raise DeclarationError(f"{where}.table: {table} is the kernel's own, or none from 1 to {tables.MOST}")
    gateway = _gateway(f"{where}.gateway", raw.get("gateway"))
    to = _networks(f"{where}.to", raw.get("to"))
    if to and gateway == NO_GATEWAY:
        raise DeclarationError(f"{where}: without a gateway nothing leads to {', '.join(map(str, to))}")
    return Routing(table, gateway, to)


def _gateway(where: str, raw: Any) -> str:
    if raw in _GATEWAYS:
        return str(raw)
    try:
        if not isinstance(raw, str):
            raise ValueError("it is no text")
        return str(ipaddress.IPv4Address(raw))
    except ValueError as error:
        raise DeclarationError(
            f"{where}: {raw!r} is none of {', '.join(_GATEWAYS)}, and no IPv4 address: name what all rails "
            "have, such as the first address of each subnet"
        ) from error


def _networks(where: str, raw: Any) -> tuple[ipaddress.IPv4Network, ...]:
    if raw is None:
        return ()
    if not isinstance(raw, list):
        raise DeclarationError(f"{where}: {raw!r} is no list of networks such as [10.0.0.0/8]")
    found = set()
    for item in raw:
        try:
            if not isinstance(item, str):
                raise ValueError("it is no text")
            found.add(ipaddress.IPv4Network(item))
        except ValueError as error:
            raise DeclarationError(f"{where}: {item!r} is no IPv4 network: {error}") from error
    return tuple(sorted(found))


def _number(where: str, raw: Any) -> int:
    text = str(raw)
    if isinstance(raw, bool) or not isinstance(raw, (int, str)) or not _NUMBER.match(text):
        raise DeclarationError(f"{where}: {raw!r} is no whole number")
    return int(text)
