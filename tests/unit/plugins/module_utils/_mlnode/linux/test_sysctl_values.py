# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import contextlib

import pytest
from ansible_collections.mlnode.tuning.tests.unit import strategies
from ansible_collections.mlnode.tuning.tests.unit.strategies import quick
from hypothesis import example, given
from hypothesis import strategies as st
from mlnode.linux import sysctl_values
from mlnode.model import values
from mlnode.model.errors import DeclarationError

PORTS = "net.ipv4.ip_local_reserved_ports"
SWITCH = "kernel.numa_balancing"

# -- the kernel, written down from its source ----------------------------------------------

TMPBUFLEN = 22
WSPACE_SEP = " \t\n"


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


def vector(text: str, old: tuple[int, ...], *, unsigned: bool) -> tuple[int, ...]:
    """do_proc_dointvec() where not unsigned, else do_proc_doulongvec_minmax(), which passes over what is
    negative. The values that the file has after the write."""
    left = text + "\n"
    found = list(old)
    for at in range(len(old)):
        left = skip_spaces(left)
        if not left:
            if at == 0:
                raise RefusedError
            break
        number, negative, left = get_long(left, WSPACE_SEP)
        if unsigned and negative:
            continue
        if not unsigned and number > (1 << 31) - (not negative):
            raise RefusedError
        found[at] = -number if negative else number
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


@quick
@given(written, st.sampled_from([True, False]))
@example("010000", False)
@example("0x10", True)
@example("-0", True)
@example("08", False)
@example("0x", False)
@example("18446744073709551616", True)
@example("000000000000000000001", True)
@example("1\u00a0", False)
def test_a_number_that_counts_is_the_one_that_the_kernel_reads(text: str, unsigned: bool) -> None:
    text = text.strip(" \t\n\r").replace("\n", " ")  # a line of sysctl.d has no line end
    mine = sysctl_values.shown(SWITCH, text)
    if mine is None:
        return
    words = mine.split(" ")
    old = tuple(99 for _word in words)
    try:
        theirs = vector(text, old, unsigned=unsigned)
    except RefusedError:
        # Only the range of the file, which no text shows
        assert not unsigned
        assert any(abs(int(word)) >= (1 << 31) - 1 for word in words)
        return
    if unsigned and any(word.startswith("-") for word in words):
        return  # no file that holds unsigned numbers shows such a one, so that it equals nothing
    assert theirs == tuple(map(int, words))


@quick
@given(st.integers(-(1 << 31), (1 << 31) - 1), st.sampled_from(["{}", "0x{:x}", "0X{:X}", "0{:o}"]))
def test_what_the_kernel_takes_is_taken(number: int, spelling: str) -> None:
    text = ("-" if number < 0 else "") + spelling.format(abs(number))
    if number == 0:
        text = text.lstrip("-")
    assert vector(text, (99,), unsigned=False) == (number,)
    assert sysctl_values.shown(SWITCH, text) == str(number)


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
@example("")
def test_a_list_that_counts_is_the_one_that_the_kernel_reads(text: str) -> None:
    text = text.strip(" \t\n\r").replace("\n", ",")
    mine = sysctl_values.shown(PORTS, text)
    try:
        theirs = bitmap(text, 1 << 16)
    except RefusedError:
        assert mine is None
        return
    assert mine is not None
    spans = values.number_ranges(mine) or ()
    assert all(any(low <= port <= high for low, high in spans) for port in theirs)
    assert {low for low, _high in spans} | {high for _low, high in spans} <= theirs


@pytest.mark.parametrize(
    ("key", "text", "like", "shown"),
    [
        (SWITCH, "1", "1", "1"),
        (SWITCH, "y", "1", None),
        (SWITCH, "on", "0", None),
        (SWITCH, "N", None, None),
        (SWITCH, "", "1", None),
        (SWITCH, "+1", "1", None),
        ("vm.max_map_count", "010000", "65530", "4096"),
        ("vm.max_map_count", "0x10", "65530", "16"),
        ("vm.max_map_count", "09", "65530", None),
        ("net.ipv4.tcp_rmem", "4096\t 0x20000  6291456", "1 2 3", "4096 131072 6291456"),
        ("net.ipv4.tcp_rmem", "4096,131072", "1 2 3", None),
        (PORTS, "29500,29400-29499", "", "29400-29500"),
        (PORTS, "", "", ""),
        ("kernel.hostname", "010", "8", "010"),
        ("net.core.default_qdisc", "fq", "fq_codel", "fq"),
        ("kernel.some_words", "on", "none", "on"),
        ("net.core.rps_default_mask", "ff,00000000", "0", "ff,00000000"),
        ("net.core.rps_default_mask", "0x1", "0", None),
    ],
)
def test_what_the_kernel_shows(key: str, text: str, like: str | None, shown: str | None) -> None:
    assert sysctl_values.shown(key, text, like) == shown


@pytest.mark.parametrize(
    ("key", "text", "words"),
    [
        ("vm.swappiness", "010", "'010' is not a plain decimal number, and the kernel reads it as 8"),
        ("vm.swappiness", "0x10", "'0x10' is not a plain decimal number, and the kernel reads it as 16"),
        ("vm.swappiness", "08", "'08' is not a plain decimal number, and the kernel refuses it (EINVAL)"),
        ("vm.swappiness", "+1", "'+1' is not a plain decimal number, and the kernel refuses it (EINVAL)"),
        ("net.ipv4.tcp_rmem", "4096 0131072 1", "'0131072' is not a plain"),
        (PORTS, "9100,010-020", "'010' is not a plain"),
        (SWITCH, "y", "'y' is refused by the kernel (EINVAL), which takes numbers for switches here"),
        (SWITCH, "OFF", "write 0"),
        (SWITCH, "yes", "write 1"),
    ],
)
def test_a_declared_text_that_the_kernel_reads_otherwise_is_refused(key: str, text: str, words: str) -> None:
    with pytest.raises(DeclarationError) as caught:
        sysctl_values.check(key, text)
    assert str(caught.value).startswith(f"{key}: ")
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("vm.swappiness", "0"),
        ("vm.swappiness", "-1"),
        ("net.ipv4.tcp_rmem", "4096 131072 6291456"),
        ("net.ipv4.tcp_rmem", "4096 131072 auto"),
        (PORTS, "9100,29400-29500"),
        ("kernel.hostname", "010"),
        ("kernel.core_pattern", "core-0123"),
        ("net.core.rps_default_mask", "00ff"),
        ("net.core.default_qdisc", "fq"),
        ("kernel.some_words", "a-01x"),
    ],
)
def test_what_is_plain_is_taken(key: str, text: str) -> None:
    sysctl_values.check(key, text)


@quick
@given(strategies.values)
def test_no_text_breaks_it(text: str) -> None:
    for key in (SWITCH, PORTS, "kernel.hostname", "net.core.rps_default_mask"):
        found = sysctl_values.shown(key, text)
        if found is not None:
            assert sysctl_values.shown(key, found) == found
        with contextlib.suppress(DeclarationError):
            sysctl_values.check(key, text)
