# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Values of NICs that exclude each other, or that the state of the host excludes.

The kernel would revert such a value, or the NIC would ignore it. Two declared values are refused; a state is
reported before a write. Sources: net/core/dev.c (netdev_fix_features, netdev_sync_upper_features,
dev_disable_lro), its callers in net/ipv4/devinet.c, net/ipv6/addrconf.c, net/bridge/br_if.c,
net/openvswitch/vport-netdev.c.
"""

from __future__ import annotations

from typing import Any, Iterator, Mapping, Sequence

from ...drivers.ethtool import TOP, words
from ...drivers.nic import features
from ...engine import declared
from ...host.host import Host
from ...linux.sysctl_d import slashed
from ...model.errors import DeclarationError, HostError
from ...model.record import NamedTuple
from ...model.setting import KnobFile, Reading
from ..nics.targets import above, linked

LRO, HARDWARE_GRO = "rx-lro", "rx-gro-hw"

_CONF = "net/{}/conf/{}/forwarding"
_IP_FORWARD = "net/ipv4/ip_forward"


class Pair(NamedTuple):
    """A value that is lost while all others of `by` are in a state.

    lost, by: files below /ethtool/NIC. value: None for any. drivers: drivers with this limit; empty for the
    kernel, which applies to all.
    """

    lost: str
    by: tuple[str, ...]
    state: str
    value: str | None
    why: str
    drivers: tuple[str, ...] = ()


def _needs(name: str, *bases: str, why: str = "", drivers: tuple[str, ...] = ()) -> Pair:
    """A feature that is lost with the last of these."""
    by = tuple(f"feature/{base}" for base in bases)
    why = why or f"the kernel switches {name} off without {' or '.join(bases)}"
    return Pair(f"feature/{name}", by, "off", "on", why, drivers)


def _without(name: str, other: str, why: str) -> Pair:
    return Pair(f"feature/{name}", (f"feature/{other}",), "on", "on", why)


_SEGMENTATION = ("tx-tcp-segmentation", "tx-tcp6-segmentation", "tx-tcp-ecn-segmentation")
_GENERIC, _IPV4, _IPV6 = "tx-checksum-ip-generic", "tx-checksum-ipv4", "tx-checksum-ipv6"

#: Lost value and its cause: netdev_fix_features of net/core/dev.c, or ndo_fix_features of the given drivers
PAIRS = (
    _without(LRO, HARDWARE_GRO, "the kernel switches LRO off while GRO in hardware is on"),
    _without(LRO, "rx-fcs", "the kernel switches LRO off while frames keep their checksum"),
    _without(HARDWARE_GRO, "rx-fcs", "the kernel switches it off while frames keep their checksum"),
    _needs(HARDWARE_GRO, "rx-checksum"),
    _needs("tls-hw-rx-offload", "rx-checksum"),
    _needs("tx-generic-segmentation", "tx-scatter-gather"),
    *(_needs(name, "tx-scatter-gather") for name in _SEGMENTATION),
    *(
        _without(name, _GENERIC, "the kernel offloads checksums of all protocols or of single ones")
        for name in (_IPV4, _IPV6)
    ),
    _needs("tx-tcp-segmentation", _GENERIC, _IPV4),
    _needs("tx-tcp6-segmentation", _GENERIC, _IPV6),
    _needs("tx-tcp-mangleid-segmentation", "tx-tcp-segmentation"),
    _needs("tx-tcp-ecn-segmentation", "tx-tcp-segmentation", "tx-tcp6-segmentation"),
    # Both protocols or the generic one; UDP since 6.11 (commit 2b2bc3bab158)
    *(
        _needs(name, _GENERIC, protocol)
        for name in ("tx-udp-segmentation", "tls-hw-tx-offload")
        for protocol in (_IPV4, _IPV6)
    ),
    _needs(
        HARDWARE_GRO,
        "rx-gro",
        why="this driver switches it off without rx-gro",
        drivers=features.HARDWARE_GRO_NEEDS_GRO,
    ),
    _needs(
        LRO,
        "rx-checksum",
        why="this driver switches LRO off without rx-checksum",
        drivers=features.LRO_NEEDS_CHECKSUM,
    ),
    Pair(
        "feature/rx-hashing",
        ("private-flag/rx_cqe_compress",),
        "on",
        "on",
        "this driver has no hash of a packet while completions are compressed",
        features.COMPRESSED_WITHOUT_HASH,
    ),
    *(
        Pair(
            f"coalesce/{field}",
            (f"coalesce/adaptive-{side}",),
            "on",
            None,
            f"a NIC that adapts chooses {field} by itself",
        )
        for side in ("rx", "tx")
        for field in (f"{side}-usecs", f"{side}-frames")
    ),
)


def refuse(host: Host, readings: Sequence[Reading]) -> None:
    """Raises DeclarationError if two declared values of one NIC exclude each other."""
    wants = {part.path: part.want for reading in readings for part in reading.parts}
    for path, want in wants.items():
        nic, file = _taken_apart(path)
        for pair in _pairs(file, want):
            causes = [cause for cause in pair.by if wants.get(_path(nic, cause)) == pair.state]
            if causes and _holds(host, nic, pair, wants):
                raise DeclarationError(
                    f"nic: {_name(file)} {want} and {_name(causes[0])} {pair.state} of {nic} exclude "
                    f"each other, as {pair.why}: declare one of the two"
                )


def refuse_features(where: str, given: Mapping[str, bool]) -> None:
    """The same for one rule, independent of any NIC."""
    wants = {
        f"feature/{name}": words.switch(on) for field, on in given.items() for name in _members(field, on)
    }
    for file, want in wants.items():
        for pair in _pairs(file, want):
            if not pair.drivers and all(wants.get(cause) == pair.state for cause in pair.by):
                raise DeclarationError(
                    f"{where}: {_name(file)} {want} and {_name(pair.by[0])} {pair.state} exclude each other, "
                    f"as {pair.why}: declare one of the two"
                )


def _members(field: str, on: bool) -> Sequence[str]:
    """The features of a name: for some families, any one of them is enough."""
    if on and words.family(field) in words.ONE_IS_ENOUGH:
        return ()
    known = {_name(file) for pair in PAIRS for file in (pair.lost, *pair.by) if file.startswith("feature/")}
    return words.members(field, sorted(known))


def _pairs(file: str, want: str) -> Iterator[Pair]:
    return (pair for pair in PAIRS if pair.lost == file and pair.value in (None, want))


def _name(file: str) -> str:
    return file.rpartition("/")[2]


def _path(nic: str, file: str) -> str:
    return f"{TOP}/{nic}/{file}"


def _taken_apart(path: str) -> tuple[str, str]:
    """NIC, and file below it; empty for a file elsewhere."""
    if not path.startswith(f"{TOP}/"):
        return "", ""
    nic, _slash, file = path[len(TOP) + 1 :].partition("/")
    return nic, file


def _holds(host: Host, nic: str, pair: Pair, wants: Mapping[str, str]) -> bool:
    """True if every cause of the loss is declared, or is the present state."""
    if pair.drivers and (host.value(_path(nic, "driver/driver")).text or "").strip() not in pair.drivers:
        return False
    return all(_value(host, _path(nic, cause), wants) == pair.state for cause in pair.by)


def _value(host: Host, path: str, wants: Mapping[str, str]) -> str:
    """Declared or present value. A feature that the NIC lacks is off."""
    missing = "off" if "/feature/" in path else ""
    return wants.get(path) or (host.value(path).text or missing).strip()


# -- the state of the host -----------------------------------------------------------------


class Excluded(NamedTuple):
    """declared: another declared value excludes it, so the declaration is wrong. state: the present state
    excludes it. ignored: the write succeeds, but has no effect.
    """

    declared: str = ""
    state: str = ""
    ignored: str = ""


def look(host: Host, nic: str, part: KnobFile, wants: Mapping[str, str]) -> Excluded:
    """State that excludes a value or makes it ineffective. wants: path → value of everything declared for
    this NIC.
    """
    file = _taken_apart(part.path)[1]
    for pair in _pairs(file, part.want):
        if pair.value is not None and not part.differs:
            continue  # The kernel has rejected it
        if _holds(host, nic, pair, wants) and not any(_path(nic, cause) in wants for cause in pair.by):
            advice = (
                f"{' and '.join(map(_name, pair.by))} {'is' if len(pair.by) == 1 else 'are'} {pair.state}"
            )
            advice += f", and {pair.why}: declare {_name(pair.by[0])}: {_opposite(pair.state)} with it"
            return Excluded(ignored=advice) if pair.value is None else Excluded(state=advice)
    taken = "; ".join(_taken_along(host, nic, file, part, wants))
    if file not in (f"feature/{LRO}", f"feature/{HARDWARE_GRO}") or part.want != "on":
        return Excluded(ignored=taken)
    name = _name(file)
    stack = [nic, *above(host, nic)]
    exclusion = _forwards(host, stack) if name == LRO else Excluded()
    if exclusion.declared or exclusion.state:
        return exclusion
    state = (_ports(host, stack) if name == LRO else "") or _with_xdp(host, nic, name)
    return Excluded(state=state, ignored="" if state else taken)


def _taken_along(host: Host, nic: str, file: str, part: KnobFile, wants: Mapping[str, str]) -> Iterator[str]:
    """Words about undeclared features that are on now and are lost with this value."""
    for pair in PAIRS:
        lost = _path(nic, pair.lost)
        if file not in pair.by or part.want != pair.state or pair.value != "on" or lost in wants:
            continue
        if part.differs and host.value(lost).text == "on" and _holds(host, nic, pair, wants):
            yield f"takes {_name(pair.lost)} along, as {pair.why}"


def _opposite(state: str) -> str:
    return "false" if state == "on" else "true"


def _forwards(host: Host, names: Sequence[str]) -> Excluded:
    """Declared or present forwarding: packets that LRO has merged cannot be forwarded unchanged."""
    keys = [_CONF.format(family, name) for family in ("ipv4", "ipv6") for name in names]
    keys += [_IP_FORWARD, _CONF.format("ipv4", "all"), _CONF.format("ipv6", "all")]
    known = _declared(host)
    for key in keys:
        dotted = key.replace("/", ".")
        if key in known and known[key][1] != "0":
            name, value = known[key]
            return Excluded(
                f"{dotted} is declared {value} ({name}), and the kernel switches LRO off while it forwards: "
                "declare one of the two"
            )
    for key in keys:
        if key not in known and (host.value(f"/proc/sys/{key}").text or "0").strip() != "0":
            why = f"{key.replace('/', '.')} is 1, and a host that forwards cannot have LRO, which the kernel"
            return Excluded(state=f"{why} takes away: declare lro: false, or switch forwarding off")
    return Excluded()


def _declared(host: Host) -> dict[str, tuple[str, str]]:
    """Declared keys that enable forwarding, with slashes → name of the declaration, and value."""
    forwarding: dict[str, tuple[str, str]] = {}
    try:
        declarations = declared.expected(host)
    except HostError:
        return {}
    for declaration in declarations:
        settings: Any = declaration.kinds.get("sysctl", {}).get("settings")
        for key, value in settings.items() if isinstance(settings, Mapping) else ():
            path = slashed(str(key))
            if value is not None and (path == _IP_FORWARD or path.endswith("/forwarding")):
                number = next(iter(value.values()), "") if isinstance(value, Mapping) else value
                forwarding[path] = (declaration.name, str(number).strip())
    return forwarding


def _ports(host: Host, names: Sequence[str]) -> str:
    for name in names:
        if host.exists(f"/sys/class/net/{name}/brport"):
            return f"{name} is a port of a bridge, whose ports the kernel takes LRO from: declare lro: false"
        if "upper_ovs-system" in host.names(f"/sys/class/net/{name}"):
            return f"{name} is a port of Open vSwitch, which takes LRO from it: declare lro: false"
    for upper in linked(host, names[0], "upper_"):
        if host.value(f"/ethtool/{upper}/feature/requested/{LRO}").text == "off":
            return f"{upper} stands on it and has LRO off, which the kernel follows: switch it on there first"
    return ""


def _with_xdp(host: Host, nic: str, name: str) -> str:
    from ...linux import iproute  # Imported here, as it starts a program

    try:
        mode = iproute.xdp(host).get(nic, "")
    except HostError:
        return ""  # The driver then answers itself
    return (
        f"an XDP program is attached to {nic}, which excludes {name}: detach it, or declare it off"
        if mode
        else ""
    )
