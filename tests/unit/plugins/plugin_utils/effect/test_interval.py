# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The arithmetic, against figures that are worked out by hand; tests/simulation has the statistics."""

from __future__ import annotations

import math

import pytest
from ansible_collections.mlnode.tuning.plugins.plugin_utils.effect import interval


def block(before: float, effect: float, trend: float = 1.0) -> list[float]:
    """A B B A, each of which is the one before times the trend."""
    parts = (1.0, 1 + effect, 1 + effect, 1.0)
    return [before * part * trend**number for number, part in enumerate(parts)]


@pytest.mark.parametrize("trend", [1.0, 0.9, 1.2])
def test_a_steady_trend_cancels(trend: float) -> None:
    found = interval.differences(block(400, 0.03, trend) + block(90, 0.03, trend))

    assert found == pytest.approx([math.log(1.03)] * 2)


def test_the_interval_is_that_of_the_t_distribution() -> None:
    # Differences of logarithms 0.01, 0.02 and 0.03: mean 0.02, standard error 0.01/sqrt(3), t(2) = 4.303.
    pairs = {name: block(10, math.expm1(one)) for name, one in zip("abc", (0.01, 0.02, 0.03))}

    found = interval.of(pairs)

    assert found is not None
    half = 4.303 * 0.01 / math.sqrt(3)
    assert found[:3] == pytest.approx([math.expm1(0.02 + part) for part in (0, -half, half)])
    assert (found.differences, found.unit, found.is_certain) == (3, "pair", False)
    assert found.bound == found.high
    assert interval.words(found) == "no difference above 4.59 % (95 % interval -0.48 to +4.59 %)"


@pytest.mark.parametrize(("sign", "words"), [(1, "+3.00 % (95 % interval +3.00 to "), (-1, "-3.00 % (")])
def test_an_interval_without_zero_is_an_effect(sign: int, words: str) -> None:
    found = interval.of({name: block(10, sign * 0.03) for name in "ab"})

    assert interval.words(found).startswith(words)


def test_of_more_blocks_than_pairs_the_blocks_count() -> None:
    one = block(10, 0.01) + block(10, 0.02) + block(10, 0.03)

    found = interval.of({"a": one, "b": one})

    assert found is not None
    assert (found.differences, found.unit) == (3, "block")
    assert found.value == pytest.approx(0.02, abs=1e-4)


@pytest.mark.parametrize(
    "pairs",
    [
        {},
        {"a": block(10, 0.03)},
        {"a": block(10, 0.03), "b": [10.0, None, 10.3, 10.0]},
        {"a": block(10, 0.03), "b": [10.0, 0.0, 10.3, 10.0]},
        {"a": block(10, 0.03), "b": [10.0, 10.3, 10.3]},
    ],
    ids=["nothing", "one pair", "a gap", "zero", "not to the end"],
)
def test_too_little_is_unknown(pairs: dict[str, list[float | None]]) -> None:
    assert interval.of(pairs) is None
    assert interval.words(None).startswith("unknown")


def test_what_is_not_known_of_a_pair_does_not_count_for_it() -> None:
    gap: list[float | None] = [*block(10, 0.5)]
    gap[1] = None

    found = interval.of({"a": [*gap, *block(10, 0.02)], "b": block(10, 0.02) * 2})

    assert found is not None
    assert found.value == pytest.approx(0.02)


def test_with_many_differences_the_interval_is_never_narrower_than_that_of_30() -> None:
    table = interval._T
    assert [*table] == sorted(table, reverse=True)
    assert len(table) == 30
    assert interval.of({str(number): block(10, number / 1000) for number in range(100)}) is not None
