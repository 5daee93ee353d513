# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from ansible_collections.mlnode.tuning.tests.unit.effort import EFFORT
from hypothesis import settings, strategies

#: For all properties of the library
quick = settings(max_examples=25 * EFFORT)

#: Texts as a kernel or a person might write them, and some that neither would
words = strategies.one_of(
    strategies.sampled_from(
        ["", "0", "1", "y", "N", "on", "off", "-1", "007", "1,2", "5-9", "9-5", "auto", "-"]
    ),
    strategies.integers().map(str),
    strategies.text(alphabet="0123456789-, \t\n[]yYnN.xA", max_size=12),
    strategies.text(max_size=8),
)

#: Far more digits than int() of a newer Python takes
endless = strategies.integers(4000, 6000).map(lambda count: "9" * count)

values = strategies.one_of(words, strategies.lists(words, max_size=4).map(" ".join), endless)


def ranges(most: int = 40) -> strategies.SearchStrategy[list[tuple[int, int]]]:
    """Pairs of first and last number, first never above last."""
    number = strategies.integers(0, most)
    pair = strategies.tuples(number, number).map(lambda two: (min(two), max(two)))
    return strategies.lists(pair, min_size=1, max_size=6)


def spelled(pairs: list[tuple[int, int]]) -> str:
    """1-1,3-5 as a person might write it: single numbers without a dash."""
    return ",".join(f"{low}" if low == high else f"{low}-{high}" for low, high in pairs)
