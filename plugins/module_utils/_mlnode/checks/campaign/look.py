# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The questions of a campaign to a node: prepare, begin, and collect."""

from __future__ import annotations

import json
from typing import Any, Mapping

from ...host.host import Host
from ...model.errors import DeclarationError
from ...model.schema import Option, Table
from . import facts, kinds, part, store
from .clock import Answering

MOUNTS = facts.MOUNTS

_SLOT = {
    "round": Option("int", required=True),
    "peer": Option("str", required=True),
    "serves": Option("bool", required=True),
    "rails": Option("list", elements="raw", required=True),
}

OPTIONS: Table = {
    "state": Option("str", choices=("started", "begun", "collected"), required=True),
    "id": Option("str", required=True),
    "kind": Option("str", choices=kinds.NAMES, default="tcp"),
    "start": Option("float"),
    "wait": Option("float", default=600.0),
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

#: State → options that it requires
_NEEDED = {"started": ("rounds", "addresses", "slots"), "begun": ("start",), "collected": ()}


def answer(host: Host, given: Mapping[str, Any], dry: bool) -> dict[str, Any]:
    """Result of the module campaign. Raises MlnodeError."""
    answering = Answering()
    state = given["state"]
    missing = [name for name in _NEEDED[state] if given[name] is None]
    if missing:
        raise DeclarationError(f"state is {state}, which needs {', '.join(missing)} as well")
    asked = {"started": _start, "begun": _begin, "collected": _collect}[state]
    return {"changed": False, **asked(host, given, dry), "clock": answering.times}


def _start(host: Host, given: Mapping[str, Any], dry: bool) -> dict[str, Any]:
    # Imported late: a module's files are compiled on the node at each call; collecting does not need this
    # one.
    from . import run

    started = run.start(host, part.parse(given), given["wait"], dry=dry)
    ends = {} if started.ends is None else {"ends": started.ends}
    return {"interfaces": [*started.interfaces], **ends}


def _begin(host: Host, given: Mapping[str, Any], dry: bool) -> dict[str, Any]:
    part.check_start(given["start"])
    return {} if dry else {"ends": store.begin(host, given["id"], given["start"])}


def _collect(host: Host, given: Mapping[str, Any], dry: bool) -> dict[str, Any]:
    if dry:
        there = store.read(host)
        done = there is not None and there.id == given["id"] and there.done
        return {"done": done, "answer": "", "problem": "nothing is collected in check mode"}
    collected = store.collect(host, given["id"], given["timeout"])
    # A controller copies the results of all nodes several times until the end of a play. A text is far
    # cheaper to keep than a dictionary, which takes twenty times its length per copy.
    text = json.dumps(collected.answer, separators=(",", ":")) if collected.answer else ""
    return {"done": collected.done, "answer": text, "problem": collected.problem}
