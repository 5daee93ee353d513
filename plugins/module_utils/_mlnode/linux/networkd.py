# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kernel parameters of interfaces set by systemd-networkd: systemd.network(5), networkd.conf(5) and its
sources (src/network/networkd-sysctl.c)."""

from __future__ import annotations

import fnmatch
import re
from typing import Callable, Iterator, Mapping, Sequence

from ..host.host import Host
from ..model.record import NamedTuple, regex
from . import drop_ins, systemd_conf, systemd_unit
from .systemd_conf import BOOLEAN, YES, Line

UNIT = "systemd-networkd.service"
_FOLDERS = tuple(f"{top}/systemd/network" for top in drop_ins.TOPS)

#: Option of [Network] → file of an interface below /proc/sys/net, and the value of each word. Numbers are
#: written unchanged.
_OPTIONS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "IPv4ReversePathFilter": ("ipv4/conf/*/rp_filter", {"no": "0", "strict": "1", "loose": "2"}),
    "IPv4Forwarding": ("ipv4/conf/*/forwarding", BOOLEAN),
    "IPv4AcceptLocal": ("ipv4/conf/*/accept_local", BOOLEAN),
    "IPv4RouteLocalnet": ("ipv4/conf/*/route_localnet", BOOLEAN),
    "IPv4ProxyARP": ("ipv4/conf/*/proxy_arp", BOOLEAN),
    "IPv4ProxyARPPrivateVLAN": ("ipv4/conf/*/proxy_arp_pvlan", BOOLEAN),
    "IPv6Forwarding": ("ipv6/conf/*/forwarding", BOOLEAN),
    "IPv6ProxyNDP": ("ipv6/conf/*/proxy_ndp", BOOLEAN),
    "IPv6HopLimit": ("ipv6/conf/*/hop_limit", {}),
    "IPv6MTUBytes": ("ipv6/conf/*/mtu", {}),
    "IPv6DuplicateAddressDetection": ("ipv6/conf/*/dad_transmits", {}),
    "IPv6PrivacyExtensions": (
        "ipv6/conf/*/use_tempaddr",
        {
            **{word: "2" if value == "1" else value for word, value in BOOLEAN.items()},
            "prefer-public": "1",
        },
    ),
}
_MASQUERADE = "IPMasquerade"
#: Further options that set a file, if none of the above does (link_get_ip_forwarding)
_ALSO: Mapping[str, Mapping[str, Mapping[str, str]]] = {
    "ipv4/conf/*/forwarding": {_MASQUERADE: dict.fromkeys(("ipv4", "both", *YES), "1")},
    "ipv6/conf/*/forwarding": {
        _MASQUERADE: {"ipv6": "1", "both": "1"},
        "IPv6SendRA": dict.fromkeys(YES, "1"),
    },
}
#: File that networkd sets on each configured interface by default → the value. networkd processes router
#: advertisements in place of the kernel (link_set_ipv6_accept_ra), and needs the promotion for leases
#: (link_set_ipv4_promote_secondaries).
_ALWAYS = {
    "ipv6/conf/*/accept_ra": "0",
    "ipv6/conf/*/proxy_ndp": "0",
    "ipv6/conf/*/use_tempaddr": "0",
    "ipv4/conf/*/promote_secondaries": "1",
}
#: File → the option and word that leave it to the kernel
_KEPT = {"ipv6/conf/*/use_tempaddr": ("IPv6PrivacyExtensions", "kernel")}
_NDP, _NDP_ADDRESS = "ipv6/conf/*/proxy_ndp", "IPv6ProxyNDPAddress"
#: Enabled if an interface has IPv6 addresses (link_ipv6_enabled)
_DISABLE = "ipv6/conf/*/disable_ipv6"
#: With these, IPv6 of a link belongs to another interface, or is off by default (systemd.network(5),
#: LinkLocalAddressing=)
_PORTS = ("Bond", "Bridge", "KeepMaster", "MACVLAN", "MACVTAP")
#: Option of [Network] in networkd.conf (256 and newer) → files, among them the default of interfaces without
#: an own option
_GLOBAL = {
    "IPv4Forwarding": ("ipv4/conf/all/forwarding", "ipv4/ip_forward", "ipv4/conf/default/forwarding"),
    "IPv6Forwarding": ("ipv6/conf/all/forwarding", "ipv6/conf/default/forwarding"),
}
_OF_EACH = {
    "ipv4/conf/*/forwarding": "IPv4Forwarding",
    "ipv6/conf/*/forwarding": "IPv6Forwarding",
    "ipv6/conf/*/use_tempaddr": "IPv6PrivacyExtensions",
}
#: Before 256 these options of any interface switched the whole machine on, and nothing off again. Newer
#: versions ignore the option (config_parse_ip_forward_deprecated). IPMasquerade= does so again in 257 if
#: networkd.conf has no option, and perhaps in releases of 256 (link_set_ip_forwarding).
_ONCE, _ONCE_UNTIL = "IPForward", 256
_SINCE = {"IPv4Forwarding": _ONCE_UNTIL, "IPv6Forwarding": _ONCE_UNTIL}
_ONCE_GLOBAL = {
    "ipv4/ip_forward": ("ipv4", "ipv4/conf/*/forwarding"),
    "ipv4/conf/*/forwarding": ("ipv4", "ipv4/conf/*/forwarding"),
    "ipv6/conf/*/forwarding": ("ipv6", "ipv6/conf/*/forwarding"),
}
#: Names in /proc/sys/net/ipv*/conf for several interfaces, and the interface that networkd ignores
_NO_LINKS = ("all", "default", "lo")

#: The library of systemd's programs has its version in its name, with the package version after it
_LIBRARIES = tuple(
    f"{folder}/libsystemd-shared-*.so"
    for folder in ("/usr/lib/systemd", "/usr/lib64/systemd", "/usr/lib/*-linux-gnu*/systemd", "/lib/systemd")
)
_VERSION = regex(r"/libsystemd-shared-([0-9]{3})\b", re.ASCII)

#: addr_assign_type of include/uapi/linux/netdevice.h
_NET_ADDR_PERM = "0"

_OF_INTERFACE = regex(r"/proc/sys/net/(ipv[46]/conf/)([^/]+)(/[a-z0-9_]+)\Z")


class Found(NamedTuple):
    """A line that sets a parameter. value: shown by the kernel afterwards. sure: False if its file may be for
    other interfaces. implied: the default that sets it, without an option. at_start: networkd sets it at its
    own start, not with an interface."""

    line: Line
    value: str
    sure: bool = True
    implied: str = ""
    at_start: bool = False

    @property
    def text(self) -> str:
        return f"{self.line.text} ({self.implied})" if self.implied else self.line.text


class _Network(NamedTuple):
    """The file of an interface. sure: False if it also depends on keys that are not evaluated here."""

    lines: tuple[Line, ...]
    sure: bool

    def last(self, option: str, section: str = "[Network]") -> Line | None:
        given = [line for line in self.lines if (line.section, line.key) == (section, option)]
        return given[-1] if given else None


def sets(host: Host, path: str) -> Found | None:
    """The line by which networkd sets a file below /proc/sys; None if there is none, or if networkd does not
    run at boot. Raises HostError."""
    match = _OF_INTERFACE.match(path)
    setting = _of_interface(host, f"{match[1]}*{match[3]}", match[2]) if match else None
    setting = setting or _of_all(host, path[len("/proc/sys/net/") :])
    return setting if setting and runs(host) else None


def advertisements(host: Host, name: str) -> Line | bool | None:
    """Who answers router advertisements: None for the kernel, or networkd, which then has a line that turns
    them off, or True if none does. Raises HostError."""
    networks = _of_name(host, name) if runs(host) else ()
    if not networks:
        return None
    line = networks[0].last("IPv6AcceptRA")
    return line if line is not None and BOOLEAN.get(line.value.lower()) == "0" else True


def runs(host: Host) -> bool:
    """True if a boot starts networkd, or it has state of a running one. Raises HostError."""
    return host.once(
        "networkd", lambda: host.exists("/run/systemd/netif/state") or UNIT in systemd_unit.booted(host)
    )


def version(host: Host) -> int | None:
    """The version of systemd; None if it is unknown. Raises HostError."""
    return host.once("version of systemd", lambda: _read_version(host), of_files=True)


def _read_version(host: Host) -> int | None:
    names = (path for pattern in _LIBRARIES for path in host.matching(pattern))
    versions = {int(match[1]) for match in map(_VERSION.search, names) if match}
    return versions.pop() if len(versions) == 1 else None


def _configuration(host: Host) -> Sequence[Line]:
    """Lines of [Network] in networkd.conf and its drop-ins. Raises HostError."""
    lines = host.once(
        "networkd.conf", lambda: systemd_conf.configuration(host, "networkd.conf"), of_files=True
    )
    return [line for line in lines if line.section == "[Network]"]


def _of_all(host: Host, file: str) -> Found | None:
    systemd = version(host)
    for line in reversed(_configuration(host) if systemd is None or systemd >= _ONCE_UNTIL else ()):
        if file in _GLOBAL.get(line.key, ()) and line.value.lower() in BOOLEAN:
            return Found(line, BOOLEAN[line.value.lower()], systemd is not None, at_start=True)
    return _once(host, file.replace("/all/", "/*/").replace("/default/", "/*/"))


def _once(host: Host, file: str) -> Found | None:
    """The line of an interface that sets the whole machine. file: with * for an interface."""
    if file not in _ONCE_GLOBAL:
        return None
    systemd = version(host)
    family, pattern = _ONCE_GLOBAL[file]
    options = {_MASQUERADE: _ALSO[pattern][_MASQUERADE]}
    if systemd is None or systemd < _ONCE_UNTIL:
        options[_ONCE] = {**BOOLEAN, family: "1"}
    settings = [
        Found(line, "1", network.sure and systemd not in (None, _ONCE_UNTIL))
        for name in host.names("/sys/class/net")
        for network in _of_name(host, name)
        for option, words in options.items()
        for line in [network.last(option)]
        if line is not None and words.get(line.value.lower()) == "1"
    ]
    return next((setting for setting in settings if setting.sure), settings[0] if settings else None)


def _of_interface(host: Host, file: str, name: str) -> Found | None:
    networks = _of_name(host, name)
    if not networks:
        return None
    options = {option: words for option, (pattern, words) in _OPTIONS.items() if pattern == file}
    options.update(_ALSO.get(file, {}))
    for option in {*options} & {*_SINCE}:
        if (version(host) or _SINCE[option]) < _SINCE[option]:
            del options[option]
    for network in networks:
        for option, words in options.items():
            line = network.last(option)
            value = _value(line, words) if line is not None else None
            if line is not None and value is not None:
                return Found(line, value, network.sure and _is_certain(host, option))
    if _is_kept(host, networks[0], file):
        return None
    common = _of_configuration(host, file)
    if common is not None:
        return common._replace(sure=common.sure and networks[0].sure)
    return _unsaid(networks[0], file) or _once(host, file)


def _is_kept(host: Host, network: _Network, file: str) -> bool:
    """True if an interface's file, or networkd.conf by default, leaves a value to the kernel."""
    option, word = _KEPT.get(file, ("", ""))
    common = [line for line in _configuration(host) if line.key == option] if option else []
    line = network.last(option) or (common[-1] if common else None)
    return line is not None and line.value.lower() == word


def _of_configuration(host: Host, file: str) -> Found | None:
    """The line of networkd.conf for interfaces without an own option."""
    option = _OF_EACH.get(file, "")
    words = _OPTIONS[option][1] if option else {}
    known = option not in _SINCE or (version(host) or _SINCE[option]) >= _SINCE[option]
    for line in reversed(_configuration(host) if option and known else ()):
        if line.key == option and line.value.lower() in words:
            return Found(line, words[line.value.lower()], _is_certain(host, option))
    return None


def _is_certain(host: Host, option: str) -> bool:
    """False for an option that this systemd may lack, as its version is unknown."""
    return option not in _SINCE or version(host) is not None


def _unsaid(network: _Network, file: str) -> Found | None:
    """Value that networkd sets on a configured interface without an option for it."""
    line = next((line for line in network.lines if line.section == "[Match]"), None)
    if line is None:
        return None
    implied = "networkd sets {0} = {1} on each interface that it configures"
    if file in _ALWAYS:
        address = network.last(_NDP_ADDRESS) if file == _NDP else None
        value = "1" if address is not None and address.value else _ALWAYS[file]
        return Found(address or line, value, network.sure, implied.format(file.rpartition("/")[2], value))
    if file == _DISABLE and not any(network.last(option) for option in _PORTS):
        local = network.last("LinkLocalAddressing")
        addresses = [entry for entry in network.lines if entry.key == "Address" and ":" in entry.value]
        off = local is not None and local.value.lower() not in ("ipv6", *YES)
        if addresses or not off:
            shown = addresses[0] if off else local or line
            return Found(shown, "0", network.sure, "networkd sets disable_ipv6 = 0 on each with IPv6")
    return None


def _of_name(host: Host, name: str) -> Sequence[_Network]:
    """Possible files of an interface; the last one applies, if any does. Empty if networkd ignores the
    interface. Raises HostError."""
    if name in _NO_LINKS:
        return ()
    return host.once(f"networks of {name}", lambda: [*_fitting(host, name)], of_files=True)


def _fitting(host: Host, name: str) -> Iterator[_Network]:
    sure = True
    for path in drop_ins.paths(host, _FOLDERS, (".network",)):
        lines = tuple(_lines(host, path))
        fits = _fits(host, lines, name)
        if fits is False:
            continue
        sure = sure and bool(fits)
        network = _Network(lines, sure)
        unmanaged = network.last("Unmanaged", "[Link]")
        if unmanaged is None or unmanaged.value.lower() not in YES:
            yield network
        if fits:  # the first matching file is the only one
            return


def _value(line: Line, words: Mapping[str, str]) -> str | None:
    return words.get(line.value.lower()) if words else line.value if line.value.isdecimal() else None


def _lines(host: Host, path: str) -> Iterator[Line]:
    name = path.rpartition("/")[2]
    for file in (path, *drop_ins.paths(host, [f"{folder}/{name}.d" for folder in _FOLDERS])):
        yield from systemd_conf.assignments(host, file)


def _fits(host: Host, lines: Sequence[Line], name: str) -> bool | None:
    """True if a file is for an interface; None if that depends on keys that are not evaluated here."""
    matches = [line for line in lines if line.section == "[Match]" and line.value]
    sure = True
    if not matches:  # such a file is for all interfaces, and in newer versions for none (network_verify)
        return None
    for key in dict.fromkeys(line.key for line in matches):
        words = [word for line in matches if line.key == key for word in line.value.split()]
        shown = _SHOWN[key](host, name) if key in _SHOWN else None
        if shown is None:
            sure = False
            continue
        inverted = words[0].startswith("!")
        words[0] = words[0].lstrip("!")
        words = [word.lower() for word in words] if key in _ADDRESSES else words
        if any(fnmatch.fnmatchcase(shown, word) for word in words) == inverted:
            return False
    return True if sure else None


def _type(host: Host, name: str) -> str | None:
    """The type of a link in udev's words: the kernel's word for it, or the one for Ethernet (sd-device and
    src/shared/arphrd-util.c). None if it is of another type."""
    word = _of_uevent(host, name, "DEVTYPE")
    ethernet = host.value(f"/sys/class/net/{name}/type").text == "1"
    return word or ("ether" if ethernet else None)


def _of_uevent(host: Host, name: str, key: str) -> str | None:
    lines = (host.value(f"/sys/class/net/{name}/uevent").text or "").splitlines()
    return next((line.partition("=")[2] for line in lines if line.startswith(f"{key}=")), None)


def _driver(host: Host, name: str) -> str | None:
    return host.link_target(f"/sys/class/net/{name}/device/driver").rpartition("/")[2] or None


def _address(host: Host, name: str) -> str | None:
    return (host.value(f"/sys/class/net/{name}/address").text or "").strip().lower()


def _permanent(host: Host, name: str) -> str | None:
    """The address of the hardware: a bond gives its ports another one, and stores the original separately."""
    net = f"/sys/class/net/{name}"
    own = (host.value(f"{net}/bonding_slave/perm_hwaddr").text or "").strip().lower()
    if own or host.value(f"{net}/addr_assign_type").text != _NET_ADDR_PERM:
        return own or None
    return _address(host, name)


_ADDRESSES = ("MACAddress", "PermanentMACAddress")
#: Key of [Match] → the interface's value to compare with; None if it is unknown
_SHOWN: Mapping[str, Callable[[Host, str], str | None]] = {
    "Name": lambda _host, name: name,
    "Type": _type,
    "Driver": _driver,
    "MACAddress": _address,
    "PermanentMACAddress": _permanent,
}
