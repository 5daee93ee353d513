# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Interfaces that carry the management path: without them the node is unreachable.

A run over SSH counts the default routes and the interfaces on which its own connection arrives and is
answered. A run without a connection, as at boot, counts the default routes, or else the recorded ones, and
the recorded interfaces of the last connection. If all of these are empty, the path is unknown.

Limits: further next hops of one route, IPv4 routes of tables other than main (policy routing, VRF) and the
path of a tunnel, usually the default route, are not detected.
"""

from __future__ import annotations

import json
import os
from functools import partial
from typing import TYPE_CHECKING, Any, Callable, Mapping, Sequence, TypeVar

from ..drivers import ethtool
from ..host import places, ssh, trust
from ..host.host import Host, Mounts
from ..linux import routes as tables
from ..linux.routes import Route
from ..model import strict_json
from ..model.errors import HostError, MlnodeError, StoreError
from ..model.record import NamedTuple, regex
from .nics import NETS, behind, function

if TYPE_CHECKING:
    from ..linux.routes import Address

T = TypeVar("T")

#: Record of the last run for the next boot, which starts without routes
RECORD = places.MANAGEMENT
FORMAT = 1

#: Driver mounts that this module reads, as every MOUNTS
MOUNTS: Mounts = {ethtool.TOP: ethtool.driver}

#: The interface of an openvswitch bridge (net/openvswitch/vport-internal_dev.c) has no links to its ports.
#: All ports link to the datapath's interface (vport-netdev.c: ovs_netdev_link), which has this name.
_OVS_DRIVER, _OVS_DATAPATH = "openvswitch", "ovs-system"

#: sshd's texts for an end without an address (OpenSSH's canohost.c): vsock, a pipe, or the path of a socket
_NO_ADDRESS = regex(r"UNKNOWN\Z|/|\Z")


def interfaces(host: Host, pid: int | None = None) -> Mapping[str, str]:
    """Interface → reason why it belongs to the management path. May be incomplete; see unknown().

    pid: the process whose connection counts; default on a live host: this process.
    """
    return {name: carrier.words for name, carrier in sorted(_look(host, pid).carriers.items())}


def unknown(host: Host, pid: int | None = None) -> str:
    """Reason why interfaces() may be incomplete; "" if it is complete."""
    return _look(host, pid).problem


def carried(host: Host, name: str) -> str:
    """Reason why an interface is, or may be, on the management path; "" if it is not."""
    blind = unknown(host)
    if blind:
        return f"it may carry the management path, which is unknown: {blind}"
    return interfaces(host).get(name, "")


def connection(host: Host, pid: int | None = None) -> str:
    """Addresses connected to this run over SSH, comma-separated; "" if none. Raises MlnodeError."""
    return ", ".join(dict.fromkeys(str(item.client.address) for item in _connections(host, _run(host, pid))))


def record(host: Host, pid: int | None = None) -> bytes | None:
    """Content of RECORD; None if the path is unknown. Equal for runs that see the same interfaces."""
    seen = _look(host, pid)
    if seen.problem:
        return None
    entries = [
        {"name": name, "address": carrier.address, "carries": carrier.carries, "top": carrier.top}
        for name, carrier in sorted(seen.lasting.items())
    ]
    return (json.dumps({"format": FORMAT, "interfaces": entries}, indent=1) + "\n").encode("ascii")


# -- all together --------------------------------------------------------------------------


class _Reason(NamedTuple):
    """carries: a key of _CARRIED. it, which: text about the interface itself, and text after its name."""

    carries: str
    it: str
    which: str


class _Carrier(NamedTuple):
    """An interface of the path. top: the interface above that carries the traffic; "" for itself."""

    carries: str
    top: str
    address: str
    words: str

    @classmethod
    def from_reason(cls, reason: _Reason, top: str, address: str) -> _Carrier:
        words = f"{top}, {reason.which}, stands on it" if top else reason.it
        return cls(reason.carries, top, address, words)


class _Seen(NamedTuple):
    """carriers: the interfaces that count now. lasting: the ones to record, by present or recorded name."""

    carriers: Mapping[str, _Carrier]
    lasting: Mapping[str, _Carrier]
    problem: str


_ROUTE, _CONNECTION = "default route", "connection"

_CARRIES_ROUTE = _Reason(_ROUTE, "it carries the default route", "which carries the default route")

#: Texts for recorded interfaces
_CARRIED = {
    kind: _Reason(kind, f"it {text}", f"which {text}")
    for kind, text in (
        (_ROUTE, "carried the default route when the node was last set up"),
        (_CONNECTION, "carried the connection when the node was last set up"),
    )
}


def _run(host: Host, pid: int | None) -> int | None:
    return os.getpid() if pid is None and host.live else pid


def _look(host: Host, pid: int | None) -> _Seen:
    run = _run(host, pid)
    return host.once(f"management path of {run}", lambda: _seen(host, run))


def _seen(host: Host, pid: int | None) -> _Seen:
    problems: list[str] = []
    ipv4 = _told(problems, partial(tables.ipv4, host)) or []
    routes = [*ipv4, *(_told(problems, partial(tables.ipv6, host)) or [])]
    reasons = {route.nic: _CARRIES_ROUTE for route in routes if route.is_default}
    has_route = bool(reasons)
    connected = [item for item in _told(problems, partial(_connections, host, pid)) or [] if item.by_network]
    for item in connected:
        _told(problems, partial(_add, host, reasons, item, routes))
    carriers: dict[str, _Carrier] = {}
    _told(problems, partial(_stack, host, reasons, carriers))
    lasting = dict(carriers)
    if not connected:
        kept = {
            name: carrier
            for name, carrier in (_told(problems, partial(_recorded, host)) or {}).items()
            if carrier.carries == _CONNECTION or not has_route
        }
        lasting = {**kept, **carriers}
        carriers = {**(_told(problems, partial(_present, host, kept)) or {}), **carriers}
    if not carriers and not problems:
        problems.append(_nothing(host, routes))
    return _Seen(carriers, lasting, "; ".join(problems))


def _told(problems: list[str], ask: Callable[[], T]) -> T | None:
    try:
        return ask()
    except MlnodeError as error:
        problems.append(str(error))
        return None


def _nothing(host: Host, routes: Sequence[Route]) -> str:
    if host.exists(RECORD):
        return f"no interface carries a default route, and none of those in {RECORD} is there"
    has = "has a route yet" if all(route.is_everywhere for route in routes) else "carries a default route"
    return f"no interface {has}, no connection is seen, and no earlier run has left {RECORD}"


# -- the connection ------------------------------------------------------------------------


class _End(NamedTuple):
    """One end of a connection. zone: name or number of the interface of a link-local address."""

    address: Address
    zone: str


class _Connection(NamedTuple):
    client: _End
    server: _End

    @property
    def by_network(self) -> bool:
        """False if the connection comes out of a tunnel that ends on this node: its origin is unknown."""
        return not self.client.address.is_loopback


def _connections(host: Host, pid: int | None) -> list[_Connection]:
    """Connections that started this process. Raises HostError."""
    connections: dict[str, _Connection] = {}
    closed = ""
    for process in ssh.processes(host, pid):
        closed = closed or process.closed
        for text in process.connections:
            item = _parsed(text, process.pid)
            if item is not None:
                connections[text] = item
    # Only root can inspect all parent processes, and only root can change an interface.
    if closed and host.is_superuser() and not any(item.by_network for item in connections.values()):
        raise HostError("determine", "the connection of this run", None, closed)
    return list(connections.values())


def _parsed(text: str, process: int) -> _Connection | None:
    """Connection from "client port server port"; None without a network address. Raises HostError."""
    fields = text.split(" ")
    try:
        if len(fields) != 4:
            raise ValueError("there should be two addresses and two ports")
        if any(_NO_ADDRESS.match(field) for field in (fields[0], fields[2])):
            return None
        return _Connection(_end(fields[0]), _end(fields[2]))
    except ValueError as error:
        what = f"SSH_CONNECTION of process {process}"
        raise HostError("understand", what, None, f"{text[:100]!r}: {str(error)[:100]!a}") from error


def _end(word: str) -> _End:
    import ipaddress

    text, _percent, zone = word.partition("%")
    address = ipaddress.ip_address(text)
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return _End(mapped or address, zone)


def _add(host: Host, reasons: dict[str, _Reason], item: _Connection, routes: Sequence[Route]) -> None:
    """Add the interfaces of a connection. Raises HostError if there are none."""
    who = str(item.client.address)
    arrives = (f"the connection from {who} arrives on it", f"on which the connection from {who} arrives")
    leaves = (f"answers to {who} leave through it", f"through which answers to {who} leave")
    arriving, leaving = _reached(host, item.server, routes), _reached(host, item.client, routes)
    for names, texts in ((arriving, arrives), (leaving, leaves)):
        for name in names:
            reasons.setdefault(name, _Reason(_CONNECTION, *texts))
    if not arriving and not leaving:
        what = f"the interface of the connection from {who}"
        raise HostError(
            "determine", what, None, "no route of the table main leads there (policy routing, or a VRF)"
        )


def _reached(host: Host, end: _End, routes: Sequence[Route]) -> list[str]:
    """Interfaces that hold an address or lead to it."""
    if end.zone:
        names = host.names(NETS)
        indexes = {host.value(f"{NETS}/{name}/ifindex").text: name for name in names}
        zone = end.zone if end.zone in names else indexes.get(end.zone)
        if zone:
            return [zone]
    return [route.nic for route in tables.longest(routes, end.address)]


# -- the interfaces below --------------------------------------------------------------------


def _stack(host: Host, reasons: Mapping[str, _Reason], carriers: dict[str, _Carrier]) -> None:
    """Add the interfaces and, level by level, the interfaces below them. Raises HostError."""
    for name, reason in reasons.items():
        carriers[name] = _Carrier.from_reason(reason, "", _address(host, name))
    todo = [(name, name) for name in reasons]
    while todo:
        name, top = todo.pop(0)
        for lower in _below(host, name):
            if lower not in carriers:
                carriers[lower] = _Carrier.from_reason(reasons[top], top, _address(host, lower))
                todo.append((lower, top))


def _below(host: Host, name: str) -> list[str]:
    """Members of a bond, ports of a bridge, the parent of a VLAN (net/core/dev.c: netdev_adjacent_sysfs_add),
    and the physical function of a virtual one.
    """
    names = [item[len("lower_") :] for item in host.names(f"{NETS}/{name}") if item.startswith("lower_")]
    names += host.names(f"{NETS}/{name}/device/physfn/net")
    if host.exists(f"{NETS}/{_OVS_DATAPATH}"):
        driver = host.value(f"/ethtool/{name}/driver/driver")
        names += [_OVS_DATAPATH] if driver.text == _OVS_DRIVER else []
    return names


def _address(host: Host, name: str) -> str:
    """PCI address of an interface's function; "" if it has none."""
    path = f"{NETS}/{name}"
    target = host.link_target(path)
    return function(behind(target, "net")) or ""


# -- the record ----------------------------------------------------------------------------


def _recorded(host: Host) -> dict[str, _Carrier]:
    """Recorded interfaces by their recorded names; empty without a record. Raises StoreError."""
    trust.require(host, RECORD)
    content = host.content(RECORD)
    if content is None:
        return {}
    advice = "remove it, and run the playbook again to have it written again"
    document = strict_json.document(content, RECORD, FORMAT, advice=advice)
    try:
        return {entry["name"]: _entry(entry) for entry in document["interfaces"]}
    except (KeyError, TypeError) as error:
        problem = f"{RECORD} is damaged ({type(error).__name__}: {str(error)[:100]})"
        raise StoreError(f"{problem}: {advice}") from error


def _entry(entry: Any) -> _Carrier:
    """One recorded interface. Raises KeyError or TypeError for anything that record() does not write."""
    name, address, carries, top = (entry[part] for part in ("name", "address", "carries", "top"))
    if not all(isinstance(text, str) for text in (name, address, carries, top)) or not name:
        raise TypeError(f"{entry!r} is not an interface")
    return _Carrier.from_reason(_CARRIED[carries], top, address)


def _present(host: Host, kept: Mapping[str, _Carrier]) -> dict[str, _Carrier]:
    """Recorded interfaces that exist now, by their present names, matched by name or by PCI address."""
    carriers: dict[str, _Carrier] = {}
    for name in host.names(NETS):
        address = _address(host, name)
        for then, carrier in kept.items():
            if then == name or (address and carrier.address == address):
                carriers.setdefault(name, carrier)
    return carriers
