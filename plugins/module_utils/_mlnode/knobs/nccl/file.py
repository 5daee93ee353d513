# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The file that NCCL or RCCL reads, and mlnode's blocks in it (src/misc/param.cc: setEnvFile).

A line is NAME=VALUE, with all blanks included; # in the first column begins a comment. NCCL sets a variable
only if the environment does not have it, so the first of several lines counts. mlnode's blocks therefore
precede foreign lines, which are preserved byte for byte.
"""

from __future__ import annotations

import re
from typing import Mapping, Sequence

from ...host.host import Host
from ...model import accelerators
from ...model.errors import HostError
from ...model.record import NamedTuple, regex
from ...topology import hardware

PATH = "/etc/nccl.conf"

#: With a name that declarations may have (declared.check_name)
_BEGIN = regex(r"# BEGIN mlnode\.tuning ([a-z0-9][a-z0-9_-]{0,62})(?: [^\n]*)?\n\Z", re.ASCII)


def _begin(name: str) -> str:
    return f"# BEGIN mlnode.tuning {name} (of several lines for a variable NCCL takes the first)\n"


def _end(name: str) -> str:
    return f"# END mlnode.tuning {name}\n"


class Line(NamedTuple):
    """A line that sets a variable. number: line number from 1. owner: the declaration of its block."""

    name: str
    value: str
    number: int
    owner: str = ""


class Conf(NamedTuple):
    """The file. blocks: declaration → the lines of its block. others: all other lines, byte for byte."""

    lines: tuple[Line, ...]
    blocks: Mapping[str, tuple[str, ...]]
    others: str

    def effective(self, name: str) -> Line | None:
        """The line in force for a variable."""
        return next((line for line in self.lines if line.name == name), None)

    def foreign(self, name: str) -> Line | None:
        """The first foreign line for a variable."""
        return next((line for line in self.lines if line.name == name and not line.owner), None)

    def own(self, name: str, owner: str) -> Line | None:
        """The line for a variable in the block of a declaration."""
        return next((line for line in self.lines if line.name == name and line.owner == owner), None)

    def having(self, owner: str, variables: Mapping[str, str], gone: Sequence[str] = ()) -> str:
        """The file's text with these variables in the block of a declaration, or without the block if there
        are none.

        gone: declarations that no longer exist; their blocks are removed.
        """
        kept = {name: rows for name, rows in self.blocks.items() if name not in gone}
        blocks = {**kept, owner: tuple(f"{name}={value}\n" for name, value in variables.items())}
        block_texts = [
            "".join([_begin(name), *lines, _end(name)]) for name, lines in sorted(blocks.items()) if lines
        ]
        return "".join(block_texts) + self.others


def path_of(host: Host) -> str:
    """File that jobs on this machine's GPUs read: RCCL has another one than NCCL. Machines with both vendors'
    GPUs have NCCL's. Without a visible GPU it is the file with mlnode's blocks: GPUs may be back later."""
    paths = {accelerators.CONFS.get(gpu.vendor, PATH) for gpu in hardware.topology(host).gpus}
    paths = paths or {path for path in accelerators.CONFS.values() if _has_blocks(host, path)}
    path = paths.pop() if len(paths) == 1 else PATH
    try:
        linked = host.link_target(path)
    except HostError:  # its reader has the same error
        linked = ""
    return PATH if linked in (PATH, PATH.rpartition("/")[2]) else path


def _has_blocks(host: Host, path: str) -> bool:
    try:
        return bool(parse(host.text(path)).blocks)
    except HostError:
        return False


def home_name(path: str) -> str:
    """Name of the file in a user's home folder that comes before this one."""
    return f".{path.rpartition('/')[2]}"


def parse(text: str) -> Conf:
    """The parsed file. Any text is valid, as NCCL ignores lines that it cannot read."""
    # splitlines() would also split at form feeds and the like.
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
    """Rows without stray first and last lines of blocks.

    Without the block between them, they would form a new block around foreign lines. Strays are comments; the
    rows between them are kept.
    """
    rows = list(others)
    at = 0
    while at < len(rows):
        owner, end = _block(rows, at)
        if owner:
            del rows[end - 1], rows[at]
            at = 0  # The lines around them may now match
        else:
            at += 1
    return rows


def _block(rows: Sequence[str], at: int) -> tuple[str, int]:
    """Owner of the block that begins in a row, and the row after its end; "" for a foreign row. A block
    without its last line has no owner, as its end is unknown.
    """
    begin = _BEGIN.match(rows[at])
    if begin:
        for last in range(at + 1, len(rows)):
            if rows[last] == _end(begin.group(1)):
                return begin.group(1), last + 1
            if _BEGIN.match(rows[last]):
                break
    return "", at + 1
