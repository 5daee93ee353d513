# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Limits of socket buffers, compared with the amount of data in flight: link rate times round trip."""

from __future__ import annotations

from typing import Iterable, Iterator

from ...host.host import Host
from ...knobs.sizing import MIB, Sizing
from ...model import values
from ...model.setting import Value
from ...topology.model import Nic
from ...topology.nics import RATED
from ..model import Check, Subject, Verdict

NAME = "socket_buffers"

#: Limit → index of its number. The first two limit TCP's automatic sizing, the others limit sizes requested
#: by programs (SO_RCVBUF, tcp(7)).
_LIMITS = {
    "net.ipv4.tcp_rmem": 2,
    "net.ipv4.tcp_wmem": 2,
    "net.core.rmem_max": 0,
    "net.core.wmem_max": 0,
}

#: A window also covers the round trip in which a lost segment is sent again: see knobs/sizing.py
_ROUND_TRIPS = 2


def checks(
    host: Host, nics: Iterable[Nic], interfaces: Iterable[str], measured: float | None
) -> Iterator[Check]:
    """One check per interface to a peer. measured: the latency of a connection, in seconds.

    The round trip of a data hall counts if it is longer, because packets wait under load.
    """
    rates = {nic.name: nic.speed_mbit for nic in nics if nic.kind in RATED}
    round_trip = max(measured or 0.0, Sizing().rtt_us / 1e6)
    for name in interfaces:
        rate = rates.get(name)
        if rate:
            yield _judged(host, name, rate, round_trip)
        else:
            subject = Subject(NAME, name, f"/sys/class/net/{name}/speed")
            yield subject.skip("it reports no rate of a cable")


def _judged(host: Host, name: str, rate_mbit: int, round_trip: float) -> Check:
    need = round(_ROUND_TRIPS * rate_mbit * 1e6 * round_trip / 8)
    path = f"{_ROUND_TRIPS} x {rate_mbit / 1000:g} Gb/s x {round_trip * 1e6:.0f} us"
    read = {key: host.value(_path(key)) for key in _LIMITS}
    # In a network namespace some belong to the host (net/core/sysctl_net_core.c: net_core_table).
    there = {key: value for key, value in read.items() if value.absent is None}
    sizes = {key: _number(key, value) for key, value in there.items()}
    unread = [key for key, size in sizes.items() if size is None]
    expected = f"at least {need / MIB:.3g} MiB: {path}"
    subject = Subject(NAME, name, ", ".join(map(_path, there)), expected, bad=Verdict.WARN)
    if unread:
        return subject.unknown(f"cannot be read: {', '.join(unread)}")
    if not there:
        return subject.skip("no such limit in this namespace", expected=expected)
    known = {key: size for key, size in sizes.items() if size is not None}
    evidence = ", ".join(f"{key} {size / MIB:.3g} MiB" for key, size in known.items())
    small = [key for key, size in known.items() if size < need]
    advice = f"one connection cannot fill the link: set {', '.join(small)} to auto (the module sysctl_ml)"
    return subject.judged(not small, evidence, advice=advice)


def _path(key: str) -> str:
    return f"/proc/sys/{key.replace('.', '/')}"


def _number(key: str, value: Value) -> int | None:
    words = (value.text or "").split()
    at = _LIMITS[key]
    return values.number(words[at]) if at < len(words) else None
