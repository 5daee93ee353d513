# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import contextlib
import re

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases, strategies
from ansible_collections.mlnode.tuning.tests.unit.strategies import quick
from hypothesis import example, given
from hypothesis import strategies as st
from mlnode.linux import sysctl_values
from mlnode.linux.sysctl_values import Effect
from mlnode.model import values
from mlnode.model.errors import DeclarationError

PORTS = "net.ipv4.ip_local_reserved_ports"
SWITCH = "kernel.numa_balancing"
#: Of which all rules are known
RELEASE = "6.18.0"

# -- the kernel, written down from its source ----------------------------------------------

TMPBUFLEN = 22
WSPACE_SEP = " \t\n"
PAGE = 4094


class RefusedError(Exception):
    """EINVAL."""


def parse_integer(text: str) -> tuple[int, int]:
    """strtoul_lenient() with base 0: lib/kstrtox.c, _parse_integer_fixup_radix and _parse_integer.

    Returns the number, and how many characters it took."""
    base, start = 10, 0
    if text[:1] == "0":
        hexadecimal = text[1:2] in ("x", "X") and text[2:3] != "" and text[2:3] in "0123456789abcdefABCDEF"
        base, start = (16, 2) if hexadecimal else (8, 0)
    at, number = start, 0
    while at < len(text) and text[at] in "0123456789abcdefABCDEF" and int(text[at], 16) < base:
        number = number * base + int(text[at], 16)
        at += 1
    if number >= 1 << 64:
        raise RefusedError
    return number, at


def get_long(buffer: str, permitted: str) -> tuple[int, bool, str]:
    """proc_get_long() of kernel/sysctl.c: the number, whether it is negative, and what is left."""
    text = buffer[: TMPBUFLEN - 1]
    if not buffer:
        raise RefusedError
    negative = text[0] == "-" and len(buffer) > 1
    digits = text[1:] if negative else text
    if digits[:1] not in tuple("0123456789"):
        raise RefusedError
    number, taken = parse_integer(digits)
    length = taken + negative
    if length == TMPBUFLEN - 1:
        raise RefusedError
    if length < len(buffer) and text[length : length + 1] not in tuple(permitted):
        raise RefusedError
    return number, negative, buffer[length:]


def skip_spaces(text: str) -> str:
    return text.lstrip(" \t\n\v\f\r")


def vector(text: str, old: tuple[int, ...], *, unsigned: bool, least: int | None = None) -> tuple[int, ...]:
    """do_proc_dointvec_minmax() where not unsigned, else do_proc_doulongvec_minmax(): the values of the file
    after the write, whether that fails or not."""
    left = text + "\n"
    found = list(old)
    for at in range(len(old)):
        left = skip_spaces(left)
        if not left:
            break
        try:
            number, negative, left = get_long(left, WSPACE_SEP)
        except RefusedError:
            break
        value = -number if negative else number
        if (unsigned and negative) or (not unsigned and not -(1 << 31) <= value < 1 << 31):
            break
        if least is not None and value < least:
            break
        found[at] = value
    return tuple(found)


def bitmap(text: str, size: int) -> set[int]:
    """proc_do_large_bitmap()."""
    left = text + "\n"
    found: set[int] = set()
    left = left.lstrip("\n")
    while left:
        low, negative, rest = get_long(left, "-,\n")
        if low >= size or negative:
            raise RefusedError
        high, mark, left = low, rest[:1], rest[1:]
        if mark == "-":
            high, negative, rest = get_long(left, ",\n\0")
            if high >= size or negative or low > high:
                raise RefusedError
            left = rest[1:]
        found |= {low, high}
        left = left.lstrip("\n")
    return found


# -- numbers -------------------------------------------------------------------------------

digits = st.text(alphabet="0123456789", min_size=1, max_size=24)
written = st.one_of(
    digits,
    digits.map(lambda text: "0" + text),
    digits.map(lambda text: "-" + text),
    st.text(alphabet="0123456789abcdefABCDEF", min_size=1, max_size=20).map(lambda text: "0x" + text),
    st.text(alphabet="0123456789-+xXaf, \t\v\f\r\u00a0", max_size=24),
    strategies.values,
)


#: Keys of one number and of three, of int and of unsigned long
INT, INTS, LONG, LONGS = "net.ipv4.tcp_base_mss", "net.ipv4.tcp_wmem", "fs.aio-max-nr", "net.ipv4.tcp_mem"


@quick
@given(written, st.sampled_from([INT, INTS, LONG, LONGS]))
@example("010000", INT)
@example("0x10", LONG)
@example("-0", INT)
@example("08", INT)
@example("0x", INT)
@example("18446744073709551616", LONG)
@example("000000000000000000001", LONG)
@example("1\u00a0", INT)
@example("10 # ten", INT)
@example("1 2", LONG)
@example("4096", INTS)
@example("4096 x", INTS)
@example("1 2 3 4", INTS)
def test_the_effect_is_that_of_the_parser_of_the_kernel(text: str, key: str) -> None:
    text = text.replace("\n", " ")  # a line of sysctl.d has no line end
    old = (99,) if key in (INT, LONG) else (97, 98, 99)
    effect = sysctl_values.effect(key, text, before="\t".join(map(str, old)), release=RELEASE)
    least = 1 if key == INTS else 0
    theirs = vector(text, old, unsigned=key in (LONG, LONGS), least=least if key != INT else None)
    if effect.unknown:
        assert "-0" in text or len(text) > PAGE
    elif effect.refused:
        assert theirs == old
    else:
        assert effect.text == " ".join(map(str, theirs))


@quick
@given(st.integers(-(1 << 31), (1 << 31) - 1), st.sampled_from(["{}", "0x{:x}", "0X{:X}", "0{:o}"]))
def test_what_the_kernel_takes_is_taken(number: int, spelling: str) -> None:
    text = ("-" if number < 0 else "") + spelling.format(abs(number))
    assert vector(text, (99,), unsigned=False) == (number,)
    assert sysctl_values.effect(INT, text) == Effect(str(number))


@quick
@given(
    st.one_of(
        st.text(alphabet="0123456789-,xX ", max_size=16),
        strategies.ranges().map(strategies.spelled),
        strategies.values,
    )
)
@example("010-020")
@example("1,2,")
@example("1,,2")
@example("65536")
@example("1, 2")
@example("1, ")
@example("")
def test_a_list_that_counts_is_the_one_that_the_kernel_reads(text: str) -> None:
    text = text.strip(" \t\n\r").replace("\n", ",")
    effect = sysctl_values.effect(PORTS, text, release=RELEASE)
    try:
        theirs = bitmap(text, 1 << 16)
    except RefusedError:
        assert effect.refused
        return
    assert effect.text is not None
    spans = values.number_ranges(effect.text) or ()
    assert all(any(low <= port <= high for low, high in spans) for port in theirs)
    assert {low for low, _high in spans} | {high for _low, high in spans} <= theirs


@cases.table
def test_the_effect_of_a_text(key: str, text: str, effect: str | None) -> None:
    """None: the kernel refuses it."""
    found = sysctl_values.effect(key, text, release=RELEASE)
    assert found == (Effect(refused=True) if effect is None else Effect(effect))


@cases.table
def test_what_depends_on_more_than_the_text_is_unknown(key: str, text: str) -> None:
    assert sysctl_values.effect(key, text, release=RELEASE).unknown
    # As long as it is not the text that the kernel shows already
    assert sysctl_values.effect(key, text, like="7", release=RELEASE).unknown
    assert sysctl_values.effect(key, text, like=text, release=RELEASE) == Effect(text)


@cases.table
def test_a_vector_takes_the_numbers_before_a_mistake(text: str, effect: str) -> None:
    found = sysctl_values.effect("net.ipv4.tcp_wmem", text, before="1\t2\t3", release=RELEASE)
    assert found == Effect(effect)


@cases.table
def test_versions_of_the_kernel_differ(key: str, text: str, old: str, new: str) -> None:
    for release, wanted in (("4.19.0", old), ("", old), ("6.1.0-18-amd64", new)):
        found = sysctl_values.effect(key, text, release=release)
        said = found.text or ("refused" if found.refused else "unknown")
        assert said == wanted, release


@cases.table
def test_a_declared_value_is_held_to_the_same_rules(key: str, text: str, words: str) -> None:
    with pytest.raises(DeclarationError, match=re.escape(words)):
        sysctl_values.require(key, text, release=RELEASE)


@cases.table
def test_a_declared_text_that_the_kernel_reads_otherwise_is_refused(key: str, text: str, words: str) -> None:
    with pytest.raises(DeclarationError) as caught:
        sysctl_values.check(key, text)
    assert str(caught.value).startswith(f"{key}: ")
    assert words in str(caught.value)


@cases.table
def test_what_is_plain_is_taken(key: str, text: str) -> None:
    sysctl_values.check(key, text)


@quick
@given(strategies.values)
def test_no_text_breaks_it(text: str) -> None:
    for key in (SWITCH, PORTS, "kernel.hostname", "net.core.rps_default_mask"):
        found = sysctl_values.effect(key, text)
        if found.text is not None:
            assert sysctl_values.effect(key, found.text) == found
        with contextlib.suppress(DeclarationError):
            sysctl_values.check(key, text)
