# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Neighbours of interfaces by LLDP, from lldpd through lldpctl(8). Nothing is sent."""

from __future__ import annotations

from typing import Any, Mapping

from ..host.host import Host
from ..model import strict_json
from ..model.errors import HostError, StoreError, printable
from ..model.record import NamedTuple

TOOL = "lldpctl"
#: JSON format with the same keys for any number of neighbours (lldpcli(8))
QUERY = (TOOL, "-f", "json0")
#: Action of the error of lldpctl itself, such as for a daemon that does not run
ASK = "ask"

#: Capabilities of switches (display.c); a host has Station, or nothing
_FORWARDS = ("Bridge", "Router")
#: Types of a port's id that are its name; ifIndex as such an id is a number (Junos). For the others, the
#: description is the name: the id is an address, or an alias
_NAMES = ("ifname", "local")


class Neighbour(NamedTuple):
    """switch: its system name, or else the id of its chassis. port: the switch's name for it. Both are from
    the wire: signs that do not print are spelled.

    also: other switches at the same interface; none is certain then.
    """

    switch: str
    port: str
    also: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.port} of {self.switch}"


def neighbours(host: Host) -> Mapping[str, Neighbour]:
    """Name of an interface → its neighbour: a switch rather than a host. Raises HostError."""
    return host.once("lldp", lambda: _parse(host.must_run(QUERY, ASK)))


def _parse(text: str) -> dict[str, Neighbour]:
    try:
        several: dict[str, dict[Neighbour, bool]] = {}
        for section in strict_json.loads(text, TOOL)["lldp"]:
            for interface in section.get("interface", []):
                [chassis], [port] = interface["chassis"], interface["port"]
                switch = _first(chassis, "name") or _first(chassis, "id")
                neighbour = Neighbour(switch, _port(port))
                several.setdefault(str(interface["name"]), {})[neighbour] = _forwards(chassis)
        return {name: _best(candidates) for name, candidates in several.items()}
    except (AttributeError, KeyError, StoreError, TypeError, ValueError) as error:
        raise HostError("understand", TOOL, None, f"{error}: {text[:60]!r}") from error


def _port(port: Mapping[str, Any]) -> str:
    number, kind, words = _first(port, "id"), _first(port, "id", "type"), _first(port, "descr")
    return number if kind in _NAMES and not number.isdigit() else words or number


def _forwards(chassis: Mapping[str, Any]) -> bool:
    """True for a switch, by the capabilities that it announces as enabled."""
    capabilities = chassis.get("capability") or ()
    return any(item["type"] in _FORWARDS and item.get("enabled") in (True, "on") for item in capabilities)


def _best(candidates: Mapping[Neighbour, bool]) -> Neighbour:
    likely = [neighbour for neighbour, is_switch in candidates.items() if is_switch] or [*candidates]
    others = dict.fromkeys(neighbour.switch for neighbour in likely if neighbour.switch != likely[0].switch)
    return likely[0]._replace(also=tuple(others))


def _first(section: Mapping[str, Any], key: str, field: str = "value") -> str:
    items = section.get(key) or [{}]
    return printable(str(items[0].get(field, "")))
