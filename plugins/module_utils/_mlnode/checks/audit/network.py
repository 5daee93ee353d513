# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ordinary networking: buffers of sockets, and what was lost. A counter goes on since the interface or the
network namespace is there: it says that something was lost, and not when."""

from __future__ import annotations

from typing import Iterator

from ...engine.kind import Facts
from ...host.host import Host
from ...knobs import sizing
from ...knobs.sysctl import info as sysctl
from ...linux import net_counters
from ...linux.net_counters import DEV, LOSS, SNMP, Traffic
from ...model import values
from ...model.errors import HostError
from ...model.setting import Severity, Value
from ...topology.model import Topology
from . import model
from .model import AuditCheck, Topic

BUFFERS = Topic(
    "socket_buffers",
    *sysctl.info("net.ipv4.tcp_rmem", Value()),
    "set net.ipv4.tcp_rmem and tcp_wmem with `auto` as third number: the module sysctl_ml",
)
NICS = Topic(
    "nic_drops",
    Severity.MEDIUM,
    "TCP takes each loss for congestion and slows down, and UDP loses data",
    "net/core/net-procfs.c; ABI/testing/sysfs-class-net-statistics",
    "look twice, a minute apart, with ip -s -s link and ethtool -S: rings (the module nic), cable, pauses",
)
UDP = Topic(
    "udp_drops",
    Severity.LOW,
    "a program reads too slowly for its buffer, and what does not fit is lost",
    "networking/snmp_counter.rst; udp(7)",
    "raise net.core.rmem_max and have the program ask for more with SO_RCVBUF",
)
LISTEN = Topic(
    "listen_overflows",
    Severity.LOW,
    "connections had to be tried again after a second or more, as a program did not accept them in time",
    "networking/snmp_counter.rst (TcpExtListenOverflows)",
    "raise net.core.somaxconn and the program's own backlog; look twice to see whether it goes on",
)
RETRANSMITS = Topic(
    "tcp_retransmits",
    Severity.LOW,
    "what is sent again was lost on the way or had no answer: in a data hall that is next to nothing",
    "networking/snmp_counter.rst; RFC 4022 (tcpRetransSegs)",
    "look with nstat twice, a minute apart, and at the drops of NICs and switch ports on the way",
)

_TOPICS = (BUFFERS, NICS, UDP, LISTEN, RETRANSMITS)
NAMES = tuple(topic.name for topic in _TOPICS)

_NETSTAT = "/proc/net/netstat"
_TCP_RMEM, _TCP_WMEM = "/proc/sys/net/ipv4/tcp_rmem", "/proc/sys/net/ipv4/tcp_wmem"
#: With as many packets one that is lost makes that share
_ENOUGH = round(1 / LOSS)
_MIB = 1 << 20
#: What guides for long paths ask for
_LONG = 64 * _MIB


def checks(host: Host, topology: Topology) -> Iterator[AuditCheck]:
    yield _buffers(host)
    yield from _nics(host, topology)
    yield from _sockets(host)


# -- buffers -------------------------------------------------------------------------------


def _buffers(host: Host) -> AuditCheck:
    """The formula of `auto`, for the link of this machine and the round trip of a data hall."""
    facts = Facts(host)
    largest: dict[str, int] = {}
    for path in (_TCP_RMEM, _TCP_WMEM):
        value = host.value(path)
        fields = (value.text or "").split()
        number = values.number(fields[2]) if len(fields) == 3 else None
        if value.text is None or number is None:
            return model.missing(BUFFERS, value, path) if value.text is None else _not_three(path)
        largest[path.rpartition("/")[2]] = number
    try:
        rate, memory = facts.fastest_link_bit_per_s(), facts.memory_bytes()
    except HostError as error:
        return model.unknown(BUFFERS, str(error), error.path)
    sizes = ", ".join(f"{name} {number / _MIB:.4g} MiB" for name, number in largest.items())
    if not rate:
        return model.told(BUFFERS, f"{sizes}; no link that is up reports its rate", _TCP_RMEM)
    need = sizing.socket_buffer_max(rate, sizing.Sizing().rtt_us, memory)
    least = min(largest.values())
    found = (
        f"{sizes}: one flow fills {rate / 1e9:.4g} Gb/s up to a round trip of {_round_trip(least, rate)}; "
        f"64 MiB would do so up to {_round_trip(_LONG, rate)}"
    )
    expected = f"at least {need / _MIB:.4g} MiB, for 100 us"
    return model.judged(BUFFERS, least >= need, found, f"{_TCP_RMEM}, {_TCP_WMEM}", expected)


def _not_three(path: str) -> AuditCheck:
    return model.unknown(BUFFERS, f"{path} does not have three numbers", path)


def _round_trip(size: int, rate: int) -> str:
    """Half of a buffer is the kernel's own, and half of the rest waits for an answer: see sizing.py."""
    microseconds = size * 8 * 1_000_000 // rate // 4
    return f"{microseconds} us" if microseconds < 10_000 else f"{microseconds // 1000} ms"


# -- interfaces ----------------------------------------------------------------------------


def _nics(host: Host, topology: Topology) -> Iterator[AuditCheck]:
    value = host.value(DEV)
    names = [nic.name for nic in topology.nics if nic.kind in ("physical", "virtual function", "virtio")]
    if value.text is None:
        yield model.missing(NICS, value, DEV)
        return
    rows = net_counters.rows(value.text)
    for name in names:
        if name not in rows:
            continue
        try:
            yield _nic(name, net_counters.traffic(host, name, rows[name]))
        except HostError as error:
            yield model.unknown(NICS, str(error), error.path, name)
    if not rows.keys() & set(names):
        yield model.told(NICS, "no interface with hardware behind it is counted here", DEV)


def _nic(name: str, seen: Traffic) -> AuditCheck:
    """Packets without a reader are not judged."""
    ways = ((seen.received, seen.receive_lost), (seen.sent, seen.send_lost))
    # Each by itself: what was sent says nothing about a cable that loses what is received.
    enough = [(passed, lost) for passed, lost in ways if passed + lost >= _ENOUGH]
    found = (
        f"received {seen.received}: {seen.errors} errors, {seen.full} without room, {seen.unwanted} not "
        f"wanted; sent {seen.sent}: {seen.send_errors} errors, {seen.send_drops} dropped"
    )
    if not enough:
        return model.told(NICS, f"{found}; too few to judge", DEV, name)
    good = all(lost <= (passed + lost) * LOSS for passed, lost in enough)
    return model.judged(NICS, good, found, DEV, "lost under 1 of 10000", name)


# -- sockets -------------------------------------------------------------------------------


def _sockets(host: Host) -> Iterator[AuditCheck]:
    """Of this network namespace, since it is there."""
    snmp, netstat = host.value(SNMP), host.value(_NETSTAT)
    if snmp.text is None:
        yield model.missing(UDP, snmp, SNMP)
        yield model.missing(RETRANSMITS, snmp, SNMP)
    else:
        udp, tcp = net_counters.group(snmp.text, "Udp"), net_counters.group(snmp.text, "Tcp")
        yield _share(UDP, udp.get("RcvbufErrors"), udp.get("InDatagrams"), "datagrams without room", SNMP)
        yield _share(RETRANSMITS, tcp.get("RetransSegs"), tcp.get("OutSegs"), "segments sent again", SNMP)
    if netstat.text is None:
        yield model.missing(LISTEN, netstat, _NETSTAT)
        return
    overflows = net_counters.group(netstat.text, "TcpExt").get("ListenOverflows")
    if overflows is None:
        yield model.unknown(LISTEN, f"{_NETSTAT} has no ListenOverflows", _NETSTAT)
    else:
        found = f"{overflows} since boot, or since this network namespace was made"
        yield model.judged(LISTEN, overflows == 0, found, _NETSTAT, "none")


def _share(topic: Topic, bad: int | None, all_of: int | None, what: str, source: str) -> AuditCheck:
    if bad is None or all_of is None:
        return model.unknown(topic, f"{source} does not count this", source)
    found = f"{bad} {what}, of {all_of} since boot, or since this network namespace was made"
    # Of datagrams without room none is among the delivered ones.
    total = all_of + bad
    if total < _ENOUGH:
        return model.told(topic, f"{found}; too few to judge", source)
    return model.judged(topic, bad <= total * LOSS, found, source, "under 1 of 10000")
