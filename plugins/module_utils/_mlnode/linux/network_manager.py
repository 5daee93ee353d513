# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kernel parameters set by NetworkManager for the connections of its keyfiles: nm-settings-keyfile(5) and its
sources (src/core/devices/nm-device.c)."""

from __future__ import annotations

from typing import Iterator, Mapping, Sequence

from ..host.host import Host
from ..model.record import NamedTuple
from . import drop_ins, systemd_conf
from .sysctl_d import Line

UNIT = "NetworkManager.service"

_TOPS = ("/etc", "/run", "/usr/lib")
_CONNECTIONS = tuple(f"{top}/NetworkManager/system-connections" for top in _TOPS)
_CONFS = tuple(f"{top}/NetworkManager/conf.d" for top in _TOPS)
_MAIN = "/etc/NetworkManager/NetworkManager.conf"

_YES, _NO = ("1", "yes", "true", "on"), ("0", "no", "false", "off")
#: Sections of a connection with the address of its device
_LINKS = ("[ethernet]", "[802-3-ethernet]", "[infiniband]")
#: A port of a bond or a bridge has no addresses
_CONTROLLERS = ("controller", "master")

_FORWARD, _FORWARD6 = "net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding"

_Options = Mapping["tuple[str, str]", systemd_conf.Line]


class Connection(NamedTuple):
    """Lines set at its activation. sure: False if it may never be activated."""

    lines: tuple[Line, ...]
    sure: bool


def connections(host: Host) -> Iterator[Connection]:
    """Connections that set something. Raises HostError."""
    for path in drop_ins.paths(host, _CONNECTIONS, ("",)):
        options = {(line.section, line.key): line for line in systemd_conf.assignments(host, path)}
        auto = options.get(("[connection]", "autoconnect"))
        sure = (auto is None or auto.value.lower() not in _NO) and not _leaves_some(host)
        yield Connection((*_shared(options), *_of_interface(host, options)), sure)


def _configuration(host: Host) -> Sequence[systemd_conf.Line]:
    """Lines of NetworkManager.conf and its drop-ins; the last of an option counts. Raises HostError."""
    return host.once("NetworkManager.conf", lambda: _read_configuration(host), of_files=True)


def _read_configuration(host: Host) -> Sequence[systemd_conf.Line]:
    paths = [*([_MAIN] if host.exists(_MAIN) else []), *drop_ins.paths(host, _CONFS)]
    return [line for path in paths for line in systemd_conf.assignments(host, path)]


def _leaves_some(host: Host) -> bool:
    """True if its configuration excludes devices, which are not evaluated here."""
    return any(
        (line.key == "unmanaged-devices" and line.value)
        or (line.section.startswith("[device") and line.key == "managed" and line.value.lower() in _NO)
        for line in _configuration(host)
    )


def _shared(options: _Options) -> Iterator[Line]:
    for section, names in (("[ipv4]", (_FORWARD, "net/ipv4/ip_dynaddr")), ("[ipv6]", (_FORWARD6,))):
        method = options.get((section, "method"))
        if method is not None and method.value == "shared":
            yield from (Line(name, "1", method.file, method.number) for name in names)


def _of_interface(host: Host, options: _Options) -> Iterator[Line]:
    """Lines of the interface, if the connection names one."""
    anchor, name = _interface(host, options)
    if anchor is None or any(("[connection]", key) in options for key in _CONTROLLERS):
        return
    forwarding = options.get(("[ipv4]", "forwarding"))
    if forwarding is not None and forwarding.value.lower() in (*_YES, *_NO):
        value = "1" if forwarding.value.lower() in _YES else "0"
        yield Line(f"net/ipv4/conf/{name}/forwarding", value, forwarding.file, forwarding.number)
    # Without a section or a method it is auto (nm-connection.c: _normalize_ip_config).
    line = options.get(("[ipv6]", "method"))
    method, where = (line.value, line) if line is not None else ("auto", anchor)
    folder = f"net/ipv6/conf/{name}"
    if method == "disabled":
        yield Line(f"{folder}/disable_ipv6", "1", where.file, where.number)
    elif method != "ignore":
        # NetworkManager processes router advertisements itself (ip6_managed_setup).
        yield Line(f"{folder}/accept_ra", "0", where.file, where.number)
        yield Line(f"{folder}/disable_ipv6", "0", where.file, where.number)
        yield _privacy(host, options, folder, where)


def _privacy(host: Host, options: _Options, folder: str, where: systemd_conf.Line) -> Line:
    """The setting from the connection or from NetworkManager.conf; otherwise the value of `default` at that
    time (_prop_get_ipv6_ip6_privacy)."""
    usual = [line for line in _configuration(host) if line.key == "ipv6.ip6-privacy"]
    given = [*usual, *filter(None, [options.get(("[ipv6]", "ip6-privacy"))])]
    for line in reversed(given):
        if line.value in ("0", "1", "2"):
            return Line(f"{folder}/use_tempaddr", line.value, line.file, line.number)
    return Line(f"{folder}/use_tempaddr", None, where.file, where.number)


def _interface(host: Host, options: _Options) -> tuple[systemd_conf.Line | None, str]:
    """The line with the interface of a connection, and its name."""
    named = options.get(("[connection]", "interface-name"))
    if named is not None and named.value:
        return named, named.value
    for section in _LINKS:
        address = options.get((section, "mac-address"))
        for name in host.names("/sys/class/net") if address is not None else ():
            shown = (host.value(f"/sys/class/net/{name}/address").text or "").strip()
            if address is not None and shown.lower() == address.value.lower():
                return address, name
    return None, ""
