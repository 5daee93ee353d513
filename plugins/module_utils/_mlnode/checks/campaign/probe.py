# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why a pair has no result: the packet sizes that reach the peer, and the losses."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ...host.host import Host
from ...linux.ping import Echoes, Way, count
from ...model.errors import HostError
from .. import path_mtu
from ..path_mtu import Peer
from .kind import NOTHING, TIMEOUT, UNREACHABLE

#: Failures that a network may cause
OF_NETWORK = (UNREACHABLE, TIMEOUT, NOTHING)

#: Packets of each size, and seconds between them. 25 of each of ten sizes detect a loss of 3 % with a
#: probability of 99.9 %.
_MOST, _EVERY = 25, 0.02

#: Seconds to wait for an answer: a thousand round trips through a data hall. ping waits at least twice as
#: long, and for half of the time that is left: without its statistics of one size, there is no probe.
_ANSWER = 0.3

#: Fewer packets per size would only detect a size that never arrives
_LEAST = 5


def losses_and_mtu(host: Host, here: str, there: str, seconds: float) -> dict[str, Any] | None:
    """`sent`, `lost`: echo requests of sizes that arrive at all. `mtu`: the greatest size that arrives, null
    if it is the MTU of the interface or if none arrives.

    seconds: for the whole probe. None if the time is too short, or nothing can be sent.
    """
    number = min(_MOST, int((seconds - 2 * _ANSWER) / _EVERY))
    if number < _LEAST:
        return None
    way = Way(there, "", here, 1, _ANSWER)
    try:
        mtu = path_mtu.route(host, Peer(there, "", here), there).mtu
        sizes = path_mtu.usual_sizes(way, mtu)
        with ThreadPoolExecutor(max_workers=len(sizes)) as pool:
            counted = pool.map(lambda size: count(host, way, size, number, _EVERY, seconds / 2), sizes)
            return _summed(dict(zip(sizes, counted)), mtu)
    except HostError:
        return None


def _summed(by_size: dict[int, Echoes], mtu: int) -> dict[str, Any]:
    arrived = [size for size, echoes in by_size.items() if echoes.lost < echoes.sent]
    largest = max(arrived, default=0)
    # Without any answer all sizes count: the peer may be down, which no size explains.
    counted = [echoes for size, echoes in by_size.items() if size <= largest] or [*by_size.values()]
    return {
        "sent": sum(echoes.sent for echoes in counted),
        "lost": sum(echoes.lost for echoes in counted),
        "mtu": largest if 0 < largest < mtu else None,
    }
