# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The two questions of a campaign to a node: begin, and what came of it."""

from __future__ import annotations

import json
from typing import Any, Mapping

from ...host.host import Host
from ...model.errors import DeclarationError
from ...model.schema import Option, Table
from . import collect, facts, kinds, part, store

MOUNTS = facts.MOUNTS

_SLOT = {
    "round": Option("int", required=True),
    "peer": Option("str", required=True),
    "serves": Option("bool", required=True),
    "rails": Option("list", elements="raw", required=True),
}

OPTIONS: Table = {
    "state": Option("str", choices=("started", "collected"), required=True),
    "id": Option("str", required=True),
    "kind": Option("str", choices=kinds.NAMES, default="tcp"),
    "start": Option("float"),
    "sent": Option("float"),
    "rounds": Option("int"),
    "duration": Option("int", default=4),
    "streams": Option("int", default=4),
    "tcp_port": Option("int", default=18600),
    "addresses": Option("list", elements="str"),
    "devices": Option("list", elements="str"),
    "slots": Option("list", elements="dict", suboptions=_SLOT),
    "allow": Option("list", elements="str", choices=part.GUARDS, default=[]),
    "timeout": Option("int", default=10),
}

#: Without these nothing can begin
_NEEDED = ("start", "sent", "rounds", "addresses", "slots")


def answer(host: Host, given: Mapping[str, Any], dry: bool) -> dict[str, Any]:
    """Result of the module campaign. Raises MlnodeError."""
    asked = _start if given["state"] == "started" else _collect
    return {"changed": False, **asked(host, given, dry)}


def _start(host: Host, given: Mapping[str, Any], dry: bool) -> dict[str, Any]:
    # What a module brings is compiled on the node at each call, and a result is collected without it.
    from . import run

    missing = [name for name in _NEEDED if given[name] is None]
    if missing:
        raise DeclarationError(f"state is started, which needs {', '.join(missing)} as well")
    started = run.start(host, part.parse(given), given["sent"], dry=dry)
    return {"ends": started.ends, "interfaces": [*started.interfaces]}


def _collect(host: Host, given: Mapping[str, Any], dry: bool) -> dict[str, Any]:
    if dry:
        there = store.read(host)
        done = there is not None and there.id == given["id"] and there.done
        return {"done": done, "answer": "", "problem": "nothing is collected in check mode"}
    collected = collect.collect(host, given["id"], given["timeout"])
    # A controller keeps the results of all nodes several times until the end of a play: a text costs it its
    # length once, and a dictionary twenty times as much for each of them.
    text = json.dumps(collected.answer, separators=(",", ":")) if collected.answer else ""
    return {"done": collected.done, "answer": text, "problem": collected.problem}
