# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""JSON of untrusted or damaged files: content that could break a later step is refused here, with a message.

A writer must call check() before it writes; otherwise the next reader reports a damaged file.
"""

from __future__ import annotations

import json
import math
import re
from collections import abc
from functools import partial
from typing import Any, Collection, Mapping, NoReturn, Sequence, Tuple

from .errors import DamagedError, StoreError
from .record import regex

#: Characters. A declaration with a hundred rules for NICs has some 50,000; a store with the content of other
#: files needs a larger limit.
MOST = 1 << 22

#: A declaration uses nine levels (document, kinds, kind, rules, rule, group, field, list, value), and a
#: question of a controller fewer. Python's own limit is its stack, which depends on the caller.
DEEPEST = 32

#: No kernel value and no counter here is wider than 64 bits. Python refuses to convert integers of more than
#: 4,300 digits from and to text (docs.python.org, "Integer string conversion length limitation").
_ENDLESS = 1 << 64
_DIGITS = 20

_NUL = "\x00"
#: Halves of UTF-16 pairs, which no UTF-8 file can hold. Python decodes bytes that are not UTF-8 to the second
#: range (PEP 383), so a file name or a kernel value may contain them.
_HALVES = regex("[\ud800-\udfff]")
_NO_BYTES = regex("[\ud800-\udc7f\udd00-\udfff]")

#: As much of a text as fits in a message
_SHOWN = 40

#: Part of a document: a path such as .kinds.sysctl, its value, and how deep it is
_Part = Tuple[str, Any, int]


def loads(
    data: bytes | str,
    where: str,
    *,
    advice: str = "",
    most: int = MOST,
    kernel_bytes: bool = False,
    without: Collection[str] = (),
) -> Any:
    """Parse a JSON text. Raises StoreError with `where` (a path or another source) and the place in it.

    advice: a remedy for a damaged file. most: characters. kernel_bytes: texts may contain bytes that are not
    UTF-8, as Host.read() returns them. without: field names to drop from every dictionary; a large document
    then takes less memory.
    """
    try:
        # Reuse the variable: otherwise both forms of a large document would stay in memory.
        data = data if isinstance(data, str) else data.decode("utf-8")
        if len(data) > most:
            raise ValueError(f"{len(data)} characters; at most {most} are allowed")
        value = json.loads(
            data,
            object_pairs_hook=partial(_unique, without),
            parse_int=_integer,
            parse_float=_finite,
            parse_constant=_no_constant,
        )
        check(value, kernel_bytes)
    except (ValueError, RecursionError) as error:
        problem = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise _damaged(where, problem, advice) from error
    return value


def _damaged(where: str, problem: str, advice: str) -> DamagedError:
    return DamagedError(f"{where} is damaged ({problem})" + (f": {advice}" if advice else ""))


def document(
    data: bytes | str, path: str, form: int, *, advice: str = "", most: int = MOST, kernel_bytes: bool = False
) -> dict[str, Any]:
    """A document with the format number `form`. Raises DamagedError, and StoreError for another version."""
    fields = loads(data, path, advice=advice, most=most, kernel_bytes=kernel_bytes)
    if not isinstance(fields, dict):
        raise _damaged(path, f"it holds {shown(fields)}, not a document of mlnode", advice)
    number: Any = fields.get("format")
    if not is_of(number, int):
        raise _damaged(path, f"format {shown(number)} is not a number", advice)
    if number > form:
        raise StoreError(
            f"{path}: format {number} is newer than {form}, the newest that this version of mlnode reads: "
            "install the agent of the version that wrote it"
        )
    if number < form:
        raise StoreError(f"{path}: format {number} is not {form}, which this version of mlnode writes")
    return fields


def check(value: Any, kernel_bytes: bool = False) -> None:
    """Raises ValueError, with the place, for a value that loads() refuses or JSON lacks. A name may be an
    integer; JSON makes a text of it."""
    unfit = _NO_BYTES if kernel_bytes else _HALVES
    todo: list[_Part] = [("", value, 1)]
    while todo:
        place, part, depth = todo.pop()
        if depth > DEEPEST:
            raise ValueError(f"nested deeper than {DEEPEST} levels at {_short(place)}")
        if isinstance(part, abc.Mapping):
            for name in part:
                _check_name(name, place, unfit)
            todo += [(f"{place}.{name}", item, depth + 1) for name, item in part.items()]
        elif isinstance(part, (list, tuple)):
            todo += [(f"{place}[{at}]", item, depth + 1) for at, item in enumerate(part)]
        else:
            _check_scalar(place, part, unfit)


def is_of(value: Any, kind: type) -> bool:
    """True if a value has this JSON type: true is not the number 1 there, as it is in Python."""
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))


def shown(value: Any) -> str:
    """A value in a message: short, on one line, in ASCII."""
    try:
        return _short(ascii(value))
    except (ValueError, RecursionError):  # more digits, or more levels, than Python writes
        return f"a {type(value).__name__} without end"


# The text of a place is built only for an error: it would take longer than all the rest.


def _check_name(name: Any, place: str, unfit: re.Pattern[str]) -> None:
    if isinstance(name, str):
        problem = _problem(name, unfit)
        if problem:
            raise ValueError(f"the name {shown(name)} in {_here(place)}: {problem}")
    elif isinstance(name, bool) or not isinstance(name, int) or abs(name) >= _ENDLESS:
        raise ValueError(f"the name {shown(name)} in {_here(place)} is not a text")


def _check_scalar(place: str, value: Any, unfit: re.Pattern[str]) -> None:
    if isinstance(value, str):
        problem = _problem(value, unfit)
        if problem:
            raise ValueError(f"{_here(place)}: {problem}")
    elif isinstance(value, int):
        if abs(value) >= _ENDLESS:
            raise ValueError(f"{_here(place)}: a number of more than 64 bits")
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{_here(place)}: {value} is not a number")
    elif value is not None:
        raise ValueError(f"{_here(place)}: {type(value).__name__} has no form in JSON")


def _problem(text: str, unfit: re.Pattern[str]) -> str:
    """Reason why it is not a text of JSON; empty if it is one."""
    if _NUL in text:
        return f"the text {shown(text)} holds the character NUL"
    half = None if text.isascii() else unfit.search(text)
    return f"the text {shown(text)} holds {half.group()!a}, half of a character" if half else ""


def _here(place: str) -> str:
    return _short(ascii(place.lstrip("."))[1:-1]) or "the document"


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _unique(without: Collection[str], pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """One name twice means two things to two readers."""
    entries = dict(pairs)
    if len(entries) != len(pairs):
        names = [name for name, _value in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the name {_short(ascii(twice))} is there twice")
    # A new one, as a dictionary keeps the size that it had once.
    return {name: value for name, value in pairs if name not in without} if without else entries


def _integer(digits: str) -> int:
    if len(digits.lstrip("-")) > _DIGITS:
        raise ValueError(f"a number of {len(digits)} digits")
    return int(digits)


def _finite(text: str) -> float:
    if len(text) > _DIGITS * 2:
        raise ValueError(f"a number of {len(text)} digits")
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is too large a number")
    return number


def _no_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not a number of JSON")


def typed(fields: Any, kinds: Mapping[str, type]) -> list[Any]:
    """The values of these names. Raises ValueError if one is missing or has another type."""
    if not isinstance(fields, dict):
        raise ValueError(f"{shown(fields)} is not a dictionary of {', '.join(kinds)}")
    for name, kind in kinds.items():
        if not is_of(fields.get(name), kind):
            raise ValueError(f"{name} is {shown(fields.get(name))}, which is not {kind.__name__}")
    return [fields[name] for name in kinds]
