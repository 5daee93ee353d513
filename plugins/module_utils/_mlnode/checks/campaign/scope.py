# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A systemd scope for a campaign: it ends all programs of the campaign at its time limit.

It also blocks all addresses except the peers' (systemd.scope(5), systemd.resource-control(5)).
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import Sequence

from ...host.host import Host
from ...model.errors import HostError

_MANAGER = ("org.freedesktop.systemd1", "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager")

#: Every address, as family, length and bytes: AF_INET is 2, AF_INET6 is 10 (bits/socket.h)
_ALL = (("2", "4", *["0"] * 4, "0"), ("10", "16", *["0"] * 16, "0"))


def enter(host: Host, name: str, pid: int, seconds: float, peers: Sequence[str]) -> str:
    """Put a process into a new scope. Returns why this failed, or "". Never raises.

    A failure is tolerable: each program has a time limit of timeout(1), and so has this process.
    """
    try:
        if not host.systemd_runs():
            return "systemd does not run here"
        done = host.run(command(name, pid, seconds, peers))
    except HostError as error:
        return str(error)
    return "" if done.rc == 0 else (done.err.strip().splitlines() or [f"busctl ended with {done.rc}"])[-1]


def command(name: str, pid: int, seconds: float, peers: Sequence[str]) -> list[str]:
    """StartTransientUnit(name, mode, properties, auxiliary units), org.freedesktop.systemd1(5)."""
    allowed = [_entry(peer) for peer in sorted({*peers})]
    properties = [
        ("Description", "s", "mlnode: measures between nodes"),
        ("PIDs", "au", "1", str(pid)),
        ("RuntimeMaxUSec", "t", str(int(seconds * 1_000_000))),
        ("CollectMode", "s", "inactive-or-failed"),
        ("IPAddressDeny", "a(iayu)", str(len(_ALL)), *[word for network in _ALL for word in network]),
        ("IPAddressAllow", "a(iayu)", str(len(allowed)), *[word for entry in allowed for word in entry]),
    ]
    words = [word for fields in properties for word in fields]
    call = ["busctl", "call", *_MANAGER, "StartTransientUnit", "ssa(sv)a(sa(sv))", name, "fail"]
    return [*call, str(len(properties)), *words, "0"]


def _entry(address: str) -> tuple[str, ...]:
    ip = ip_address(address)
    octets = [str(byte) for byte in ip.packed]
    family = "2" if ip.version == 4 else "10"
    return (family, str(len(octets)), *octets, str(8 * len(octets)))
