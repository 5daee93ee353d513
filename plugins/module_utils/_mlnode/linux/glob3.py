# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Patterns of glob(3) with GLOB_BRACE, as systemd expands them (basic/glob-util.c), in the C locale."""

from __future__ import annotations

import fnmatch
import re
from typing import Iterator

from ..model.record import regex

#: Unsupported: escaped signs, named classes, and a second bracket with a negation in one
_UNREAD = regex(r"\\|\[[:.=]|\[[^\]]*\[\^")


def is_read(pattern: str) -> bool:
    """False for a pattern with an unsupported sign: it may match other paths than matches() returns."""
    return _UNREAD.search(pattern) is None


def matches(pattern: str, path: str) -> bool:
    """True if a pattern matches a path, or may, because it is unsupported from some sign on."""
    unread = _UNREAD.search(pattern)
    if unread is not None:
        begin = re.split(r"[*?\[{]", pattern[: unread.start()])[0]
        return path.startswith(begin)
    negated = pattern.replace("[^", "[!")  # both mean the same to glob(3)
    return any(_fits(one.split("/"), path.split("/")) for one in _alternatives(negated))


def _fits(parts: list[str], names: list[str]) -> bool:
    try:
        return len(parts) == len(names) and all(map(fnmatch.fnmatchcase, names, parts))
    except re.error:  # a range that ends before it begins, to old versions of Python
        return False


def _alternatives(pattern: str) -> Iterator[str]:
    """Expansions of `{a,b}`; a brace without its end is literal."""
    begin = pattern.find("{")
    ends, depth = [begin], 0
    for at in range(begin + 1, len(pattern)) if begin >= 0 else ():
        sign = pattern[at]
        if not depth and sign in ",}":
            ends.append(at)
            if sign == "}":
                break
        depth += {"{": 1, "}": -1}.get(sign, 0)
    else:
        yield pattern
        return
    for first, last in zip(ends, ends[1:]):
        yield from _alternatives(pattern[:begin] + pattern[first + 1 : last] + pattern[ends[-1] + 1 :])
