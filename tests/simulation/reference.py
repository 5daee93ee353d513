# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A second method to find slow nodes, which shares no line with the judge: what each end can send and take,
fitted in turns, noise by node, and a posterior of 95 %. It knows of no leaf and no path.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

#: Sender, receiver, logarithm of the rate
Reading = tuple[int, int, float]

_TURNS = 12
#: A node is slow below the level by this much.
_MARGIN = 0.025
_POSTERIOR = 0.95


def slow(ends: int, readings: Sequence[Reading]) -> set[int]:
    """Ends that are slower than the best group with a probability of 95 %."""
    sends: list[list[tuple[int, float]]] = [[] for _ in range(ends)]
    takes: list[list[tuple[int, float]]] = [[] for _ in range(ends)]
    for one, other, rate in readings:
        sends[one].append((other, rate))
        takes[other].append((one, rate))
    can_send = [_upper([rate for _end, rate in mine]) for mine in sends]
    can_take = [_upper([rate for _end, rate in mine]) for mine in takes]
    for _turn in range(_TURNS):
        can_send = [_capacity(mine, can_take, own) for mine, own in zip(sends, can_send)]
        can_take = [_capacity(mine, can_send, own) for mine, own in zip(takes, can_take)]
    rest: list[list[float]] = [[] for _ in range(ends)]
    for one, other, rate in readings:
        for end in (one, other):
            rest[end].append(rate - min(can_send[one], can_take[other]))
    noise = [1.4826 * statistics.median(map(abs, mine)) if mine else 1.0 for mine in rest]
    usual = statistics.median(noise)
    noise = [math.sqrt((one**2 + usual**2) / 2) for one in noise]
    capacity = [min(pair) for pair in zip(can_send, can_take)]
    level = _level(capacity)
    found = set()
    for end in range(ends):
        for can, mine, peers in ((can_send, sends, can_take), (can_take, takes, can_send)):
            counts = sum(peers[other] > can[end] - noise[end] for other, _rate in mine[end])
            if counts:
                error = 1.2533 * noise[end] / math.sqrt(counts)
                chance = statistics.NormalDist(can[end], max(error, 1e-6)).cdf(level - _MARGIN)
                found |= {end} if chance >= _POSTERIOR else set()
    return found


def _upper(rates: Sequence[float]) -> float:
    """Upper quarter; nothing limits an end without a reading."""
    return sorted(rates)[3 * (len(rates) - 1) // 4] if rates else 0.0


def _capacity(mine: Sequence[tuple[int, float]], peers: Sequence[float], own: float) -> float:
    """Median of the readings with peers that are at least as good."""
    good = [rate for other, rate in mine if peers[other] >= own - 0.03]
    return statistics.median(good) if good else own


def _level(capacity: Sequence[float]) -> float:
    """Centre of the best window of 6 % that holds a tenth of the ends or more."""
    ordered = sorted(capacity, reverse=True)
    least = max(2, len(ordered) // 10)
    for start in range(len(ordered)):
        inside = [one for one in ordered[start:] if one >= ordered[start] - 0.06]
        if len(inside) >= least and inside[least - 1] >= ordered[start] - 0.03:
            return statistics.median(inside)
    return statistics.median(ordered)
