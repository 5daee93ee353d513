# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Values of a TOML file with their lines (TOML 1.0): Python 3.8 has no reader, and none reports lines.

Numbers, dates and booleans stay texts, as the readers of container engines decide about their types. A name
that is defined twice is an error, as the engines do not start with one.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import Any, Iterator

from ..model.record import NamedTuple, regex

_BLANKS = regex(r"[ \t]*")
#: Everything that may stand between two elements of an array
_GAP = regex(r"(?:[ \t\r\n]|#[^\n]*)*")
_LINE_END = regex(r"[ \t]*(?:#[^\n]*)?(?:\r?\n|\Z)")
_BARE = regex(r"[A-Za-z0-9_-]+", re.ASCII)
_LITERAL = regex(r"'([^'\n]*)'")
_BASIC = regex(r'"((?:[^"\\\n]|\\.)*)"')
#: Up to two quotes may precede the closing three; a line end after the opening ones does not count
_LITERAL_LINES = regex(r"'''(?:\r?\n)?(.*?'{0,2})'''(?!')", re.DOTALL)
_BASIC_LINES = regex(r'"""(?:\r?\n)?((?:[^"\\]|\\.|"(?!""))*"{0,2})"""(?!")', re.DOTALL)
#: A date and a time may have a blank between them
_SCALAR = regex(r"[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:.Zz+-]+|[^\s,\[\]{}#='\"]+", re.ASCII)
_DECIMAL, _TIME = r"(?:0|[1-9](?:_?[0-9])*)", r"[0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]+)?)?"
#: A boolean, number, date or time
_WORD = regex(
    r"(?:true|false|[+-]?(?:inf|nan)"
    r"|0x[0-9A-Fa-f](?:_?[0-9A-Fa-f])*|0o[0-7](?:_?[0-7])*|0b[01](?:_?[01])*"
    rf"|[+-]?{_DECIMAL}(?:\.[0-9](?:_?[0-9])*)?(?:[eE][+-]?[0-9](?:_?[0-9])*)?"
    rf"|[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}(?:[Tt ]{_TIME}(?:[Zz]|[+-][0-9]{{2}}:[0-9]{{2}})?)?|{_TIME})\Z",
    re.ASCII,
)
_CONTROL = regex(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_MARK = "\ufeff"
_ESCAPE = regex(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|([ \t]*\r?\n\s*)|(.))", re.DOTALL)
_ESCAPED = {
    "b": "\b", "t": "\t", "n": "\n", "f": "\f", "r": "\r", '"': '"', "\\": "\\",
}  # fmt: skip

#: In a path, an element of an array of tables
ELEMENT = "[]"

#: Arrays and inline tables in each other. Readers of the nodes' files have no deeper ones.
_DEEPEST = 20


class Entry(NamedTuple):
    """One key with its value. path: names of its tables, and its own; ELEMENT after the name of an array of
    tables. line: of the key, from 1."""

    path: tuple[str, ...]
    value: Any
    line: int


class Word(str):
    """A value without quotes: a number, date or boolean."""


def entries(text: str) -> Iterator[Entry]:
    """All keys in their order, also from inline tables. Raises ValueError with the
    line."""
    return _Reader(text).entries()


class _Kind(Enum):
    """Definition of a name. IMPLIED: a table without a head. DOTTED: a table by a dotted key."""

    VALUE, HEAD, ARRAY, IMPLIED, DOTTED = range(5)


class _Defined:
    """All names so far."""

    def __init__(self) -> None:
        self._kinds: dict[tuple[str, ...], _Kind] = {}

    def table(self, path: tuple[str, ...], array: bool) -> tuple[str, ...] | None:
        """The path of keys below a head; None if the head is a second definition."""
        place: tuple[str, ...] = ()
        for name in path[:-1]:
            kind = self._kinds.setdefault((*place, name), _Kind.IMPLIED)
            if kind is _Kind.VALUE:
                return None
            place = (*place, name, *([ELEMENT] if kind is _Kind.ARRAY else []))
        place = (*place, path[-1])
        if self._kinds.get(place) not in (None, _Kind.ARRAY if array else _Kind.IMPLIED):
            return None
        if not array:
            self._kinds[place] = _Kind.HEAD
            return place
        element = (*place, ELEMENT)
        begun = {path: kind for path, kind in self._kinds.items() if path[: len(element)] != element}
        self._kinds = {**begun, place: _Kind.ARRAY}
        return element

    def key(self, table: tuple[str, ...], path: tuple[str, ...]) -> bool:
        """False for a second definition."""
        place = (*table, *path)
        above = [(*table, *path[:end]) for end in range(1, len(path))]
        if any(self._kinds.get(name) not in (None, _Kind.DOTTED, _Kind.IMPLIED) for name in above):
            return False
        if place in self._kinds:
            return False
        self._kinds.update(dict.fromkeys(above, _Kind.DOTTED))
        self._kinds[place] = _Kind.VALUE
        return True


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._defined = _Defined()

    def entries(self) -> Iterator[Entry]:
        self._refuse_signs()
        table: tuple[str, ...] = ()
        while True:
            self._take(_GAP)
            if self._at == len(self._text):
                return
            if self._next("["):
                table = self._head()
            else:
                line, path = self._line, self._key()
                if not self._defined.key(table, path):
                    raise _twice(line, path)
                self._expect("=")
                self._take(_BLANKS)
                yield from _flat(Entry((*table, *path), self._value(0), line))
            if self._take(_LINE_END) is None:
                raise self._error("a line end")

    def _head(self) -> tuple[str, ...]:
        """The path of keys below a head, whose first bracket is read."""
        line, array = self._line, self._next("[")
        self._take(_BLANKS)
        path = self._key()
        self._expect("]]" if array else "]")
        table = self._defined.table(path, array)
        if table is None:
            raise _twice(line, path)
        return table

    def _refuse_signs(self) -> None:
        """Not all readers of engines skip a byte order mark, and none takes a control character."""
        control = _CONTROL.search(self._text)
        if control is not None:
            self._at = control.start()
            raise self._error("no control character")
        if self._text.startswith(_MARK):
            raise self._error("no byte order mark")

    @property
    def _line(self) -> int:
        return self._text.count("\n", 0, self._at) + 1

    def _error(self, expected: str) -> ValueError:
        got = self._text[self._at : self._at + 20].partition("\n")[0]
        return ValueError(f"line {self._line}: expected {expected}, got {got!r}")

    def _take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        match = pattern.match(self._text, self._at)
        self._at = match.end() if match else self._at
        return match

    def _next(self, sign: str) -> bool:
        here = self._text.startswith(sign, self._at)
        self._at += len(sign) if here else 0
        return here

    def _expect(self, sign: str) -> None:
        if not self._next(sign):
            raise self._error(repr(sign))

    def _key(self) -> tuple[str, ...]:
        words = [self._word()]
        while self._take(_BLANKS) and self._next("."):
            self._take(_BLANKS)
            words.append(self._word())
        return tuple(words)

    def _word(self) -> str:
        bare = self._take(_BARE)
        quoted = None if bare else self._string(_LITERAL, _BASIC)
        if bare is None and quoted is None:
            raise self._error("a name")
        return bare.group() if bare else quoted or ""

    def _string(self, literal: re.Pattern[str], basic: re.Pattern[str]) -> str | None:
        match = self._take(literal)
        if match:
            return match.group(1)
        match = self._take(basic)
        return self._unescaped(match.group(1)) if match else None

    def _unescaped(self, text: str) -> str:
        def plain(match: re.Match[str]) -> str:
            four, eight, line_end, sign = match.groups()
            if four or eight:
                number = int(four or eight, 16)
                if number > 0x10FFFF or 0xD800 <= number < 0xE000:
                    raise self._error("a character's number")
                return chr(number)
            if line_end:
                return ""
            if sign not in _ESCAPED:
                raise self._error("an escape of TOML")
            return _ESCAPED[sign]

        return _ESCAPE.sub(plain, text)

    def _value(self, depth: int) -> Any:
        if depth > _DEEPEST:
            raise self._error(f"at most {_DEEPEST} levels")
        text = self._string(_LITERAL_LINES, _BASIC_LINES)
        text = self._string(_LITERAL, _BASIC) if text is None else text
        if text is not None:
            return text
        if self._next("["):
            return self._array(depth)
        if self._next("{"):
            return self._inline(depth)
        word = self._take(_SCALAR)
        if word is None or not _WORD.match(word.group()):
            self._at = word.start() if word else self._at
            raise self._error("a value")
        return Word(word.group())

    def _array(self, depth: int) -> list[Any]:
        values: list[Any] = []
        while True:
            self._take(_GAP)
            if self._next("]"):
                return values
            values.append(self._value(depth + 1))
            self._take(_GAP)
            if not self._next(","):
                self._expect("]")
                return values

    def _inline(self, depth: int) -> dict[str, Any]:
        """The table of one line, as readers of TOML 1.0 have it."""
        table: dict[str, Any] = {}
        self._take(_BLANKS)
        if self._next("}"):
            return table
        while True:
            self._take(_BLANKS)
            line, path = self._line, self._key()
            self._expect("=")
            self._take(_BLANKS)
            inner = table
            for name in path[:-1]:
                inner = inner.setdefault(name, {})
                if not isinstance(inner, dict):
                    raise self._error("a name without a value")
            if path[-1] in inner:
                raise _twice(line, path)
            inner[path[-1]] = self._value(depth + 1)
            self._take(_BLANKS)
            if not self._next(","):
                self._expect("}")
                return table


def _twice(line: int, path: tuple[str, ...]) -> ValueError:
    return ValueError(f"line {line}: {'.'.join(path)} is there twice")


def _flat(entry: Entry) -> Iterator[Entry]:
    if not isinstance(entry.value, dict):
        yield entry
        return
    for name, value in entry.value.items():
        yield from _flat(Entry((*entry.path, name), value, entry.line))
