# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""State, rate and width of a port against the declaration, with its interface and MTUs.

Documentation/ABI/stable/sysfs-class-infiniband and sysfs-class-net.
"""

from __future__ import annotations

import re

from ...host.host import Host
from ...model.errors import HostError
from ...model.record import regex
from ...model.setting import Value
from ...topology.model import Nic, Topology
from ...topology.reader import integer
from ..expect import Expectations
from ..model import Check, Verdict, judged, skip
from ..rdma_values import MTUS, Rate
from . import ports
from .ports import ETHERNET, INFINIBAND, NETS, Port, nothing, told

NAMES = ("state", "phys_state", "link_layer", "rate", "width", "netdev", "netdev_speed", "netdev_mtu", "mtu")

#: 400 Gb/sec (4X NDR): drivers/infiniband/core/sysfs.c, rate_show
RATE = regex(r"([0-9]{1,5}(?:\.5)?) Gb/sec \(([0-9]{1,2})X(?: ([A-Z0-9]{1,8}))?\)\Z", re.ASCII)

#: The headers that RoCE v2 needs of an Ethernet packet beside the payload (include/rdma/ib_addr.h:
#: iboe_get_mtu)
ROCE_HEADERS = 96

#: What IPoIB in datagram mode needs of an InfiniBand packet (drivers/infiniband/ulp/ipoib/ipoib.h)
IPOIB_HEADER = 4

#: active_mtu: 4096 (5)
_ACTIVE = regex(r"^\s*active_mtu:\s+([0-9]{3,4}) ", re.MULTILINE | re.ASCII)


def checks(host: Host, topology: Topology, expect: Expectations) -> list[Check]:
    checks = []
    for port in ports.subjects(topology, expect).ports:
        checks += [_state(host, port), _phys_state(host, port), _link_layer(host, port), *_rate(host, port)]
        checks += [*_netdev(host, port), _mtu(host, port)]
    return checks


def _state(host: Host, port: Port) -> Check:
    path, wanted = f"{port.folder}/state", "4: ACTIVE"
    value = ports.read(host, path)
    if value.text is None:
        return nothing("state", port.name, value, path, wanted)
    waits = value.text[:2] in ("2:", "3:") and port.layer == INFINIBAND
    advice = (
        "no subnet manager has brought it up: look whether one runs (sminfo), and at its log"
        if waits
        else "look at cable, transceiver and the switch port, and whether the interface is up"
    )
    bad = Verdict.WARN if waits else Verdict.FAIL
    return judged("state", port.name, value.text == wanted, wanted, value.text, path, advice, bad)


def _phys_state(host: Host, port: Port) -> Check:
    path, wanted = f"{port.folder}/phys_state", "5: LinkUp"
    value = ports.read(host, path)
    if value.text is None:
        return nothing("phys_state", port.name, value, path, wanted)
    advice = "look at cable and transceiver, and whether the switch port is enabled"
    if value.text.startswith("3:"):
        advice = "the port is disabled: raise its interface, or enable it (ibportstate)"
    return judged("phys_state", port.name, value.text == wanted, wanted, value.text, path, advice)


def _link_layer(host: Host, port: Port) -> Check:
    path, wanted = f"{port.folder}/link_layer", port.expect.get("link_layer", "")
    value = ports.read(host, path)
    if value.text is None:
        return nothing("link_layer", port.name, value, path, wanted or "any")
    if not wanted:
        return told("link_layer", port.name, value.text, path, "link_layer")
    advice = "the card is set to the other protocol: mlxconfig LINK_TYPE_P1, then a reset of the card"
    return judged("link_layer", port.name, value.text == wanted, wanted, value.text, path, advice)


def _rate(host: Host, port: Port) -> list[Check]:
    """The rate, and the width, which is in the same file."""
    path = f"{port.folder}/rate"
    wanted, lanes = port.expect.get("rate"), port.expect.get("width")
    value = ports.read(host, path)
    match = RATE.match(value.text) if value.text else None
    if value.text and match is None:
        value = Value(unreadable=f"{path} says {value.text[:60]!r}, which is not a rate")
    if value.text is None or match is None:
        missing = [nothing("rate", port.name, value, path, str(wanted or "any"))]
        return missing + ([nothing("width", port.name, value, path, f"{lanes}X")] if lanes else [])
    number, width, generation = float(match.group(1)), int(match.group(2)), match.group(3) or ""
    checks = [_judged_rate(port, wanted, number, generation, value.text, path)]
    if lanes:
        advice = (
            "lanes are lost: reseat or replace the cable, and look at the switch port's settings and split"
        )
        checks.append(judged("width", port.name, width == lanes, f"{lanes}X", f"{width}X", path, advice))
    else:
        checks.append(told("width", port.name, f"{width}X", path, "width"))
    return checks


def _judged_rate(
    port: Port, wanted: Rate | None, number: float, generation: str, text: str, path: str
) -> Check:
    if wanted is None:
        return told("rate", port.name, text, path, "rate")
    gbits = wanted.of_lanes(port.expect.get("width"))
    good = number == gbits
    # Of Ethernet the generation is only a word for the rate of a lane, of which drivers take what fits.
    if wanted.generation and port.layer == INFINIBAND:
        good = good and generation == wanted.generation
    name = f"{gbits:g} Gb/s" + (f" ({wanted.generation})" if wanted.generation else "")
    less = number < gbits
    advice = (
        "the link trained down: look at cable and transceiver (mlxlink), and at the switch port's speed"
        if less
        else "it is not the declared one: look at the switch port's speed, or declare this"
    )
    return judged("rate", port.name, good, name, text, path, advice)


# -- the interface -------------------------------------------------------------------------


def _netdev(host: Host, port: Port) -> list[Check]:
    wanted = port.expect.get("netdev", "")
    if port.nic is None:
        why = "no interface of this network namespace is on it"
        names = ("netdev", "netdev_speed", "netdev_mtu")
        keys = (wanted, "", port.expect.get("netdev_mtu", ""))
        return [
            nothing(name, port.name, Value(absent=why), f"{port.folder}/gid_attrs/ndevs", str(key))
            for name, key in zip(names, keys)
        ]
    checks = [_up(host, port, port.nic, wanted), _netdev_mtu(host, port, port.nic)]
    return checks + ([_speed(host, port, port.nic)] if port.layer == ETHERNET else [])


def _up(host: Host, port: Port, nic: Nic, wanted: str) -> Check:
    name = nic.name
    path = f"{NETS}/{name}/operstate"
    if wanted and name != wanted:
        advice = (
            "the interface has another name, or the device is another one: look at udev's rules and the slot"
        )
        return Check(
            "netdev", port.name, Verdict.FAIL, wanted, name, f"{port.folder}/gid_attrs/ndevs", advice
        )
    value = ports.read(host, path)
    if value.text is None:
        return nothing("netdev", port.name, value, path, f"{name} up")
    if port.layer == INFINIBAND and not wanted and value.text != "up":
        # RDMA over InfiniBand works without IPoIB.
        return skip("netdev", port.name, f"{name} {value.text}: IPoIB is not in use, and not declared", path)
    advice = f"raise it: ip link set {name} up, and look at the link"
    found = f"{name} {value.text}"
    if nic.up and value.text == "unknown":
        found += ", with a carrier: its driver reports no operational state"
    return judged("netdev", port.name, nic.up, f"{name} up", found, path, advice)


def _speed(host: Host, port: Port, nic: Nic) -> Check:
    path = f"{NETS}/{nic.name}/speed"
    wanted = port.expect.get("rate")
    value = host.value(path)
    speed = integer(value.text or "")
    expected = f"{round(wanted.gbits * 1000)} Mb/s" if wanted else ""
    if speed is None or speed <= 0:
        value = (
            value
            if value.text is None
            else Value(absent="the driver knows no speed, as while the link is down")
        )
        return nothing("netdev_speed", port.name, value, path, expected)
    if wanted is None:
        return told("netdev_speed", port.name, f"{speed} Mb/s", path, "rate")
    advice = "look at the switch port's speed and the cable (ethtool, mlxlink)"
    good = speed == round(wanted.gbits * 1000)
    return judged("netdev_speed", port.name, good, expected, f"{speed} Mb/s", path, advice)


def _netdev_mtu(host: Host, port: Port, nic: Nic) -> Check:
    path = f"{NETS}/{nic.name}/mtu"
    wanted = port.expect.get("netdev_mtu")
    number, value = ports.read_number(host, path)
    if number is None:
        return nothing("netdev_mtu", port.name, value, path, str(wanted or ""))
    if wanted is None:
        return told("netdev_mtu", port.name, str(number), path, "netdev_mtu")
    advice = "set it with nic_ethtool, and prove it to the peers with path_mtu"
    return judged("netdev_mtu", port.name, number == wanted, str(wanted), str(number), path, advice)


# -- the MTU of RDMA -----------------------------------------------------------------------


def roce_mtu(netdev_mtu: int) -> int:
    """MTU of a RoCE port with that of its interface; 0 if it is too small for any."""
    return max((mtu for mtu in MTUS if mtu <= netdev_mtu - ROCE_HEADERS), default=0)


def _mtu(host: Host, port: Port) -> Check:
    """No file has the active MTU: RoCE's follows from the interface, InfiniBand's is at least IPoIB's."""
    wanted = port.expect.get("mtu")
    expected = str(wanted or "")
    if port.layer not in (ETHERNET, INFINIBAND):
        why = f"a port of the link layer {port.layer or 'unknown'} has no such MTU to read"
        return nothing("mtu", port.name, Value(absent=why), port.folder, expected)
    value, source = (
        Value(absent="no interface of this network namespace is on it"),
        f"{port.folder}/gid_attrs/ndevs",
    )
    mtu: int | None = None
    if port.nic is not None:
        source = f"{NETS}/{port.nic.name}/mtu"
        number, value = ports.read_number(host, source)
        if number is not None and port.layer == ETHERNET:
            mtu = roce_mtu(number)
        elif number is not None and number + IPOIB_HEADER == max(MTUS):
            mtu = max(MTUS)  # no port joins a group whose packets it cannot carry
    if mtu is None and port.layer == INFINIBAND:
        value, source = _asked(host, port)
        mtu = integer(value.text or "")
    if mtu is None:
        return nothing("mtu", port.name, value, source, expected)
    if wanted is None:
        return told("mtu", port.name, str(mtu), source, "mtu")
    advice = "look at the MTU of the partition and of the switch port (opensm, ibportstate)"
    if port.layer == ETHERNET and mtu < wanted:
        advice = (
            f"raise the interface's MTU to at least {wanted + ROCE_HEADERS} (nic_ethtool), and the switch's"
        )
    elif port.layer == ETHERNET:
        advice = f"it follows from the interface's MTU: declare {mtu}, or a smaller one there (nic_ethtool)"
    return judged("mtu", port.name, mtu == wanted, expected, str(mtu), source, advice)


def _asked(host: Host, port: Port) -> tuple[Value, str]:
    command = ["ibv_devinfo", "-d", port.device.name, "-i", str(port.number)]
    source = " ".join(command)
    try:
        text = host.must_run(command, "ask")
    except HostError as error:
        return Value(absent=f"no file has the MTU of an InfiniBand port, and {error}"), source
    match = _ACTIVE.search(text)
    return (
        Value(text=match.group(1)) if match else Value(unreadable=f"{source} names no active_mtu")
    ), source
