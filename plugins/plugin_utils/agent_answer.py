# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Validate the answers of nodes, whether they come from an agent, a module or a task of a playbook.

All answers are checked against one table. A broken or compromised node cannot choose the type or length of a
result, or send control codes to a terminal. Names outside the table are dropped, facts included.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from typing import Any

from ..module_utils._mlnode.model import strict_json
from ..module_utils._mlnode.model.errors import StoreError, printable
from .answer_forms import (
    LINE,
    MOST,
    Maybe,
    Table,
    amount,
    command,
    contents,
    count,
    cut,
    entries,
    fields,
    flag,
    integer,
    line,
    lines,
    list_of,
    names,
    number,
    or_empty,
    or_null,
    partly,
    switch,
    text_of,
    tree,
    word,
)
from .areas import AREAS
from .jobs import model as jobs

#: Characters of a message: one line for each area
MESSAGE = len(AREAS) * LINE

#: Characters of a command's output: the JSON of nccl-tests (its read.MOST) in base64, and logs
OUTPUT = 1 << 26

#: A JSON escape (RFC 8259, section 7). An escaped backslash is one match, so it cannot begin another escape.
_ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|[\"\\/bfnrt])"
)

#: In place of an answer that does not fit its table
NOT_UNDERSTOOD = "the answer is not understood"


def read(text: str) -> Any:
    """Parse JSON. Raises ValueError if the text is invalid or truncated."""
    try:
        return strict_json.loads(text, "it", most=MOST, kernel_bytes=True)
    except StoreError as error:
        raise ValueError(str(error)) from error


def checked(call: str, given: Any) -> dict[str, Any]:
    """Fields of an answer that are in the call's table. Raises ValueError with the name of a wrong field."""
    answer: dict[str, Any] = fields(ANSWERS[call])("", given)
    return answer


def of_task(call: str, result: Any) -> dict[str, Any]:
    """Validated answer from the result of a task; empty if the task has no result. An answer that does not
    match its table becomes a failure of its node, with the reason: the report on the other nodes goes on."""
    if result is None or result == {}:
        return {}
    table = {**_OF_ANSIBLE, **ANSWERS[call]}
    try:
        given = entries("", result)
        known = {name: given[name] for name in table if name in given}
        if "warnings" in known:
            known["warnings"] = _warned(known["warnings"])
        strict_json.check(known, kernel_bytes=True)
        answer: dict[str, Any] = fields(table)("", {"changed": False, **known})
    except ValueError as error:
        return {"changed": False, "failed": True, "msg": f"{NOT_UNDERSTOOD}: {error}"}
    return answer


def document(text: str) -> Any:
    """The document in a text of an answer, in which each text is bounded and can be written to a file. Raises
    ValueError."""
    return tree("it", read(text))


def quiet(stdout: str) -> str:
    """Output of a module with its JSON and surrounding text, with terminal control codes escaped. A lone
    surrogate stands for a byte from the kernel and is kept."""
    if not (stdout.isascii() and stdout.isprintable()):
        stdout = stdout.replace("\r\n", "\n")  # a terminal's, as of sudo with requiretty
        stdout = "".join(sign if sign.isprintable() or sign in "\n\t" else _escaped(sign) for sign in stdout)
    return _ESCAPE.sub(_spelled, stdout)


def _escaped(sign: str) -> str:
    return f"\\u{ord(sign):04x}" if sign <= "\uffff" else json.dumps(sign)[1:-1]


def _spelled(match: re.Match[str]) -> str:
    sign: str = json.loads(f'"{match[0]}"')
    if sign.isprintable() or sign in "\n\t" or "\ud800" <= sign <= "\udfff":
        return match[0]
    return "\\" + printable(sign)


def text(value: Any) -> str | None:
    """A value in a report: one text of bounded length that cannot command a terminal; None for null."""
    if value is None:
        return None
    # Most hosts of a fleet have the same to say.
    return sys.intern(cut(value if isinstance(value, str) else strict_json.shown(value)))


def _warned(value: Any) -> Any:
    """Texts of warnings. Ansible 2.19 and later turns a module's warnings into objects (WarningSummary)."""
    if not isinstance(value, list):
        return value
    return [
        warning if isinstance(warning, str) else getattr(getattr(warning, "event", None), "msg", warning)
        for warning in value
    ]


_status = word("[a-z_]{1,32}")
_area = word("|".join(AREAS))
_id = word("[0-9a-f]{1,32}")


_CAUSE: Table = {
    **dict.fromkeys(("layer", "code"), _status),
    **dict.fromkeys(("file", "text"), line),
    "line": count,
}

_SETTING: Table = {
    "causes": Maybe(list_of(fields(_CAUSE))),
    **dict.fromkeys(("kind", "key", "path", "declared", "reason"), line),
    **dict.fromkeys(("want", "runtime", "boot", "boot_source", "origin"), or_null(line)),
    **dict.fromkeys(("status", "severity"), _status),
    "declared_by": Maybe(lines),
    "ignored": Maybe(line),
}

_settings = list_of(fields(_SETTING))

_AREA: Table = {
    "changed": flag,
    "settings": _settings,
    "reboot_required": flag,
    **dict.fromkeys(("commands", "switch", "running"), Maybe(lines)),
}

_PAIR: Table = {
    **dict.fromkeys(("before_header", "after_header"), line),
    **dict.fromkeys(("before", "after"), contents),
}


_CHECK: Table = {
    **dict.fromkeys(("name", "target", "expected", "found", "source", "advice"), line),
    "verdict": _status,
    "value": Maybe(line),
    # Of an audit
    "severity": Maybe(_status),
    **dict.fromkeys(("reason", "reference"), Maybe(line)),
}

_SPEED: Table = {"value": or_null(amount), "tool": line, "reason": line}

#: Memory bandwidth of one NUMA node
_MEMORY: Table = {"node": count, **dict.fromkeys(("copied", "read"), fields(_SPEED))}

#: A run of timed_command, whose OUTPUT it bounds
_RUN: Table = {"rc": integer, "seconds": amount, "stdout": text_of(1 << 20)}

_PORT: Table = dict.fromkeys(("rate", "state"), Maybe(or_null(line)))
_LINK: Table = {"speed": line, "width": count}

#: Fields that nccl_tests.facts reads
_TOPOLOGY: Table = {
    "gpus": Maybe(list_of(partly({"vendor": line}))),
    "pci": Maybe(list_of(partly({"address": line, "path": lines, "link": or_null(partly(_LINK))}))),
    "rdma": Maybe(
        list_of(
            partly(
                {
                    "name": line,
                    "rail": or_null(count),
                    "address": or_null(line),
                    "ports": list_of(partly(_PORT)),
                }
            )
        )
    ),
}

_EXCEPTION: Table = {**dict.fromkeys(("key", "reason", "until"), line), "state": _status}

#: Empty if no change waits for confirmation
_waits = or_empty(fields({"id": _id, "seconds": amount}))
_undone = or_empty(fields({"id": _id, "text": line, "stuck": lines}))

#: Fields that Ansible may add to the result of a task
_OF_ANSIBLE: Table = {
    **dict.fromkeys(("failed", "skipped", "unreachable"), Maybe(flag)),
    **dict.fromkeys(("skip_reason", "results_file", "censored"), Maybe(line)),
    **dict.fromkeys(("msg", "module_stdout", "module_stderr"), Maybe(text_of(MESSAGE))),
    "rc": Maybe(or_null(integer)),
    "warnings": Maybe(lines),
    # Tasks with async
    "ansible_job_id": Maybe(word("[A-Za-z0-9._-]{1,64}")),
    **dict.fromkeys(("started", "finished"), Maybe(lambda where, value: int(switch(where, value)))),
}

#: Of every answer
_END: Table = {"changed": flag, "failed": Maybe(flag), "msg": Maybe(text_of(MESSAGE))}

#: Call → name of a field → its form
ANSWERS: Mapping[str, Table] = {
    "confirm": {
        "failed": Maybe(flag),
        "msg": Maybe(text_of(MESSAGE)),
        # Empty if no change waits for confirmation
        "pending": Maybe(or_empty(fields({"id": _id, "words": line, "left": amount}))),
        "undone": Maybe(_undone),
        "padding": Maybe(text_of(MOST)),
    },
    "declare": {
        **_END,
        "areas": Maybe(names(_area, fields(_AREA))),
        # About the agent itself
        "settings": Maybe(_settings),
        "diff": Maybe(list_of(fields(_PAIR))),
        "warnings": Maybe(lines),
        **dict.fromkeys(("unsupported", "unsupported_overrides"), Maybe(lines)),
        "reboot_required": Maybe(flag),
        # Empty if no change waits for confirmation
        "confirm": Maybe(_waits),
        "not_in_force": Maybe(lines),
        "risks": Maybe(line),
    },
    "drift": {
        **_END,
        "compliant": Maybe(flag),
        "verdict": Maybe(text_of(MESSAGE)),
        **dict.fromkeys(("drift", "failures", "ignored", "errors", "unsupported_overrides"), Maybe(lines)),
        "exceptions": Maybe(list_of(fields(_EXCEPTION))),
        "digests": Maybe(names(word("[a-z0-9][a-z0-9_-]{0,62}"), names(line, word("[0-9a-f]{16}")))),
        "summary": Maybe(names(_status, count)),
        "settings": Maybe(_settings),
    },
    "install": {
        **_END,
        "path": Maybe(line),
        "diff": Maybe(list_of(fields(_PAIR))),
        "warnings": Maybe(lines),
    },
    "revert": {
        **_END,
        "reverted": Maybe(list_of(fields(dict.fromkeys(("key", "value"), line)))),
        "stays": Maybe(lines),
        "reboot_required": Maybe(flag),
        "diff": Maybe(list_of(fields(_PAIR))),
        "warnings": Maybe(lines),
    },
    # Modules that inspect a node
    "look": {
        **_END,
        "checks": Maybe(list_of(fields(_CHECK))),
        **dict.fromkeys(("failures", "warnings", "interfaces"), Maybe(lines)),
        "summary": Maybe(names(_status, count)),
        **dict.fromkeys(("seconds", "ends"), Maybe(number)),
        "done": Maybe(flag),
        # When the question came, and when the answer left
        "clock": Maybe(list_of(number)),
        "problem": Maybe(line),
        "answer": Maybe(text_of(MOST)),
        "nodes": Maybe(list_of(fields(_MEMORY))),
        "runs": Maybe(list_of(fields(_RUN))),
        "topology": Maybe(partly(_TOPOLOGY)),
        **dict.fromkeys(("subnet", "traffic"), Maybe(tree)),
        # Of node_job
        "places": Maybe(jobs.PLACES),
        "unseen": Maybe(lines),
    },
    # Modules that declare one area
    "view": {
        **_END,
        **{name: form if isinstance(form, Maybe) else Maybe(form) for name, form in _AREA.items()},
        "diff": Maybe(list_of(fields(_PAIR))),
        "warnings": Maybe(lines),
        "confirm": Maybe(_waits),
        "confirmed": Maybe(flag),
        "undone": Maybe(_undone),
    },
    # Ansible's own modules that run a program
    "command": {
        **_END,
        **dict.fromkeys(("stdout", "stderr"), Maybe(text_of(OUTPUT))),
        "cmd": Maybe(command),
    },
}
