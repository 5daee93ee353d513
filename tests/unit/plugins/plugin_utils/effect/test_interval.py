# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The arithmetic, against figures that are worked out by hand; tests/simulation has the statistics."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping, Sequence

import pytest
from ansible_collections.mlnode.tuning.plugins.plugin_utils.effect import interval
from ansible_collections.mlnode.tuning.plugins.plugin_utils.effect.interval import Effect


def series(blocks: list[float], base: float = 10.0) -> list[float]:
    """One pair's measurements, with these differences of logarithms in the blocks."""
    states = interval.order(len(blocks))
    return [
        base * math.exp(blocks[number // 4] if state == "B" else 0.0) for number, state in enumerate(states)
    ]


def of(pairs: Mapping[str, Sequence[float | None]], most: int = 0) -> Effect | None:
    blocks = max((len(one) // 4 for one in pairs.values()), default=0)
    return interval.estimate(pairs, interval.order(blocks), most or blocks)


@pytest.mark.parametrize("blocks", [0, 1, 2, 3, 6, 24])
def test_the_form_of_each_block_is_drawn(blocks: int) -> None:
    orders = {interval.order(blocks, str(seed)) for seed in range(200)}

    assert all(re.fullmatch("(?:ABBA(?:ABBA|BAAB)*)?", states) for states in orders)
    assert {len(states) for states in orders} == {4 * blocks}
    assert len(orders) == {0: 1, 1: 1, 2: 2, 3: 3, 6: 24, 24: 200}[blocks]


def test_a_straight_trend_cancels() -> None:
    for count in (4, 8):
        steady = series([math.log(1.03)] * count)
        found = of({"a": [value * math.exp(0.1 * number) for number, value in enumerate(steady)]})

        assert found is not None
        assert found.value == pytest.approx(0.03)


def test_noise_of_the_period_of_a_block_is_no_effect() -> None:
    found = [
        interval.estimate({"a": [10.01, 10.02, 10.015, 10.005] * 3}, interval.order(3, str(seed)), 3)
        for seed in range(50)
    ]

    assert [effect for effect in found if effect is None or effect.is_certain] == []


def test_the_interval_is_that_of_the_t_distribution() -> None:
    # Differences of logarithms 0.01, 0.02 and 0.03: mean 0.02, standard error 0.01/sqrt(3), t(2) = 4.849 for
    # 96 % of both sides, 2.920 for 95 % of one.
    pairs = {name: series([0.01, 0.02, 0.03], base) for name, base in zip("abc", (10, 90, 400))}

    found = of({**pairs})

    assert found is not None
    half = 4.849 * 0.01 / math.sqrt(3)
    assert found[:3] == pytest.approx([math.expm1(0.02 + part) for part in (0, -half, half)], rel=1e-3)
    # The power is 4.59 %, and the interval reaches further.
    assert interval._power(0.01, 3, 3) == pytest.approx((4.849 + 2.920) * 0.01 / math.sqrt(3), rel=1e-3)
    assert found.seen == found.high
    assert found.differences == pytest.approx((0.01, 0.02, 0.03))
    assert (found.pairs, found.is_certain) == (3, False)
    # t(n-1) of 96 % of both sides and of 95 % of one, times 0.01/sqrt(n), is below ln 1.01 = 0.00995 from
    # n = 17 on: (2.235 + 1.746) / sqrt(17) = 0.9656. With 16 it is 1.0004.
    assert found.blocks_for(0.01) == 17
    assert interval.words(found, 3, 0.01) == (
        "not decided (95 % interval -0.80 to +4.92 %), would have seen 4.92 % or more, "
        "about 17 blocks would see 1 %"
    )


def test_a_thousand_pairs_in_one_block_are_not_known_better_than_their_phases() -> None:
    few, many = (
        of({str(number): series([0.01, 0.02, 0.03]) for number in range(count)}) for count in (1, 1000)
    )

    assert few is not None
    assert many is not None
    assert few[:4] == pytest.approx(many[:4])


@pytest.mark.parametrize(
    ("sign", "words"), [(1, "+3.05 % (95 % interval +3.0"), (-1, "-2.96 % (95 % interval -2.9")]
)
def test_an_interval_without_zero_is_an_effect(sign: int, words: str) -> None:
    found = of({"a": series([sign * part for part in (0.0301, 0.03, 0.0302, 0.03)])})

    assert found is not None
    assert found.is_decided(0.5)
    assert interval.words(found, 4, 0.01).startswith(words)


def test_none_that_matters_is_decided_as_well() -> None:
    found = of({"a": series([0.001, -0.001, 0.002, -0.001])})

    assert found is not None
    assert not found.is_certain
    assert found.is_decided(0.01)
    assert not found.is_decided(0.001)
    assert "blocks would see" not in interval.words(found, 4, 0.01)


def test_all_looks_together_miss_the_truth_in_four_of_hundred() -> None:
    for most in range(3, 40):
        parts = [interval._outside(blocks, most) for blocks in range(interval.LEAST, most + 1)]
        assert sum(parts) == pytest.approx(0.04)
        # The last look pays little for the others.
        assert parts[-1] >= 0.035


@pytest.mark.parametrize("blocks", [1, 2])
def test_too_few_blocks_say_how_many_more(blocks: int) -> None:
    assert of({"a": series([0.03] * blocks), "b": series([0.03] * blocks)}) is None
    assert interval.words(None, blocks, 0.01).endswith(f"{3 - blocks} more would give one")


@pytest.mark.parametrize(
    "spoilt", [None, 0.0, "end"], ids=["a missing measurement", "nothing arrived", "not to the end"]
)
def test_a_pair_with_a_gap_is_in_no_block(spoilt: float | str | None) -> None:
    gap: list[float | None] = [*series([0.5, 0.5, 0.5])]
    if spoilt == "end":
        gap.pop()
    else:
        gap[1] = None if spoilt is None else 0.0

    found = of({"a": gap, "b": [*series([0.02, 0.021, 0.02])]})

    assert found is not None
    assert found.value == pytest.approx(0.0205, abs=1e-3)
    assert found.pairs == 1
    assert of({"a": gap}, 3) is None
    assert of({}) is None
    assert interval.words(None, 3, 0.01) == "unknown: no pair has a result in all phases"


def test_no_figure_is_too_large_for_json() -> None:
    found = of({"a": series([math.log(1e300), math.log(1e-300), 0.0])}, most=500)

    assert found is not None
    assert all(math.isfinite(one) for one in found[:4])


def test_more_blocks_never_need_a_wider_effect() -> None:
    powers = [interval._power(0.01, count, count) for count in range(interval.LEAST, 60)]

    assert all(one > other for one, other in itertools.pairwise(powers))


# -- verdicts ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("blocks", "better", "verdict"),
    [
        ([0.03, 0.0301, 0.03], "higher", "helps"),
        ([0.03, 0.0301, 0.03], "lower", "harms"),
        ([-0.03, -0.0301, -0.03], "higher", "harms"),
        ([-0.03, -0.0301, -0.03], "lower", "helps"),
        ([0.003, 0.0031, 0.003], "higher", "no difference"),
        ([0.0, 0.0001, -0.0001], "lower", "no difference"),
        ([0.01, 0.02, 0.03], "higher", "not decided"),
    ],
)
def test_the_verdict_is_about_the_metric(blocks: list[float], better: str, verdict: str) -> None:
    found = of({"a": series(blocks)})

    assert found is not None
    assert interval.verdict(found, 0.01, better) == verdict
    assert interval.words(found, 3, 0.01).startswith(verdict) == (verdict[:2] == "no")


def test_an_effect_that_is_certain_and_too_small_to_matter_is_no_difference() -> None:
    found = of({"a": series([0.003, 0.0031, 0.003])})

    assert found is not None
    assert found.is_certain
    assert interval.words(found, 3, 0.01).startswith("no difference above 1 % (95 % interval +0.2")


def test_several_metrics_share_the_error_rate() -> None:
    # Student's t of 2 degrees of freedom: 4.849 for 4 % of both sides, 9.925 for 1 %
    pairs = {"a": series([0.01, 0.02, 0.03])}

    found = interval.estimate(pairs, interval.order(3), 3, family=4)

    assert found is not None
    assert math.log1p(found.high) == pytest.approx(0.02 + 9.925 * 0.01 / math.sqrt(3), rel=1e-3)


def test_equal_blocks_of_scattering_phases_are_not_certain() -> None:
    """Each B has one of two levels, as often as the other: all blocks differ by half of a level."""
    states = "ABBABAABBAAB"
    values = [10.123, 10.123, 11.234, 10.123, 11.234, 10.123, 10.123, 10.123, 10.123, 10.123, 10.123, 11.234]
    assert [states[number] for number, value in enumerate(values) if value > 11] == ["B", "B", "B"]

    found = interval.estimate({"a": values}, states, 3)

    assert found is not None
    gap = math.log(11.234 / 10.123)
    assert found.differences == pytest.approx((gap / 2,) * 3)
    # Its weight is 3 of the root of 20 if it is an inner phase, and 1 if it is an outer one.
    assert found.spread == pytest.approx(0.5 * gap * math.sqrt((9 + 1 + 1) / 20 / 3))
    assert not found.is_certain


@pytest.mark.parametrize(
    ("value", "step"), [(1.2, 0.1 / 1.2), (12.0, 1 / 12), (1200.0, 1 / 1200), (0.05, 0.2)]
)
def test_equal_values_may_differ_by_their_last_digit(value: float, step: float) -> None:
    found = of({"a": [value] * 24})

    assert found is not None
    assert found.rounding == pytest.approx(step)
    assert math.log1p(found.high) == pytest.approx(step)
    assert interval.verdict(found, 0.01, "higher") == ("no difference" if step < 0.01 else "not decided")
    if step > 0.01:
        assert interval.words(found, 6, 0.01).endswith("its digits are too few for 1 %")
        assert found.blocks_for(0.01) is None


def test_noise_averages_rounding_out() -> None:
    found = of({"a": [round(value) for value in series([0.1, -0.1, 0.2, 0.0, 0.1], base=10.4)]})

    assert found is not None
    assert found.rounding == 0


def test_a_narrow_interval_takes_eight_blocks() -> None:
    few, many = (of({"a": series([0.001, -0.001] * (count // 2))}) for count in (6, 8))

    assert few is not None
    assert many is not None
    assert (few.is_narrow(0.01), many.is_narrow(0.01), many.is_narrow(0.0005)) == (False, True, False)


def test_with_a_precision_an_interval_around_0_names_the_effect_that_it_excludes() -> None:
    states = interval.order(interval.NARROW)
    noise = [math.exp(0.01 * ((-1) ** (at // 3))) for at in range(len(states))]
    effect = interval.estimate({"a": noise}, states, interval.NARROW, 1)
    assert effect is not None
    assert not effect.is_below(0.001)
    assert interval.verdict(effect, 0.001, interval.HIGHER) == interval.NOT_DECIDED
    assert interval.verdict(effect, 0.001, interval.HIGHER, 0.0001) == interval.NOT_DECIDED
    assert interval.verdict(effect, 0.001, interval.HIGHER, 0.05) == interval.NO_DIFFERENCE
    words = interval.words(effect, interval.NARROW, 0.001, 0.05)
    assert words.startswith(f"no difference above {interval.up(effect.seen)} % (95 % interval -")
