# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kernel parameters of interfaces that systemd-networkd sets, by systemd.network(5), networkd.conf(5) and its
sources (src/network/networkd-sysctl.c)."""

from __future__ import annotations

import fnmatch
from typing import Iterator, Mapping, Sequence

from ..host.host import Host
from ..model.record import NamedTuple, regex
from . import drop_ins, systemd_conf, systemd_unit
from .systemd_conf import Line

UNIT = "systemd-networkd.service"
_FOLDERS = tuple(f"{top}/systemd/network" for top in drop_ins.TOPS)
_CONFS = tuple(f"{top}/systemd" for top in drop_ins.TOPS)

_BOOLEAN = {
    **dict.fromkeys(("1", "yes", "y", "true", "t", "on"), "1"),
    **dict.fromkeys(("0", "no", "n", "false", "f", "off"), "0"),
}
#: Option of [Network] → file of an interface below /proc/sys/net, and the value of each word. Others are
#: numbers as they stand there.
_OPTIONS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "IPv4ReversePathFilter": ("ipv4/conf/*/rp_filter", {"no": "0", "strict": "1", "loose": "2"}),
    "IPv4Forwarding": ("ipv4/conf/*/forwarding", _BOOLEAN),
    "IPv4AcceptLocal": ("ipv4/conf/*/accept_local", _BOOLEAN),
    "IPv4RouteLocalnet": ("ipv4/conf/*/route_localnet", _BOOLEAN),
    "IPv4ProxyARP": ("ipv4/conf/*/proxy_arp", _BOOLEAN),
    "IPv4ProxyARPPrivateVLAN": ("ipv4/conf/*/proxy_arp_pvlan", _BOOLEAN),
    "IPv6Forwarding": ("ipv6/conf/*/forwarding", _BOOLEAN),
    "IPv6ProxyNDP": ("ipv6/conf/*/proxy_ndp", _BOOLEAN),
    "IPv6HopLimit": ("ipv6/conf/*/hop_limit", {}),
    "IPv6MTUBytes": ("ipv6/conf/*/mtu", {}),
    "IPv6DuplicateAddressDetection": ("ipv6/conf/*/dad_transmits", {}),
    "IPv6PrivacyExtensions": (
        "ipv6/conf/*/use_tempaddr",
        {"no": "0", "prefer-public": "1", "yes": "2", "true": "2", "false": "0"},
    ),
}
#: Other options that set a file, where none of the above does: what it sets for a link with masquerading, and
#: the former name of Forwarding= (networkd-sysctl.c: link_get_ip_forwarding). networkd takes router
#: advertisements itself, so that the kernel is not to, whatever IPv6AcceptRA= says (link_set_ipv6_accept_ra).
_ALSO: Mapping[str, Mapping[str, Mapping[str, str]]] = {
    "ipv4/conf/*/forwarding": {
        "IPForward": {**_BOOLEAN, "ipv4": "1"},
        "IPMasquerade": {"ipv4": "1", "both": "1", "yes": "1", "true": "1"},
    },
    "ipv6/conf/*/forwarding": {
        "IPForward": {**_BOOLEAN, "ipv6": "1"},
        "IPMasquerade": {"ipv6": "1", "both": "1"},
        "IPv6SendRA": {word: "1" for word, value in _BOOLEAN.items() if value == "1"},
    },
    "ipv6/conf/*/accept_ra": {"IPv6AcceptRA": dict.fromkeys(_BOOLEAN, "0")},
}
#: Option of [Network] in networkd.conf → file (256 and newer)
_GLOBAL = {
    "IPv4Forwarding": ("ipv4/conf/all/forwarding", "ipv4/ip_forward", "ipv4/conf/default/forwarding"),
    "IPv6Forwarding": ("ipv6/conf/all/forwarding", "ipv6/conf/default/forwarding"),
}
#: Before 256 IPForward= of any interface switched the whole machine on, and nothing off again
_ONCE_GLOBAL = {
    **dict.fromkeys(("ipv4/conf/all/forwarding", "ipv4/ip_forward"), "ipv4/conf/*/forwarding"),
    "ipv6/conf/all/forwarding": "ipv6/conf/*/forwarding",
}

_OF_INTERFACE = regex(r"/proc/sys/net/(ipv[46]/conf/)([^/]+)(/[a-z0-9_]+)\Z")


class Found(NamedTuple):
    """A line that sets a parameter. value: what the kernel shows then. sure: False where it is not known
    whether its file is for that interface."""

    line: Line
    value: str
    sure: bool = True


def sets(host: Host, path: str) -> Found | None:
    """The line by which networkd sets a file below /proc/sys; None for none, and where it does not run at
    boot. Raises HostError."""
    match = _OF_INTERFACE.match(path)
    found = _of_interface(host, f"{match[1]}*{match[3]}", match[2]) if match else None
    found = found or _of_all(host, path[len("/proc/sys/net/") :])
    return found if found and runs(host) else None


def runs(host: Host) -> bool:
    """True if a boot starts networkd, or it has state of a running one. Raises HostError."""
    return host.once(
        "networkd", lambda: host.exists("/run/systemd/netif/state") or UNIT in systemd_unit.booted(host)
    )


def _of_all(host: Host, file: str) -> Found | None:
    paths = [path for path in (f"{folder}/networkd.conf" for folder in _CONFS) if host.exists(path)][:1]
    paths += drop_ins.paths(host, [f"{folder}/networkd.conf.d" for folder in _CONFS])
    lines = [line for path in paths for line in systemd_conf.assignments(host, path)]
    for line in reversed([line for line in lines if line.section == "[Network]"]):
        if file in _GLOBAL.get(line.key, ()) and line.value.lower() in _BOOLEAN:
            return Found(line, _BOOLEAN[line.value.lower()])
    words = _ALSO[_ONCE_GLOBAL[file]]["IPForward"] if file in _ONCE_GLOBAL else {}
    for path in drop_ins.paths(host, _FOLDERS, (".network",)) if words else ():
        for line in _lines(host, path):
            if (line.section, line.key) == ("[Network]", "IPForward") and words.get(
                line.value.lower()
            ) == "1":
                return Found(line, "1", sure=False)
    return None


def _of_interface(host: Host, file: str, name: str) -> Found | None:
    options = {option: words for option, (pattern, words) in _OPTIONS.items() if pattern == file}
    options.update(_ALSO.get(file, {}))
    for path in drop_ins.paths(host, _FOLDERS, (".network",)) if options else ():
        lines = [*_lines(host, path)]
        fits = _fits(host, lines, name)
        if fits is False:
            continue
        for option, words in options.items():
            given = [line for line in lines if line.section == "[Network]" and line.key == option]
            value = _value(given[-1], words) if given else None
            if value is not None:
                return Found(given[-1], value, sure=bool(fits))
        if fits:  # the first file that fits is the only one
            return None
    return None


def _value(line: Line, words: Mapping[str, str]) -> str | None:
    return words.get(line.value.lower()) if words else line.value if line.value.isdecimal() else None


def _lines(host: Host, path: str) -> Iterator[Line]:
    name = path.rpartition("/")[2]
    for one in (path, *drop_ins.paths(host, [f"{folder}/{name}.d" for folder in _FOLDERS])):
        yield from systemd_conf.assignments(host, one)


def _fits(host: Host, lines: Sequence[Line], name: str) -> bool | None:
    """True if a file is for an interface; None if that depends on keys that are not read here."""
    matches = [line for line in lines if line.section == "[Match]" and line.value]
    sure = True
    for key in dict.fromkeys(line.key for line in matches):
        words = [word for line in matches if line.key == key for word in line.value.split()]
        if key == "Name":
            inverted = words[0].startswith("!")
            words[0] = words[0].lstrip("!")
            if any(fnmatch.fnmatchcase(name, word) for word in words) == inverted:
                return False
        elif key == "MACAddress":
            address = (host.value(f"/sys/class/net/{name}/address").text or "").strip().lower()
            if address not in [word.lower() for word in words]:
                return False
        else:
            sure = False
    return True if sure else None
