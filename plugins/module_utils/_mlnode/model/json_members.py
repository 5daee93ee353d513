# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Members of a JSON object in a file that people write.

They are read with their lines, set without a change to the rest of the text, and taken out of a file that was
edited since. Pure.
"""

from __future__ import annotations

import json
from typing import Any, Mapping, Sequence

from .record import NamedTuple, regex

_BLANKS = regex(r"[ \t\r\n]*")


def _no_number(word: str) -> float:
    """JSON has neither NaN nor Infinity, which Python takes."""
    raise ValueError(f"{word} is not a value of JSON")


_DECODER = json.JSONDecoder(parse_constant=_no_number)
_INDENT = "  "


class Member(NamedTuple):
    """start: of its name. first, end: of its value. line: from 1."""

    value: Any
    start: int
    first: int
    end: int
    line: int


def read(text: str) -> dict[str, Member]:
    """The members by name; none for a text of blanks only. Raises ValueError with a reason."""
    try:
        return _members(text) if text.strip() else {}
    except RecursionError as error:
        raise ValueError("expected fewer levels") from error


def _members(text: str) -> dict[str, Member]:
    members: dict[str, Member] = {}
    at = _after(text, 0, "{")
    if text[at : at + 1] == "}":
        _refuse_more(text, at + 1)
        return members
    while True:
        name, end = _DECODER.raw_decode(text, at)
        if not isinstance(name, str):
            raise ValueError(f"line {_line(text, at)}: expected a name")
        if name in members:
            raise ValueError(f"line {_line(text, at)}: {name} is there twice")
        first = _after(text, end, ":")
        value, end = _DECODER.raw_decode(text, first)
        members[name] = Member(value, at, first, end, _line(text, at))
        at = _blanks(text, end)
        if text[at : at + 1] != ",":
            _refuse_more(text, _after(text, at, "}"))
            return members
        at = _blanks(text, at + 1)


def changed(text: str, changes: Mapping[str, Any]) -> str:
    """The text with these values; None removes a member. A member that already has its value stays as it is
    written. Raises ValueError."""
    for name, value in changes.items():
        members = read(text)
        old = members.get(name)
        if old is None:
            text = text if value is None else _added(text, members, name, value)
        elif value is None:
            text = _without(text, members, name)
        elif json.dumps(old.value, sort_keys=True) != json.dumps(value, sort_keys=True):  # 1, 1.0 and true
            text = text[: old.first] + json.dumps(value) + text[old.end :]
    return text


def undone(saved: str, wrote: Sequence[str], now: str) -> str:
    """The present text without mlnode's part: members, and entries of members, return to their original
    values, unless they were edited. saved: the text before. wrote: mlnode's versions. Raises ValueError."""
    before, *ours = ({name: member.value for name, member in read(text).items()} for text in (saved, *wrote))
    changes = {}
    for name, member in read(now).items():
        value = _without_ours(before.get(name), [own[name] for own in ours if name in own], member.value)
        if value != member.value:
            changes[name] = value
    return changed(now, changes)


def _without_ours(before: Any, ours: Sequence[Any], now: Any) -> Any:
    """A value without mlnode's part; None if nothing is left."""
    if not isinstance(now, dict):
        return before if now in ours else now
    old = before if isinstance(before, dict) else {}
    own = [value for value in ours if isinstance(value, dict)]
    entries = {
        name: old.get(name)
        if value != old.get(name) and any(wrote.get(name) == value for wrote in own)
        else value
        for name, value in now.items()
    }
    left = {name: value for name, value in entries.items() if value is not None}
    return left if left or not now else before


def _added(text: str, members: Mapping[str, Member], name: str, value: Any) -> str:
    """The text with a new first member. Members that others append later need no change to its line."""
    line = f"{json.dumps(name)}: {json.dumps(value)}"
    if not members:
        return f"{{\n{_INDENT}{line}\n}}\n"
    first = min(member.start for member in members.values())
    begin = text.index("{") + 1
    return f"{text[:begin]}{text[begin:first] or ' '}{line},{text[begin:first] or ' '}{text[first:]}"


def _without(text: str, members: Mapping[str, Member], name: str) -> str:
    gone = members[name]
    after = [member.start for member in members.values() if member.start > gone.start]
    if after:
        return text[: gone.start] + text[min(after) :]
    before = [member.end for member in members.values() if member.start < gone.start]
    if before:
        return text[: max(before)] + text[gone.end :]
    return text[: text.index("{") + 1] + text[gone.end :].lstrip(" \t\r\n")


def _blanks(text: str, at: int) -> int:
    match = _BLANKS.match(text, at)
    return match.end() if match else at


def _after(text: str, at: int, sign: str) -> int:
    """The place after a sign and the blanks around it."""
    at = _blanks(text, at)
    if text[at : at + 1] != sign:
        raise ValueError(f"line {_line(text, at)}: expected {sign!r}, got {text[at : at + 20]!r}")
    return _blanks(text, at + 1)


def _refuse_more(text: str, at: int) -> None:
    if text[at:].strip():
        raise ValueError(f"line {_line(text, at)}: expected the end, got {text[at:].strip()[:20]!r}")


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1
