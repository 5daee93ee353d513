# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from collections.abc import Sequence

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases, strategies
from ansible_collections.mlnode.tuning.tests.unit.strategies import quick
from hypothesis import given
from hypothesis import strategies as st
from mlnode.model import cpulist

cpus = st.sets(st.integers(0, cpulist.MAX_CPUS - 1), max_size=200)


@cases.table
def test_a_list_is_read(text: str, expected: tuple[int, ...]) -> None:
    assert cpulist.parse(text) == expected


@cases.table
def test_a_list_is_written_as_the_kernel_does(numbers: list[int], expected: str) -> None:
    assert cpulist.render(numbers) == expected


@pytest.mark.parametrize(
    "cpus, expected",
    [
        (range(64), "0-63"),
        (range(0, 512, 2), "0-510:2"),
        (range(1, 512, 2), "1-511:2"),
        # two numbers make no row, and what is short stays as the kernel prints it
        ((0, 2, 4), "0,2,4"),
        ((*range(0, 32, 2), 40, 47, 48, 49), "0-30:2,40,47-49"),
        ((*range(0, 20, 4), *range(100, 130, 2)), "0-16:4,100-128:2"),
        ((0, 3, 5, 9, 10, 12, 16, 17, 19, 23, 30), "0,3,5,9-10,12,16-17,19,23,30"),
    ],
)
def test_a_list_for_people_has_steps(cpus: Sequence[int], expected: str) -> None:
    assert cpulist.readable(cpus) == expected


@pytest.mark.parametrize(
    ("cpus", "expected"), [([3], "CPU 3"), ([3, 3], "CPU 3"), ({1, 0, 48}, "CPUs 0-1,48")]
)
def test_cpus_are_named(cpus: Sequence[int], expected: str) -> None:
    assert cpulist.named(cpus) == expected


@pytest.mark.parametrize(
    "numbers, expected",
    [
        ([], "0"),
        ([0], "1"),
        ([0, 1, 2, 3], "f"),
        (range(32), "ffffffff"),
        ([32], "1,00000000"),
        ([0, 32, 33], "3,00000001"),
        ([64], "1,00000000,00000000"),
        ([0, 1056], "1" + ",00000000" * 32 + ",00000001"),
    ],
)
def test_a_mask_has_a_comma_for_every_32_cpus(numbers: list[int], expected: str) -> None:
    assert cpulist.mask(numbers) == expected


def test_a_mask_of_more_than_1024_cpus_is_whole() -> None:
    written = cpulist.mask(range(1100))

    assert written.split(",") == ["fff", *["ffffffff"] * 34]
    assert cpulist.from_mask(written) == tuple(range(1100))


@pytest.mark.parametrize(
    "text, expected",
    [
        ("0", ()),
        ("00000000,00000000", ()),
        ("f", (0, 1, 2, 3)),
        ("F", (0, 1, 2, 3)),
        ("00000000,0000000f", (0, 1, 2, 3)),
        ("ff,00000001", (0, *range(32, 40))),
        ("80000000" + ",00000000" * 255, (8191,)),
    ],
)
def test_a_mask_is_read_as_the_kernel_prints_it(text: str, expected: tuple[int, ...]) -> None:
    assert cpulist.from_mask(text) == expected


@quick
@given(cpus)
def test_a_list_and_a_mask_survive_the_way_there_and_back(numbers: set[int]) -> None:
    expected = tuple(sorted(numbers))

    assert cpulist.parse(cpulist.render(numbers)) == expected
    assert cpulist.from_mask(cpulist.mask(numbers)) == expected
    first, *rest = cpulist.mask(numbers).split(",")
    assert all(len(group) == 8 for group in rest)
    assert first == "0" or not first.startswith("0")


@quick
@given(strategies.ranges(300))
def test_ranges_in_any_order_give_the_shortest_list(pairs: list[tuple[int, int]]) -> None:
    numbers = {cpu for low, high in pairs for cpu in range(low, high + 1)}

    found = cpulist.parse(strategies.spelled(pairs))

    assert found == tuple(sorted(numbers))
    assert len(cpulist.render(found)) <= len(strategies.spelled(pairs))


@quick
@given(strategies.values)
def test_any_text_is_a_list_or_a_value_error(text: str) -> None:
    for read in (cpulist.parse, cpulist.from_mask):
        try:
            found = read(text)
        except ValueError:
            continue
        assert [*found] == sorted(set(found))
        assert all(0 <= cpu < cpulist.MAX_CPUS for cpu in found)
