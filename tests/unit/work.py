# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How much work something is, in a number that is the same on a busy machine and on an idle one.

Seconds belong to `make bench`. A test counts calls of functions, the interpreter's own among them, and looks
how their number grows with the size of the input.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
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

    _profile(work, count)
    return number


def calls_of(work: Callable[[], object], functions: Mapping[str, Any]) -> dict[str, int]:
    """How often each of these functions of Python is called, by whichever name it was imported. One that is
    not called is left out."""
    names = {function.__code__: name for name, function in functions.items()}
    found: Counter[str] = Counter()

    def count(frame: Any, event: str, _argument: object) -> None:
        if event == "call" and frame.f_code in names:
            found[names[frame.f_code]] += 1

    _profile(work, count)
    return dict(found)


def _profile(work: Callable[[], object], count: Callable[[Any, str, Any], None]) -> None:
    before = sys.getprofile()
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(before)


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
