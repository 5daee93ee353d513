# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Packets lost by interfaces, and segments resent by TCP, since the last look at this node.

The previous counts are stored in /run, which a reboot clears like the counters. Each network namespace has
its own file, because it has its own counters.
"""

from __future__ import annotations

from functools import partial
from typing import Iterable, Iterator, Mapping

from ...host.host import Host
from ...linux import net_counters
from ...linux.link_counters import Book
from ...linux.net_counters import DEV, LOSS, SNMP
from ...model.errors import HostError
from ...model.record import replace
from ..model import NODE, Check, Subject, Verdict, findings

_EXPECTED = "under 1 of 10000 since the last look"


_DROPS = Subject(
    "nic_drops",
    NODE,
    DEV,
    _EXPECTED,
    "look at cable and transceiver, rings (the module nic_ethtool) and pauses: ip -s -s link, ethtool -S",
)
_RETRANSMITS = Subject(
    "tcp_retransmits",
    NODE,
    SNMP,
    _EXPECTED,
    "they were lost on the way, or late: look at the drops of NICs and switch ports, and at path_mtu",
)


def checks(host: Host, names: Iterable[str], writable: bool) -> Iterator[Check]:
    """names: interfaces. writable: the present counts may be stored."""
    path = f"/run/mlnode/preflight-{_namespace(host)}.json"
    book = Book(host, writable=writable, path=path)
    for name in names:
        drops = replace(_DROPS, target=name)
        yield from findings([drops], partial(_of_interface, host, drops, book))
    yield from findings([_RETRANSMITS], partial(_of_tcp, host, book))
    try:
        book.save()
    except HostError as error:
        subject = Subject("last_look", source=path, expected="is kept for the next look")
        yield subject.unknown(str(error))


def _namespace(host: Host) -> int:
    target = host.link_target("/proc/self/ns/net")
    return int("".join(sign for sign in target if sign.isdigit()) or 0)


def _of_interface(host: Host, subject: Subject, book: Book) -> Check:
    """Raises HostError."""
    row = net_counters.rows(host.read(DEV)).get(subject.target, "")
    seen = net_counters.traffic(host, subject.target, row)
    # A recreated interface has another number and counts from 0.
    identity = host.read(f"/sys/class/net/{subject.target}/ifindex").strip()
    counted = {
        "received": seen.received, "receive_lost": seen.receive_lost,
        "sent": seen.sent, "send_lost": seen.send_lost,
    }  # fmt: skip
    ways = {"received": ("received", "receive_lost"), "sent": ("sent", "send_lost")}
    return _judged(subject, ways, book, identity, counted, " lost")


def _of_tcp(host: Host, book: Book) -> Check:
    """Raises HostError."""
    counted = net_counters.group(host.read(SNMP), "Tcp")
    ways = {"segments sent again": ("OutSegs", "RetransSegs")}
    for key in ways["segments sent again"]:
        if key not in counted:
            raise HostError("find", f"{key!r} in {SNMP}", None, "it is not counted")
    needed = {key: counted[key] for key in ways["segments sent again"]}
    return _judged(_RETRANSMITS, ways, book, "", needed)


def _judged(
    subject: Subject,
    ways: Mapping[str, tuple[str, str]],
    book: Book,
    identity: str,
    now: Mapping[str, int],
    words: str = "",
) -> Check:
    """ways: text → names of two counters, for passed and lost packets."""
    rises = {key: book.look(subject.target, identity, key, value) for key, value in now.items()}
    why = next((rise.why for rise in rises.values() if rise.why), "")
    if why:
        return subject.made(Verdict.UNKNOWN if book.problem else Verdict.SKIP, why)
    since = {key: rise.spans[-1] for key, rise in rises.items()}
    seconds = max(span.seconds for span in since.values())
    losses, bad, idle = [], False, True
    for way, (passed, gone) in ways.items():
        lost, total = since[gone].by, since[gone].by + since[passed].by
        losses.append(f"{way}: {lost} of {total}{words}")
        # A single loss proves nothing, even among few packets.
        bad = bad or lost > 1 + LOSS * total
        idle = idle and not total
    verdict = Verdict.SKIP if idle else Verdict.WARN if bad else Verdict.PASS
    return subject.made(verdict, f"{', '.join(losses)}, in {seconds:.0f} s")
