# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Packets that interfaces lost, and segments that TCP sent again, since the last look at this node.

What was counted then is kept in /run, which is gone at the next boot as the counters are. There is a file for
each network namespace, as each has counters of its own.
"""

from __future__ import annotations

from typing import Iterable, Iterator, Mapping

from ...host.host import Host
from ...linux import net_counters
from ...linux.link_counters import Book
from ...linux.net_counters import DEV, LOSS, SNMP
from ...model.errors import HostError
from ...model.record import NamedTuple
from ..model import Check, Verdict

_EXPECTED = "under 1 of 10000 since the last look"


class _Way(NamedTuple):
    """Two counters by their names: what passed, and what was lost of it."""

    words: str
    passed: str
    lost: str


class _Subject(NamedTuple):
    check: str
    source: str
    advice: str
    ways: tuple[_Way, ...]


_DROPS = _Subject(
    "nic_drops",
    DEV,
    "look at cable and transceiver, rings (the module nic_ethtool) and pauses: ip -s -s link, ethtool -S",
    (_Way("received", "received", "receive_lost"), _Way("sent", "sent", "send_lost")),
)
_RETRANSMITS = _Subject(
    "tcp_retransmits",
    SNMP,
    "they were lost on the way, or late: look at the drops of NICs and switch ports, and at path_mtu",
    (_Way("segments sent again", "OutSegs", "RetransSegs"),),
)


def checks(host: Host, names: Iterable[str], writable: bool) -> Iterator[Check]:
    """names: of interfaces. writable: what is counted now may be kept."""
    path = f"/run/mlnode/preflight-{_namespace(host)}.json"
    book = Book(host, writable=writable, path=path)
    for name in names:
        yield _of_interface(host, name, book)
    yield _of_tcp(host, book)
    try:
        book.save()
    except HostError as error:
        yield Check("last_look", "node", Verdict.UNKNOWN, "is kept for the next look", str(error), path)


def _namespace(host: Host) -> int:
    target = host.link_target("/proc/self/ns/net")
    return int("".join(sign for sign in target if sign.isdigit()) or 0)


def _of_interface(host: Host, name: str, book: Book) -> Check:
    try:
        row = net_counters.rows(host.read(DEV)).get(name, "")
        seen = net_counters.traffic(host, name, row)
        # One that was made again has another number, and counts from 0.
        identity = host.read(f"/sys/class/net/{name}/ifindex").strip()
    except HostError as error:
        return _unknown(_DROPS, name, error)
    counted = {
        "received": seen.received, "receive_lost": seen.receive_lost,
        "sent": seen.sent, "send_lost": seen.send_lost,
    }  # fmt: skip
    return _judged(_DROPS, name, book, identity, counted)


def _of_tcp(host: Host, book: Book) -> Check:
    try:
        counted = net_counters.group(host.read(SNMP), "Tcp")
        needed = {key: counted[key] for way in _RETRANSMITS.ways for key in (way.passed, way.lost)}
    except HostError as error:
        return _unknown(_RETRANSMITS, "node", error)
    except KeyError as error:
        missing = HostError("find", f"{error} in {SNMP}", None, "it is not counted")
        return _unknown(_RETRANSMITS, "node", missing)
    return _judged(_RETRANSMITS, "node", book, "", needed)


def _unknown(subject: _Subject, target: str, error: HostError) -> Check:
    return Check(subject.check, target, Verdict.UNKNOWN, _EXPECTED, str(error), subject.source)


def _judged(subject: _Subject, target: str, book: Book, identity: str, now: Mapping[str, int]) -> Check:
    rises = {key: book.look(target, identity, key, value) for key, value in now.items()}
    why = next((rise.why for rise in rises.values() if rise.why), "")
    if why:
        verdict = Verdict.UNKNOWN if book.problem else Verdict.SKIP
        return Check(subject.check, target, verdict, _EXPECTED, why, subject.source)
    since = {key: rise.spans[-1] for key, rise in rises.items()}
    seconds = max(span.seconds for span in since.values())
    found, bad, idle = [], False, True
    for way in subject.ways:
        lost, total = since[way.lost].by, since[way.lost].by + since[way.passed].by
        found.append(f"{way.words}: {lost} of {total}" + (" lost" if subject is _DROPS else ""))
        # One alone says nothing, however few there were.
        bad = bad or lost > 1 + LOSS * total
        idle = idle and not total
    words = f"{', '.join(found)}, in {seconds:.0f} s"
    verdict = Verdict.SKIP if idle else Verdict.WARN if bad else Verdict.PASS
    advice = subject.advice if bad else ""
    return Check(subject.check, target, verdict, _EXPECTED, words, subject.source, advice)
