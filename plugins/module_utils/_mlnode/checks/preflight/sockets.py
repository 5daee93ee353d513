# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""TCP sockets in TIME_WAIT, and ports for connections to one destination.

Both run out if programs open a connection for each request.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import partial
from typing import Iterator

from ...host.host import Host
from ...model import values
from ...model.errors import HostError
from ...model.record import regex, replace
from ..model import Check, Subject, Verdict, findings

#: A socket stays for 60 s (include/net/tcp.h: TCP_TIMEWAIT_LEN). The first number means that this node closes
#: 17 connections a second, more than a node without a job. The second is a third of the default ports for
#: connections to one destination (ip-sysctl.rst: 32768 to 60999).
MANY, TOO_MANY = 1_000, 10_000

#: Share of the ports for one destination from which connect(2) must try several before it finds a free one
#: (net/ipv4/inet_hashtables.c: __inet_hash_connect)
_SHARE = 0.5

_SOCKSTAT, _SOCKSTAT6 = "/proc/net/sockstat", "/proc/net/sockstat6"
_RANGE = "/proc/sys/net/ipv4/ip_local_port_range"
_RESERVED = "/proc/sys/net/ipv4/ip_local_reserved_ports"
_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")

_TCP = regex(r"^TCP: inuse ([0-9]{1,10}) orphan [0-9]+ tw ([0-9]{1,10}) ", re.MULTILINE | re.ASCII)
_TCP6 = regex(r"^TCP6: inuse ([0-9]{1,10})$", re.MULTILINE | re.ASCII)

#: net/ipv4/tcp_ipv4.c: get_tcp4_sock: local address and port, remote address and port, and the state, in
#: hexadecimal. Each four bytes of an address are in the CPU's byte order. 0A is LISTEN.
_LINE = regex(rb"^ *[0-9]+: ([0-9A-F]+):([0-9A-F]{4}) ([0-9A-F]+):([0-9A-F]{4}) (?!0A)", re.MULTILINE)

_REMEDY = (
    "keep connections open instead of one for each request (ss -tan state time-wait shows to whom), and let "
    "new ones take their ports: net.ipv4.tcp_tw_reuse = 1. net.ipv4.tcp_fin_timeout does not shorten it"
)
_WIDER = f"widen net.ipv4.ip_local_port_range (the module sysctl_ml), or {_REMEDY}"


_TIME_WAIT = Subject("time_wait", source=_SOCKSTAT, advice=_REMEDY)
_LOCAL_PORTS = Subject("local_ports", source=_SOCKSTAT, advice=_WIDER)


def checks(host: Host) -> Iterator[Check]:
    """Checks of this network namespace."""
    yield from findings([_TIME_WAIT, _LOCAL_PORTS], partial(_looked, host))


def _looked(host: Host) -> Iterator[Check]:
    """Raises HostError."""
    used, waiting = _counts(host)
    verdict = Verdict.FAIL if waiting > TOO_MANY else Verdict.WARN if waiting > MANY else Verdict.PASS
    yield _TIME_WAIT.made(verdict, str(waiting), expected=f"at most {MANY}")
    first, last, ports = _ports(host)
    most = int(_SHARE * ports)
    subject = replace(_LOCAL_PORTS, expected=f"under {most} of {ports} ports to one destination")
    # Reading the table takes 30 ms for 20,000 sockets. Most nodes have far fewer sockets than ports, and need
    # no destination in the message.
    matters = waiting > MANY or used + waiting >= most
    busiest = _busiest(host, first, last) if matters else None
    if busiest is None:
        yield subject.judged(True, f"{used + waiting} sockets in all")
        return
    address, port, taken = busiest
    evidence = f"{taken} to {address} port {port}"
    yield subject.judged(taken < most, evidence, source=", ".join(_TABLES), bad=Verdict.WARN)


# -- reading --------------------------------------------------------------------------------


def _counts(host: Host) -> tuple[int, int]:
    """Sockets in use, and sockets in TIME_WAIT, a count that includes IPv6. Raises HostError."""
    match = _TCP.search(host.read(_SOCKSTAT))
    if match is None:
        raise HostError("understand", _SOCKSTAT, None, "it has no line TCP: inuse ... tw")
    of_ipv6 = _TCP6.search(host.text(_SOCKSTAT6))  # absent without IPv6
    return int(match[1]) + (int(of_ipv6[1]) if of_ipv6 else 0), int(match[2])


def _ports(host: Host) -> tuple[int, int, int]:
    """First and last port for connections, and the number of ports without reserved ones.

    Raises HostError.
    """
    bounds = [values.number(word) for word in host.read(_RANGE).split()]
    if len(bounds) != 2 or bounds[0] is None or bounds[1] is None:
        raise HostError("understand", _RANGE, None, "it does not have two numbers")
    first, last = bounds[0], bounds[1]
    reserved = values.number_ranges(host.text(_RESERVED).strip()) or ()
    taken = sum(max(0, min(last, high) - max(first, low) + 1) for low, high in reserved)
    return first, last, last - first + 1 - taken


def _busiest(host: Host, first: int, last: int) -> tuple[str, int, int] | None:
    """The destination with the most local ports, and their number. Raises HostError."""
    taken: Counter[tuple[bytes, bytes, bytes]] = Counter()
    for path in _TABLES:
        table = host.content(path) or b""
        for own, port, other, other_port in _LINE.findall(table):
            if first <= int(port, 16) <= last:
                taken[own, other, other_port] += 1
    if not taken:
        return None
    (_own, address, port), number = taken.most_common(1)[0]
    return _address(address.decode("ascii")), int(port, 16), number


def _address(digits: str) -> str:
    import ipaddress
    import sys

    words = [int(digits[at : at + 8], 16).to_bytes(4, sys.byteorder) for at in range(0, len(digits), 8)]
    address = ipaddress.ip_address(b"".join(words))
    return str(getattr(address, "ipv4_mapped", None) or address)
