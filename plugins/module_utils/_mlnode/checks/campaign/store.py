# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The file of a campaign on a node, until it is collected. It is in /run, which a reboot clears.

Each network namespace has its own file, like its own addresses and ports.
"""

from __future__ import annotations

import json
from typing import Any

from ...host.host import Host
from ...model import strict_json
from ...model.errors import RefusedError, StoreError
from ...model.record import NamedTuple
from .clock import Clock

FORMAT = 1

#: The result of a slot on one rail takes about 600 characters; a node has at most 8 rails and 4,095 rounds
_MOST = 1 << 26

#: Seconds between two looks for the end of a campaign
_PAUSE = 0.5


class State(NamedTuple):
    """State of a campaign on a node.

    until: end of all rounds, or of the wait for the start, in seconds since 1970. done: all rounds are over.
    start: of the first round; None while unknown. lasts: seconds of all rounds.
    """

    id: str
    until: float
    done: bool
    answer: dict[str, Any]
    start: float | None = None
    lasts: float = 0.0


def path(host: Host) -> str:
    namespace = "".join(sign for sign in host.link_target("/proc/self/ns/net") if sign.isdigit())
    return f"/run/mlnode/campaign-{namespace or 0}.json"


def read(host: Host) -> State | None:
    """State of the campaign; None if there is none. Raises HostError, and StoreError for a damaged file."""
    file = path(host)
    content = host.content(file)
    if content is None:
        return None
    fields = strict_json.document(content, file, FORMAT, advice="remove it", most=_MOST)
    kinds = {"id": str, "done": bool, "answer": dict}
    try:
        name, done, answer = strict_json.typed(fields, kinds)
        start = fields["start"]
        known = None if start is None else float(start)
        return State(name, float(fields["until"]), done, answer, known, float(fields["lasts"]))
    except (KeyError, TypeError, ValueError) as error:
        raise StoreError(f"{file} is damaged ({error}): remove it") from error


def write(host: Host, state: State) -> None:
    """Raises HostError."""
    text = json.dumps({"format": FORMAT, **state._asdict()})
    host.write_file(path(host), text.encode("ascii"), 0o600)


def remove(host: Host) -> None:
    """Raises HostError."""
    file = path(host)
    host.remove_file(file)
    host.remove_folder_if_empty("/run/mlnode", may_stay=True)


def begin(host: Host, name: str, start: float, clock: Clock = Clock()) -> float:  # noqa: B008  # no state
    """End of all rounds. start: of the first round, both in seconds since 1970 by this node's clock.

    A node that gets the start late takes part in the remaining rounds. Raises HostError, StoreError,
    RefusedError.
    """
    state = read(host)
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
        write(host, state._replace(start=start, until=end))
    return end


class Collected(NamedTuple):
    """done: all rounds are over. answer: empty without a result; problem then has the reason."""

    done: bool
    answer: dict[str, Any]
    problem: str = ""


def collect(host: Host, name: str, seconds: float, clock: Clock = Clock()) -> Collected:  # noqa: B008  # no state
    """Remove a campaign from the node and return its result. Stops it if it does not end in time.

    seconds: to wait for its end. Raises HostError, StoreError.
    """
    end = clock.now() + seconds
    while True:
        state = read(host)
        if state is None:
            return Collected(False, {}, "no campaign was started here, or its result has gone")
        if state.id != name:
            return Collected(False, {}, f"the campaign {state.id} is here, and not {name}")
        if state.done or clock.now() >= end:
            break
        clock.sleep(_PAUSE)
    remove(host)
    return Collected(state.done, state.answer, "" if state.done else "it was not over, and was ended")
