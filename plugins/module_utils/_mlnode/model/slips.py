# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Typing errors in a name that only a table of the kernel's names can tell from a name of another kernel."""

from __future__ import annotations

#: Most wrong, missing, extra or exchanged letters. Linux 7.3 has 247 sysctls that 4.19 lacks: 3 of them are
#: this close to an older one, and 4 with one slip more.
_MOST = 2
#: Shorter names may have one slip: kernel/acct and kernel/arch differ by two
_LONG = 8


def most(name: str) -> int:
    """Most slips between a mistyped name and this one."""
    return _MOST if len(name) >= _LONG else 1


def count(text: str, other: str, most_: int) -> int:
    """The least number of slips between two texts, or more than `most_` (optimal string alignment)."""
    if abs(len(text) - len(other)) > most_ or len({*text} ^ {*other}) > 2 * most_:
        return most_ + 1
    before: list[int] = []
    last: list[int] = []
    row: list[int] = [*range(len(other) + 1)]
    for at, letter in enumerate(text, 1):
        before, last, row = row, before, [at]
        for there, its in enumerate(other, 1):
            cost = min(before[there] + 1, row[-1] + 1, before[there - 1] + (letter != its))
            if at > 1 and there > 1 and (letter, text[at - 2]) == (other[there - 2], its):
                cost = min(cost, last[there - 2] + 1)
            row.append(cost)
        if min(row) > most_:
            return most_ + 1
    return row[-1]
