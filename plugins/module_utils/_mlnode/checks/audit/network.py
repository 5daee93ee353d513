# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ordinary networking: socket buffers and losses.

Counters start with the interface or the network namespace: they prove a loss, but not its time.
"""

from __future__ import annotations

from functools import partial
from typing import Iterator

from ...engine.kind import Facts
from ...host.host import Host
from ...knobs import sizing
from ...knobs.sysctl import info as sysctl
from ...linux import net_counters
from ...linux.net_counters import DEV, LOSS, SNMP
from ...model import values
from ...model.record import replace
from ...model.setting import Severity, Value
from ...topology.model import Topology
from ..model import Check, Nothing, Subject, content, findings
from .model import Looks, topic

_TCP_RMEM, _TCP_WMEM = "/proc/sys/net/ipv4/tcp_rmem", "/proc/sys/net/ipv4/tcp_wmem"

BUFFERS = topic(
    "socket_buffers",
    *sysctl.info("net.ipv4.tcp_rmem", Value()),
    "set net.ipv4.tcp_rmem and tcp_wmem with `auto` as third number: the module sysctl_ml",
    f"{_TCP_RMEM}, {_TCP_WMEM}",
)
NICS = topic(
    "nic_drops",
    Severity.MEDIUM,
    "TCP takes each loss for congestion and slows down, and UDP loses data",
    "net/core/net-procfs.c; ABI/testing/sysfs-class-net-statistics",
    "look twice, a minute apart, with ip -s -s link and ethtool -S: rings (the module nic), cable, pauses",
    DEV,
)
UDP = topic(
    "udp_drops",
    Severity.LOW,
    "a program reads too slowly for its buffer, and the rest is lost",
    "networking/snmp_counter.rst; udp(7)",
    "raise net.core.rmem_max and have the program ask for more with SO_RCVBUF",
    SNMP,
)
LISTEN = topic(
    "listen_overflows",
    Severity.LOW,
    "connections had to be tried again after a second or more, as a program did not accept them in time",
    "networking/snmp_counter.rst (TcpExtListenOverflows)",
    "raise net.core.somaxconn and the program's own backlog; look twice to see whether it goes on",
    "/proc/net/netstat",
)
RETRANSMITS = topic(
    "tcp_retransmits",
    Severity.LOW,
    "resent segments were lost or not answered: in a data hall hardly any are",
    "networking/snmp_counter.rst; RFC 4022 (tcpRetransSegs)",
    "look with nstat twice, a minute apart, and at the drops of NICs and switch ports on the way",
    SNMP,
)

#: With this many packets a single loss reaches the limit
_ENOUGH = round(1 / LOSS)
_MIB = 1 << 20
#: A value from guides for long paths
_LONG = 64 * _MIB
_SINCE = "since boot, or since this network namespace was made"


# -- buffers -------------------------------------------------------------------------------


def _buffers(host: Host, _topology: Topology) -> Check:
    """Judged with the formula of `auto`, for this machine's link and the round trip of a data hall."""
    facts = Facts(host)
    largest: dict[str, int] = {}
    for path in (_TCP_RMEM, _TCP_WMEM):
        fields = content(host, path).split()
        number = values.number(fields[2]) if len(fields) == 3 else None
        if number is None:
            return BUFFERS.unknown(f"{path} does not have three numbers", source=path)
        largest[path.rpartition("/")[2]] = number
    rate, memory = facts.fastest_link_bit_per_s(), facts.memory_bytes()
    sizes = ", ".join(f"{name} {number / _MIB:.4g} MiB" for name, number in largest.items())
    if not rate:
        return BUFFERS.skip(f"{sizes}; no link that is up reports its rate", source=_TCP_RMEM)
    need = sizing.socket_buffer_max(rate, sizing.Sizing().rtt_us, memory)
    least = min(largest.values())
    evidence = (
        f"{sizes}: one flow fills {rate / 1e9:.4g} Gb/s up to a round trip of {_round_trip(least, rate)}; "
        f"64 MiB would do so up to {_round_trip(_LONG, rate)}"
    )
    return BUFFERS.judged(least >= need, evidence, expected=f"at least {need / _MIB:.4g} MiB, for 100 us")


def _round_trip(size: int, rate: int) -> str:
    """Round trip that a buffer suffices for: a quarter of it is in flight, the rest overhead (sizing.py)."""
    microseconds = size * 8 * 1_000_000 // rate // 4
    return f"{microseconds} us" if microseconds < 10_000 else f"{microseconds // 1000} ms"


# -- interfaces ----------------------------------------------------------------------------


def _nics(host: Host, topology: Topology) -> Iterator[Check]:
    rows = net_counters.rows(content(host, DEV))
    names = [nic.name for nic in topology.nics if nic.kind in ("physical", "virtual function", "virtio")]
    counted = [name for name in names if name in rows]
    for name in counted:
        yield from findings([replace(NICS, target=name)], partial(_nic, host, name, rows[name]))
    if not counted:
        raise Nothing("no interface with hardware behind it is counted here", DEV)


def _nic(host: Host, name: str, row: str) -> Check:
    """Packets without a receiver are not judged."""
    seen = net_counters.traffic(host, name, row)
    ways = ((seen.received, seen.receive_lost), (seen.sent, seen.send_lost))
    # Directions separately: sent packets prove nothing about a cable that loses received ones.
    enough = [(passed, lost) for passed, lost in ways if passed + lost >= _ENOUGH]
    evidence = (
        f"received {seen.received}: {seen.errors} errors, {seen.full} without room, {seen.unwanted} not "
        f"wanted; sent {seen.sent}: {seen.send_errors} errors, {seen.send_drops} dropped"
    )
    if not enough:
        return NICS.skip(f"{evidence}; too few to judge", target=name)
    good = all(lost <= (passed + lost) * LOSS for passed, lost in enough)
    return NICS.judged(good, evidence, expected="lost under 1 of 10000", target=name)


# -- sockets -------------------------------------------------------------------------------


def _udp(host: Host, _topology: Topology) -> Check:
    udp = net_counters.group(content(host, SNMP), "Udp")
    return _share(UDP, udp.get("RcvbufErrors"), udp.get("InDatagrams"), "datagrams without room")


def _retransmits(host: Host, _topology: Topology) -> Check:
    tcp = net_counters.group(content(host, SNMP), "Tcp")
    return _share(RETRANSMITS, tcp.get("RetransSegs"), tcp.get("OutSegs"), "segments sent again")


def _listen(host: Host, _topology: Topology) -> Check:
    overflows = net_counters.group(content(host, LISTEN.source), "TcpExt").get("ListenOverflows")
    if overflows is None:
        return LISTEN.unknown(f"{LISTEN.source} has no ListenOverflows")
    return LISTEN.judged(overflows == 0, f"{overflows} {_SINCE}", expected="none")


def _share(subject: Subject, bad: int | None, all_of: int | None, what: str) -> Check:
    if bad is None or all_of is None:
        return subject.unknown(f"{SNMP} does not count this")
    evidence = f"{bad} {what}, of {all_of} {_SINCE}"
    # Delivered datagrams do not include those without room.
    total = all_of + bad
    if total < _ENOUGH:
        return subject.skip(f"{evidence}; too few to judge")
    return subject.judged(bad <= total * LOSS, evidence, expected="under 1 of 10000")


LOOKS: Looks = (
    ((BUFFERS,), _buffers),
    ((NICS,), _nics),
    ((UDP,), _udp),
    ((RETRANSMITS,), _retransmits),
    ((LISTEN,), _listen),
)
