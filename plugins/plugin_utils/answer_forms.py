# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Forms of the values in answers of nodes. A form is called with a place, such as areas.nic.changed, and the
value there. It returns the value that the controller takes, or raises ValueError with the place."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Mapping
from typing import Any

from ansible import constants

from ..module_utils._mlnode.model import strict_json
from ..module_utils._mlnode.model.errors import paragraphs

#: Characters of a whole answer. A node's declarations may have strict_json.MOST characters, and the answer
#: has four values of each setting: declared, wanted, running and at the next boot.
MOST = 4 * strict_json.MOST

#: Characters of one text. A file of sysfs holds at most a page of 4096 bytes (kernel,
#: Documentation/filesystems/sysfs.rst), and a line about it shows two values, declared and found.
LINE = 3 * 4096

#: No amount of a node is greater, in whatever unit: 10^15 ns are 11 days. Sums and products are finite then.
GREATEST = 1e15

_CUT = "... (cut)"

Form = Callable[[str, Any], Any]


class Maybe:
    """Form of an optional field."""

    def __init__(self, form: Form) -> None:
        self.form = form


Table = Mapping[str, "Form | Maybe"]


def cut(text: str, most: int = LINE) -> str:
    """A text of bounded length that cannot command a terminal."""
    return paragraphs(text if len(text) <= most else text[:most] + _CUT)


def _wrong(where: str, allowed: str, value: Any) -> ValueError:
    return ValueError(f"{where.lstrip('.') or 'it'} must be {allowed}, got {strict_json.shown(value)}")


def text_of(most: int) -> Form:
    """A text, cut at that many characters."""

    def form(where: str, value: Any) -> str:
        if not isinstance(value, str):
            raise _wrong(where, "a text", value)
        # A correct setting has its value four times, and all settings of an area may share a reason. The
        # controller keeps the texts of each node until the end of a play: equal texts become one object.
        return sys.intern(cut(value, most))

    return form


def contents(where: str, value: Any) -> str:
    """Content of a file, up to Ansible's own limit for a diff; 0 means unlimited there."""
    shown: str = text_of(constants.MAX_FILE_SIZE_FOR_DIFF or MOST)(where, value)
    return shown


def word(pattern: str) -> Form:
    """A text that a pattern matches as a whole."""

    def form(where: str, value: Any) -> str:
        if not isinstance(value, str) or not re.fullmatch(pattern, value, re.ASCII):
            raise _wrong(where, f"a text like {pattern}", value)
        # Ansible's own kinds of text cannot be interned.
        return sys.intern(str.__str__(value))

    return form


def flag(where: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise _wrong(where, "true or false", value)
    return value


def switch(where: str, value: Any) -> bool:
    """0 or 1, or as JSON has these."""
    if value not in (0, 1):
        raise _wrong(where, "0 or 1", value)
    return bool(value)


def count(where: str, value: Any) -> int:
    if not strict_json.is_of(value, int) or not 0 <= value <= GREATEST:
        raise _wrong(where, "a number", value)
    return int(value)


def number(where: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise _wrong(where, "a number", value)
    if not math.isfinite(value) or abs(value) > GREATEST:
        raise _wrong(where, f"a number of up to {GREATEST:g}", value)
    return value


def amount(where: str, value: Any) -> float:
    if number(where, value) < 0:
        raise _wrong(where, "a number from 0 on", value)
    quantity: float = value
    return quantity


def integer(where: str, value: Any) -> int:
    if not strict_json.is_of(value, int):
        raise _wrong(where, "a number", value)
    return int(value)


def or_null(inner: Form) -> Form:
    return lambda where, value: None if value is None else inner(where, value)


def or_empty(inner: Form) -> Form:
    return lambda where, value: {} if value == {} else inner(where, value)


def list_of(inner: Form) -> Form:
    def form(where: str, value: Any) -> list[Any]:
        if not isinstance(value, list):
            raise _wrong(where, "a list", value)
        return [inner(f"{where}[{place}]", item) for place, item in enumerate(value)]

    return form


def tuple_of(inner: Form) -> Form:
    form = list_of(inner)
    return lambda where, value: tuple(form(where, value))


def entries(where: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _wrong(where, "a dictionary", value)
    return value


def fields(table: Table) -> Form:
    def form(where: str, value: Any) -> dict[str, Any]:
        checked_fields, given = {}, entries(where, value)
        for name, about in table.items():
            place = f"{where}.{name}"
            if name in given:
                checked_fields[name] = (about.form if isinstance(about, Maybe) else about)(place, given[name])
            elif not isinstance(about, Maybe):
                raise ValueError(f"{place.lstrip('.')} is missing")
        return checked_fields

    return form


def partly(table: Table) -> Form:
    """Form of a dictionary with these fields for programs. Its other fields are for readers only."""
    form = fields(table)

    def whole(where: str, value: Any) -> dict[str, Any]:
        rest = {name: entry for name, entry in entries(where, value).items() if name not in table}
        return {**tree(where, rest), **form(where, value)}

    return whole


def made(what: Callable[..., Any], table: Table) -> Form:
    """An object made of a dictionary with these fields, which are its arguments."""
    form = fields(table)
    return lambda where, value: what(**form(where, value))


def names(name: Form, inner: Form) -> Form:
    """A dictionary with any names of one form."""

    def form(where: str, value: Any) -> dict[str, Any]:
        return {
            name(f"a name in {where.lstrip('.')}", key): inner(f"{where}.{key}", entry)
            for key, entry in entries(where, value).items()
        }

    return form


line = text_of(LINE)
lines = list_of(line)


def command(where: str, value: Any) -> Any:
    return line(where, value) if isinstance(value, str) else lines(where, value)


def tree(where: str, value: Any) -> Any:
    """Whatever JSON has, in which each text is one line."""
    if isinstance(value, dict):
        return {
            line(f"a name in {where}", name): tree(f"{where}.{name}", entry) for name, entry in value.items()
        }
    if isinstance(value, list):
        return [tree(where, entry) for entry in value]
    return line(where, value) if isinstance(value, str) else value
