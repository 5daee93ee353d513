# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The answers of an agent, held against one table: a broken or compromised node must not choose
what a controller takes for a result, nor its type or length, nor send control codes to a terminal.

A name that is not in the table is left out.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from typing import Any

from ansible import constants

from ..module_utils._mlnode.model import strict_json
from ..module_utils._mlnode.model.errors import StoreError, paragraphs
from .areas import AREAS

#: Of a whole answer, in characters: what is declared of a node may have as many as strict_json.MOST, and the
#: answer has each setting's value as declared, wanted, running and at the next boot
MOST = 4 * strict_json.MOST

#: Of one text, in characters. A file of sysfs holds a page of 4096 bytes at most (kernel,
#: Documentation/filesystems/sysfs.rst), and a line about one shows two such values, declared and found.
LINE = 3 * 4096

#: Of a message, in characters: one line for each area
MESSAGE = len(AREAS) * LINE

_CUT = "... (cut)"

#: Place, such as areas.nic.changed, and a value → that value as the controller takes it. Raises ValueError.
Form = Callable[[str, Any], Any]


class Maybe:
    """The form of what an answer may lack."""

    def __init__(self, form: Form) -> None:
        self.form = form


Table = Mapping[str, "Form | Maybe"]


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
        return sys.intern(value)

    return form


def _flag(where: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise _wrong(where, "true or false", value)
    return value


def _count(where: str, value: Any) -> int:
    if not strict_json.is_of(value, int) or value < 0:
        raise _wrong(where, "a number", value)
    return int(value)


def _number(where: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise _wrong(where, "a number", value)
    return value


def _or_null(inner: Form) -> Form:
    return lambda where, value: None if value is None else inner(where, value)


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

_EXCEPTION: Table = {**dict.fromkeys(("key", "reason", "until"), _line), "state": _status}

#: Of every answer
_END: Table = {"changed": _flag, "failed": Maybe(_flag), "msg": Maybe(_text(MESSAGE))}

#: Call → name of a field → its form
ANSWERS: Mapping[str, Table] = {
    "confirm": {
        "failed": Maybe(_flag),
        "msg": Maybe(_text(MESSAGE)),
        # Empty where there is none
        "pending": Maybe(_fields({"id": Maybe(_id), "words": Maybe(_line), "left": Maybe(_number)})),
        "undone": Maybe(_fields({"id": Maybe(_id), "text": Maybe(_line), "stuck": Maybe(_lines)})),
        "padding": Maybe(_text(MOST)),
    },
    "declare": {
        **_END,
        "areas": Maybe(_names(_area, _fields(_AREA))),
        "diff": Maybe(_list(_fields(_PAIR))),
        "warnings": Maybe(_lines),
        "reboot_required": Maybe(_flag),
        # Empty where nothing waits
        "confirm": Maybe(_fields({"id": Maybe(_id), "seconds": Maybe(_number)})),
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
        **dict.fromkeys(("nodes", "subnet", "topology"), Maybe(_tree)),
    },
}
