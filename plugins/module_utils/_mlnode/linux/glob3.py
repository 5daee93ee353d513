# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Patterns of glob(3) with GLOB_BRACE, as systemd expands them (basic/glob-util.c), in the C locale."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Iterator

from ..model.record import regex

#: Named classes of glob(7) in the C locale, as parts of a set of a regular expression
_CLASSES = {
    "alnum": "a-zA-Z0-9",
    "alpha": "a-zA-Z",
    "blank": " \\t",
    "cntrl": "\\x00-\\x1f\\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": "!-/:-@\\[-`{-~",
    "space": "\\t-\\r ",
    "upper": "A-Z",
    "xdigit": "0-9A-Fa-f",
}

#: One member of a set in brackets: a class, a character between signs, an escaped or a plain one
_MEMBER = regex(r"\[:([a-z]+):\]|\[\.(.)\.\]|\[=(.)=\]|\\(.)|(.)", re.DOTALL)

#: Any character of a name, and none at all
_ANY, _NONE = "[^/]", r"[^\s\S]"


def matches(pattern: str, path: str) -> bool:
    """True if a pattern matches a path."""
    return any(expression.match(path) for expression in _expressions(pattern))


@lru_cache(maxsize=512)
def _expressions(pattern: str) -> tuple[re.Pattern[str], ...]:
    # An escaped slash is a slash, too.
    texts = (alternative.replace("\\/", "/") for alternative in _alternatives(pattern))
    return tuple(re.compile("/".join(map(_expression, text.split("/"))) + r"\Z") for text in texts)


def _expression(part: str) -> str:
    return "".join(_pieces(part))


def _alternatives(pattern: str) -> Iterator[str]:
    """Alternatives of `{a,b}`; a brace without its end is a plain character."""
    begin = _next(pattern, 0, "{")
    ends = [begin]
    while ends[-1] >= 0 and (len(ends) == 1 or pattern[ends[-1]] == ","):
        ends.append(_end(pattern, ends[-1] + 1))
    if ends[-1] < 0:
        yield pattern
        return
    for first, last in zip(ends, ends[1:]):
        yield from _alternatives(pattern[:begin] + pattern[first + 1 : last] + pattern[ends[-1] + 1 :])


def _next(text: str, at: int, signs: str) -> int:
    """The place of the next sign that is not escaped; -1 for none."""
    while at < len(text):
        if text[at] in signs:
            return at
        at += 2 if text[at] == "\\" else 1
    return -1


def _end(pattern: str, at: int) -> int:
    """The comma or the brace that ends an alternative; -1 for none."""
    depth = 0
    while (at := _next(pattern, at, "{,}")) >= 0:
        if depth == 0 and pattern[at] != "{":
            return at
        depth += {"{": 1, "}": -1, ",": 0}[pattern[at]]
        at += 1
    return -1


def _pieces(part: str) -> Iterator[str]:
    """The regular expression of one part of a path."""
    at = 0
    while at < len(part):
        sign, at = part[at], at + 1
        if sign == "[" and (parsed_set := _set(part, at)) is not None:
            piece, at = parsed_set
            yield piece
        elif sign == "\\":
            yield re.escape(part[at]) if at < len(part) else _NONE
            at += 1
        else:
            yield {"*": f"{_ANY}*", "?": _ANY}.get(sign) or re.escape(sign)


def _set(part: str, at: int) -> tuple[str, int] | None:
    """The expression of a set in brackets and the place behind it; None if nothing ends it."""
    negated = part[at : at + 1] in ("!", "^")
    begin = at = at + negated
    members: list[tuple[str, bool]] = []  # as in a regular expression, and whether it is a plain character
    while (match := _MEMBER.match(part, at)) is not None:
        at = match.end()
        if match.group() == "]" and match.start() > begin:
            inside = _joined(members)
            if not inside:  # no character, or any
                return (_ANY if negated else _NONE), at
            return f"[{'^/' if negated else ''}{inside}]", at
        named, plain = match.group(1), match.group(5)
        member = next(filter(None, match.groups()[1:]), "")
        members.append((_CLASSES.get(named, "") if named else re.escape(member), plain == "-"))
    return None


def _are_single(*texts: str) -> bool:
    """True if each is one character, escaped or not: a range cannot end in a class."""
    return all(len(text) in (1, 2) for text in texts)


def _joined(members: list[tuple[str, bool]]) -> str:
    """Join the members of a set. A reversed range is empty."""
    pieces, at = [], 0
    while at < len(members):
        text = members[at][0]
        if at + 2 < len(members) and members[at + 1][1] and _are_single(text, members[at + 2][0]):
            last, at = members[at + 2][0], at + 3
            pieces.append(f"{text}-{last}" if text[-1:] <= last[-1:] else "")
        else:
            pieces.append(text)
            at += 1
    return "".join(pieces)
