# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sets of CPUs as the kernel writes them: lists such as 0-3,8 and masks such as f,00000001. Pure functions"""

from __future__ import annotations

import re
from typing import Iterable, Iterator

from .record import regex

#: No kernel can be built for more (arch/x86/Kconfig: NR_CPUS_RANGE_END; less on other architectures).
MAX_CPUS = 8192

#: Commas of a list that readable() leaves as it is
_RUNS = 8

_LIST = regex(r"[0-9]{1,9}(-[0-9]{1,9})?(,[0-9]{1,9}(-[0-9]{1,9})?)*\Z", re.ASCII)
_MASK = regex(r"[0-9a-fA-F]{1,8}(,[0-9a-fA-F]{1,8})*\Z", re.ASCII)

#: Bits and hexadecimal digits of one group of a mask (lib/bitmap-str.c: CHUNKSZ)
_GROUP_BITS, _GROUP_DIGITS = 32, 8


def parse(text: str) -> tuple[int, ...]:
    """The CPUs of `0-3,8`, ascending and unique; empty for "". Raises ValueError on anything else."""
    if not text:
        return ()
    if not _LIST.match(text):
        raise ValueError(f"{_short(text)} is not a list of CPUs such as 0-3,8")
    cpus: set[int] = set()
    for part in text.split(","):
        first, _dash, last = part.partition("-")
        low, high = int(first), int(last or first)
        if low > high:
            raise ValueError(f"{_short(part)} in a list of CPUs runs backwards")
        if high >= MAX_CPUS:
            raise ValueError(f"CPU {high} cannot exist: no kernel has more than {MAX_CPUS}")
        cpus.update(range(low, high + 1))
    return tuple(sorted(cpus))


def render(cpus: Iterable[int]) -> str:
    """The shortest list the kernel itself would print; "" for none."""
    spans: list[tuple[int, int]] = []
    for cpu in sorted(set(cpus)):
        if spans and cpu == spans[-1][1] + 1:
            spans[-1] = (spans[-1][0], cpu)
        else:
            spans.append((cpu, cpu))
    return ",".join(f"{low}" if low == high else f"{low}-{high}" for low, high in spans)


def readable(cpus: Iterable[int]) -> str:
    """Like render(), but shorter for people. If firmware numbers CPUs alternately by socket, every second CPU
    is 0-510:2, the stride syntax of taskset(1); a plain list would have a thousand characters."""
    text = render(cpus)
    return text if text.count(",") < _RUNS else ",".join(_strides(parse(text)))


def named(cpus: Iterable[int]) -> str:
    """`CPU 0` or `CPUs 0-1,48`."""
    numbers = {*cpus}
    return f"CPU{'s' if len(numbers) > 1 else ''} {readable(numbers)}"


def _strides(cpus: tuple[int, ...]) -> Iterator[str]:
    at = 0
    while at < len(cpus):
        step = cpus[at + 1] - cpus[at] if at + 1 < len(cpus) else 1
        end = at
        while end + 1 < len(cpus) and cpus[end + 1] - cpus[end] == step:
            end += 1
        if step > 1 and end - at < 2:  # two numbers make no row
            end = at
        run = f"{cpus[at]}-{cpus[end]}" if end > at else f"{cpus[at]}"
        yield f"{run}:{step}" if end > at and step > 1 else run
        at = end + 1


def mask(cpus: Iterable[int]) -> str:
    """As smp_affinity, rps_cpus and xps_cpus take it; "0" for none.

    More than eight digits without a comma are refused with EOVERFLOW, so there is one group for 32 CPUs.
    """
    bits = 0
    for cpu in cpus:
        bits |= 1 << cpu
    digits = f"{bits:x}"
    head = len(digits) % _GROUP_DIGITS
    groups = [digits[at : at + _GROUP_DIGITS] for at in range(head, len(digits), _GROUP_DIGITS)]
    return ",".join([digits[:head], *groups] if head else groups)


def from_mask(text: str) -> tuple[int, ...]:
    """The CPUs of a mask as the kernel prints it, ascending. Raises ValueError on anything else."""
    if not _MASK.match(text):
        raise ValueError(f"{_short(text)} is not a mask of CPUs such as f,00000001")
    groups = text.split(",")
    if len(groups) > MAX_CPUS // _GROUP_BITS:
        raise ValueError(f"{_short(text)} is too long for a mask: no kernel has more than {MAX_CPUS} CPUs")
    numbers: list[int] = []
    for at, group in enumerate(reversed(groups)):
        bits = int(group, 16)
        numbers += [at * _GROUP_BITS + bit for bit in range(_GROUP_BITS) if bits >> bit & 1]
    return tuple(numbers)


def _short(text: str) -> str:
    """Quoted, and no longer than a message bears."""
    return repr(text if len(text) <= 60 else text[:57] + "...")
