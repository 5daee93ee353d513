# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names of hosts for people: in the order in which one counts, and many of them in few words."""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

#: More digits than these are an address or a serial number, not a count
_DIGITS = 9

#: Names in one line
_NAMED = 6

#: Least length of a run of numbers: gpu1, gpu2 stay as they are
_LEAST = 3

# [0-9] and not \d, which takes digits of every script.
_NUMBER = re.compile(rf"(?<![0-9])[0-9]{{1,{_DIGITS}}}(?![0-9])")

#: Text before a number, text after it, digits of the number
_Form = tuple[str, str, int]


def natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """Sorts gpu2 before gpu10, by their digits, as int() does not take any number of them."""
    return tuple(
        (0, len(piece.lstrip("0")), piece.lstrip("0") + piece)
        if piece.isascii() and piece.isdigit()
        else (1, 0, piece)
        for piece in re.split(r"([0-9]+)", name)
    )


class Run(NamedTuple):
    """Hosts in one word, and how many they are."""

    text: str
    hosts: int


def folded(names: Iterable[str]) -> list[Run]:
    """Runs of numbers in the notation of an inventory: gpu[001:004].hall2.example. If a name has several
    numbers, the most variable counts, or else the last. All numbers of a run have as many digits."""
    forms = {name: _forms(name) for name in names}
    sizes = Counter(form for known in forms.values() for form, _number in known)
    pairs: list[tuple[str, Run]] = []
    alike: dict[_Form, list[str]] = {}
    for name, known in forms.items():
        if known:
            form, number = max(known, key=lambda item: sizes[item[0]])
            alike.setdefault(form, []).append(number)
        else:
            pairs.append((name, Run(name, 1)))
    for (before, after, _width), numbers in alike.items():
        for run in _runs(sorted(numbers)):
            first = f"{before}{run[0]}{after}"
            if len(run) < _LEAST:
                pairs += [(name, Run(name, 1)) for name in (f"{before}{number}{after}" for number in run)]
            else:
                pairs.append((first, Run(f"{before}[{run[0]}:{run[-1]}]{after}", len(run))))
    return [run for _first, run in sorted(pairs, key=lambda pair: natural(pair[0]))]


@functools.lru_cache(maxsize=1 << 16)
def _forms(name: str) -> tuple[tuple[_Form, str], ...]:
    """A form and its number for each number of a name, the last one first. Kept, as a report names a host
    many times."""
    forms = [
        ((name[: match.start()], name[match.end() :], len(match[0])), match[0])
        for match in _NUMBER.finditer(name)
    ]
    return tuple(forms[::-1])


def _runs(numbers: Sequence[str]) -> Iterator[list[str]]:
    run: list[str] = []
    for number in numbers:
        if run and int(number) != int(run[-1]) + 1:
            yield run
            run = []
        run.append(number)
    if run:
        yield run


def few(names: Sequence[str], most: int = _NAMED) -> str:
    """At most so many words, and how many hosts the rest are."""
    listed = folded(names)
    words = ", ".join(run.text for run in listed[:most])
    rest = sum(run.hosts for run in listed[most:])
    return f"{words} and {rest} more" if rest else words
