# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Source routing of one interface: its table, what has to be in it, and who else uses it."""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv4Network
from typing import Sequence

from ..host import Host
from ..policy_routes import files, tables
from ..policy_routes.tables import DEFAULT, NONE, PROTOCOL, Address, Route, Rule
from ..setting import Part, Write
from . import rail_places
from .nic_files import Files
from .rail_parse import FIRST, LAST, NO_GATEWAY, RailSetting, Routing

#: Where iproute2 keeps names of numbers, an administrator's own first (rt_names.c; /usr/share since 6.5)
_FOLDERS = ("/etc/iproute2", "/usr/share/iproute2", "/usr/lib/iproute2")
_NAMED = re.compile(r"^\s*(0x[0-9a-fA-F]{1,8}|[0-9]{1,10})\s+([^\s#]+)", re.MULTILINE | re.ASCII)

#: What an administrator may call our number, so that ip(8) shows it by name
_OUR_NAME = "mlnode"

#: Under which systemd-networkd tells what it does, and what keeps it from removing what is not its own
_NETWORKD = "/run/systemd/netif/state"
_CONFIGS = ("/usr/lib/systemd", "/usr/local/lib/systemd", "/run/systemd", "/etc/systemd")
_MANAGES = ("ManageForeignRoutingPolicyRules", "ManageForeignRoutes")


def fill(host: Host, setting: RailSetting, found: Files, alone: bool) -> None:
    """The parts of one interface, or why there are none: without a device, as the table outlives it.

    alone: the rule means no other. Raises HostError.
    """
    name, routing = found.target.name, setting.routing
    number = rail_places.rail(host, name)
    if number is None and not alone:
        found.lacking = "it is no rail, so it has no number: give it a rule with a table of its own"
        return
    table = routing.table + (number or 0)
    if table in tables.RESERVED or table > tables.MOST:
        found.invalid = f"{name}: its table would be {table}, which is the kernel's own: choose another"
        return
    addresses = rail_places.addresses(host, name)
    if _is_without_routes(host, found, addresses):
        _empty(host, found, [*_elsewhere(host, name, addresses, table), *_used(host, table)])
        return
    try:
        routes = wanted(routing, table, name, addresses)
    except ValueError as error:
        # Addresses come and go: one that is odd for a while must not keep the other NICs from theirs.
        found.problems.append(f"{name}: {error}")
        return
    rules = [Rule(table, str(address.ip)) for address in addresses]
    _empty(host, found, _elsewhere(host, name, addresses, table))
    refusal, present = _taken(host, table)
    # The way has to be there before packets are sent along it.
    _part(host, found, table, "routes", tables.routes_text(routes), refusal, present)
    _part(host, found, table, "rules", tables.rules_text(rules), refusal, present)


def _is_without_routes(host: Host, found: Files, addresses: Sequence[Address]) -> bool:
    """Whether it can have none, and why. A VRF is somebody's choice; without an address, or while it is down,
    what is declared is not there, which must not look like success. Raises HostError."""
    name = found.target.name
    in_vrf = rail_places.vrf(host, name)
    if in_vrf:
        found.lacking = f"it is in the VRF {in_vrf}, which has a table of its own"
    elif not rail_places.is_up(host, name):
        found.problems.append(f"{name}: it is down, and the kernel keeps no routes of what is down")
    elif not addresses:
        found.problems.append(f"{name}: it has no IPv4 address")
    return bool(found.lacking or found.problems)


def _empty(host: Host, found: Files, left: Sequence[int]) -> None:
    """What is ours in these tables goes, unless another rail has them now: see rail.read()."""
    for table in left:
        _part(host, found, table, "rules", NONE)
        _part(host, found, table, "routes", NONE)


def _part(
    host: Host, found: Files, table: int, file: str, want: str, refusal: str = "", present: bool = False
) -> None:
    path = f"{files.table_folder(table)}/{file}"
    now = host.read(path).strip()
    found.parts.append(
        Part(
            number=table,
            path=path,
            now=now,
            want=want,
            undo=(Write(path, now),),
            # What another one has put there counts, however right ours is: that must not look like success.
            moved=refusal if present else "",
            refusal=f"{found.label}: {refusal}" if refusal else "",
        )
    )


# -- what is wanted ------------------------------------------------------------------------


def wanted(routing: Routing, table: int, name: str, addresses: Sequence[Address]) -> list[Route]:
    """The routes of a table. Raises ValueError where no gateway can be told."""
    networks = list(dict.fromkeys(address.network for address in addresses))
    routes = [Route(table, str(network), nic=name) for network in networks]
    if routing.gateway == NO_GATEWAY:
        return routes
    gateway = _gateway(routing.gateway, networks)
    if gateway in (address.ip for address in addresses):
        raise ValueError(f"its gateway would be its own address {gateway}")
    behind = [tables.normal(str(network)) for network in routing.to if network not in networks]
    everywhere = [] if routing.to else [DEFAULT]
    return [*routes, *(Route(table, network, str(gateway), name) for network in [*behind, *everywhere])]


def _gateway(word: str, networks: Sequence[IPv4Network]) -> IPv4Address:
    shown = ", ".join(map(str, networks))
    if word not in (FIRST, LAST):
        gateway = IPv4Address(word)
        if not any(gateway in network for network in networks):
            raise ValueError(f"the gateway {gateway} is in none of its subnets ({shown})")
        return gateway
    if len(networks) > 1:
        raise ValueError(f"it has several subnets ({shown}): name the address of the gateway")
    network = networks[0]
    if network.prefixlen == 32:
        raise ValueError(f"its address has no subnet ({shown}) in which a gateway could be")
    # Between two ends no address stands for the network or for all (RFC 3021).
    margin = 1 if network.prefixlen < 31 else 0
    return network[margin] if word == FIRST else network[-1 - margin]


# -- who else ------------------------------------------------------------------------------


def _elsewhere(host: Host, name: str, addresses: Sequence[Address], table: int) -> list[int]:
    """Other tables in which all of ours is of this interface, as an earlier declaration left them."""
    mine = {str(address.ip) for address in addresses}
    found = []
    for other in host.names("/rail/table"):
        folder = files.table_folder(int(other))
        rules = tables.parse_rules(int(other), host.read(f"{folder}/rules"))
        routes = tables.parse_routes(int(other), host.read(f"{folder}/routes"))
        # Its addresses may have changed since; where nothing but rules is left, they have to tell.
        its = [route.nic == name for route in routes] or [rule.address in mine for rule in rules]
        if int(other) != table and all(its):
            found.append(int(other))
    return found


def _used(host: Host, table: int) -> list[int]:
    """The table, if there is something of ours in it. Raises HostError."""
    return [table] if str(table) in host.names("/rail/table") else []


def _taken(host: Host, table: int) -> tuple[str, bool]:
    """Why the table, or our number of a protocol, is not ours to use; and whether that is there now, and not
    just a name. Raises HostError."""
    others = host.read(f"{files.table_folder(table)}/others").strip()
    if others != NONE:
        return f"the table {table} has what is somebody else's: {others}; choose another one", True
    for number, file, words in (
        (table, "rt_tables", "choose another table"),
        (PROTOCOL, "rt_protos", "rules and routes of that protocol would be taken for ours"),
    ):
        for path, name in _names(host, file, number):
            if name != _OUR_NAME:
                return f"{number} is {name} in {path}: {words}", False
    return "", False


def _names(host: Host, file: str, number: int) -> list[tuple[str, str]]:
    """Path and name of every line that names a number. Raises HostError."""
    paths = []
    for folder in _FOLDERS:
        paths.append(f"{folder}/{file}")
        more = f"{folder}/{file}.d"
        paths += [f"{more}/{name}" for name in host.names(more) if name.endswith(".conf")]
    return [
        (path, name)
        for path in paths
        for text, name in _NAMED.findall(host.text(path))
        if int(text, 16 if text.startswith("0x") else 10) == number
    ]


def note(host: Host) -> str:
    """Who may take rules and routes away; empty where nobody does. Raises HostError."""
    if not host.exists(_NETWORKD):
        return ""
    kept = {name for name in _MANAGES if _switched_off(host, name)}
    left = [f"{name}=no" for name in _MANAGES if name not in kept]
    if not left:
        return ""
    return (
        "systemd-networkd removes what is not its own when it starts anew: set "
        f"{' and '.join(left)} in networkd.conf"
    )


def _switched_off(host: Host, name: str) -> bool:
    """The last word of networkd.conf and its drop-ins; good enough for a hint."""
    paths = [f"{folder}/networkd.conf" for folder in _CONFIGS]
    drop_ins = {
        entry: f"{folder}/networkd.conf.d/{entry}"
        for folder in _CONFIGS
        for entry in host.names(f"{folder}/networkd.conf.d")
        if entry.endswith(".conf")
    }
    paths += [drop_ins[entry] for entry in sorted(drop_ins)]
    pattern = re.compile(rf"^\s*{name}\s*=\s*(\S+)\s*$", re.MULTILINE | re.ASCII)
    values = [value for path in paths for value in pattern.findall(host.text(path))]
    return bool(values) and values[-1].lower() in ("no", "false", "off", "0", "n", "f")
