# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Effect of isolcpus=, nohz_full= and irqaffinity= on a kernel that gets this command line. Pure functions.

Sources: kernel/sched/isolation.c (housekeeping_setup, housekeeping_isolcpus_setup), lib/bitmap-str.c
(bitmap_parselist) and kernel/irq/irqdesc.c (irq_affinity_setup).
"""

from __future__ import annotations

import re
from typing import Iterable, Sequence

from ..model.record import NamedTuple, regex

DOMAIN, NOHZ, MANAGED = "domain", "nohz", "managed_irq"
_FLAGS = (NOHZ, DOMAIN, MANAGED)
#: Since this version each flag has its own CPUs; before it all words must name the same CPUs
#: ("sched/isolation: Split housekeeping cpumask per isolation features")
_OWN_CPUS_SINCE = (5, 18)

_REGION = regex(r"(?:([0-9]{1,9}|N)(?:-([0-9]{1,9}|N)(:.*)?)?|[aA][lL][lL](:.*)?)\Z", re.ASCII)
_PATTERN = regex(r":([0-9]{1,9}|N)/([0-9]{1,9}|N)\Z", re.ASCII)


class Word(NamedTuple):
    """A word that the kernel obeys. flags: of DOMAIN, NOHZ, MANAGED; empty for irqaffinity. cpus: sorted."""

    text: str
    key: str
    flags: tuple[str, ...]
    cpus: tuple[int, ...]


class Given(NamedTuple):
    """ignored: text of each word without effect → the reason."""

    words: tuple[Word, ...]
    ignored: tuple[tuple[str, str], ...]

    def cpus(self, flag: str) -> frozenset[int]:
        return frozenset(cpu for word in self.words if flag in word.flags for cpu in word.cpus)


def parse(text: str, last: int) -> tuple[int, ...]:
    """CPUs of a list as the kernel reads it: `0-3,8-31:1/2`, `4-N`, `all`. last: the highest possible CPU.

    Raises ValueError for a list that the kernel refuses as a whole.
    """
    cpus: set[int] = set()
    for region in text.replace(",", " ").split():
        match = _REGION.match(region)
        if match is None:
            raise ValueError(f"{region[:40]!r} is not a range of CPUs")
        first, end, pattern, pattern_of_all = match.groups()
        low = 0 if first is None else _number(first, last)
        high = last if first is None else _number(end or first, last)
        used, group = _pattern(pattern or pattern_of_all, last, high)
        if low > high:
            raise ValueError(f"{region[:40]!r} runs backwards")
        if high > last:
            raise ValueError(f"CPU {high} is not possible here: the last is {last}")
        cpus.update(cpu for cpu in range(low, high + 1) if (cpu - low) % group < used)
    return tuple(sorted(cpus))


def _number(text: str, last: int) -> int:
    return last if text == "N" else int(text)


def _pattern(text: str | None, last: int, high: int) -> tuple[int, int]:
    """Used CPUs and size of each group of `:1/2`; one group for a range without a pattern."""
    if text is None:
        return high + 1, high + 1
    match = _PATTERN.match(text)
    used, group = (_number(number, last) for number in match.groups()) if match else (1, 0)
    if not group or used > group:
        raise ValueError(f"{text[:40]!r} is not a pattern such as :1/2")
    return used, group


def read(
    words: Iterable[tuple[str, str]], present: Sequence[int], last: int, version: tuple[int, int] | None
) -> Given:
    """Effect of all words. words: key, with _ for -, and value, in the order of the command line.

    The first word of a flag counts: a later one with other CPUs is ignored. present: CPUs of this machine;
    the first of them is taken as the boot CPU. version: of the kernel, None if unknown.
    """
    obeyed: list[Word] = []
    ignored: list[tuple[str, str]] = []
    for key, value in words:
        text = f"{key}={value}"
        try:
            obeyed.append(_word(text, key, value, present, last, obeyed, version))
        except ValueError as error:
            ignored.append((text, str(error)))
    # The kernel replaces the mask with each irqaffinity=.
    masks = [word for word in obeyed if word.key == "irqaffinity"]
    ignored += [(word.text, "a later irqaffinity= replaces it") for word in masks[:-1]]
    return Given(tuple(word for word in obeyed if word not in masks[:-1]), tuple(ignored))


def _word(
    text: str,
    key: str,
    value: str,
    present: Sequence[int],
    last: int,
    before: Sequence[Word],
    version: tuple[int, int] | None,
) -> Word:
    """Raises ValueError with the reason why the kernel ignores this word."""
    flags, listed = _flags(value) if key == "isolcpus" else ((), value)
    if key == "nohz_full":
        flags = (NOHZ,)
    cpus = parse(listed, last)
    if key == "irqaffinity":
        # The boot CPU is always added.
        return Word(text, key, (), tuple(sorted({*cpus, *present[:1]})))
    if present and {*present} <= {*cpus}:
        cpus = tuple(cpu for cpu in cpus if cpu != present[0])
    if not cpus:
        raise ValueError("it names no CPU that could be isolated")
    old = version is not None and version < _OWN_CPUS_SINCE
    for word in before:
        if word.flags and word.cpus != cpus and (old or {*word.flags} & {*flags}):
            raise ValueError(f"{word.text} comes first, and the kernel refuses other CPUs after it")
    return Word(text, key, flags, cpus)


def _flags(value: str) -> tuple[tuple[str, ...], str]:
    """Flags of isolcpus= and the rest. A word that begins with a letter is a flag, also `N` and `all`."""
    flags: list[str] = []
    while value[:1].isascii() and value[:1].isalpha():
        flag, comma, value = value.partition(",")
        if flag in _FLAGS and comma:
            flags.append(flag)
        elif not re.match(r"[A-Za-z_]+\Z", flag):
            raise ValueError(f"{flag[:40]!r} is not a flag")
    return tuple(dict.fromkeys(flags)) or (DOMAIN,), value
