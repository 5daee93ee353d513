# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One list or dictionary at the top of a YAML or JSON file, in the forms that settings of a kubelet have.

Python's standard library has no reader of YAML. Any other form is an error.
"""

from __future__ import annotations

import re
from typing import Any

from ..model import json_members
from ..model.record import NamedTuple, regex

_KEY = regex(r"(?:\"([^\"\\]+)\"|'([^']+)'|([A-Za-z0-9_.*/-]+))[ \t]*:(?:[ \t]+(.*))?\Z", re.ASCII)
#: A plain text: `- ` would begin a list in it, and `NAME: ` a pair
_SIGN = r"(?:[^ \t\"'#{}\[\],&!|>%@`:]|:(?![ \t]|\Z))"
_PLAIN = rf"(?!-(?:[ \t]|\Z))[A-Za-z0-9_./-]{_SIGN}*(?:[ \t]+{_SIGN}+)*"
_SCALAR = regex(rf"(?:\"([^\"\\]*)\"|'([^']*)'|({_PLAIN}))[ \t]*(?:[ \t]#.*)?\Z")
_ITEM = regex(r"[ \t]*-(?:[ \t]+(.*))?\Z")


class Member(NamedTuple):
    """value: a list of texts, or a dictionary of them. line: of the key, from 1."""

    value: Any
    line: int


def find(text: str, key: str) -> Member | None:
    """The member at the top; None without it. Raises ValueError with the line."""
    text = text[1:] if text.startswith("\ufeff") else text
    if text.lstrip().startswith("{"):
        return _of_json(text, key)
    member: Member | None = None
    lines = text.split("\n")
    _refuse_other_forms(lines)
    for number, line in enumerate(lines, start=1):
        match = _KEY.match(line.rstrip("\r"))
        if match is None or _name(match) != key:
            continue
        if member is not None:
            raise ValueError(f"line {number}: {key} is there twice")
        rest = _without_comment(match[4] or "")
        member = Member(_flow(rest, number) if rest else _block(lines, number), number)
    return member


def _refuse_other_forms(lines: list[str]) -> None:
    """Raises ValueError for forms in which a member at the top could be missed: columns, further documents,
    and keys of another kind."""
    begun = False
    for number, line in enumerate(lines, start=1):
        text = _without_comment(line)
        if not text or (not begun and (text == "---" or text.startswith("%"))):
            continue
        if line.startswith(("---", "...", "? ", "<<")) or (not begun and line[0] in " \t"):
            raise ValueError(f"line {number}: expected a key in the first column, got {text[:40]!r}")
        begun = True


def _of_json(text: str, key: str) -> Member | None:
    try:
        member = json_members.read(text).get(key)
    except ValueError as error:
        raise ValueError(f"not JSON: {error}") from error
    return Member(member.value, member.line) if member else None


def _name(match: re.Match[str]) -> str:
    return match[1] or match[2] or match[3]


def _without_comment(text: str) -> str:
    return re.sub(r"(?:^|[ \t])#.*\Z", "", text).strip()


def _flow(text: str, number: int) -> Any:
    if text in ("null", "~"):
        return None
    inner = text[1:-1].strip()
    words = [word.strip() for word in inner.split(",")] if inner else []
    if text[0] + text[-1] == "[]":
        return [_scalar(word, number) for word in words]
    if text[0] + text[-1] == "{}":
        return dict(_pair(word, number) for word in words)
    raise ValueError(f"line {number}: expected a list or a dictionary, got {text[:40]!r}")


def _block(lines: list[str], above: int) -> Any:
    """The lines below a key: a list may have its column."""
    items: list[str] = []
    pairs: dict[str, str] = {}
    indent = ""
    for number, raw in enumerate(lines[above:], start=above + 1):
        line = raw.rstrip()
        if not line or line.lstrip().startswith("#"):
            continue
        item = _ITEM.match(line)
        if not line.startswith((" ", "\t")) and item is None:
            break
        begin = line[: len(line) - len(line.lstrip())]
        if (items or pairs) and begin != indent:
            raise ValueError(f"line {number}: expected the column of the line before")
        indent = begin
        if item is not None and not pairs:
            items.append(_scalar(item[1] or "", number))
        elif not items:
            pairs.update([_pair(line.strip(), number)])
        else:
            raise ValueError(f"line {number}: expected an item of the list")
    return items if items else pairs or None


def _pair(text: str, number: int) -> tuple[str, str]:
    match = _KEY.match(text)
    if match is None or match[4] is None:
        raise ValueError(f"line {number}: expected NAME: VALUE, got {text[:40]!r}")
    return _name(match), _scalar(match[4], number)


def _scalar(text: str, number: int) -> str:
    match = _SCALAR.match(text.strip())
    if match is None:
        raise ValueError(f"line {number}: expected a text, got {text[:40]!r}")
    return next(group for group in match.groups() if group is not None)
