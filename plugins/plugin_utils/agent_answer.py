# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The door for the answers of nodes, whatever has carried them: an agent, a module or the task of a playbook.

Each is held against one table: a broken or compromised node must not choose what a controller takes for a
result, nor its type or length, nor send control codes to a terminal. A name that is not in the table is left
out, facts among them.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable, Mapping
from typing import Any

from ansible import constants

from ..module_utils._mlnode.model import strict_json
from ..module_utils._mlnode.model.errors import StoreError, paragraphs, printable
from .areas import AREAS

#: Of a whole answer, in characters: what is declared of a node may have as many as strict_json.MOST, and the
#: answer has each setting's value as declared, wanted, running and at the next boot
MOST = 4 * strict_json.MOST

#: Of one text, in characters. A file of sysfs holds a page of 4096 bytes at most (kernel,
#: Documentation/filesystems/sysfs.rst), and a line about one shows two such values, declared and found.
LINE = 3 * 4096

#: Of a message, in characters: one line for each area
MESSAGE = len(AREAS) * LINE

#: Of the output of a command, in characters: the JSON of nccl-tests (its read.MOST) in base64, and logs
OUTPUT = 1 << 26

#: No amount of a node is greater, in whatever unit: 10^15 ns are 11 days. Sums and products are finite then.
GREATEST = 1e15

_CUT = "... (cut)"

#: Of JSON (RFC 8259, section 7): each, so that a backslash that is escaped itself begins none
_ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|[\"\\/bfnrt])"
)

#: Place, such as areas.nic.changed, and a value → that value as the controller takes it. Raises ValueError.
Form = Callable[[str, Any], Any]


class Maybe:
    """The form of what an answer may lack."""

    def __init__(self, form: Form) -> None:
        self.form = form


Table = Mapping[str, "Form | Maybe"]

#: In place of an answer that does not fit its table
NOT_UNDERSTOOD = "the answer is not understood"


def read(text: str) -> Any:
    """The value of JSON. Raises ValueError where it is not JSON, or cut."""
    try:
        return strict_json.loads(text, "it", most=MOST, kernel_bytes=True)
    except StoreError as error:
        raise ValueError(str(error)) from error


def checked(call: str, fields: Any) -> dict[str, Any]:
    """The answer to a call, without what is not in its table. Raises ValueError that names the field."""
    answer: dict[str, Any] = _fields(ANSWERS[call])("", fields)
    return answer


def of_task(call: str, result: Any) -> dict[str, Any]:
    """The answer in the result of a task, whatever has carried it; empty if there is none. One that does not
    fit its table is a failure of its node, with the reason: it is not the end of a report about all nodes."""
    if result is None or result == {}:
        return {}
    table = {**_OF_ANSIBLE, **ANSWERS[call]}
    try:
        given = _entries("", result)
        known = {name: given[name] for name in table if name in given}
        if "warnings" in known:
            known["warnings"] = _warned(known["warnings"])
        strict_json.check(known, kernel_bytes=True)
        answer: dict[str, Any] = _fields(table)("", {"changed": False, **known})
    except ValueError as error:
        return {"changed": False, "failed": True, "msg": f"{NOT_UNDERSTOOD}: {error}"}
    return answer


def document(text: str) -> Any:
    """The document in a text of an answer, in which each text is bounded and can be written to a file. Raises
    ValueError."""
    return _tree("it", read(text))


def quiet(stdout: str) -> str:
    """The JSON of a module, with what is around it, in which a text spells out what would command a terminal.
    A surrogate alone is a byte of the kernel, and stays."""
    if not (stdout.isascii() and stdout.isprintable()):
        stdout = stdout.replace("\r\n", "\n")  # a terminal's, as of sudo with requiretty
        stdout = "".join(sign if sign.isprintable() or sign in "\n\t" else _escaped(sign) for sign in stdout)
    return _ESCAPE.sub(_spelled, stdout)


def _escaped(sign: str) -> str:
    return f"\\u{ord(sign):04x}" if sign <= "\uffff" else json.dumps(sign)[1:-1]


def _spelled(found: re.Match[str]) -> str:
    sign: str = json.loads(f'"{found[0]}"')
    if sign.isprintable() or sign in "\n\t" or "\ud800" <= sign <= "\udfff":
        return found[0]
    return "\\" + printable(sign)


def text(value: Any) -> str | None:
    """A value in a report: one text of bounded length that cannot command a terminal; None for null."""
    if value is None or (
        type(value) is str and len(value) <= LINE and value.isascii() and value.isprintable()
    ):
        return value
    if isinstance(value, (str, bool, float)) or strict_json.is_of(value, int):
        value = value if isinstance(value, str) else strict_json.shown(value)
        return paragraphs(value if len(value) <= LINE else value[:LINE] + _CUT)
    return strict_json.shown(value)


def _warned(value: Any) -> Any:
    """Texts of warnings. Ansible has made objects of those of a module (WarningSummary, from 2.19 on)."""
    if not isinstance(value, list):
        return value
    return [
        one if isinstance(one, str) else getattr(getattr(one, "event", None), "msg", one) for one in value
    ]


def _wrong(where: str, allowed: str, value: Any) -> ValueError:
    return ValueError(f"{where.lstrip('.') or 'it'} must be {allowed}, got {strict_json.shown(value)}")


def _text(most: int) -> Form:
    def form(where: str, value: Any) -> str:
        if not isinstance(value, str):
            raise _wrong(where, "a text", value)
        # A setting that is right has its value four times, and all of an area have one reason: the controller
        # keeps such texts of each node until the end of a play, and gets one that is the same object once.
        return sys.intern(paragraphs(value if len(value) <= most else value[:most] + _CUT))

    return form


def _contents(where: str, value: Any) -> str:
    """Of a file, up to the size up to which Ansible's own modules show one; 0 means unlimited there."""
    shown: str = _text(constants.MAX_FILE_SIZE_FOR_DIFF or MOST)(where, value)
    return shown


def _word(pattern: str) -> Form:
    def form(where: str, value: Any) -> str:
        if not isinstance(value, str) or not re.fullmatch(pattern, value, re.ASCII):
            raise _wrong(where, f"a text like {pattern}", value)
        # Ansible's own kinds of text cannot be interned.
        return sys.intern(str.__str__(value))

    return form


def _flag(where: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise _wrong(where, "true or false", value)
    return value


def _switch(where: str, value: Any) -> bool:
    """0 or 1, or as JSON has these."""
    if value not in (0, 1):
        raise _wrong(where, "0 or 1", value)
    return bool(value)


def _count(where: str, value: Any) -> int:
    if not strict_json.is_of(value, int) or not 0 <= value <= GREATEST:
        raise _wrong(where, "a number", value)
    return int(value)


def _number(where: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise _wrong(where, "a number", value)
    if not math.isfinite(value) or abs(value) > GREATEST:
        raise _wrong(where, f"a number of up to {GREATEST:g}", value)
    return value


def _amount(where: str, value: Any) -> float:
    if _number(where, value) < 0:
        raise _wrong(where, "a number from 0 on", value)
    found: float = value
    return found


def _status_of_process(where: str, value: Any) -> int:
    if not strict_json.is_of(value, int):
        raise _wrong(where, "a number", value)
    return int(value)


def _or_null(inner: Form) -> Form:
    return lambda where, value: None if value is None else inner(where, value)


def _or_empty(inner: Form) -> Form:
    return lambda where, value: {} if value == {} else inner(where, value)


def _list(inner: Form) -> Form:
    def form(where: str, value: Any) -> list[Any]:
        if not isinstance(value, list):
            raise _wrong(where, "a list", value)
        return [inner(f"{where}[{place}]", item) for place, item in enumerate(value)]

    return form


def _entries(where: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _wrong(where, "a dictionary", value)
    return value


def _fields(table: Table) -> Form:
    def form(where: str, value: Any) -> dict[str, Any]:
        checked_fields, given = {}, _entries(where, value)
        for name, about in table.items():
            place = f"{where}.{name}"
            if name in given:
                checked_fields[name] = (about.form if isinstance(about, Maybe) else about)(place, given[name])
            elif not isinstance(about, Maybe):
                raise ValueError(f"{place.lstrip('.')} is missing")
        return checked_fields

    return form


def _partly(table: Table) -> Form:
    """A dictionary of which these fields are read here, and the others are for people."""
    form = _fields(table)

    def whole(where: str, value: Any) -> dict[str, Any]:
        rest = {name: one for name, one in _entries(where, value).items() if name not in table}
        return {**_tree(where, rest), **form(where, value)}

    return whole


def _names(name: Form, inner: Form) -> Form:
    """A dictionary with any names of one form."""

    def form(where: str, value: Any) -> dict[str, Any]:
        return {
            name(f"a name in {where.lstrip('.')}", one): inner(f"{where}.{one}", item)
            for one, item in _entries(where, value).items()
        }

    return form


_line = _text(LINE)
_lines = _list(_line)
_status = _word("[a-z_]{1,32}")
_area = _word("|".join(AREAS))
_id = _word("[0-9a-f]{1,32}")


def _command(where: str, value: Any) -> Any:
    return _line(where, value) if isinstance(value, str) else _lines(where, value)


_SETTING: Table = {
    **dict.fromkeys(("kind", "key", "path", "declared", "reason"), _line),
    **dict.fromkeys(("want", "runtime", "boot", "boot_source", "origin"), _or_null(_line)),
    **dict.fromkeys(("status", "severity"), _status),
    "declared_by": Maybe(_lines),
    "ignored": Maybe(_line),
}

_settings = _list(_fields(_SETTING))

_AREA: Table = {
    "changed": _flag,
    "settings": _settings,
    "reboot_required": _flag,
    **dict.fromkeys(("commands", "switch", "running"), Maybe(_lines)),
}

_PAIR: Table = {
    **dict.fromkeys(("before_header", "after_header"), _line),
    **dict.fromkeys(("before", "after"), _contents),
}


def _tree(where: str, value: Any) -> Any:
    """Whatever JSON has, in which each text is one line."""
    if isinstance(value, dict):
        return {
            _line(f"a name in {where}", name): _tree(f"{where}.{name}", one) for name, one in value.items()
        }
    if isinstance(value, list):
        return [_tree(where, one) for one in value]
    return _line(where, value) if isinstance(value, str) else value


_CHECK: Table = {
    **dict.fromkeys(("name", "target", "expected", "found", "source", "advice"), _line),
    "verdict": _status,
    # Of an audit
    "severity": Maybe(_status),
    **dict.fromkeys(("reason", "reference"), Maybe(_line)),
}

_SPEED: Table = {"value": _or_null(_amount), "tool": _line, "reason": _line}

#: Of one NUMA node
_MEMORY: Table = {"node": _count, **dict.fromkeys(("copied", "read"), _fields(_SPEED))}

_PORT: Table = dict.fromkeys(("rate", "state"), Maybe(_or_null(_line)))
_LINK: Table = {"speed": _line, "width": _count}

#: What nccl_tests.facts reads
_TOPOLOGY: Table = {
    "gpus": Maybe(_list(_partly({"vendor": _line}))),
    "pci": Maybe(_list(_partly({"address": _line, "path": _lines, "link": _or_null(_partly(_LINK))}))),
    "rdma": Maybe(
        _list(
            _partly(
                {
                    "name": _line,
                    "rail": _or_null(_count),
                    "address": _or_null(_line),
                    "ports": _list(_partly(_PORT)),
                }
            )
        )
    ),
}

_EXCEPTION: Table = {**dict.fromkeys(("key", "reason", "until"), _line), "state": _status}

#: Empty where nothing waits
_waits = _or_empty(_fields({"id": _id, "seconds": _amount}))
_undone = _or_empty(_fields({"id": _id, "text": _line, "stuck": _lines}))

#: Of the result of a task, what Ansible may have added to an answer
_OF_ANSIBLE: Table = {
    **dict.fromkeys(("failed", "skipped", "unreachable"), Maybe(_flag)),
    **dict.fromkeys(("skip_reason", "results_file", "censored"), Maybe(_line)),
    **dict.fromkeys(("msg", "module_stdout", "module_stderr"), Maybe(_text(MESSAGE))),
    "rc": Maybe(_or_null(_status_of_process)),
    "warnings": Maybe(_lines),
    # Of a task with async
    "ansible_job_id": Maybe(_word("[A-Za-z0-9._-]{1,64}")),
    **dict.fromkeys(("started", "finished"), Maybe(lambda where, value: int(_switch(where, value)))),
}

#: Of every answer
_END: Table = {"changed": _flag, "failed": Maybe(_flag), "msg": Maybe(_text(MESSAGE))}

#: Call → name of a field → its form
ANSWERS: Mapping[str, Table] = {
    "confirm": {
        "failed": Maybe(_flag),
        "msg": Maybe(_text(MESSAGE)),
        # Empty where there is none
        "pending": Maybe(_or_empty(_fields({"id": _id, "words": _line, "left": _amount}))),
        "undone": Maybe(_undone),
        "padding": Maybe(_text(MOST)),
    },
    "declare": {
        **_END,
        "areas": Maybe(_names(_area, _fields(_AREA))),
        # About the agent itself
        "settings": Maybe(_settings),
        "diff": Maybe(_list(_fields(_PAIR))),
        "warnings": Maybe(_lines),
        "reboot_required": Maybe(_flag),
        # Empty where nothing waits
        "confirm": Maybe(_waits),
        "not_in_force": Maybe(_lines),
        "risks": Maybe(_line),
    },
    "drift": {
        **_END,
        "compliant": Maybe(_flag),
        "verdict": Maybe(_text(MESSAGE)),
        **dict.fromkeys(("drift", "failures", "ignored", "errors"), Maybe(_lines)),
        "exceptions": Maybe(_list(_fields(_EXCEPTION))),
        "digests": Maybe(_names(_word("[a-z0-9][a-z0-9_-]{0,62}"), _names(_line, _word("[0-9a-f]{16}")))),
        "summary": Maybe(_names(_status, _count)),
        "settings": Maybe(_settings),
    },
    "install": {
        **_END,
        "path": Maybe(_line),
        "diff": Maybe(_list(_fields(_PAIR))),
        "warnings": Maybe(_lines),
    },
    "revert": {
        **_END,
        "reverted": Maybe(_list(_fields(dict.fromkeys(("key", "value"), _line)))),
        "stays": Maybe(_lines),
        "reboot_required": Maybe(_flag),
        "diff": Maybe(_list(_fields(_PAIR))),
        "warnings": Maybe(_lines),
    },
    # Of all modules that look at a node
    "look": {
        **_END,
        "checks": Maybe(_list(_fields(_CHECK))),
        **dict.fromkeys(("failures", "warnings", "interfaces"), Maybe(_lines)),
        "summary": Maybe(_names(_status, _count)),
        **dict.fromkeys(("seconds", "ends", "gbits"), Maybe(_number)),
        "done": Maybe(_flag),
        "problem": Maybe(_line),
        "answer": Maybe(_text(MOST)),
        "nodes": Maybe(_list(_fields(_MEMORY))),
        "topology": Maybe(_partly(_TOPOLOGY)),
        "subnet": Maybe(_tree),
    },
    # Of all modules that declare one area
    "view": {
        **_END,
        **{name: form if isinstance(form, Maybe) else Maybe(form) for name, form in _AREA.items()},
        "diff": Maybe(_list(_fields(_PAIR))),
        "warnings": Maybe(_lines),
        "confirm": Maybe(_waits),
        "confirmed": Maybe(_flag),
        "undone": Maybe(_undone),
    },
    # Of Ansible's own modules that run a program
    "command": {
        **_END,
        **dict.fromkeys(("stdout", "stderr"), Maybe(_text(OUTPUT))),
        "cmd": Maybe(_command),
    },
}
