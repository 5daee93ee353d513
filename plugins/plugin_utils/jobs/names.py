# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names of ranks and values for readers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from ..fleet_report.names import few, natural
from .model import Rank

#: Nodes that a line names one by one with their ranks, and runs of numbers or pids in a line
_NODES, _RUNS = 4, 6

#: Values in bytes, from the limits and files of the kernel
_BYTES = re.compile(
    r"limit (?:memlock|stack|core) (?:soft|hard)|memory (?:limit|high|swap limit)|shm size|hugetlb .+ limit"
)
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")

#: Characters of a name or value in a line; a path of NCCL_TOPO_FILE fits
_CHARACTERS = 100
#: Characters before a difference of two long values: the name of a device or a folder
_BEFORE = 20

#: Digits that a number of people's texts has at most: 2^64 has 20
_DIGITS = 20


def runs(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """First and last of each run of consecutive numbers."""
    pairs: list[tuple[int, int]] = []
    for number in sorted({*numbers}):
        if pairs and number == pairs[-1][1] + 1:
            pairs[-1] = (pairs[-1][0], number)
        else:
            pairs.append((number, number))
    return pairs


def numbered(pairs: Sequence[tuple[int, int]]) -> str:
    """Such as `3, 8-15`."""
    words = [str(first) if first == last else f"{first}-{last}" for first, last in pairs[:_RUNS]]
    rest = sum(last - first + 1 for first, last in pairs[_RUNS:])
    return ", ".join(words) + (f" and {rest} more" if rest else "")


def who(ranks: Sequence[Rank]) -> str:
    """Such as `ranks 8-15 on gpu002, rank 37 on gpu019`. Processes without a rank number have their pid."""
    by_node: dict[str, list[Rank]] = {}
    for rank in ranks:
        by_node.setdefault(rank.node, []).append(rank)
    nodes = sorted(by_node, key=natural)
    if len(nodes) <= _NODES:
        return ", ".join(f"{_words(by_node[node])} on {node}" for node in nodes)
    return f"{_words(ranks)} on {few(nodes)}"


def _words(ranks: Sequence[Rank]) -> str:
    numbers = [rank.number for rank in ranks if rank.number is not None]
    pids = [pid for rank in ranks if rank.number is None for pid in rank.pids]
    parts = [f"rank{'s' if len({*numbers}) > 1 else ''} {numbered(runs(numbers))}"] if numbers else []
    if pids:
        rest = len(pids) - _RUNS
        more = f" and {rest} more" if rest > 0 else ""
        parts.append(f"pid{'s' if pids[1:] else ''} {', '.join(map(str, sorted(pids)[:_RUNS]))}{more}")
    return " and ".join(parts)


def amount(name: str, text: str) -> str:
    """A value for readers: bytes with their unit."""
    if not (_BYTES.fullmatch(name) and is_number(text)):
        return short(text) or '""'
    number, unit = float(text), 0
    while number >= 1024 and unit < len(_UNITS) - 1:
        number, unit = number / 1024, unit + 1
    return f"{number:.4g} {_UNITS[unit]}"


def told_apart(name: str, texts: Sequence[str]) -> list[str]:
    """Different values for readers, as amount(). Those that would look the same are shown from their first
    difference on, and amounts with all of their digits."""
    alike: dict[str, list[str]] = {}
    for text in texts:
        alike.setdefault(amount(name, text), []).append(text)
    words: dict[str, str] = {}
    for shown, some in alike.items():
        signs = enumerate(zip(*some))
        begin = next((at for at, column in signs if len({*column}) > 1), min(map(len, some)))
        is_short = all(len(text) <= _CHARACTERS for text in some)
        for text in some:
            words[text] = shown if len(some) == 1 else text if is_short else _from(text, begin)
    return [words[text] for text in texts]


def _from(text: str, begin: int) -> str:
    """The part of a text from a difference on, with some of it before."""
    return short(f"...{text[max(begin - _BEFORE, 0) :]}")


def short(text: str, most: int = _CHARACTERS) -> str:
    """A name or value that leaves room for others in its line. The document has all of it."""
    return text if len(text) <= most else f"{text[: most - 3]}..."


def is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _DIGITS
