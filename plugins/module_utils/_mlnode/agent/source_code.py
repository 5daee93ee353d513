# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Python sources without comments, docstrings, and the types of functions and constants."""

from __future__ import annotations

import re
from typing import Iterator

#: A docstring, a comment, or another string, which may contain text like one of them
_TEXT = re.compile(
    rb"""
    (?P<doc>
        (?: \A (?: \#[^\n]*\n )* | (?<=:) (?: [ ]* \#[^\n]* )? \n )
        [ ]* \"{3} (?: [^"\\] | \\. | "(?!"") )* \"{3}
    )
    | (?P<comment> [ ]* \#[^\n]* )
    | \"{3} (?: [^"\\] | \\. | "(?!"") )* \"{3}
    | " (?: [^"\\\n] | \\. )* "
    | ' (?: [^'\\\n] | \\. )* '
    """,
    re.DOTALL | re.VERBOSE,
)

#: A function from its name to the end of its parameters, apart from nested brackets
_FUNCTION = re.compile(rb"^ *(?:async )?def \w+\(", re.MULTILINE)
#: A bracket, the end of a parameter, the beginning of a type or default; or a string or the head of a lambda,
#: which may contain them
_PART = re.compile(rb"""[][(){},:=]|\blambda\b[^:]*:|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'""")
_CONSTANT = re.compile(rb"^(\w+): [^\n=\"']+(?= = )", re.MULTILINE)
_RETURNS = re.compile(rb" -> [^\n]*:(?=\n)")


def shortened(source: bytes) -> bytes:
    """A source as it lies in the zip. Each line keeps its number, for tracebacks, and a function its body."""
    return b"".join(_without_types(_CONSTANT.sub(rb"\1", _TEXT.sub(_rest, source))))


def _rest(match: re.Match[bytes]) -> bytes:
    text = match.group()
    if match.lastgroup == "comment":
        return b""
    if match.lastgroup != "doc":
        return text
    before, quotes, inside = text.partition(b'"""')
    lines, _break, indent = before.rpartition(b"\n")
    return b"\n" * (lines.count(b"\n") + len(_break)) + indent + quotes[1:] + b"\n" * inside.count(b"\n")


def _without_types(source: bytes) -> Iterator[bytes]:
    """Pieces of the source. Fields of classes keep their types, which records are made from."""
    copied = 0
    for function in _FUNCTION.finditer(source):
        start = function.end()
        if start < copied:  # in a string
            continue
        yield source[copied:start]
        copied = start
        depth = 1
        typed: int | None = None
        for part in _PART.finditer(source, start):
            mark = part.group()
            if depth == 1 and mark == b":":
                yield source[copied : part.start()]
                typed = part.end()
            if typed is not None and depth == 1 and mark in b",=)":
                yield b"\n" * source.count(b"\n", typed, part.start()) + (b" " if mark == b"=" else b"")
                copied, typed = part.start(), None
            depth += (mark in b"([{") - (mark in b")]}")
            if not depth:
                returns = _RETURNS.match(source, part.end())
                yield source[copied : part.end()] + (b":" if returns else b"")
                copied = returns.end() if returns else part.end()
                break
    yield source[copied:]
