# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The begin of a node's part of a campaign: a node that is ready gets the time of the first round."""

from __future__ import annotations

from ...host.host import Host
from ...model.errors import RefusedError
from . import store
from .clock import Clock


def begin(host: Host, name: str, start: float, clock: Clock = Clock()) -> float:  # noqa: B008  # no state
    """When all rounds are over. start: of the first round, both in seconds since 1970 by this node's clock.
    A node that gets it later takes part in the rounds that are left. Raises HostError, StoreError,
    RefusedError."""
    state = store.read(host)
    if state is None or state.id != name:
        raise RefusedError(
            f"the campaign {name} does not wait here: it was not prepared, or has given up waiting"
        )
    end = start + state.lasts
    if clock.wall() >= end:
        raise RefusedError(f"the campaign {name} was over before this node was given its start")
    if state.start not in (None, start):
        raise RefusedError(f"the campaign {name} has another start already")
    if state.start is None:
        store.write(host, state._replace(start=start, until=end))
    return end
