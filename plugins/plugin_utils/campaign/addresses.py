# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Resolve the names of an inventory to the addresses between which nodes measure.

The controller resolves names, not the nodes: both ends of a pair get the same address, and an unknown name is
an error before any node is asked.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_address
from typing import Any, Callable

from ...module_utils._mlnode.model.errors import printable
from ..fleet_report.names import few

#: As many names are resolved at a time: each may wait for a name server
_AT_ONCE = 32

#: Versions of IP, the preferred one first
_VERSIONS = (4, 6)

#: Version of IP → the first address of it
Found = dict[int, str]

_ADVICE = "give each node its campaign_addresses (host_vars), one for each rail"


def find(host: str) -> Found:
    """Addresses by which others can reach a host, as the resolver of this machine orders them. Raises
    OSError."""
    by_version: Found = {}
    for *_what, (text, *_port) in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM):
        address = ip_address(str(text).partition("%")[0])
        if not (address.is_loopback or address.is_link_local or address.is_unspecified):
            by_version.setdefault(address.version, str(address))
    return by_version


def resolved(
    nodes: Mapping[str, Any], lookup: Callable[[str], Found] = find
) -> tuple[dict[str, list[str]], str]:
    """Addresses of all nodes, one for each rail, and an error message, empty if there is no error.

    nodes: name → its addresses or names. On each rail all nodes have addresses of one version of IP.
    """
    given = {str(name): own for name, own in nodes.items()}
    without = [name for name, own in given.items() if not own or not isinstance(own, (list, tuple))]
    if without:
        return {}, f"no list of addresses is given for {few(without)}: {_ADVICE}"
    texts = [*dict.fromkeys(str(address) for own in given.values() for address in own)]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        looked = dict(zip(texts, pool.map(lambda text: _look(text, lookup), texts)))
    lost = [
        (name, str(address)) for name, own in given.items() for address in own if not looked[str(address)][0]
    ]
    if lost:
        whose = [name if name == address else f"{address} of {name}" for name, address in lost]
        return {}, f"the controller cannot resolve {few(whose)} ({looked[lost[0][1]][1]}): {_ADVICE}"
    known = {name: [looked[str(address)][0] for address in own] for name, own in given.items()}
    chosen: dict[str, list[str]] = {name: [] for name in known}
    for rail in range(max(map(len, known.values()), default=0)):
        there = {name: own[rail] for name, own in known.items() if rail < len(own)}
        version = next(
            (
                candidate
                for candidate in _VERSIONS
                if all(candidate in by_version for by_version in there.values())
            ),
            None,
        )
        if version is None:
            return {}, f"rail {rail}: {_unlike(there)}, so that not all pairs can be measured: {_ADVICE}"
        for name, by_version in there.items():
            chosen[name].append(by_version[version])
    return chosen, ""


def _look(text: str, lookup: Callable[[str], Found]) -> tuple[Found, str]:
    """Addresses of a name, or of an address itself, or why there is none."""
    try:
        address = ip_address(text)
    except ValueError:
        pass
    else:
        return {address.version: str(address)}, ""
    try:
        return lookup(text), "it has loopback addresses only"
    except (OSError, UnicodeError) as error:
        return {}, printable(getattr(error, "strerror", None) or str(error))


def _unlike(nodes: Mapping[str, Found]) -> str:
    lacking = {
        version: [name for name, by_version in nodes.items() if version not in by_version]
        for version in _VERSIONS
    }
    return " and ".join(f"no IPv{version} address of {few(names)}" for version, names in lacking.items())
