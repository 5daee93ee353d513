# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Neighbours of interfaces by LLDP, from lldpd through lldpctl(8). Nothing is sent."""

from __future__ import annotations

import json
from typing import Any, Mapping

from ..host.host import Host
from ..model.errors import HostError
from ..model.record import NamedTuple

TOOL = "lldpctl"
#: JSON format with the same keys for any number of neighbours (lldpcli(8))
QUERY = (TOOL, "-f", "json0")


class Neighbour(NamedTuple):
    """switch: its system name, or else the id of its chassis. port: the switch's name for it."""

    switch: str
    port: str

    def __str__(self) -> str:
        return f"{self.port} of {self.switch}"


def neighbours(host: Host) -> Mapping[str, Neighbour]:
    """Name of an interface → its neighbour; of several, the first. Raises HostError."""
    return host.once("lldp", lambda: _parse(host.must_run(QUERY, "ask")))


def _parse(text: str) -> dict[str, Neighbour]:
    try:
        neighbours: dict[str, Neighbour] = {}
        for section in json.loads(text)["lldp"]:
            for interface in section.get("interface", []):
                [chassis], [port] = interface["chassis"], interface["port"]
                switch = _first(chassis, "name") or _first(chassis, "id")
                # A port whose id is an address has its name in the description.
                named = _first(port, "id" if _first(port, "id", "type") == "ifname" else "descr")
                neighbours.setdefault(str(interface["name"]), Neighbour(switch, named or _first(port, "id")))
        return neighbours
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise HostError("understand", TOOL, None, f"{error}: {text[:60]!r}") from error


def _first(section: Mapping[str, Any], key: str, field: str = "value") -> str:
    items = section.get(key) or [{}]
    return str(items[0].get(field, ""))
