# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""/etc/nccl.conf as NCCL reads it, and mlnode's blocks in it (NCCL's src/misc/param.cc: setEnvFile).

A line is NAME=VALUE, both to the last blank as they stand there; # in the first column makes a comment. Each
is set in the environment unless that has the name already, so that of several lines the first counts. That is
why our blocks stand before what others have written, which stays byte for byte.
"""

from __future__ import annotations

import re
from typing import Mapping, Sequence

from ...model.record import NamedTuple, regex

PATH = "/etc/nccl.conf"

#: With a name as declarations have them (declared.check_name)
_BEGIN = regex(r"# BEGIN mlnode\.tuning ([a-z0-9][a-z0-9_-]{0,62})(?: [^\n]*)?\n\Z", re.ASCII)


def _begin(name: str) -> str:
    return f"# BEGIN mlnode.tuning {name} (of several lines for a variable NCCL takes the first)\n"


def _end(name: str) -> str:
    return f"# END mlnode.tuning {name}\n"


class Line(NamedTuple):
    """A variable of the file. number: of the line, from 1. owner: the declaration in whose block it is."""

    name: str
    value: str
    number: int
    owner: str = ""

    @property
    def where(self) -> str:
        return f"{PATH}:{self.number}"


class Conf(NamedTuple):
    """The file. blocks: declaration → the lines of its block. others: all else, byte for byte."""

    lines: tuple[Line, ...]
    blocks: Mapping[str, tuple[str, ...]]
    others: str

    def effective(self, name: str) -> Line | None:
        """The line that counts for a variable."""
        return next((line for line in self.lines if line.name == name), None)

    def foreign(self, name: str) -> Line | None:
        """The first line for a variable that no declaration has written."""
        return next((line for line in self.lines if line.name == name and not line.owner), None)

    def own(self, name: str, owner: str) -> Line | None:
        """The line for a variable in the block of a declaration."""
        return next((line for line in self.lines if line.name == name and line.owner == owner), None)

    def having(self, owner: str, variables: Mapping[str, str], gone: Sequence[str] = ()) -> str:
        """The file's text with these variables in the block of a declaration; without any, without it. gone:
        declarations that no longer exist, and their blocks with them."""
        kept = {name: rows for name, rows in self.blocks.items() if name not in gone}
        blocks = {**kept, owner: tuple(f"{name}={value}\n" for name, value in variables.items())}
        block_texts = [
            "".join([_begin(name), *lines, _end(name)]) for name, lines in sorted(blocks.items()) if lines
        ]
        return "".join(block_texts) + self.others


def parse(text: str) -> Conf:
    """Nothing in a file is a mistake: NCCL passes over what it cannot read."""
    # Not splitlines(), to which a form feed and others are the end of a line.
    rows = re.findall(r"[^\n]*\n|[^\n]+", text)
    lines: list[Line] = []
    blocks: dict[str, tuple[str, ...]] = {}
    others: list[str] = []
    end = 0
    owner = ""
    for at, row in enumerate(rows):
        if at >= end:
            owner, end = _block(rows, at)
        if not owner:
            others.append(row)
        name, equals, value = row.rstrip("\n").partition("=")
        if not equals or row.startswith("#"):
            continue
        lines.append(Line(name, value, at + 1, owner))
        if owner:
            blocks[owner] = (*blocks.get(owner, ()), row)
    return Conf(tuple(lines), blocks, "".join(_without_strays(others)))


def _without_strays(others: Sequence[str]) -> list[str]:
    """Rows without stray first and last lines: once the block between them is gone they would form one, with
    foreign lines in it. They are comments; what is between them stays."""
    rows = list(others)
    at = 0
    while at < len(rows):
        owner, end = _block(rows, at)
        if owner:
            del rows[end - 1], rows[at]
            at = 0  # what was around them may be the next
        else:
            at += 1
    return rows


def _block(rows: Sequence[str], at: int) -> tuple[str, int]:
    """Owner of the block that begins in a row, and the row behind its end; "" for a foreign row. A block
    without its last line has no owner: all that follows might be part of it."""
    begin = _BEGIN.match(rows[at])
    if begin:
        for last in range(at + 1, len(rows)):
            if rows[last] == _end(begin.group(1)):
                return begin.group(1), last + 1
            if _BEGIN.match(rows[last]):
                break
    return "", at + 1
