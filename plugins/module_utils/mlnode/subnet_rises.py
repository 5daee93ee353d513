# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How much the error counters of a subnet's ports have risen since they were kept, and if that is much."""

from __future__ import annotations

from typing import Collection, Iterable, Mapping, NamedTuple

from .checks.model import Verdict
from .checks.rdma_limits import BY_NAME, Counter, Limit
from .subnet_book import Look

ADVICE = (
    "clean or replace the cable or transceiver, or try another switch port; after that baseline: reset, and "
    "ibclearerrors where a counter stands at its end"
)

#: ibqueryerrors' words → those of sysfs, whose limits and widths hold for both
_SAME = {
    "SymbolErrorCounter": "symbol_error",
    "LinkErrorRecoveryCounter": "link_error_recovery",
    "LinkDownedCounter": "link_downed",
    "PortRcvErrors": "port_rcv_errors",
    "PortXmitDiscards": "port_xmit_discards",
    "PortRcvConstraintErrors": "port_rcv_constraint_errors",
    "LocalLinkIntegrityErrors": "local_link_integrity_errors",
    "ExcessiveBufferOverrunErrors": "excessive_buffer_overrun_errors",
    "VL15Dropped": "VL15_dropped",
}

#: A node that boots takes its link down, and a fleet always has some that do: as with carrier_down_count,
#: fewer than five in a day are no flapping link.
_DOWNED = (Limit("per_day", 4),)

#: From the worst to the best
_ORDER = (Verdict.FAIL, Verdict.UNKNOWN, Verdict.WARN, Verdict.PASS)


class Judgement(NamedTuple):
    """Of one counter that is not as it should be."""

    verdict: Verdict
    words: str


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    return min(verdicts, key=_ORDER.index, default=Verdict.PASS)


def judge(port: str, base: Look, last: Look, now: Look, wide: Collection[str]) -> list[Judgement]:
    """Of a port, by its key in the looks, the counters that rose too much. wide: the names of those that do
    not stop at their end. A port that was not there at the earlier look starts now."""
    found = []
    for name, value in sorted(now.counts.get(port, {}).items()):
        counter = BY_NAME[_SAME[name]] if name in _SAME else None
        if counter is None:
            continue
        end = (1 << counter.bits) - 1
        if name not in wide and value >= end:
            found.append(Judgement(Verdict.UNKNOWN, f"{name} stands at its end, {value}, and rises no more"))
            continue
        for look in (base, last):
            if port in look.counts:
                words = _over(name, counter, value, look.counts[port].get(name, 0), now.at - look.at)
                if words:
                    found.append(Judgement(counter.over, words))
                    break
    return found


def _over(name: str, counter: Counter, value: int, before: int, seconds: float) -> str:
    # One that went back was cleared, or its switch booted: it has risen from 0 since.
    rise = value - before if value >= before else value
    for limit in _DOWNED if name == "LinkDownedCounter" else counter.limits:
        if not limit.allows(rise, max(0.0, seconds)):
            return f"{name} +{rise} to {value} in {max(0.0, seconds) / 3600:.1f} h, where {limit} is allowed"
    return ""


def base_of(base: Look, last: Look, now: Look) -> Look:
    """What later looks are compared with: as before, but from 0 for a counter that went back, and from now
    for a port that is new."""
    counts: dict[str, Mapping[str, int]] = {}
    for port, values in now.counts.items():
        if port not in base.counts:
            counts[port] = values
            continue
        seen = last.counts.get(port, {})
        counts[port] = {
            name: value
            for name, value in base.counts[port].items()
            if values.get(name, 0) >= max(value, seen.get(name, 0))
        }
    # A port that does not answer today may tomorrow.
    return Look(
        base.at, {**{port: base.counts[port] for port in base.counts if port not in counts}, **counts}
    )
