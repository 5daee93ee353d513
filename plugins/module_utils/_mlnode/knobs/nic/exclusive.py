# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Values of NICs that exclude each other, or that the state of the host excludes: the kernel would take them
away, or the NIC would ignore them. Two that are declared are refused; a state is reported before a write.

Sources: net/core/dev.c (netdev_fix_features, netdev_sync_upper_features, dev_disable_lro), its callers in
net/ipv4/devinet.c, net/ipv6/addrconf.c, net/bridge/br_if.c, net/openvswitch/vport-netdev.c.
"""

from __future__ import annotations

from typing import Any, Iterator, Mapping, Sequence

from ...drivers.ethtool import words
from ...engine import declared
from ...host.host import Host
from ...linux import iproute
from ...linux.sysctl_d import slashed
from ...model.errors import DeclarationError, HostError
from ...model.record import NamedTuple
from ...model.setting import KnobFile, Reading

LRO, HARDWARE_GRO = "rx-lro", "rx-gro-hw"

_CONF = "net/{}/conf/{}/forwarding"
_IP_FORWARD = "net/ipv4/ip_forward"


class Pair(NamedTuple):
    """A value that is lost while another one is there. group: of both, whose names are those of files below
    /ethtool/NIC/GROUP. value: None for any."""

    group: str
    lost: str
    by: str
    state: str
    value: str | None
    why: str


def _needs(name: str, base: str, short: str) -> Pair:
    return Pair("feature", name, base, "off", "on", f"the kernel switches it off without {short}")


#: What is lost, and by what
PAIRS = (
    Pair("feature", LRO, HARDWARE_GRO, "on", "on", "the kernel switches LRO off while GRO in hardware is on"),
    Pair(
        "feature", LRO, "rx-fcs", "on", "on", "the kernel switches LRO off while frames keep their checksum"
    ),
    Pair(
        "feature",
        HARDWARE_GRO,
        "rx-fcs",
        "on",
        "on",
        "the kernel switches it off while frames keep their checksum",
    ),
    _needs(HARDWARE_GRO, "rx-checksum", "receive checksums (rx)"),
    _needs("tls-hw-rx-offload", "rx-checksum", "receive checksums (rx)"),
    *(
        _needs(name, "tx-scatter-gather", "scatter-gather (sg)")
        for name in ("tx-generic-segmentation", "tx-tcp-segmentation", "tx-tcp6-segmentation")
    ),
    *(
        Pair(
            "coalesce", field, f"adaptive-{side}", "on", None, f"a NIC that adapts chooses {field} by itself"
        )
        for side in ("rx", "tx")
        for field in (f"{side}-usecs", f"{side}-frames")
    ),
)


def refuse(readings: Sequence[Reading]) -> None:
    """Raises DeclarationError where two values that are declared of one NIC exclude each other."""
    wants = {part.path: part.want for reading in readings for part in reading.parts}
    for path, want in wants.items():
        folder, _slash, name = path.rpartition("/")
        for pair in _of(folder.rpartition("/")[2], name, want):
            if wants.get(f"{folder}/{pair.by}") == pair.state:
                nic = folder.split("/")[2]
                raise DeclarationError(
                    f"nic: {name} {want} and {pair.by} {pair.state} of {nic} exclude each other, as "
                    f"{pair.why}: declare one of the two"
                )


def refuse_features(where: str, given: Mapping[str, bool]) -> None:
    """The same of one rule, whatever NICs there are."""
    wants = {name: words.switch(on) for field, on in given.items() for name in _members(field)}
    for name, want in wants.items():
        for pair in _of("feature", name, want):
            if wants.get(pair.by) == pair.state:
                raise DeclarationError(
                    f"{where}: {name} {want} and {pair.by} {pair.state} exclude each other, as {pair.why}: "
                    "declare one of the two"
                )


def _members(field: str) -> Sequence[str]:
    known = {name for pair in PAIRS for name in (pair.lost, pair.by)}
    return words.members(field, sorted(known))


def _of(group: str, name: str, want: str) -> Iterator[Pair]:
    return (one for one in PAIRS if (one.group, one.lost) == (group, name) and one.value in (None, want))


# -- the state of the host -----------------------------------------------------------------


class Excluded(NamedTuple):
    """declared: by what else is declared, so that the declaration is wrong. state: by what is so now.
    ignored: it may be written, and has no effect."""

    declared: str = ""
    state: str = ""
    ignored: str = ""


def look(host: Host, nic: str, part: KnobFile, wants: Mapping[str, str]) -> Excluded:
    """wants: path → value of all that is declared of this NIC."""
    folder, _slash, name = part.path.rpartition("/")
    group = folder.rpartition("/")[2]
    for pair in _of(group, name, part.want):
        other = f"{folder}/{pair.by}"
        if other not in wants and host.value(other).text == pair.state:
            advice = f"{pair.by} is {pair.state}, and {pair.why}: declare "
            advice += f"{pair.by}: {_opposite(pair.state)} with it"
            return Excluded(ignored=advice) if pair.value is None else Excluded(state=advice)
    if group != "feature" or name not in (LRO, HARDWARE_GRO) or part.want != "on":
        return Excluded()
    above = [nic, *_above(host, nic)]
    found = _forwards(host, above) if name == LRO else Excluded()
    if found.declared or found.state:
        return found
    return Excluded(state=(_ports(host, above) if name == LRO else "") or _with_xdp(host, nic, name))


def _opposite(state: str) -> str:
    return "false" if state == "on" else "true"


def _forwards(host: Host, names: Sequence[str]) -> Excluded:
    """Packets that LRO has put together cannot be sent on as they came."""
    keys = [_CONF.format(family, name) for family in ("ipv4", "ipv6") for name in names]
    keys += [_IP_FORWARD, _CONF.format("ipv4", "all"), _CONF.format("ipv6", "all")]
    known = _declared(host)
    for key in keys:
        dotted = key.replace("/", ".")
        if key in known and known[key][1] != "0":
            name, value = known[key]
            return Excluded(
                f"{dotted} is declared {value} ({name}), and the kernel switches LRO off where it forwards: "
                "declare one of the two"
            )
    for key in keys:
        if key not in known and (host.value(f"/proc/sys/{key}").text or "0").strip() != "0":
            why = f"{key.replace('/', '.')} is 1, and a host that forwards cannot have LRO, which the kernel"
            return Excluded(state=f"{why} takes away: declare lro: false, or switch forwarding off")
    return Excluded()


def _declared(host: Host) -> dict[str, tuple[str, str]]:
    """Key with slashes → name of the declaration, and value, of what makes a host forward."""
    found: dict[str, tuple[str, str]] = {}
    try:
        declarations = declared.expected(host)
    except HostError:
        return {}
    for declaration in declarations:
        settings: Any = declaration.kinds.get("sysctl", {}).get("settings")
        for key, value in settings.items() if isinstance(settings, Mapping) else ():
            path = slashed(str(key))
            if path == _IP_FORWARD or path.endswith("/forwarding"):
                number = next(iter(value.values()), "") if isinstance(value, Mapping) else value
                found[path] = (declaration.name, str(number).strip())
    return found


def _ports(host: Host, names: Sequence[str]) -> str:
    for name in names:
        if host.exists(f"/sys/class/net/{name}/brport"):
            return f"{name} is a port of a bridge, whose ports the kernel takes LRO from: declare lro: false"
        if "upper_ovs-system" in host.names(f"/sys/class/net/{name}"):
            return f"{name} is a port of Open vSwitch, which takes LRO from it: declare lro: false"
    for upper in names[1:]:
        if host.value(f"/ethtool/{upper}/feature/requested/{LRO}").text == "off":
            return f"{upper} stands on it and has LRO off, which the kernel follows: switch it on there first"
    return ""


def _with_xdp(host: Host, nic: str, name: str) -> str:
    try:
        mode = iproute.xdp(host).get(nic, "")
    except HostError:
        return ""  # then the driver answers
    return (
        f"an XDP program is attached to {nic}, which excludes {name}: detach it, or declare it off"
        if mode
        else ""
    )


def _above(host: Host, name: str) -> list[str]:
    """All interfaces that stand on this one."""
    found: list[str] = []
    todo = [name]
    while todo:
        for entry in host.names(f"/sys/class/net/{todo.pop(0)}"):
            upper = entry[len("upper_") :]
            if entry.startswith("upper_") and upper not in found:
                found.append(upper)
                todo.append(upper)
    return found
