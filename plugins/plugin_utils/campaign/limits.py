# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Least acceptable result of a measurement, by the hardware of its two ends and by the rest of the fleet.

There is no table of machines. The upper bound of a pair follows from the rates of its ports and of the PCIe
links below them, and the expected result from similar pairs.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ...module_utils._mlnode.checks.campaign.kind import Kind
from .model import Facts, Limit, Link
from .numbers import PER_MAD

#: Around each packet of Ethernet, in bytes: preamble 8, header 14 and checksum 4, gap 12 (IEEE 802.3)
_AROUND = 8 + 14 + 4 + 12

#: Bytes of a PCIe write: header of four words with a 64-bit address 16, its checksum 4, framing with sequence
#: number 4 (PCI Express Base Specification, transaction and data link layer). The payload is the least that
#: all devices support, 128, which makes this a lower bound.
_TLP, _PAYLOAD = 16 + 4 + 4, 128
#: Bits of data in those on the wire: 8 of 10 up to 5 GT/s, 128 of 130 from 8 GT/s on; at 64 GT/s, 236 of the
#: 256 bytes of a unit (flit mode)
_CODED = ((5.0, 8 / 10), (32.0, 128 / 130))
_FLITS = 236 / 256

#: A pair is low if it is so many standard deviations under the median of its class. With a normal
#: distribution, 1 in 30,000 is; a campaign of 1,024 nodes and 8 rounds has 4,096.
DEVIATIONS = 4.0
#: A pair has its own limit if its noise is so many times the usual noise.
_LOUDER = 1.2
#: With fewer, a median says nothing: of five, two may be wrong.
LEAST_PAIRS = 5

#: Least traffic of a second as a part of the median second: less is a hole, which the overall average hides.
#: TCP halves its window at most when it recovers from a lost packet (RFC 5681).
HOLE = 0.5

#: Most that the 99th percentile of the latency may be as a multiple of the median. More is a tail, which
#: slows down every operation that waits for the slowest of many, and which a median hides. Queues multiply a
#: latency by some times, and retransmission by a thousand (milliseconds instead of microseconds).
TAIL = 10.0

#: Least bandwidth between GPU memories as a part of the same pair's bandwidth between host memories. The two
#: differ by less than a tenth if NIC and GPU are on one PCIe switch.
OF_HOST = 0.9

#: Most of a result as a multiple of the port's rate. More is in another unit, of the loopback interface, or
#: forged; noise and the clocks of two nodes make less than half of the excess. For a whole class, the limit
#: is a fiftieth, which is more than any clock error.
ABOVE, LEVEL_ABOVE = 1.5, 1.02

FLEET = "fleet"


class Class(NamedTuple):
    """Pairs that can be compared. rate: of the slower port, in Mb/s. near: the ends are on one leaf; None if
    unknown."""

    rate: int | None
    mtu: int | None
    near: bool | None


class Spread(NamedTuple):
    """Measurements of the pairs of a class. pairs: all of them; median and mad: of those that are not beyond
    the limit that follows from them."""

    kind: Kind
    pairs: int
    median: float
    mad: float
    deviations: float = DEVIATIONS

    def is_loud(self, variance: float) -> bool:
        """Does the noise of a pair, as the variance of a logarithm, need a limit other than the usual one?"""
        return math.sqrt(variance) * self.median > _LOUDER * PER_MAD * self.mad

    def with_noise(self, variance: float) -> Spread:
        """The same for a pair with this noise."""
        return self._replace(mad=math.sqrt(variance) * self.median / PER_MAD)

    @property
    def limit(self) -> Limit:
        # If all results are nearly the same, the deviation alone would report differences without effect.
        least = self.kind.MARGIN * self.median
        margin = max(self.deviations * PER_MAD * self.mad, least)
        how = (
            f"{self.deviations:.2g} standard deviations of {PER_MAD * self.mad:.3g}"
            if margin > least
            else f"{self.kind.MARGIN:.0%} of it"
        )
        unit = self.kind.UNIT
        way, value = ("and", self.median + margin) if unit.lower else ("less", self.median - margin)
        source = f"median {self.median:.4g} {unit.words} of {self.pairs} like pairs, {way} {how}"
        return Limit(FLEET, max(0.0, value), source)


def is_broken(kind: Kind, value: float, limit: Limit) -> bool:
    return value > limit.value if kind.UNIT.lower else value < limit.value


def class_of(end: Facts, partner: Facts, near: bool | None) -> Class:
    rates = [facts.speed_mbit for facts in (end, partner)]
    mtus = [facts.mtu for facts in (end, partner)]
    return Class(_least(rates), _least(mtus), near)


def spread(kind: Kind, values: Sequence[float]) -> Spread | None:
    """Spread of a class. None if it has too few pairs to compare.

    A slow node must not widen its own limit: one slow node of eight is in a quarter of all pairs, and doubles
    the deviation. The deviation is therefore measured on the better half. Values beyond the limit are left
    out and the limit is computed again, until all remaining values are within it.
    """
    kept = [*values]
    while len(kept) >= LEAST_PAIRS:
        median = statistics.median(kept)
        better = [value for value in kept if (value <= median if kind.UNIT.lower else value >= median)]
        mad = statistics.median(abs(value - median) for value in better)
        candidate = Spread(kind, len(values), median, mad)
        limit = candidate.limit
        good = [value for value in kept if not is_broken(kind, value, limit)]
        if len(good) == len(kept):
            return candidate
        kept = good
    return None


def of_hardware(kind: Kind, ends: Sequence[tuple[str, Facts]]) -> list[Limit]:
    """Limit by each port and each PCIe link that is known. ends: name of a node, and its rail."""
    return [limit for name, facts in ends for limit in _of_end(kind, name, facts)]


def _of_end(kind: Kind, name: str, facts: Facts) -> Iterator[Limit]:
    share = kind.SHARE
    if share is None:
        return
    if facts.speed_mbit:
        part, words = _efficiency(kind, facts.mtu)
        gbits = facts.speed_mbit / 1000
        source = f"{name}: {share:g} of {gbits:g} Gb/s of {facts.device or facts.interface}, {words}"
        yield Limit("port", share * gbits * part, source)
    for link in facts.pcie:
        gbits = carries(link)
        if gbits:
            words = f"{link.gigatransfers:g} GT/s x{link.lanes} of {link.address}"
            yield Limit("pcie", share * gbits, f"{name}: {share:g} of {gbits:.4g} Gb/s, {words}")


def ceiling(kind: Kind, ends: Sequence[Facts]) -> float | None:
    """Gb/s that no measurement between these ends can exceed: the rate of the slower port, or of a PCIe link
    without overhead. None if unknown, and for other units."""
    if kind.UNIT.lower:
        return None
    ports = [facts.speed_mbit / 1000 for facts in ends if facts.speed_mbit]
    links = [_raw(link) for facts in ends for link in facts.pcie]
    return min([*ports, *(rate for rate in links if rate)], default=None)


def of_host(amounts: Mapping[str, float]) -> tuple[Limit, bool] | None:
    """Limit by the host's memory in the worse direction, and whether the result is under it. None if host
    memory was not measured."""
    shares: list[tuple[float, Limit]] = []
    for way in ("forward", "backward"):
        host = amounts.get(f"host_{way}_gbits")
        if host:
            source = f"{OF_HOST:g} of {host:.4g} Gb/s between the memories of the hosts, {way}"
            shares.append((amounts[f"{way}_gbits"] / host, Limit("host", OF_HOST * host, source)))
    if not shares:
        return None
    part, limit = min(shares, key=lambda share: share[0])
    return limit, part < OF_HOST


def carries(link: Link) -> float:
    """Gb/s of data in one direction; 0 for a link that says nothing."""
    return _raw(link) * _PAYLOAD / (_PAYLOAD + _TLP)


def _raw(link: Link) -> float:
    """Bits of a PCIe link after coding, in Gb/s."""
    coding = next((part for most, part in _CODED if link.gigatransfers <= most), _FLITS)
    return link.gigatransfers * link.lanes * coding


def _efficiency(kind: Kind, mtu: int | None) -> tuple[float, str]:
    """Part of a port's rate that is payload, and how that is known. The least MTU of IPv4 is 68 (RFC 791)."""
    if mtu is None or mtu < 68:
        return 1.0, "its MTU is not known"
    payload, headers = kind.overhead(mtu)
    part = payload / (payload + headers + _AROUND)
    return part, f"payload {part:.3f} at MTU {mtu}"


def least(limits: Iterable[Limit]) -> Limit | None:
    """Lowest of the limits by hardware: the limit of the weakest part."""
    return min(limits, key=lambda limit: limit.value, default=None)


def _least(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return min(known, default=None)
