# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""NICs of a rule: PCI functions, each with all its interfaces and RDMA devices."""

from __future__ import annotations

import re
from typing import Collection, Iterable, Sequence, TypeVar

from ...host.host import Host
from ...model.errors import listed
from ...model.record import NamedTuple, regex
from ...model.setting import Value
from ...model.values import by_key
from ...topology import hardware, management, pci
from ...topology.model import Nic, RdmaDevice, Topology
from .selection import ALL, Selection

T = TypeVar("T")

#: Interfaces with their own device; bonds, bridges and the like use the interrupts of others
_VIRTUAL = "virtual function"
_KINDS = ("physical", "virtio", _VIRTUAL)
#: Files of the topology that decide which NICs exist, and which CPUs may serve them
_DECIDING = regex(
    r"/sys/devices/system/(?:cpu/(?:online|present|isolated|nohz_full)|node/(?:online|node[0-9]+/cpulist))\Z"
    r"|/sys/class/(?:net|infiniband)(?:/[^/]+)?\Z|/sys/bus/pci/devices(?:/[^/]+)?\Z",
    re.ASCII,
)
#: The most devices that a message lists
_LISTED = 8


class Port(NamedTuple):
    """A PCI function that is a NIC, or a NIC on another bus, with the address "".

    rdma: the RDMA devices of its function, and those with a port on one of its interfaces. virtual: a virtual
    function of a NIC that this machine itself owns. pci_id: vendor:device.
    """

    address: str
    node: int | None
    drivers: tuple[str, ...]
    nics: tuple[Nic, ...]
    rdma: tuple[RdmaDevice, ...]
    virtual: bool = False
    pci_id: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """Its interfaces."""
        return tuple(nic.name for nic in self.nics)

    @property
    def up(self) -> bool:
        return any(nic.up for nic in self.nics)

    @property
    def label(self) -> str:
        """The usual name: an interface, else the RDMA device."""
        return "+".join(self.names) or "+".join(device.name for device in self.rdma)

    @property
    def link_layers(self) -> set[str]:
        """Link layers of its RDMA ports; empty without RDMA. A port on another NIC's interface does not
        count.
        """
        names = {*self.names}
        return {
            port.link_layer
            for device in self.rdma
            for port in device.ports
            if not port.netdevs or names.intersection(port.netdevs)
        }

    @property
    def rails(self) -> tuple[int, ...]:
        numbers = (*(nic.rail for nic in self.nics), *(device.rail for device in self.rdma))
        return tuple(sorted({rail for rail in numbers if rail is not None}))


def ports(topology: Topology) -> tuple[Port, ...]:
    """All NICs of the machine, by PCI address, followed by those on other buses.

    In a container, only NICs whose interface is in it: the RDMA devices of its host are visible in every
    container.
    """
    nics = by_key((nic.address or nic.folder, nic) for nic in topology.nics if nic.kind in _KINDS)
    rdma = by_key((device.address, device) for device in topology.rdma if device.address is not None)
    functions = {function.address: function for function in topology.pci}
    all_ports = []
    for address in sorted({*nics} if _in_container(topology) else {*nics, *rdma}, key=_order):
        members, function = nics.get(address, []), functions.get(address)
        # A sub-function is an interface on the NIC's own function (mlx5), and comes and goes with a
        # container.
        members = [nic for nic in members if nic.kind != _VIRTUAL] or members
        names = {nic.name for nic in members}
        joined = [
            device
            for device in topology.rdma
            if device in rdma.get(address, ()) or names.intersection(device.netdevs)
        ]
        known = [*(nic.node for nic in members), *(device.node for device in joined)]
        nodes = [node for node in known if node is not None]
        drivers = {nic.driver for nic in members} or {function.driver if function else None}
        all_ports.append(
            Port(
                address="" if address.startswith("/") else address,
                node=nodes[0] if nodes else None,
                drivers=tuple(sorted(driver for driver in drivers if driver)),
                nics=tuple(members),
                rdma=tuple(joined),
                virtual=any(nic.kind == _VIRTUAL for nic in members) or bool(function and function.physfn),
                pci_id=f"{function.vendor:04x}:{function.device:04x}" if function else "",
            )
        )
    return tuple(all_ports)


def _order(place: str) -> tuple[bool, tuple[int, str]]:
    return place.startswith("/"), (0, place) if place.startswith("/") else pci.order(place)


def _in_container(topology: Topology) -> bool:
    return topology.machine.kind == "container"


def unknown(topology: Topology, among: Sequence[Port]) -> str:
    """Reason why the NICs and CPUs are not known; empty if everything could be read.

    A missing file is not an error: a kernel without NUMA has no nodes.
    """
    # Without its class a function does not count as a NIC, and its node is not searched for.
    files = tuple(f"/{port.address}/{file}" for port in among for file in ("numa_node", "class"))
    for problem in topology.problems:
        if not problem.missing and (_DECIDING.match(problem.path) or problem.path.endswith(files)):
            return problem.what
    return "" if topology.cpus.online else "the kernel does not say which CPUs are online"


class Found(NamedTuple):
    """The ports of a selection.

    problem: why there are none, or are unknown. note: parts of the selection without a match, if others have
    one. nowhere: no NIC here matches. missing: and the selection requires one. elsewhere: the node has ports
    of another link layer than the selected one.
    """

    ports: tuple[Port, ...] = ()
    problem: Value = Value()
    note: str = ""
    nowhere: bool = False
    missing: bool = False
    elsewhere: bool = False


def find(host: Host, selection: Selection) -> Found:
    """The ports of this machine that match a selection."""
    machine = hardware.topology(host)
    here = ports(machine)
    blind = unknown(machine, here)
    carrying: Collection[str] = ()
    if selection.management is not None and not blind:
        blind = management.unknown(host)
        carrying = () if blind else management.interfaces(host)
    if blind:
        return Found(problem=Value(unreadable=blind))
    matches = chosen(selection, here, carrying)
    if not matches:
        others = chosen(selection.of_any_kind, here, carrying)
        elsewhere = bool(selection.link_layer) and any(port.rdma for port in others)
        return Found(
            problem=Value(absent=none_found(selection, here, machine)),
            nowhere=True,
            missing=_is_missing(selection, others, machine),
            elsewhere=elsewhere,
        )
    return Found(matches, note=unmatched(selection, matches))


def _is_missing(selection: Selection, others: Sequence[Port], machine: Topology) -> bool:
    """True if a selection without a match requires its NICs.

    A node with InfiniBand rails needs no rule for Ethernet rails, and a container no NIC of its host. others:
    matches of any kind of NIC.
    """
    if not selection.expects or _in_container(machine):
        return False
    return not any(port.rdma or not selection.link_layer for port in others)


def chosen(selection: Selection, among: tuple[Port, ...], carrying: Collection[str] = ()) -> tuple[Port, ...]:
    """The ports that match a selection. carrying: the interfaces on the management path."""
    return tuple(port for port in among if _matches(selection, port, carrying))


def _matches(selection: Selection, port: Port, carrying: Collection[str]) -> bool:
    names = {*port.names}
    rdma = {device.name for device in port.rdma}
    if port.virtual and not (selection.names or selection.addresses or selection.pci_ids or selection.rdma):
        return False  # It may serve a guest or a container, and matches only by name
    return (
        (not selection.names or bool(names & {*selection.names}))
        and (not selection.drivers or bool({*port.drivers} & {*selection.drivers}))
        and (not selection.addresses or port.address in selection.addresses)
        and (not selection.rdma or bool(rdma & {*selection.rdma}))
        and (selection.rails is None or bool({*port.rails} & ({*selection.rails} or {*port.rails})))
        and (not selection.nodes or port.node in selection.nodes)
        and (not selection.pci_ids or port.pci_id in selection.pci_ids)
        and (not selection.speeds or bool({nic.speed_mbit for nic in port.nics} & {*selection.speeds}))
        and (not selection.link or port.up == (selection.link == "up"))
        and (not selection.link_layer or selection.link_layer in port.link_layers)
        and (selection.management is None or selection.management == bool(names & {*carrying}))
    )


def unmatched(selection: Selection, matches: Sequence[Port]) -> str:
    """Parts of a selection without a match if others have one, such as a failed NIC."""
    rest = Selection(
        names=_without(selection.names, (nic.name for port in matches for nic in port.nics)),
        addresses=_without(selection.addresses, (port.address for port in matches)),
        rdma=_without(selection.rdma, (device.name for port in matches for device in port.rdma)),
        rails=_without(selection.rails or (), (rail for port in matches for rail in port.rails)) or None,
    )
    return f"no NIC here matches {rest}" if rest != ALL else ""


def _without(wanted: tuple[T, ...], present: Iterable[T]) -> tuple[T, ...]:
    have = {*present}
    return tuple(item for item in wanted if item not in have)


def none_found(selection: Selection, among: tuple[Port, ...], topology: Topology) -> str:
    """Reason why a selection matches nothing here, with the NICs that it could match."""
    for nic in topology.nics:
        if nic.name in selection.names and nic.kind not in _KINDS:
            slaves = [other.name for other in topology.nics if other.master == nic.name]
            slaves_hint = f"; use the interfaces below it: {', '.join(slaves)}" if slaves else ""
            return f"{nic.name} ({nic.kind}) has no interrupts of its own{slaves_hint}"
    names = listed([_described(port) for port in among], _LISTED)
    reason = f"no NIC here matches {selection}" if selection != ALL else "no physical NIC is here"
    reason += f"; here are: {names}" if names else ", nor any other on PCI"
    hint = "; NICs without an interface in the container belong to its host: declare them there"
    return reason + hint if _in_container(topology) else reason


def _described(port: Port) -> str:
    rails = f", rail {'+'.join(map(str, port.rails))}" if port.rails else ""
    node = "" if port.node is None else f", node {port.node}"
    return f"{port.label} ({', '.join(port.drivers) or 'no driver'}, {port.address}{node}{rails})"
