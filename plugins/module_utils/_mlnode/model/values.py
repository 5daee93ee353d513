# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kernel values compared by meaning, not by spelling, and values grouped by key. Pure functions."""

from __future__ import annotations

import re
from typing import Iterable, Mapping, TypeVar

from . import cpulist
from .errors import DeclarationError
from .record import regex

K = TypeVar("K")
V = TypeVar("V")

# No kernel number has more than 20 digits, and int() itself refuses thousands of them.
_NUMBER = regex(r"[ \t\n]*([0-9]{1,20})[ \t\n]*\Z", re.ASCII)
_INT = regex(r"-?[0-9]{1,40}\Z", re.ASCII)
_RANGES = regex(r"[0-9]{1,40}(-[0-9]{1,40})?(,[0-9]{1,40}(-[0-9]{1,40})?)*\Z", re.ASCII)
#: A CPU mask as bitmap_parse() takes it: groups of eight hex digits, the highest first and maybe shorter
_MASK = regex(r"[0-9a-f]{1,8}(,[0-9a-f]{8})+\Z|[0-9a-f]{1,8}\Z", re.ASCII)
#: As `uname -r` has it: 6.8.0-45-generic
_RELEASE = regex(r"([0-9]{1,4})\.([0-9]{1,4})", re.ASCII)
_BRACKET = regex(r"\[([^\[\]\s]+)\]")


def number(text: str | None) -> int | None:
    """A whole number as the kernel prints it; None for anything else, such as a negative one. str.isdigit(),
    str.strip() and int() disagree with the kernel on digits and blanks."""
    match = _NUMBER.match(text or "")
    return int(match.group(1)) if match else None


#: As memparse() of lib/cmdline.c reads a size
_SIZE = regex(
    r"(0[xX][0-9a-fA-F]{1,15}|0[0-7]{0,20}|[1-9][0-9]{0,17})([KMGTPE]?)\Z", re.IGNORECASE | re.ASCII
)


def memparse(text: str) -> int | None:
    """Bytes of a size such as 1G on the kernel's command line; None if it is not a size."""
    match = _SIZE.match(text)
    if match is None:
        return None
    digits, unit = match.groups()
    base = 16 if digits[:2] in ("0x", "0X") else 8 if digits.startswith("0") else 10
    return int(digits, base) << 10 * " KMGTPE".index(unit.upper() or " ")


def kernel_version(release: str | None) -> tuple[int, int] | None:
    """Version and patch level of a kernel release, for comparison with the release that introduced a feature;
    None for any other text."""
    match = _RELEASE.match(release or "")
    return (int(match.group(1)), int(match.group(2))) if match else None


def size(count: int) -> str:
    """Bytes for people, such as 1.5 GiB."""
    for unit, factor in (("TiB", 1 << 40), ("GiB", 1 << 30)):
        if count >= factor:
            return f"{count / factor:.4g} {unit}"
    return f"{count / (1 << 20):.4g} MiB"


def tokens(text: str) -> tuple[str, ...]:
    """The words of a value: the kernel prints tabs where people write spaces."""
    return tuple(text.split())


def same(left: str, right: str) -> bool:
    """True if both are one value as the kernel prints it: numbers, lists of ranges, masks, words.

    Files written by people follow the grammar of their parser; compare the value that the kernel would
    show for them: see sysctl_values.
    """
    first, second = tokens(left), tokens(right)
    return len(first) == len(second) and all(_same_token(a, b) for a, b in zip(first, second))


def _same_token(left: str, right: str) -> bool:
    if left == right:
        return True
    if _INT.match(left) and _INT.match(right):
        return int(left) == int(right)
    # Before lists: 1,00000000 is CPU 32, and as a list of numbers it would be the same as 0,00000001.
    if _MASK.match(left) and _MASK.match(right):
        return _bits(left) == _bits(right)
    if "," in left + right or "-" in left + right:
        ranges = number_ranges(left)
        return ranges is not None and ranges == number_ranges(right)
    return False


def _bits(mask: str) -> str:
    return mask.replace(",", "").lstrip("0")


def number_ranges(text: str) -> tuple[tuple[int, int], ...] | None:
    """Merged ranges of `1,2,5-9`, or None if text is not such a list.

    Kept as ranges and never as single numbers, because 0-4294967295 is a legal list.
    """
    if not _RANGES.match(text):
        return None
    spans = []
    for part in text.split(","):
        first, _dash, last = part.partition("-")
        spans.append((int(first), int(last or first)))
    if any(low > high for low, high in spans):  # the kernel refuses 9-5
        return None
    merged: list[tuple[int, int]] = []
    for low, high in sorted(spans):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], high))
        else:
            merged.append((low, high))
    return tuple(merged)


def fits(runtime: str, want: str, among: bool = False) -> bool:
    """True if a kernel file shows the wanted value. among: the file lists all possible values, and the wanted
    ones must be among them."""
    if among:
        return bool(tokens(want)) and {*tokens(want)} <= {*tokens(runtime)}
    return same(chosen(runtime), want)


def integers(text: str) -> tuple[int, ...] | None:
    """All tokens as integers, or None if one is not."""
    numbers = tokens(text)
    if not numbers or not all(_INT.match(word) for word in numbers):
        return None
    return tuple(int(word) for word in numbers)


def raised(floor: str, runtime: str) -> str:
    """Wanted value of a raise-only setting: the greater of two values, token by token, or every member of two
    lists of ranges.

    Raises DeclarationError if the two cannot be compared (different length, no numbers).
    """
    if _is_list(floor):
        return _union(floor, runtime)
    low, present = integers(floor), integers(runtime)
    if low is None or present is None or len(low) != len(present):
        raise DeclarationError(
            f"at_least {floor!r} cannot be compared with the present value {runtime!r}: "
            "both must be the same number of integers"
        )
    return " ".join(str(max(pair)) for pair in zip(low, present))


def reaches(floor: str, value: str) -> bool:
    """True if a value is already as high as floor, or holds every member of it."""
    try:
        return same(raised(floor, value), value)
    except DeclarationError:
        return False


def lowers(value: str, other: str) -> bool:
    """True if another value takes something from this one: one of its numbers is less, or a member is
    missing. False if the two cannot be compared."""
    try:
        return not same(raised(value, other), other)
    except DeclarationError:
        return False


def _is_list(text: str) -> bool:
    return number_ranges(text) is not None and not _INT.match(text)


def _union(left: str, right: str) -> str:
    both = ",".join(part for part in (left, right.strip()) if part)
    merged = number_ranges(both)
    if merged is None:
        raise DeclarationError(f"at_least {left!r}: the present value {right!r} is not a list of numbers")
    return ",".join(f"{low}" if low == high else f"{low}-{high}" for low, high in merged)


def chosen(text: str) -> str:
    """The active word of `always [madvise] never`; the whole text if nothing is bracketed."""
    match = _BRACKET.search(text)
    return match.group(1) if match else text.strip()


def choices(text: str) -> tuple[str, ...]:
    """Every word the kernel offers, in its order; empty where the file lists no choice."""
    if not _BRACKET.search(text):
        return ()
    return tuple(word.strip("[]") for word in tokens(text))


def by_key(pairs: Iterable[tuple[K, V]]) -> dict[K, list[V]]:
    """Key → its values, both in the order of the pairs."""
    groups: dict[K, list[V]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups


def grouped(texts: Mapping[int, str]) -> str:
    """Many values in one line: the value itself if all are equal, else `powersave: 0-61; ondemand: 62`."""
    numbers = by_key((text, number) for number, text in texts.items())
    if len(numbers) <= 1:
        return next(iter(numbers), "")
    return "; ".join(f"{text}: {cpulist.render(having)}" for text, having in numbers.items())
