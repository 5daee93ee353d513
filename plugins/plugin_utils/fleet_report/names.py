# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names of hosts for people: in the order in which one counts, and many of them in few words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

#: More digits than these are an address or a serial number, not a count
_DIGITS = 9

#: Of a run of numbers, so that gpu1, gpu2 stay as they are
_LEAST = 3

# [0-9] and not \d, which takes digits of every script.
_NUMBER = re.compile(rf"(?s)(.*?)([0-9]{{1,{_DIGITS}}})([^0-9]*)\Z")


def natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """Sorts gpu2 before gpu10, by their digits, as int() does not take any number of them."""
    return tuple(
        (0, len(piece.lstrip("0")), piece.lstrip("0") + piece)
        if piece.isascii() and piece.isdigit()
        else (1, 0, piece)
        for piece in re.split(r"([0-9]+)", name)
    )


def folded(names: Iterable[str]) -> list[str]:
    """Runs of numbers as an inventory writes them: gpu[001:004].example. Of two numbers in a name it is the
    last that counts, and all of a run have as many digits."""
    pairs: list[tuple[str, str]] = []
    alike: dict[tuple[str, str, int], list[str]] = {}
    for name in {*names}:
        match = _NUMBER.match(name)
        if match is None:
            pairs.append((name, name))
        else:
            before, number, after = match.groups()
            alike.setdefault((before, after, len(number)), []).append(number)
    for (before, after, _width), numbers in alike.items():
        for run in _runs(sorted(numbers)):
            first = f"{before}{run[0]}{after}"
            if len(run) < _LEAST:
                pairs += [(f"{before}{number}{after}",) * 2 for number in run]
            else:
                pairs.append((first, f"{before}[{run[0]}:{run[-1]}]{after}"))
    return [word for _first, word in sorted(pairs, key=lambda pair: natural(pair[0]))]


def _runs(numbers: Sequence[str]) -> Iterator[list[str]]:
    run: list[str] = []
    for number in numbers:
        if run and int(number) != int(run[-1]) + 1:
            yield run
            run = []
        run.append(number)
    if run:
        yield run


def few(names: Sequence[str], most: int) -> str:
    """At most so many words, and how many hosts the rest are."""
    listed = folded(names)
    if len(listed) <= most:
        return ", ".join(listed)
    shown = listed[:most]
    named = sum(_count(word, names) for word in shown)
    return f"{', '.join(shown)} and {len({*names}) - named} more"


def _count(word: str, names: Sequence[str]) -> int:
    """Number of hosts that a word of folded() stands for. A host may be called like a run itself."""
    match = re.search(r"\[([0-9]+):([0-9]+)\]", word)
    return 1 if match is None or word in names else int(match[2]) - int(match[1]) + 1
