# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import re

from ansible_collections.mlnode.tuning.tests.unit import cases
from hypothesis import given
from hypothesis import strategies as st
from mlnode.model.errors import printable
from mlnode.report.grid import grid, hanging, wrapped

HEAD = ("NODE", "MEMORY", "CPUS")
ROWS = [("0", "8 GiB", "0-7"), ("10", "1024 GiB", "8,10,12,14,16,18,20,22,24,26")]


def test_columns_are_as_wide_as_they_need() -> None:
    assert grid(HEAD, ROWS, None) == [
        "NODE  MEMORY    CPUS",
        "0     8 GiB     0-7",
        "10    1024 GiB  8,10,12,14,16,18,20,22,24,26",
    ]


def test_the_last_column_is_wrapped_where_the_terminal_ends() -> None:
    assert grid(HEAD, ROWS, 38)[2:] == ["10    1024 GiB  8,10,12,14,16,18,20,", "                22,24,26"]


def test_a_narrow_terminal_has_the_last_columns_under_their_row() -> None:
    assert grid(HEAD, ROWS, 30) == [
        "NODE  MEMORY",
        "0     8 GiB",
        "    CPUS 0-7",
        "10    1024 GiB",
        "    CPUS 8,10,12,14,16,18,20,",
        "    22,24,26",
    ]


def test_a_very_narrow_one_has_all_but_the_first() -> None:
    assert grid(HEAD, ROWS, 13)[:5] == ["NODE", "0", "    MEMORY 8", "    GiB; CPUS", "    0-7"]


def test_a_short_last_column_needs_no_more_room_than_it_takes() -> None:
    rows = [("0", "8 GiB", "0-7")]
    assert grid(HEAD, rows, 18) == grid(HEAD, rows, None)


def test_no_line_ends_in_blanks() -> None:
    assert grid(("A", "B"), [("xxxx", "")], None) == ["A     B", "xxxx"]


@cases.table
def test_text_breaks_at_blanks_and_lists_at_commas(text: str, width: int, lines: list[str]) -> None:
    assert wrapped(text, width) == lines


@given(st.text(alphabet="0123456789-, ab", max_size=60), st.integers(12, 40))
def test_wrapping_loses_nothing_but_blanks(text: str, width: int) -> None:
    lines = wrapped(text, width)

    assert "".join(lines).replace(" ", "") == text.replace(" ", "")
    # Only what cannot be broken is longer.
    assert all(len(line) <= width or not re.search(r"[, ].", line) for line in lines)
    assert wrapped(text, None) == [text]


@cases.table
def test_what_hangs_is_under_its_first_line(width: int | None, lines: list[str]) -> None:
    assert hanging("  one > two > three  eth0  Gen5", width) == lines


@cases.table
def test_nothing_moves_the_cursor(text: str, shown: str) -> None:
    assert printable(text) == shown
    assert grid(("A", "B"), [(text, text)], None)[1] == f"{shown}  {shown}"
