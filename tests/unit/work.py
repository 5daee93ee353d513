# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How much work something is, in a number that is the same on a busy machine and on an idle one.

Seconds belong to `make bench`. A test counts calls of functions, the interpreter's own among them, and looks
how their number grows with the size of the input.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

#: For what happens once in a while, such as a list that becomes longer than its memory. Work that grows with
#: the square of the size has a factor of two where the size is doubled.
TOLERANCE = 1.15


def calls(work: Callable[[], object], name: str = "") -> int:
    """How many functions are called until the work is done. name: count only this one of the interpreter's
    own, such as open."""
    number = 0

    def count(_frame: Any, event: str, function: Any) -> None:
        nonlocal number
        if name:
            number += event == "c_call" and function.__name__ == name
        else:
            number += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(before)
    return number


def rates(sizes: Sequence[int], work: Callable[[int], object]) -> list[float]:
    """From each size to the next: how many calls each one more costs. What is the same for all sizes does not
    count, as it would hide how the rest grows."""
    work(sizes[0])  # what is kept from now on
    done = [calls(lambda size=size: work(size)) for size in sizes]
    steps = zip(sizes, sizes[1:], done, done[1:])
    return [(after - before) / (large - small) for small, large, before, after in steps]


def is_linear(sizes: Sequence[int], work: Callable[[int], object]) -> bool:
    """True if the last ones more cost no more than the first ones did. sizes: three or more, each twice the
    one before."""
    found = rates(sizes, work)
    return max(found) <= TOLERANCE * found[0]
