# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which packet sizes arrive at a peer, and what to send next: knows no clock and no network."""

from __future__ import annotations

from enum import Enum

from .icmp import LONGEST, Answer, Event, Refusal

#: The data of a small packet, as ping(8) sends it
_SMALL = 56
#: MTUs that are met, tried before others: 1280 IPv6's least (RFC 8200); 1420 WireGuard, 1450 VXLAN
#: (RFC 7348), 1476 GRE (RFC 2784) and 1492 PPPoE (RFC 2516) over 1500; 1460 and 8896 Google Cloud; 2044 and
#: 4092 IPoIB (RFC 4391); 4200 RoCE of 4096; 8950 VXLAN over 9000; 9001 AWS; 9216 usual on switches
_USUAL = (1280, 1420, 1450, 1460, 1476, 1492, 1500, 2044, 4092, 4200, 8896, 8950, 9000, 9001, 9216)
#: The one of all switches that nobody has touched
_MOST_USUAL = 1500


class Verdict(str, Enum):
    """What is known of a peer. Only PASS proves something good, and only FAIL something bad."""

    PASS = "pass"
    FAIL = "fail"
    UNREACHABLE = "unreachable"
    ERROR = "error"

    def __str__(self) -> str:
        return self.value


class Search:
    """Which sizes arrive at one peer, and which one to send next."""

    def __init__(self, size: int | None, tries: int, header: int) -> None:
        self.wanted = size or LONGEST
        self._ask = size is None  # the first packet is for the kernel to refuse, which tells its MTU
        self._tries = tries
        self.small = header + 8 + _SMALL
        self.largest = 0
        self.fragment = 0
        self.own: int | None = None
        self.refusal: Refusal | None = None
        self._lost: dict[int, int] = {}
        self._failed: set[int] = set()
        self._hint = 0

    def next(self) -> int | None:
        """The size to send; None once all is known."""
        if self.largest >= self.wanted:
            return None
        if self.wanted not in self._failed:
            return self.wanted
        high = min(size for size in self._failed if size > self.largest)
        if not self.largest:
            return self.small if self.small < high else None
        if high == self.largest + 1:
            return None
        return self._between(self.largest, high)

    def _between(self, low: int, high: int) -> int:
        likely = [size for size in _USUAL if low < size < high]
        if low < self._hint < high:
            return self._hint
        if low == self._hint or low in _USUAL:
            return low + 1  # which proves in one step that low is all
        if _MOST_USUAL in likely:
            return _MOST_USUAL
        return likely[len(likely) // 2] if likely else (low + high) // 2

    def take(self, event: Event) -> None:
        if isinstance(event, Answer):
            self._take_answer(event)
        elif event.mtu is None:
            self.refusal = event
            self.lost(event.size)
        elif event.by:
            self.refusal = event
            self._hint = event.mtu if event.mtu < event.size else 0
            self._failed.add(event.size)
        elif self._ask and event.size == self.wanted:
            self.wanted, self._ask = event.mtu, False
        else:
            self.own = self._hint = event.mtu
            self._failed |= {event.size, event.mtu + 1}

    def _take_answer(self, answer: Answer) -> None:
        if not answer.fragment or answer.size <= self.small:
            self.largest = max(self.largest, answer.size)
            return
        # Many a NIC takes somewhat longer packets than its MTU; what the peer sends does not exceed it.
        self._hint = answer.fragment
        self._failed.add(answer.size)
        if answer.size == self.wanted:
            self.fragment = answer.fragment

    def lost(self, size: int) -> None:
        """No answer came in time."""
        self._lost[size] = self._lost.get(size, 0) + 1
        if self._lost[size] >= self._tries:
            self._failed.add(size)

    @property
    def verdict(self) -> Verdict:
        if not self.largest:
            return Verdict.UNREACHABLE
        return Verdict.FAIL if self.largest < self.wanted else Verdict.PASS
