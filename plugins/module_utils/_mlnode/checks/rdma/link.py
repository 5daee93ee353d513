# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""State, rate and width of a port, with its interface and MTUs, compared with the declaration.

Documentation/ABI/stable/sysfs-class-infiniband and sysfs-class-net.
"""

from __future__ import annotations

import re
from typing import Match

from ...host.host import Host
from ...model.errors import HostError
from ...model.record import regex, replace
from ...model.setting import Value
from ...topology.model import Nic, Topology
from ...topology.sysfs import integer
from ..expect import Expectations
from ..model import Check, Subject, Verdict
from ..rdma_values import MTUS, Rate
from . import ports
from .ports import ETHERNET, INFINIBAND, NETS, Port

NAMES = ("state", "phys_state", "link_layer", "rate", "width", "netdev", "netdev_speed", "netdev_mtu", "mtu")

#: 400 Gb/sec (4X NDR): drivers/infiniband/core/sysfs.c, rate_show
RATE = regex(r"([0-9]{1,5}(?:\.5)?) Gb/sec \(([0-9]{1,2})X(?: ([A-Z0-9]{1,8}))?\)\Z", re.ASCII)

#: Bytes of an Ethernet packet that RoCE v2 needs for headers (include/rdma/ib_addr.h: iboe_get_mtu)
ROCE_HEADERS = 96

#: Bytes of an InfiniBand packet that IPoIB in datagram mode needs (drivers/infiniband/ulp/ipoib/ipoib.h)
IPOIB_HEADER = 4

#: Files with the interfaces of a port
_NDEVS = "gid_attrs/ndevs"
_NO_INTERFACE = Value(absent="no interface of this network namespace is on it")
_NO_SPEED = Value(absent="the driver knows no speed, as while the link is down")

#: active_mtu: 4096 (5)
_ACTIVE = regex(r"^\s*active_mtu:\s+([0-9]{3,4}) ", re.MULTILINE | re.ASCII)


def checks(host: Host, topology: Topology, expect: Expectations) -> list[Check]:
    checks = []
    for port in ports.subjects(topology, expect).ports:
        checks += [_state(host, port), _phys_state(host, port), _link_layer(host, port), *_rate(host, port)]
        checks += [*_netdev(host, port), _mtu(host, port)]
    return checks


def _state(host: Host, port: Port) -> Check:
    subject = port.about("state", "state", "4: ACTIVE")
    value = ports.read(host, subject.source)
    waits = (value.text or "")[:2] in ("2:", "3:") and port.layer == INFINIBAND
    if waits:
        advice = "no subnet manager has brought it up: check that one runs (sminfo), and read its log"
        return subject.made(Verdict.WARN, value.text or "", advice=advice)
    advice = "look at cable, transceiver and the switch port, and whether the interface is up"
    return subject.compared(value, "", advice)


def _phys_state(host: Host, port: Port) -> Check:
    subject = port.about("phys_state", "phys_state", "5: LinkUp")
    value = ports.read(host, subject.source)
    advice = "look at cable and transceiver, and whether the switch port is enabled"
    if (value.text or "").startswith("3:"):
        advice = "the port is disabled: raise its interface, or enable it (ibportstate)"
    return subject.compared(value, "", advice)


def _link_layer(host: Host, port: Port) -> Check:
    subject = port.about("link_layer", "link_layer", port.expect.get("link_layer"))
    value = ports.read(host, subject.source)
    if value.text is None:
        return subject.missing(value, expected=subject.expected or "any")
    advice = "the card is set to the other protocol: mlxconfig LINK_TYPE_P1, then a reset of the card"
    return subject.compared(value, "link_layer", advice)


def _rate(host: Host, port: Port) -> list[Check]:
    """Checks of the rate and the width, which share a file."""
    wanted, lanes = port.expect.get("rate"), port.expect.get("width")
    rate = port.about("rate", "rate", wanted or "any")
    width = port.about("width", "rate", lanes and f"{lanes}X")
    value = ports.read(host, rate.source)
    match = RATE.match(value.text) if value.text else None
    if value.text and match is None:
        value = Value(unreadable=f"{rate.source} says {value.text[:60]!r}, which is not a rate")
    if match is None:
        return [rate.missing(value), *([width.missing(value)] if lanes else [])]
    advice = "lanes are lost: reseat or replace the cable, and look at the switch port's settings and split"
    seen = width.compared(Value(f"{int(match.group(2))}X"), "width", advice)
    return [_judged_rate(port, rate, wanted, float(match.group(1)), match), seen]


def _judged_rate(
    port: Port, subject: Subject, wanted: Rate | None, number: float, match: Match[str]
) -> Check:
    if wanted is None:
        return subject.told(match.string, "rate")
    gbits = wanted.of_lanes(port.expect.get("width"))
    good = number == gbits
    # On Ethernet the generation only describes the rate of a lane, and drivers choose any that fits.
    if wanted.generation and port.layer == INFINIBAND:
        good = good and (match.group(3) or "") == wanted.generation
    name = f"{gbits:g} Gb/s" + (f" ({wanted.generation})" if wanted.generation else "")
    advice = "it is not the declared one: look at the switch port's speed, or declare this"
    if number < gbits:
        advice = (
            "the link trained down: look at cable and transceiver (mlxlink), and at the switch port's speed"
        )
    return subject.judged(good, match.string, expected=name, advice=advice)


# -- the interface -------------------------------------------------------------------------


def _netdev(host: Host, port: Port) -> list[Check]:
    wanted = port.expect.get("netdev", "")
    if port.nic is None:
        keys = {"netdev": wanted, "netdev_speed": "", "netdev_mtu": port.expect.get("netdev_mtu")}
        return [port.about(name, _NDEVS, wants).missing(_NO_INTERFACE) for name, wants in keys.items()]
    checks = [_up(host, port, port.nic, wanted), _netdev_mtu(host, port, port.nic)]
    return checks + ([_speed(host, port, port.nic)] if port.layer == ETHERNET else [])


def _up(host: Host, port: Port, nic: Nic, wanted: str) -> Check:
    name = nic.name
    if wanted and name != wanted:
        advice = (
            "the interface has another name, or the device is another one: look at udev's rules and the slot"
        )
        return port.about("netdev", _NDEVS, wanted).judged(False, name, advice=advice)
    subject = port.about("netdev", f"{NETS}/{name}/operstate", f"{name} up")
    value = ports.read(host, subject.source)
    if value.text is None:
        return subject.missing(value)
    if port.layer == INFINIBAND and not wanted and value.text != "up":
        # RDMA over InfiniBand works without IPoIB.
        return subject.skip(f"{name} {value.text}: IPoIB is not in use, and not declared")
    evidence = f"{name} {value.text}"
    if nic.up and value.text == "unknown":
        evidence += ", with a carrier: its driver reports no operational state"
    return subject.judged(nic.up, evidence, advice=f"raise it: ip link set {name} up, and look at the link")


def _speed(host: Host, port: Port, nic: Nic) -> Check:
    wanted = port.expect.get("rate")
    expected = wanted and f"{round(wanted.gbits * 1000)} Mb/s"
    subject = port.about("netdev_speed", f"{NETS}/{nic.name}/speed", expected)
    value = host.value(subject.source)
    if value.text is not None:
        speed = integer(value.text) or 0
        value = Value(f"{speed} Mb/s") if speed > 0 else _NO_SPEED
    advice = "look at the switch port's speed and the cable (ethtool, mlxlink)"
    return subject.compared(value, "rate", advice)


def _netdev_mtu(host: Host, port: Port, nic: Nic) -> Check:
    subject = port.about("netdev_mtu", f"{NETS}/{nic.name}/mtu", port.expect.get("netdev_mtu"))
    advice = "set it with nic_ethtool, and prove it to the peers with path_mtu"
    return subject.compared(ports.read_number(host, subject.source), "netdev_mtu", advice)


# -- the MTU of RDMA -----------------------------------------------------------------------


def roce_mtu(netdev_mtu: int) -> int:
    """MTU of a RoCE port on an interface with this MTU, in bytes; 0 if it is too small for any."""
    return max((mtu for mtu in MTUS if mtu <= netdev_mtu - ROCE_HEADERS), default=0)


def _mtu(host: Host, port: Port) -> Check:
    """Check of the active MTU. No file shows it: RoCE's follows the interface, InfiniBand's IPoIB."""
    wanted = port.expect.get("mtu")
    subject = port.about("mtu", expected=wanted)
    if port.layer not in (ETHERNET, INFINIBAND):
        why = f"a port of the link layer {port.layer or 'unknown'} has no such MTU to read"
        return subject.missing(Value(absent=why))
    value, source = _NO_INTERFACE, f"{port.folder}/{_NDEVS}"
    if port.nic is not None:
        source = f"{NETS}/{port.nic.name}/mtu"
        value = ports.read_number(host, source)
    number = integer(value.text or "")
    if port.layer == ETHERNET and number is not None:
        value = Value(str(roce_mtu(number)))
    elif port.layer == INFINIBAND and number is not None and number + IPOIB_HEADER == max(MTUS):
        value = Value(str(max(MTUS)))  # a port cannot join a group whose packets are too large for it
    elif port.layer == INFINIBAND:
        value, source = _asked(host, port)
    advice = "look at the MTU of the partition and of the switch port (opensm, ibportstate)"
    if port.layer == ETHERNET and wanted and int(value.text or 0) < wanted:
        advice = (
            f"raise the interface's MTU to at least {wanted + ROCE_HEADERS} (nic_ethtool), and the switch's"
        )
    elif port.layer == ETHERNET:
        advice = f"it follows from the interface's MTU: declare {value}, or a smaller one there (nic_ethtool)"
    return replace(subject, source=source).compared(value, "mtu", advice)


def _asked(host: Host, port: Port) -> tuple[Value, str]:
    command = ["ibv_devinfo", "-d", port.device.name, "-i", str(port.number)]
    source = " ".join(command)
    try:
        match = _ACTIVE.search(host.must_run(command, "ask"))
    except HostError as error:
        return Value(absent=f"no file has the MTU of an InfiniBand port, and {error}"), source
    return Value(match.group(1)) if match else Value(unreadable=f"{source} names no active_mtu"), source
