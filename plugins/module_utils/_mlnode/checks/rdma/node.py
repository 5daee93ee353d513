# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Requirements of RDMA on the node itself: access from user space, namespaces, ARP of rails, GPUs."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Sequence

from ...drivers.gpu import drivers as gpu_drivers
from ...host.host import Host
from ...linux import iproute
from ...model.errors import HostError
from ...model.setting import Value
from ...topology.model import Topology
from ..expect import Expectations
from ..model import Check, Nothing, Subject, Verdict, findings
from . import ports
from .ports import CLASS, Subjects

_OF_RDMA = ("uverbs", "rdma_ucm", "netns", "multi_rail")
NAMES = (*_OF_RDMA, "gpus", "gpu_versions")

_VERBS = "/sys/class/infiniband_verbs"
_DEV = "/dev/infiniband"
_NETNS = "/sys/module/ib_core/parameters/netns_mode"
_CONF = "/proc/sys/net/ipv4/conf"
_ROUTES = "/proc/net/route"
#: RTF_GATEWAY (include/uapi/linux/route.h): the route is not the interface's own subnet
_GATEWAY = 0x2

#: net/ipv6/ndisc.c: ndisc_recv_ns; RFC 6724, rule 5
_IPV6_ALONE = (
    "it has IPv6 alone, which needs no setting: a solicitation is answered on the interface that has the "
    "address, the source is one of the interface that sends, and there is no rp_filter"
)

#: enum rdma_node_type: channel adapters and iWARP NICs make connections through RDMA-CM. EFA, usNIC and
#: similar devices do not.
_WITH_CM = ("1:", "4:")


def checks(host: Host, topology: Topology, expect: Expectations) -> list[Check]:
    known = ports.subjects(topology, expect)
    gpus = [_gpus(topology, expect), _versions(host, topology)]
    if not known.devices:
        none = [Subject(name, source=CLASS).skip("no RDMA device is judged") for name in _OF_RDMA]
        return [*none, *gpus]
    uverbs = [Subject("uverbs", device.name, _VERBS, f"{_DEV}/uverbsN") for device in known.devices]
    ucm = Subject("rdma_ucm", source=f"{_DEV}/rdma_cm", expected=f"{_DEV}/rdma_cm")
    return [
        *findings(uverbs, partial(_uverbs, host, uverbs)),
        *findings([ucm], partial(_ucm, host, known, ucm)),
        _netns(host, expect),
        *_multi_rail(host, known),
        *gpus,
    ]


def _uverbs(host: Host, subjects: Sequence[Subject]) -> list[Check]:
    """The device file of each RDMA device, matched by the file ibdev in sysfs. Raises HostError."""
    owners = {host.value(f"{_VERBS}/{name}/ibdev").text: name for name in host.names(_VERBS)}
    files = set(host.names(_DEV))
    checks = []
    for subject in subjects:
        name = owners.get(subject.target, "")
        if not name:
            advice = "load ib_uverbs (modprobe ib_uverbs), and have it loaded at boot (/etc/modules-load.d)"
            checks.append(subject.judged(False, "no device file: ib_uverbs is not loaded", advice=advice))
            continue
        path = f"{_DEV}/{name}"
        advice = "look at udev; in a container, the runtime has to pass this device in"
        evidence = path if name in files else f"{path} does not exist"
        checks.append(subject.judged(name in files, evidence, source=path, advice=advice))
    return checks


def _ucm(host: Host, known: Subjects, subject: Subject) -> Check:
    """Raises HostError."""
    types = [host.value(f"{CLASS}/{device.name}/node_type").text or "" for device in known.devices]
    if not any(text.startswith(_WITH_CM) for text in types):
        return subject.skip("no device here makes connections through RDMA-CM", source=CLASS)
    path, there = subject.source, host.exists(subject.source)
    advice = "load rdma_ucm (modprobe rdma_ucm), and have it loaded at boot (/etc/modules-load.d)"
    return subject.judged(there, path if there else f"{path} does not exist", advice=advice)


def _netns(host: Host, expect: Expectations) -> Check:
    """Sharing of devices between network namespaces (drivers/infiniband/core/device.c: netns_mode)."""
    subject = Subject("netns", source=_NETNS, expected=expect.get("netns", ""))
    value = ports.read(host, _NETNS)
    if value.text is not None:
        mode = value.text.strip()
        value = Value({"Y": "shared", "N": "exclusive"}.get(mode, mode))
    lasting = f"options ib_core netns_mode={int(subject.expected == 'shared')} in /etc/modprobe.d"
    advice = f"rdma system set netns {subject.expected}, and at every boot: {lasting}"
    return subject.compared(value, "netns in all", advice)


def _gpus(topology: Topology, expect: Expectations) -> Check:
    """Number of GPUs on PCI. Nodes of a fleet are compared by it, because a lost GPU is simply absent."""
    wanted = expect.get("gpus")
    expected = "" if wanted is None else str(wanted)
    advice = "look for the GPU with lspci and in dmesg (Xid 79), and reboot or drain the node"
    subject = Subject("gpus", source="/sys/bus/pci/devices", expected=expected)
    return subject.compared(Value(str(len(topology.gpus))), "gpus in all", advice)


def _versions(host: Host, topology: Topology) -> Check:
    """Driver, firmware and partitions of the GPUs, which nodes of a fleet have alike."""
    subject = Subject("gpu_versions", source="/sys/bus/pci/devices")
    known = gpu_drivers.for_vendors(gpu.vendor for gpu in topology.gpus)
    if not known:
        return subject.skip("no GPU whose driver is known here")
    words: list[str] = []
    absent: list[Nothing] = []
    for driver in known:
        try:
            driver.require(host)
            words.append(driver.alike(host, [gpu for gpu in topology.gpus if gpu.vendor == driver.VENDOR]))
        except Nothing as error:
            absent.append(error)
        except HostError as error:
            return subject.unknown(str(error), source=error.path)
    if not words:
        return subject.skip(str(absent[0]), source=absent[0].source)
    evidence = "; ".join([*words, *map(str, absent)])
    return subject.skip(evidence, value=evidence)


# -- several rails ---------------------------------------------------------------------------


def _multi_rail(host: Host, known: Subjects) -> list[Check]:
    """ARP settings of the rails.

    Linux answers ARP for all its addresses on every interface, so packets for one rail arrive at another
    (Documentation/networking/ip-sysctl.rst: arp_ignore, arp_announce, rp_filter).
    """
    rails = ports.roce_interfaces(known)
    if len(rails) < 2:
        return [Subject("multi_rail", source=_CONF).skip("fewer than two RoCE interfaces")]
    shared = _shared_subnets(host, rails)
    with_ipv6 = _only_ipv6(host, rails)
    return [
        Subject("multi_rail", rail, "ip addr").skip(_IPV6_ALONE)
        if rail in with_ipv6
        else _arp(host, rail, rail in shared)
        for rail in rails
    ]


def _only_ipv6(host: Host, rails: Sequence[str]) -> set[str]:
    """Rails with IPv6 addresses and no IPv4 address; empty if unknown.

    Not determined by routes, because a rail's routes may be in a separate table.
    """
    try:
        here = iproute.interfaces(host)
    except HostError:
        return set()
    versions = {
        rail: {address.ip.version for address in here[rail].addresses} for rail in rails if rail in here
    }
    return {rail for rail, known in versions.items() if known == {6}}


def _arp(host: Host, rail: str, shared: bool) -> Check:
    """ARP settings of one rail. For each key the greater value of `all` and the interface counts."""
    expected, numbers = "arp_ignore 1, arp_announce 2, rp_filter not 1", {}
    subject = Subject("multi_rail", rail, f"{_CONF}/{rail}", expected)
    for key in ("arp_ignore", "arp_announce", "rp_filter"):
        both = []
        for name in ("all", rail):
            path = f"{_CONF}/{name}/{key}"
            value = ports.read_number(host, path)
            if value.text is None:
                return subject.missing(value, source=path, expected=expected if value.unreadable else "")
            both.append(int(value.text))
        numbers[key] = max(both)
    evidence = ", ".join(f"{key} {number}" for key, number in numbers.items())
    good = numbers["arp_ignore"] >= 1 and numbers["arp_announce"] >= 2 and numbers["rp_filter"] != 1
    wrong = "set them with sysctl_ml: packets for one rail arrive at another, and their answers are dropped"
    advice = (
        f"{wrong}; this rail shares its subnet with another"
        if shared
        else f"{wrong} as soon as rails share a subnet"
    )
    # Rails on separate subnets work without these settings; rails on one subnet do not.
    bad = Verdict.FAIL if shared else Verdict.WARN
    return subject.judged(good, evidence, advice=advice, bad=bad)


def _shared_subnets(host: Host, rails: Sequence[str]) -> set[str]:
    """Rails that share an IPv4 subnet with another rail."""
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
