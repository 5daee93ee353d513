# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Values of `auto` on this machine: its rails, the interface for bootstrap, the index of RoCE addresses, and
the traffic class of another declaration.
"""

from __future__ import annotations

from typing import Callable, Iterator, Mapping, Sequence

from ...host.host import Host
from ...linux import routes
from ...model import values as kernel_values
from ...model.errors import HostError
from ...model.record import NamedTuple, regex
from ...model.setting import Value
from ...topology import hardware, management
from ...topology.model import RdmaDevice, Topology
from ...topology.nics import NETS
from ...topology.rdma import RDMA
from . import lossless, values
from .lossless import Rail

#: The kind that declares a traffic class for RoCE, and its option
QOS, TRAFFIC_CLASS = "qos", "traffic_class"

#: Excludes interfaces that end on the node itself; used if the node's own route is unknown
NOT_LOCAL = "^=lo,docker0"

#: Link layers of NCCL's own transport (src/transport/net_ib: IBV_LINK_LAYER_*)
_INFINIBAND, _ETHERNET = "InfiniBand", "Ethernet"

#: Address family, as in NCCL_IB_ADDR_FAMILY → its addresses as GIDs. An IPv4 address is ::ffff:192.0.2.1.
#: NCCL takes neither an empty entry nor a link-local address of IPv6 (src/transport/net_ib: validGid)
_GIDS = {
    "AF_INET": regex(r"(?:0000:){5}ffff:[0-9a-f]{4}:[0-9a-f]{4}\Z"),
    "AF_INET6": regex(r"(?!(?:0000:){5}|fe80:0000:0000:0000:)(?:[0-9a-f]{4}:){7}[0-9a-f]{4}\Z"),
}
_IPV4, _IPV6 = _GIDS
_WORDS = {_IPV4: "IPv4", _IPV6: "IPv6"}
_ROCE_V2 = "RoCE v2"


class Answer(NamedTuple):
    """value: result of `auto` here; None to leave the variable out, for the reason in note. problem: why the
    result is unknown or impossible.
    """

    value: str | None = None
    note: str = ""
    problem: Value = Value()


# -- the rails -----------------------------------------------------------------------------


def rails(host: Host) -> tuple[tuple[Rail, ...], Value]:
    """Rails that NCCL can use, in their order; if there are none, the reason."""
    known = hardware.topology(host)
    broken = next(
        (problem for problem in known.problems if not problem.missing and "/infiniband" in problem.path), None
    )
    if broken:
        return (), Value(unreadable=broken.what)
    devices = sorted(
        (device for device in known.rdma if device.rail is not None), key=lambda device: device.rail or 0
    )
    if not devices:
        has = "RDMA device that is a rail" if known.rdma else "RDMA device"
        return (), Value(absent=f"{RDMA}: this machine has no {has}")
    nccl_rails = tuple(rail for device in devices for rail in _ports(device, known))
    odd = next((rail.device for rail in nccl_rails if not values.HCA.match(rail.device)), None)
    if odd is not None:
        return (), Value(absent=f"the name of the RDMA device {odd!r} cannot be part of a list: rename it")
    if not nccl_rails:
        names = ", ".join(device.name for device in devices)
        return (), Value(
            absent=f"{names}: neither InfiniBand nor Ethernet, and NCCL by itself takes nothing else; it "
            "needs a plugin (EFA: aws-ofi-nccl), which finds its devices without this"
        )
    return nccl_rails, Value()


def _ports(device: RdmaDevice, known: Topology) -> Iterator[Rail]:
    """Ports that are rails. For a device with several ports, those with rail interfaces; all if it has no
    interfaces.
    """
    on_rails = {nic.name for nic in known.nics if device.name in nic.rdma and nic.rail is not None}
    for port in device.ports:
        is_rail = len(device.ports) == 1 or not on_rails or bool(on_rails.intersection(port.netdevs))
        if is_rail and port.link_layer in (_INFINIBAND, _ETHERNET):
            yield Rail(device.name, port.number, port.link_layer, port.netdevs)


def _of_rails(answer: Callable[[Host, Sequence[Rail]], Answer]) -> Callable[[Host], Answer]:
    def rails_answer(host: Host) -> Answer:
        nccl_rails, problem = rails(host)
        return answer(host, nccl_rails) if nccl_rails else Answer(problem=problem)

    return rails_answer


@_of_rails
def _hcas(_host: Host, nccl_rails: Sequence[Rail]) -> Answer:
    if len(nccl_rails) > values.MAX_HCAS:
        return Answer(
            problem=Value(absent=f"{len(nccl_rails)} rails, and NCCL takes {values.MAX_HCAS}: name them")
        )
    layers = {rail.link_layer for rail in nccl_rails}
    note = (
        ""
        if len(layers) == 1
        else "some rails are InfiniBand, others Ethernet, and NCCL joins only like with like"
    )
    return Answer(f"={','.join(map(str, nccl_rails))}", note)


# -- where jobs meet -----------------------------------------------------------------------


def _interface(host: Host) -> Answer:
    """The interface of the default route, which is the same at boot, over SSH, and on all nodes."""
    nics = _default(routes.ipv4(host))[:1] or _default(routes.ipv6(host))
    nics = nics or _tops(host, [*management.interfaces(host)])
    if not nics:
        note = "there is no default route, and no earlier run has recorded the interface of its connection"
        return Answer(NOT_LOCAL, note)
    odd = next((name for name in nics if not values.NIC.match(name)), None)
    if odd is not None:
        return Answer(problem=Value(absent=f"the name of the interface {odd!r} cannot be part of a list"))
    return Answer(f"={','.join(nics)}")


def _default(all_routes: Sequence[routes.Route]) -> list[str]:
    """NICs of default routes, the preferred one first (net/ipv4/fib_trie.c keeps them by their metric)."""
    return list(dict.fromkeys(route.nic for route in all_routes if route.is_default))


def _tops(host: Host, names: Sequence[str]) -> list[str]:
    """Interfaces that are not a member of another: a bond has addresses, its members have none."""
    return [
        name
        for name in names
        if not {f"upper_{other}" for other in names}.intersection(host.names(f"{NETS}/{name}"))
    ]


# -- addresses and classes -----------------------------------------------------------------


@_of_rails
def _gid_index(host: Host, nccl_rails: Sequence[Rail]) -> Answer:
    """The index of RoCE v2 addresses, if every rail has exactly one of the common family, at the same index.

    An index that fits only some rails fails on the others, and NCCL itself chooses well since 2.21.
    """
    if any(rail.link_layer != _ETHERNET for rail in nccl_rails):
        return Answer(note="left out: the index is RoCE's, and these rails are InfiniBand")
    family = _family(host, nccl_rails)
    indexes = {str(rail): usable(host, rail, family) for rail in nccl_rails}
    for name, places in indexes.items():
        if len(places) != 1:
            has = f"{len(places)} of them" if places else "none"
            must = f"each rail must have one {_WORDS[family]} address of RoCE v2"
            return Answer(note=f"left out: {must}, and {name} has {has}")
    if len({places[0] for places in indexes.values()}) > 1:
        listing = ", ".join(f"{name} {places[0]}" for name, places in indexes.items())
        return Answer(note=f"left out: the rails have their addresses in different places ({listing})")
    return Answer(str(next(iter(indexes.values()))[0]))


@_of_rails
def _address_family(host: Host, nccl_rails: Sequence[Rail]) -> Answer:
    """The address family. Without the variable, NCCL uses only IPv4 addresses."""
    if any(rail.link_layer != _ETHERNET for rail in nccl_rails):
        return Answer(note="left out: the family is RoCE's, and these rails are InfiniBand")
    if _family(host, nccl_rails) == _IPV4:
        return Answer(note="left out: NCCL looks for IPv4 by itself")
    lacking = [str(rail) for rail in nccl_rails if not usable(host, rail, _IPV6)]
    if lacking:
        return Answer(note=f"left out: {', '.join(lacking)} has no routable address of RoCE v2")
    return Answer(_IPV6)


def _family(host: Host, nccl_rails: Sequence[Rail]) -> str:
    """IPv6 if a rail has an IPv6 address and none has IPv4; else IPv4. Raises HostError."""
    if any(usable(host, rail, _IPV4) for rail in nccl_rails):
        return _IPV4
    return _IPV6 if any(usable(host, rail, _IPV6) for rail in nccl_rails) else _IPV4


def usable(host: Host, rail: Rail, family: str) -> list[int]:
    """The indexes of a port's RoCE v2 addresses of a family. Raises HostError."""
    folder = f"{_port(rail)}/gids"
    return [
        int(index)
        for index in sorted(host.names(folder), key=lambda name: (len(name), name))
        if kernel_values.number(index) is not None
        and _GIDS[family].match(_text(host, f"{folder}/{index}"))
        and _text(host, _kind(rail, index)) == _ROCE_V2
    ]


def _port(rail: Rail) -> str:
    return f"{RDMA}/{rail.device}/ports/{rail.port}"


def _kind(rail: Rail, index: str) -> str:
    """Path of the type of an address."""
    return f"{_port(rail)}/gid_attrs/types/{index}"


def _text(host: Host, path: str) -> str:
    value = host.value(path)
    if value.unreadable is not None:
        raise HostError("read", path, None, value.unreadable)
    return (value.text or "").strip()


@_of_rails
def _traffic_class(host: Host, nccl_rails: Sequence[Rail]) -> Answer:
    if all(rail.link_layer == _INFINIBAND for rail in nccl_rails):
        return Answer(note="left out: these rails are InfiniBand, whose traffic goes by its service level")
    classes = traffic_classes(host)
    if not classes:
        return Answer(note=f"left out: no declaration of kind {QOS} names a traffic class")
    if len(classes) > 1:
        listing = ", ".join(f"{number} ({', '.join(where)})" for number, where in classes.items())
        return Answer(note=f"left out: NICs have different traffic classes: {listing}")
    lacking = lossless.lacking(host, nccl_rails)
    if lacking:
        return Answer(note=f"left out: {lacking}")
    return Answer(str(next(iter(classes))))


def traffic_classes(host: Host) -> dict[int, list[str]]:
    """Traffic class → the declarations that give it to RoCE."""
    classes: dict[int, dict[str, None]] = {}
    for path, setting in lossless.priorities(host):
        if setting.group == TRAFFIC_CLASS:
            classes.setdefault(setting.value, {})[path] = None
    return {number: [*paths] for number, paths in classes.items()}


#: Variable → function that determines its value, and a description
RESOLVERS: Mapping[str, tuple[Callable[[Host], Answer], str]] = {
    "NCCL_IB_HCA": (_hcas, "the rails of the topology, each with its port"),
    "NCCL_SOCKET_IFNAME": (_interface, "the interface of the default route, else of the management path"),
    "NCCL_IB_ADDR_FAMILY": (_address_family, "AF_INET6 where the rails have addresses of IPv6 alone"),
    "NCCL_IB_GID_INDEX": (_gid_index, "the place of the address of RoCE v2, if it is one on all rails"),
    "NCCL_IB_TC": (_traffic_class, f"the traffic class of the declaration of kind {QOS}"),
}


def resolve(host: Host, name: str) -> Answer:
    """Value of `auto` for a variable of RESOLVERS."""
    try:
        return RESOLVERS[name][0](host)
    except HostError as error:
        return Answer(problem=Value(unreadable=str(error)))


# -- manual declarations -------------------------------------------------------------------


def doubts(host: Host, name: str, value: str) -> str:
    """Part of a declared value that contradicts this machine; empty if nothing does."""
    try:
        if name == "NCCL_IB_GID_INDEX":
            return _wrong_index(host, value)
        folder = {"NCCL_IB_HCA": RDMA, "NCCL_SOCKET_IFNAME": NETS}.get(name)
        if folder is None or not value.startswith("="):
            return ""
        here = host.names(folder)
    except HostError as error:
        return str(error)
    lacking = [word for word in value[1:].split(",") if word.split(":")[0] not in here]
    return f"{', '.join(lacking)}: not on this machine" if lacking else ""


def _wrong_index(host: Host, value: str) -> str:
    nccl_rails, _problem = rails(host)
    wrong = [
        str(rail)
        for rail in nccl_rails
        if rail.link_layer == _ETHERNET and value != "-1" and _text(host, _kind(rail, value)) != _ROCE_V2
    ]
    return f"{', '.join(wrong)}: no address of RoCE v2 at {value}" if wrong else ""
