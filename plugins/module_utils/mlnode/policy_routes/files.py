# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Policy routing as if the kernel had files for it, of IPv4:

    /rail/table/TABLE/rules     `from 10.1.0.5, from 10.1.0.6`: ours that look up the table, or none
    /rail/table/TABLE/routes    `10.1.0.0/24 dev eth2, default via 10.1.0.1 dev eth2`: ours in it, or none
    /rail/table/TABLE/others    told: what of both is somebody else's, or none
    /rail/nic/NIC/addresses     told: `10.1.0.5/24`, or none; with what is on the link where that is another
                                network: `10.3.0.7/32=10.3.0.8/32`

Every table is there, whether or not there is anything in it; what lists them shows those with something of
ours. Nothing but HostError is raised.
"""

from __future__ import annotations

import errno
import ipaddress
import re
from typing import Callable, Sequence

from ..capability import lacks_net_admin
from ..errors import HostError, MissingError
from ..host import Host
from . import TOP, ip, tables
from .tables import Address, Route, Rule

#: Where a captured tree has what ip.capture() makes
CAPTURED = f"{TOP}/ip.json"

_NETS = "/sys/class/net"
_TABLE = re.compile(r"[1-9][0-9]{0,9}\Z", re.ASCII)
_FILES = ("rules", "routes", "others")


def table_folder(table: int) -> str:
    return f"{TOP}/table/{table}"


def addresses_file(nic: str) -> str:
    return f"{TOP}/nic/{nic}/addresses"


def parse_addresses(text: str) -> list[Address]:
    """Of an addresses file."""
    found = []
    for word in [] if text.strip() == tables.NONE else text.split():
        own, _equals, network = word.partition("=")
        interface = ipaddress.IPv4Interface(own)
        found.append(Address(interface.ip, ipaddress.IPv4Network(network) if network else interface.network))
    return found


def read(host: Host, path: str) -> bytes:
    kind, name, file = _file("read", path)
    source = _source(host)
    if kind == "nic":
        _must_exist(host, path, name)
        text = _addresses(ip.addresses(source).get(name, []))
    elif file == "rules":
        ours = [rule for rule in ip.rules(source) if rule.table == int(name) and not rule.words]
        text = tables.rules_text(ours)
    elif file == "routes":
        text = tables.routes_text(
            [route for route in ip.routes(source) if route.table == int(name) and not route.words]
        )
    else:
        items: list[Rule | Route] = [*ip.rules(source), *ip.routes(source)]
        words = [item.words for item in items if item.table == int(name) and item.words]
        text = ", ".join(words) or tables.NONE
    return f"{text}\n".encode("utf-8", "surrogateescape")


def write(host: Host, path: str, value: str) -> None:
    """Whether the kernel did what it accepted is for a read to tell."""
    action = f"write {value!r} to"
    kind, name, file = _file(action, path)
    if kind == "nic" or file == "others":
        raise HostError(action, path, None, f"{path} is told here, and not set")
    source, table = _source(host), int(name)
    try:
        if file == "rules":
            ip.set_rules(source, table, tables.parse_rules(table, value))
        else:
            ip.set_routes(source, table, tables.parse_routes(table, value))
    except ValueError as error:
        raise HostError(action, path, errno.EINVAL) from error


def names(host: Host, path: str) -> list[str]:
    parts = _parts(path)
    if not parts:
        return ["nic", "table"]
    if parts == ["nic"]:
        return [name for name in host.names(_NETS) if name != "bonding_masters"]
    if parts == ["table"]:
        source = _source(host)
        items: list[Rule | Route] = [*ip.rules(source), *ip.routes(source)]
        return [str(table) for table in sorted({item.table for item in items if not item.words})]
    if len(parts) == 2 and exists(host, path):
        return ["addresses"] if parts[0] == "nic" else sorted(_FILES)
    return []


def exists(host: Host, path: str) -> bool:
    """Also where nobody can tell what it says: then a read tells why."""
    parts = _parts(path)
    if len(parts) == 1:
        return parts[0] in ("nic", "table")
    if len(parts) == 2:
        parts = [*parts, "addresses" if parts[0] == "nic" else "rules"]
    try:
        kind, name, _file_name = _file("look at", f"{TOP}/{'/'.join(parts)}") if parts else ("", "", "")
    except MissingError:
        return False
    return kind != "nic" or name in host.names(_NETS)


def blocked(host: Host, path: str) -> str:
    """Why it cannot be set; empty if it can, or where a read has more to say."""
    try:
        kind, _name, file = _file("look at", path)
    except HostError:
        return ""
    if kind == "nic" or file == "others":
        return f"{path} is told here, and not set"
    return lacks_net_admin(host, path)


# -- details -------------------------------------------------------------------------------


def _source(host: Host) -> ip.Source:
    """The captured answers of a tree that has them, else the machine itself. Raises HostError."""
    if host.live:
        return ip.Ip(host)
    try:
        return ip.Captured.of(CAPTURED, host.stored(CAPTURED))
    except HostError as error:
        if not error.absent:
            raise
        return ip.Ip(host)


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part][1:]


#: First folder → whether the second and the file can be
_KNOWN: dict[str, Callable[[str, str], bool]] = {
    "nic": lambda name, file: name not in (".", "..") and file == "addresses",
    "table": lambda name, file: bool(_TABLE.match(name)) and int(name) < 1 << 32 and file in _FILES,
}


def _file(action: str, path: str) -> tuple[str, str, str]:
    """Raises MissingError for what can be no file here."""
    parts = _parts(path)
    if len(parts) != 3 or parts[0] not in _KNOWN or not _KNOWN[parts[0]](parts[1], parts[2]):
        raise MissingError(action, path, f"{path} does not exist")
    return parts[0], parts[1], parts[2]


def _must_exist(host: Host, path: str, nic: str) -> None:
    if nic not in host.names(_NETS):
        raise MissingError("read", path, f"there is no interface {nic}")


def _addresses(found: Sequence[Address]) -> str:
    return " ".join(_address(item) for item in found) or tables.NONE


def _address(item: Address) -> str:
    text = f"{item.ip}/{item.network.prefixlen}"
    return text if item.ip in item.network else f"{item.ip}/32={item.network}"
