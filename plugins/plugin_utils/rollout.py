# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The state of a rollout: a file on the controller with a line of JSON for each node that is done.

A line is added when a node is done, and nothing is rewritten: the forks of a play are separate processes, and
a rollout may be killed at any time.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import pathlib
from collections.abc import Mapping
from typing import Any

from . import agent_source

#: Options for the manner of a call, without effect on the declaration
_MANNER = ("check", "diff", "risky")


class RolloutError(Exception):
    """The file cannot be used: the message is for an operator."""


def digest(options: Mapping[str, Any]) -> str:
    """Digest of a node's declaration and of the agent. options: of the call to the agent."""
    asked = {name: value for name, value in options.items() if name not in _MANNER}
    # The call itself refuses types that JSON lacks, with its own message.
    text = json.dumps({"asked": asked, "agent": agent_source.said()}, sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8")).hexdigest()[:16]


def is_done(path: pathlib.Path, host: str, name: str, wanted: str) -> bool:
    """Has the last line about this host and this declaration's name this digest?

    Creates the file if it is missing. Raises RolloutError if the file cannot be read or written, or if a line
    about the host is invalid.
    """
    try:
        path.open("ab").close()
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise RolloutError(f"{path}: {error}") from error
    mine = json.dumps(host)
    for number in range(len(lines), 0, -1):
        # The others are not parsed: each node of a fleet looks for its own line.
        if mine in lines[number - 1]:
            done = _entry(lines[number - 1], f"{path}:{number}")
            if (done["host"], done["declaration"]) == (host, name):
                return bool(done["digest"] == wanted)
    return False


def add(path: pathlib.Path, host: str, name: str, made: str) -> None:
    """Say that the host is done. Raises RolloutError."""
    now = dt.datetime.now(dt.timezone.utc).isoformat(timespec="seconds")
    line = json.dumps({"host": host, "declaration": name, "digest": made, "at": now})
    try:
        # A single append is atomic, so lines of other processes cannot mix with it.
        with path.open("ab", buffering=0) as file:
            file.write(line.encode("utf-8") + b"\n")
    except OSError as error:
        raise RolloutError(f"{path}: {error}") from error


def _entry(line: str, where: str) -> Mapping[str, Any]:
    try:
        entry = json.loads(line)
    except ValueError:
        entry = None
    if not isinstance(entry, dict) or not {"host", "declaration", "digest"} <= {*entry}:
        raise RolloutError(f"{where}: not a line of a rollout; remove it, and the node is declared once more")
    return entry
