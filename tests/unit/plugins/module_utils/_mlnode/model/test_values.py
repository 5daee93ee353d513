# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases, strategies
from ansible_collections.mlnode.tuning.tests.unit.strategies import quick
from hypothesis import assume, given
from hypothesis import strategies as st
from mlnode.model import values
from mlnode.model.errors import DeclarationError


@cases.table
def test_two_spellings_of_one_value_are_the_same(one: str, other: str) -> None:
    assert values.same(one, other)
    assert values.same(other, one)


@cases.table
def test_values_that_the_kernel_tells_apart_are_not_the_same(one: str, other: str) -> None:
    assert not values.same(one, other)
    assert not values.same(other, one)


@cases.table
def test_a_list_of_ranges_is_merged_and_anything_else_is_none(
    text: str, merged: tuple[tuple[int, int], ...] | None
) -> None:
    assert values.number_ranges(text) == merged


@cases.table
def test_integers_are_all_tokens_or_none(text: str, numbers: tuple[int, ...] | None) -> None:
    assert values.integers(text) == numbers


@cases.table
def test_the_version_of_a_kernel_is_compared_by_its_numbers(
    release: str | None, version: tuple[int, int] | None
) -> None:
    assert values.kernel_version(release) == version


@cases.table
def test_raising_takes_the_greater_or_every_member(floor: str, current: str, expected: str) -> None:
    assert values.raised(floor, current) == expected
    assert values.reaches(floor, expected)


@cases.table
def test_what_cannot_be_compared_is_said_with_both_values(floor: str, current: str, named: str) -> None:
    with pytest.raises(DeclarationError, match=named) as caught:
        values.raised(floor, current)
    assert repr(floor) in str(caught.value)
    assert repr(current) in str(caught.value)
    assert not values.reaches(floor, current)


@cases.table
def test_a_floor_is_reached_by_as_much_or_more(floor: str, value: str, enough: bool) -> None:
    assert values.reaches(floor, value) is enough


@cases.table
def test_the_bracketed_word_is_the_active_one(text: str, active: str, offered: tuple[str, ...]) -> None:
    assert values.chosen(text) == active
    assert values.choices(text) == offered


@quick
@given(strategies.values, strategies.values)
def test_same_is_reflexive_and_symmetric(one: str, other: str) -> None:
    assert values.same(one, one)
    assert values.same(one, other) == values.same(other, one)


@quick
@given(st.lists(st.tuples(st.integers(), st.integers()), min_size=1, max_size=4))
def test_raised_is_no_less_than_both_and_raising_again_changes_nothing(pairs: list[tuple[int, int]]) -> None:
    floor = " ".join(str(low) for low, _now in pairs)
    current = "\t".join(str(now) for _low, now in pairs)
    high = values.raised(floor, current)
    numbers = values.integers(high)
    assert numbers == tuple(max(pair) for pair in pairs)
    assert values.raised(floor, high) == high
    assert values.reaches(floor, high)
    assert values.reaches(current, high)


@quick
@given(strategies.ranges(), strategies.ranges())
def test_raising_a_list_gives_the_union_and_raising_again_changes_nothing(
    mine: list[tuple[int, int]], theirs: list[tuple[int, int]]
) -> None:
    floor, current = strategies.spelled(mine), strategies.spelled(theirs)
    assume(len(mine) > 1 or "-" in floor)  # a single number is no list
    union = values.raised(floor, current)
    assert _members(union) == _members(floor) | _members(current)
    assert values.same(values.raised(floor, union), union)
    assert values.reaches(floor, union)


@quick
@given(strategies.ranges())
def test_merged_ranges_hold_the_same_numbers_apart_and_in_order(pairs: list[tuple[int, int]]) -> None:
    merged = values.number_ranges(strategies.spelled(pairs))
    assert merged is not None
    model = {number for low, high in pairs for number in range(low, high + 1)}
    assert {number for low, high in merged for number in range(low, high + 1)} == model
    assert all(first[1] + 1 < second[0] for first, second in zip(merged, merged[1:]))


@quick
@given(strategies.values, strategies.values)
def test_nothing_but_a_declaration_error_ever_escapes(one: str, other: str) -> None:
    values.same(one, other)
    values.reaches(one, other)
    values.number_ranges(one)
    values.integers(one)
    assert values.chosen(one) or not one.strip()
    values.choices(one)
    try:
        higher = values.raised(one, other)
    except DeclarationError:
        return
    assert values.reaches(one, higher)


def _members(text: str) -> set[int]:
    """What a list means, without the code under test."""
    found: set[int] = set()
    for part in text.split(","):
        first, _dash, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found


@cases.table
def test_masks_are_compared_by_their_bits(left: str, right: str, equal: bool) -> None:
    assert values.same(left, right) is equal


@cases.table
def test_many_values_in_one_line(texts: dict[int, str], line: str) -> None:
    assert values.grouped(texts) == line
