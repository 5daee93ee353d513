# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Packets that were lost, and pairs that could not connect: findings also where the bandwidth passes.

Blame is as for pairs that are low: a node that loses with at least half of its partners, else the path.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from ...module_utils._mlnode.checks.model import Verdict
from . import model
from .blame import Certainty, Pair, State, blame
from .columns import Fleet
from .model import End, Sample

#: Share of retransmitted packets from which a path counts as lossy, and its least multiple of the fleet's
#: median. A queue too short for a burst makes TCP lose some in ten thousand, on all paths alike. At 1 %, TCP
#: gets 1.2 MTU per round trip at any link rate (Mathis et al. 1997, The macroscopic behavior of the TCP
#: congestion avoidance algorithm); half of that is the limit.
LEAST, OVER = 0.005, 4.0

#: Share of a probe's pings that may be lost before the path counts as lossy
_PINGS_LOST = 0.02

_NO_RESULT = (model.UNREACHABLE, model.TIMEOUT, model.NOTHING, model.REFUSED)


class Lossy(NamedTuple):
    """Finding about a node on a rail, or about a path, that loses packets or lets no connection through.
    ends: one for a node, two for a path, from the sender on. share: of packets sent again; None for no
    connection."""

    ends: tuple[End, ...]
    share: float | None
    verdict: Verdict
    certainty: Certainty
    reason: str


def findings(fleet: Fleet, samples: Sequence[Sample], problems: Mapping[str, str]) -> list[Lossy]:
    return [*_sent_again(fleet, samples), *_no_connection(fleet, samples, problems)]


def _sent_again(fleet: Fleet, samples: Sequence[Sample]) -> Iterator[Lossy]:
    shares: dict[tuple[End, End], list[float]] = {}
    for sample in samples:
        for way, lost in enumerate(sample.reading.lost):
            if lost is not None and sample.reading.value is not None:
                ends = sample.ends[::-1] if way else sample.ends
                shares.setdefault(ends, []).append(lost)
    if not shares:
        return
    means = {ends: statistics.fmean(mine) for ends, mine in shares.items()}
    limit = max(LEAST, OVER * statistics.median(means.values()))
    # A disturbance is over at the second look.
    bad = {ends for ends, mean in means.items() if mean >= limit and min(shares[ends]) >= limit / 2}
    if not bad:
        return
    pairs = [Pair(*ends, State.LOW if ends in bad else State.GOOD) for ends in means]
    blamed = blame(fleet.ends, pairs)
    slow = {*blamed.slow}
    for end in blamed.slow:
        mine = [mean for ends, mean in means.items() if end in ends and ends in bad]
        most, few = max(mine), len(mine)
        yield Lossy(
            (end,), most, Verdict.FAIL, Certainty.PROBABLE if few < 3 else Certainty.CERTAIN,
            f"up to {most:.2%} of its packets are sent again, in {few} directions; the limit is {limit:.2%}",
        )  # fmt: skip
    for ends in sorted(bad):
        if slow.isdisjoint(ends):
            looks = len(shares[ends])
            yield Lossy(
                ends, means[ends], Verdict.FAIL, Certainty.CERTAIN if looks > 1 else Certainty.PROBABLE,
                f"{means[ends]:.2%} of its packets are sent again; the limit is {limit:.2%}",
            )  # fmt: skip


def _no_connection(fleet: Fleet, samples: Sequence[Sample], problems: Mapping[str, str]) -> Iterator[Lossy]:
    """Pairs without a connection in any look, although both nodes have answered."""
    failed: dict[tuple[End, End], Sample] = {}
    worked: set[frozenset[End]] = set()
    for sample in samples:
        if sample.reading.value is not None:
            worked.add(frozenset(sample.ends))
        elif sample.reading.failed in _NO_RESULT and problems.keys().isdisjoint(sample.nodes):
            failed[sample.ends] = sample
    lost = {ends: sample for ends, sample in failed.items() if frozenset(ends) not in worked}
    if not lost:
        return
    good = [Pair(*ends, State.GOOD) for ends in (tuple(pair) for pair in worked) if len(ends) == 2]
    blamed = blame(fleet.ends, [*good, *(Pair(*ends, State.LOW) for ends in lost)])
    slow = {*blamed.slow}
    for end in blamed.slow:
        mine = [sample for ends, sample in lost.items() if end in ends]
        yield Lossy(
            (end,), None, Verdict.FAIL, Certainty.PROBABLE,
            f"no connection with {len(mine)} of its partners, which others reach: {_said(mine[0])}",
        )  # fmt: skip
    for ends, sample in lost.items():
        if slow.isdisjoint(ends):
            yield Lossy(ends, None, Verdict.FAIL, Certainty.PROBABLE, f"no connection: {_said(sample)}")


def _said(sample: Sample) -> str:
    probe = sample.reading.probe
    reason = sample.reading.reason
    if probe is None:
        return reason
    if probe.mtu is not None:
        return f"packets of more than {probe.mtu} bytes do not pass; {reason}"
    if probe.sent and probe.lost > _PINGS_LOST * probe.sent:
        return f"{probe.lost} of {probe.sent} pings are lost; {reason}"
    return reason
