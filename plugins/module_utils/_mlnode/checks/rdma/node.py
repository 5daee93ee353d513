# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Needs of RDMA on the node beside its devices: access from user space, namespaces, ARP of rails, GPUs."""

from __future__ import annotations

from collections import Counter
from typing import Sequence

from ...host.host import Host
from ...linux import iproute
from ...model.errors import HostError
from ...model.setting import Value
from ...topology.model import Topology
from ..expect import Expectations
from ..model import Check, Verdict, judged, skip
from . import ports
from .ports import CLASS, Subjects, nothing, told

_OF_RDMA = ("uverbs", "rdma_ucm", "netns", "multi_rail")
NAMES = (*_OF_RDMA, "gpus")

_VERBS = "/sys/class/infiniband_verbs"
_DEV = "/dev/infiniband"
_NETNS = "/sys/module/ib_core/parameters/netns_mode"
_CONF = "/proc/sys/net/ipv4/conf"
_ROUTES = "/proc/net/route"
#: RTF_GATEWAY (include/uapi/linux/route.h): not a subnet of the interface's own
_GATEWAY = 0x2

_ASKED = "ip addr"
#: net/ipv6/ndisc.c: ndisc_recv_ns; RFC 6724, rule 5
_IPV6_ALONE = (
    "it has IPv6 alone, which needs no setting: a solicitation is answered on the interface that has the "
    "address, the source is one of the interface that sends, and there is no rp_filter"
)

#: enum rdma_node_type: connections are made through RDMA-CM on channel adapters and iWARP NICs. EFA, usNIC
#: and the like have none.
_WITH_CM = ("1:", "4:")


def checks(host: Host, topology: Topology, expect: Expectations) -> list[Check]:
    known = ports.subjects(topology, expect)
    gpus = _gpus(topology, expect)
    if not known.devices:
        return [*(skip(name, "node", "no RDMA device is judged", CLASS) for name in _OF_RDMA), gpus]
    of_rdma = [*_uverbs(host, known), _ucm(host, known), _netns(host, expect), *_multi_rail(host, known)]
    return [*of_rdma, gpus]


def _uverbs(host: Host, known: Subjects) -> list[Check]:
    """The device file of each RDMA device. Which is whose: the file ibdev in sysfs."""
    expected = f"{_DEV}/uverbsN"
    try:
        owners = {host.value(f"{_VERBS}/{name}/ibdev").text: name for name in host.names(_VERBS)}
        files = set(host.names(_DEV))
    except HostError as error:
        why = Value(unreadable=str(error))
        return [nothing("uverbs", device.name, why, error.path, expected) for device in known.devices]
    checks = []
    for device in known.devices:
        name = owners.get(device.name, "")
        if not name:
            advice = "load ib_uverbs (modprobe ib_uverbs), and have it loaded at boot (/etc/modules-load.d)"
            found = "no device file: ib_uverbs is not loaded"
            checks.append(Check("uverbs", device.name, Verdict.FAIL, expected, found, _VERBS, advice))
            continue
        path = f"{_DEV}/{name}"
        advice = "look at udev; in a container, the runtime has to pass this device in"
        found = path if name in files else f"{path} does not exist"
        checks.append(judged("uverbs", device.name, name in files, expected, found, path, advice))
    return checks


def _ucm(host: Host, known: Subjects) -> Check:
    path = f"{_DEV}/rdma_cm"
    types = [host.value(f"{CLASS}/{device.name}/node_type").text or "" for device in known.devices]
    if not any(text.startswith(_WITH_CM) for text in types):
        return skip("rdma_ucm", "node", "no device here makes connections through RDMA-CM", CLASS)
    try:
        there = host.exists(path)
    except HostError as error:
        return nothing("rdma_ucm", "node", Value(unreadable=str(error)), path, path)
    advice = "load rdma_ucm (modprobe rdma_ucm), and have it loaded at boot (/etc/modules-load.d)"
    return judged("rdma_ucm", "node", there, path, path if there else f"{path} does not exist", path, advice)


def _netns(host: Host, expect: Expectations) -> Check:
    """Use of every device by every network namespace (drivers/infiniband/core/device.c: netns_mode)."""
    wanted = expect.get("netns", "")
    value = ports.read(host, _NETNS)
    if value.text is None:
        return nothing("netns", "node", value, _NETNS, wanted)
    mode = {"Y": "shared", "N": "exclusive"}.get(value.text.strip(), value.text.strip())
    if not wanted:
        return told("netns", "node", mode, _NETNS, "netns in all")
    lasting = f"options ib_core netns_mode={int(wanted == 'shared')} in /etc/modprobe.d"
    advice = f"rdma system set netns {wanted}, and at every boot: {lasting}"
    return judged("netns", "node", mode == wanted, wanted, mode, _NETNS, advice)


def _gpus(topology: Topology, expect: Expectations) -> Check:
    """Number on PCI: nodes of a fleet are compared by it, as one that is lost is not there."""
    wanted = expect.get("gpus")
    source = "/sys/bus/pci/devices"
    found = str(len(topology.gpus))
    if wanted is None:
        return told("gpus", "node", found, source, "gpus in all")
    advice = "look for the GPU with lspci and in dmesg (Xid 79), and reboot or drain the node"
    return judged("gpus", "node", len(topology.gpus) == wanted, str(wanted), found, source, advice)


# -- several rails ---------------------------------------------------------------------------


def _multi_rail(host: Host, known: Subjects) -> list[Check]:
    """Linux answers ARP for any of its addresses on any interface, so that packets for one rail arrive at
    another (Documentation/networking/ip-sysctl.rst: arp_ignore, arp_announce, rp_filter)."""
    rails = ports.roce_interfaces(known)
    if len(rails) < 2:
        return [skip("multi_rail", "node", "fewer than two RoCE interfaces", _CONF)]
    shared = _shared_subnets(host, rails)
    with_ipv6 = _only_ipv6(host, rails)
    return [
        skip("multi_rail", rail, _IPV6_ALONE, _ASKED)
        if rail in with_ipv6
        else _arp(host, rail, rail in shared)
        for rail in rails
    ]


def _only_ipv6(host: Host, rails: Sequence[str]) -> set[str]:
    """The rails with addresses of IPv6 and none of IPv4; none of them where that is unknown. Not by routes,
    as those of a rail may be in a table of its own."""
    try:
        here = iproute.interfaces(host)
    except HostError:
        return set()
    versions = {rail: {one.ip.version for one in here[rail].addresses} for rail in rails if rail in here}
    return {rail for rail, known in versions.items() if known == {6}}


def _arp(host: Host, rail: str, shared: bool) -> Check:
    """Of each of them the greater of `all` and the interface's own counts."""
    expected = "arp_ignore 1, arp_announce 2, rp_filter not 1"
    numbers = {}
    for key in ("arp_ignore", "arp_announce", "rp_filter"):
        both = []
        for name in ("all", rail):
            path = f"{_CONF}/{name}/{key}"
            number, value = ports.read_number(host, path)
            if number is None:
                return nothing("multi_rail", rail, value, path, expected if value.unreadable else "")
            both.append(number)
        numbers[key] = max(both)
    found = ", ".join(f"{key} {number}" for key, number in numbers.items())
    good = numbers["arp_ignore"] >= 1 and numbers["arp_announce"] >= 2 and numbers["rp_filter"] != 1
    wrong = "set them with sysctl_ml: packets for one rail arrive at another, and their answers are dropped"
    advice = (
        f"{wrong}; this rail shares its subnet with another"
        if shared
        else f"{wrong} as soon as rails share a subnet"
    )
    # Rails with a subnet each work without; in one subnet they do not.
    bad = Verdict.FAIL if shared else Verdict.WARN
    return judged("multi_rail", rail, good, expected, found, f"{_CONF}/{rail}", advice, bad)


def _shared_subnets(host: Host, rails: Sequence[str]) -> set[str]:
    """The rails with an IPv4 subnet that another one has too."""
    owned: dict[tuple[str, str], set[str]] = {}
    for line in (host.value(_ROUTES).text or "").splitlines()[1:]:
        fields = line.split()
        if len(fields) > 7 and fields[0] in rails and _is_own(fields[3]):
            owned.setdefault((fields[1], fields[7]), set()).add(fields[0])
    counts = Counter({subnet: len(names) for subnet, names in owned.items()})
    return {name for subnet, names in owned.items() if counts[subnet] > 1 for name in names}


def _is_own(flags: str) -> bool:
    try:
        return not int(flags, 16) & _GATEWAY
    except ValueError:
        return False
