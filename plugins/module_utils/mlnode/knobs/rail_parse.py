# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A declaration of rails in IP networks read and checked: all that can be wrong before a machine is asked."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import Any, Iterable, Mapping, NamedTuple

from .. import schema
from ..errors import DeclarationError
from ..policy_routes import tables
from ..setting import Setting
from . import rules, selection
from .rail_schema import OPTIONS, TABLE, VALUES
from .selection import ALL, Selection

KIND = "rail"

ROUTING = "source_routing"
#: In the order of application: a rail answers for itself before traffic is led to it
GROUPS = (*VALUES, ROUTING)

#: Words for a gateway that is another one in each subnet
FIRST, LAST, NO_GATEWAY = "first", "last", "none"
_GATEWAYS = (FIRST, LAST, NO_GATEWAY)


class Rule(NamedTuple):
    """What all settings of a rule share."""

    name: str = ""
    nics: Selection = ALL


class Routing(NamedTuple):
    """table: the number of a rail is added. gateway: a word of _GATEWAYS or an address. to: networks behind
    it; without any it leads everywhere."""

    table: int = TABLE
    gateway: str = NO_GATEWAY
    to: tuple[ipaddress.IPv4Network, ...] = ()

    def __str__(self) -> str:
        behind = f" to {', '.join(map(str, self.to))}" if self.to else ""
        return f"table {self.table} + rail, gateway {self.gateway}{behind}"


_NO_RULE = Rule()
_NO_ROUTING = Routing()


@dataclass(frozen=True)
class RailSetting(Setting):
    """One knob of a rule. group: of GROUPS. text: of an interface's file; routing: of source routing."""

    rule: Rule = _NO_RULE
    group: str = ""
    text: str = ""
    routing: Routing = _NO_ROUTING


def parse(spec: Mapping[str, Any]) -> list[Setting]:
    """Settings in the order in which they are applied. Raises DeclarationError."""
    given = schema.checked(KIND, spec, OPTIONS)
    found = [setting for rule in given.get("rules", ()) for setting in _settings(rule)]
    found.sort(key=lambda setting: GROUPS.index(setting.group))
    return rules.unique(found)


def _settings(given: Mapping[str, Any]) -> list[RailSetting]:
    where = f"{KIND}.{given['name']}"
    rule = Rule(given["name"], selection.parse(f"{where}.nics", given.get("nics", {})))
    return [_setting(rule, group, given[group], f"{where}.{group}") for group in GROUPS if group in given]


def _setting(rule: Rule, group: str, given: Any, where: str) -> RailSetting:
    key = f"{KIND}.{rule.name}.{group}"
    if group == ROUTING:
        routing = _routing(where, given)
        claim = f"{routing} ({rule.nics})"
        path = "/rail/table/*/routes,rules"
        return RailSetting(KIND, key, path, None, claim, rule=rule, group=group, routing=routing)
    path, claim = path_of("*", group), f"{given} ({rule.nics})"
    return RailSetting(KIND, key, path, None, claim, rule=rule, group=group, text=str(given))


def path_of(interface: str, group: str) -> str:
    """The kernel's file of a knob of an interface; of `all` the one that counts for each of them."""
    return f"/proc/sys/net/ipv4/conf/{interface}/{group}"


# -- source routing ------------------------------------------------------------------------


def _routing(where: str, given: Mapping[str, Any]) -> Routing:
    table = given.get("table", TABLE)
    if table in tables.RESERVED:
        raise DeclarationError(
            f"{where}.table: {table} is the kernel's own; take another up to {tables.MOST}"
        )
    gateway = _gateway(f"{where}.gateway", given["gateway"])
    to = _networks(f"{where}.to", given.get("to", ()))
    if to and gateway == NO_GATEWAY:
        raise DeclarationError(f"{where}: without a gateway nothing leads to {', '.join(map(str, to))}")
    return Routing(table, gateway, to)


def _gateway(where: str, text: str) -> str:
    if text in _GATEWAYS:
        return text
    try:
        return str(ipaddress.IPv4Address(text))
    except ValueError as error:
        raise DeclarationError(
            f"{where}: {text!r} is none of {', '.join(_GATEWAYS)}, and no IPv4 address: name what all rails "
            "have, such as the first address of each subnet"
        ) from error


def _networks(where: str, texts: Iterable[str]) -> tuple[ipaddress.IPv4Network, ...]:
    found = set()
    for text in texts:
        try:
            found.add(ipaddress.IPv4Network(text))
        except ValueError as error:
            raise DeclarationError(f"{where}: {text!r} is no IPv4 network: {error}") from error
    return tuple(sorted(found))
