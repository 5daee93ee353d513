# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The least that a measurement has to be: by the hardware of its two ends, and by the rest of the fleet.

There is no table of machines. What a pair can carry follows from the rates of its ports and of the PCIe links
below them, and what it should carry from the pairs that are like it.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from .model import Facts, Limit, Link

#: Part of what the hardware carries that has to be measured. TCP: what an operator of a fleet expects of four
#: streams, whose sending and acknowledging share the cores. RDMA: ib_write_bw reaches 0.97 of the rate of a
#: port in good order, and 0.9 is where that ends.
SHARE = {"tcp": 0.8, "rdma_bw": 0.9}

#: In bytes. Of a packet: headers of IPv4 and TCP without options, 20 each, and 12 for TCP's time stamps (RFC
#: 7323). Around it: preamble 8, Ethernet's header 14 and checksum 4, gap 12 (IEEE 802.3).
_HEADERS = 20 + 20 + 12
_AROUND = 8 + 14 + 4 + 12

#: Of RoCE v2: IPv4 20, UDP 8, base transport header 12, checksums 4 (InfiniBand Architecture, annex A17). The
#: MTU of RDMA is a power of two up to 4096 that fits with these.
_RDMA_HEADERS = 20 + 8 + 12 + 4
_RDMA_MTUS = (4096, 2048, 1024, 512, 256)

#: Of a write over PCIe, in bytes: header of four words with a 64-bit address 16, its checksum 4, framing with
#: sequence number 4 (PCI Express Base Specification, transaction and data link layer). The payload is taken
#: as the least that all devices have, 128, so that this is a lower bound.
_TLP, _PAYLOAD = 16 + 4 + 4, 128
#: Bits of data in those on the wire: 8 of 10 up to 5 GT/s, 128 of 130 from 8 GT/s on; at 64 GT/s, 236 of the
#: 256 bytes of a unit (flit mode)
_CODED = ((5.0, 8 / 10), (32.0, 128 / 130))
_FLITS = 236 / 256

#: A pair is low if it is so many standard deviations under the median of its class. Of measurements that are
#: normally distributed 1 in 30,000 is, and a campaign of 1,024 nodes and 8 rounds has 4,096.
DEVIATIONS = 4.0
#: The standard deviation in median absolute deviations, of a normal distribution
_PER_MAD = 1.4826
#: Never nearer to the median than this part of it. What has to be found are nodes slower by a tenth, and half
#: of that is as far from them as from the others. Where all measure nearly the same, the deviation alone
#: would take differences for findings that have no effect.
MARGIN = 0.05
#: With fewer, a median says nothing: of five, two may be wrong.
LEAST_PAIRS = 5

#: Of a second's traffic against the median second: less is a hole, that an average over all hides. TCP that
#: recovers from a lost packet halves its window at most (RFC 5681).
HOLE = 0.5

FLEET = "fleet"


class Class(NamedTuple):
    """Pairs that can be compared. rate: of the slower port, in Mb/s. near: the ends are on one leaf; None
    where that is not known."""

    rate: int | None
    mtu: int | None
    near: bool | None


class Spread(NamedTuple):
    """Measurements of the pairs of a class, in Gb/s. pairs: all of them; median and mad: of those that are
    not under the limit that follows from them."""

    pairs: int
    median: float
    mad: float

    @property
    def limit(self) -> Limit:
        margin = max(DEVIATIONS * _PER_MAD * self.mad, MARGIN * self.median)
        how = (
            f"{DEVIATIONS:g} standard deviations of {_PER_MAD * self.mad:.3g}"
            if margin > MARGIN * self.median
            else f"{MARGIN:.0%} of it"
        )
        source = f"median {self.median:.4g} Gb/s of {self.pairs} like pairs, less {how}"
        return Limit(FLEET, max(0.0, self.median - margin), source)


def class_of(one: Facts, other: Facts, near: bool | None) -> Class:
    rates = [facts.speed_mbit for facts in (one, other)]
    mtus = [facts.mtu for facts in (one, other)]
    return Class(_least(rates), _least(mtus), near)


def spread(values: Sequence[float]) -> Spread | None:
    """None where there are too few to compare with.

    What is slow must not widen the limit by which it is judged: one slow node of eight has a quarter of all
    pairs, and with it the deviation of all of them is twice that of the good ones. So the deviation is that
    of the better half, and what is under the limit is left out for a next one, until nothing is.
    """
    kept = [*values]
    while len(kept) >= LEAST_PAIRS:
        median = statistics.median(kept)
        mad = statistics.median(value - median for value in kept if value >= median)
        found = Spread(len(values), median, mad)
        good = [value for value in kept if value >= found.limit.gbits]
        if len(good) == len(kept):
            return found
        kept = good
    return None


def of_hardware(kind: str, ends: Sequence[tuple[str, Facts]]) -> list[Limit]:
    """Limit by each port and each PCIe link that is known. ends: name of a node, and its rail."""
    return [limit for name, facts in ends for limit in _of_end(kind, name, facts)]


def _of_end(kind: str, name: str, facts: Facts) -> Iterator[Limit]:
    share = SHARE[kind]
    if facts.speed_mbit:
        part, words = _efficiency(kind, facts.mtu)
        gbits = facts.speed_mbit / 1000
        source = f"{name}: {share:g} of {gbits:g} Gb/s of {facts.interface}, {words}"
        yield Limit("port", share * gbits * part, source)
    for link in facts.pcie:
        gbits = carries(link)
        if gbits:
            words = f"{link.gigatransfers:g} GT/s x{link.lanes} of {link.address}"
            yield Limit("pcie", share * gbits, f"{name}: {share:g} of {gbits:.4g} Gb/s, {words}")


def carries(link: Link) -> float:
    """Gb/s of data in one direction; 0 for a link that says nothing."""
    coding = next((part for most, part in _CODED if link.gigatransfers <= most), _FLITS)
    return link.gigatransfers * link.lanes * coding * _PAYLOAD / (_PAYLOAD + _TLP)


def _efficiency(kind: str, mtu: int | None) -> tuple[float, str]:
    """Part of a port's rate that is payload, and how that is known. The least MTU of IPv4 is 68 (RFC 791)."""
    if mtu is None or mtu < 68:
        return 1.0, "its MTU is not known"
    if kind == "tcp":
        payload, headers = mtu - _HEADERS, _HEADERS
    else:
        payload = next((size for size in _RDMA_MTUS if size + _RDMA_HEADERS <= mtu), _RDMA_MTUS[-1])
        headers = _RDMA_HEADERS
    part = payload / (payload + headers + _AROUND)
    return part, f"of which {part:.3f} is payload at MTU {mtu}"


def least(limits: Iterable[Limit]) -> Limit | None:
    """The lowest of those by hardware: what the weakest part carries."""
    return min(limits, key=lambda one: one.gbits, default=None)


def _least(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return min(known, default=None)
