# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The file that a campaign leaves on a node until it is collected, in /run, which is gone at the next boot.

There is one for each network namespace, as a namespace has its own addresses and ports.
"""

from __future__ import annotations

import json
from typing import Any

from ...host.host import Host
from ...model import strict_json
from ...model.errors import StoreError
from ...model.record import NamedTuple

FORMAT = 1

#: A result of a slot on one rail is some 600 characters, and a node has 8 rails and 4,095 rounds at most
_MOST = 1 << 26


class State(NamedTuple):
    """until: when, in seconds since 1970, all rounds are over, or until when it waits to be given their
    start. done: all rounds are over. start: of the first round; None while it is not known. lasts: seconds
    of all rounds."""

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
    """None where there is none. Raises HostError, and StoreError for a damaged one."""
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
