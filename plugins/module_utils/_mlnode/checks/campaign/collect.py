# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The end of a node's part of a campaign: its result is taken from it."""

from __future__ import annotations

from typing import Any

from ...host.host import Host
from ...model.record import NamedTuple
from . import store
from .clock import Clock

#: How often it is looked whether a campaign is over, in seconds
_PAUSE = 0.5


class Collected(NamedTuple):
    """done: all rounds were over. answer: empty where there is none, and problem then has why."""

    done: bool
    answer: dict[str, Any]
    problem: str = ""


def collect(host: Host, name: str, seconds: float, clock: Clock = Clock()) -> Collected:  # noqa: B008  # no state
    """The result of a campaign, which is gone from the node then, and ends if it is not over in so many
    seconds.
    Raises HostError, StoreError."""
    end = clock.now() + seconds
    while True:
        state = store.read(host)
        if state is None:
            return Collected(False, {}, "no campaign was started here, or its result has gone")
        if state.id != name:
            return Collected(False, {}, f"the campaign {state.id} is here, and not {name}")
        if state.done or clock.now() >= end:
            break
        clock.sleep(_PAUSE)
    store.remove(host)
    return Collected(state.done, state.answer, "" if state.done else "it was not over, and was ended")
