# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Designs of screening experiments, and their analysis."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence

import pytest
from ansible_collections.mlnode.tuning.plugins.plugin_utils.effect import (
    interval,
    screening,
    screening_design,
)
from ansible_collections.mlnode.tuning.plugins.plugin_utils.effect.screening import Answer, Screening
from ansible_collections.mlnode.tuning.plugins.plugin_utils.effect.screening_design import ROWS, Design

LEAST = 0.01


def named(count: int) -> list[str]:
    return [f"area{number}" for number in range(count)]


def dot(first: Sequence[float], second: Sequence[float]) -> float:
    return sum(one * other for one, other in zip(first, second))


def values(
    design: Design, effects: dict[str, float], noise: float = 0.003, drift: float = -0.01
) -> list[float]:
    """Of each phase, with the effects of its areas, normal noise and a straight drift."""
    chance = random.Random(f"{effects}{design.levels}")
    return [
        100 * math.exp(drift * phase + chance.gauss(0, noise))
        * math.prod(1 + effects.get(area, 0) for area in design.applied(phase))
        for phase in range(len(design.levels))
    ]  # fmt: skip


def answers(result: Screening) -> dict[str, str]:
    """Of all areas with a difference."""
    return {
        effect.area: effect.answer.value for effect in result.effects if effect.answer in ("more", "less")
    }


# -- designs -------------------------------------------------------------------------------


@pytest.mark.parametrize("runs", ROWS)
def test_tables_are_orthogonal(runs: int) -> None:
    rows = screening_design.table(runs)
    columns = [*zip(*rows)]
    assert (len(rows), len(columns)) == (runs, runs - 1)
    assert all(sum(column) == 0 for column in columns)
    assert all(dot(first, second) == 0 for first, second in itertools.combinations(columns, 2))


@pytest.mark.parametrize(
    ("areas", "phases", "used"),
    [
        (2, 8, 8), (3, 16, 16), (4, 24, 24), (8, 24, 24), (10, 24, 24), (11, 32, 32), (16, 40, 40),
        (8, 64, 64), (8, 100, 96), (20, 48, 48), (30, 64, 64), (35, 79, 72),
    ],
)  # fmt: skip
def test_effects_of_a_folded_design_are_clear_of_interactions_and_of_drift(
    areas: int, phases: int, used: int
) -> None:
    design = screening_design.design(named(areas), phases, 1)
    columns = [*zip(*design.levels)]
    assert design.folded
    assert len(design.levels) == used
    time = range(len(design.levels))
    for column in columns:
        assert sum(column) == dot(column, time) == 0
    for first, second in itertools.combinations(columns, 2):
        both = [one * other for one, other in zip(first, second)]
        assert [dot(column, both) for column in columns] == [0] * areas
        assert dot(first, second) == 0


@pytest.mark.parametrize(("areas", "phases"), [(2, 8), (8, 24), (16, 40)])
def test_opposite_phases_are_two_apart(areas: int, phases: int) -> None:
    """Neighbours would share noise that swings from phase to phase."""
    levels = screening_design.design(named(areas), phases, 1).levels
    for number, level in enumerate(levels):
        assert levels[number ^ 2] == tuple(-sign for sign in level)


def test_a_folded_design_is_confounded_with_no_interaction() -> None:
    design = screening_design.design(named(8), 24, 1)
    assert [design.confounded(area) for area in range(8)] == [[]] * 8


@pytest.mark.parametrize(("areas", "phases", "most"), [(8, 16, 1.0), (12, 24, 1 / 3)])
def test_interactions_in_another_design_are_named_with_their_share(
    areas: int, phases: int, most: float
) -> None:
    design = screening_design.design(named(areas), phases, 1)
    columns = dict(zip(design.areas, zip(*design.levels)))
    for number, area in enumerate(design.areas):
        pairs = design.confounded(number)
        assert abs(pairs[0][2]) == pytest.approx(most)
        for first, second, share in pairs:
            assert area not in (first, second)
            both = [sign * other for sign, other in zip(columns[first], columns[second])]
            assert dot(columns[area], both) == pytest.approx(share * phases)


def test_several_metrics_share_the_error_rate() -> None:
    design = screening_design.design(named(8), 24, 3)
    measured = values(design, {}, noise=0.01)
    alone, shared = (screening.analyse(design, measured, LEAST, family).effects[0] for family in (1, 4))
    assert shared.high - shared.low > 1.1 * (alone.high - alone.low)
    assert shared.change == alone.change


def test_too_few_phases_to_fold_are_said() -> None:
    design = screening_design.design(named(14), 24, 1)
    assert not design.folded
    assert design.words == (
        "14 areas in 24 phases: an interaction of two areas may look like the effect of a third; "
        "32 phases would tell them apart"
    )


def test_the_order_is_that_of_the_seed() -> None:
    orders = [screening_design.design(named(8), 24, seed).levels for seed in (1, 1, 2)]
    assert orders[0] == orders[1] != orders[2]


@pytest.mark.parametrize(
    ("areas", "phases", "why"),
    [
        (named(8), 12, "phases: expected at least 16 for 8 areas, got 12"),
        (named(36), 99, "by: expected at most 35 areas, got 36"),
        (["thp", "thp"], 24, "by: expected each area once"),
    ],
)
def test_designs_that_cannot_be(areas: list[str], phases: int, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        screening_design.design(areas, phases, 1)


# -- analysis ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "effects", [{}, {"area3": 0.03}, {"area0": -0.02}, {"area1": 0.5, "area2": 0.03, "area5": -0.04}]
)
def test_effects_are_found_with_their_sizes(effects: dict[str, float]) -> None:
    design = screening_design.design(named(8), 24, 3)
    result = screening.analyse(design, values(design, effects), LEAST)
    assert answers(result) == {area: "more" if change > 0 else "less" for area, change in effects.items()}
    assert all(effect.low < effects.get(effect.area, 0) < effect.high for effect in result.effects)
    others = {effect.answer for effect in result.effects if effect.area not in effects}
    assert others == {Answer.NO_DIFFERENCE}
    assert result.noise == pytest.approx(0.003, rel=0.4)


def test_wide_intervals_are_not_decided() -> None:
    design = screening_design.design(named(8), 24, 3)
    result = screening.analyse(design, values(design, {}, noise=0.05), LEAST)
    assert {effect.answer for effect in result.effects} == {Answer.NOT_DECIDED}
    assert min(effect.seen for effect in result.effects) > 0.05


@pytest.mark.parametrize("drift", [0.0, -0.01])
def test_exact_values_are_no_effects_of_rounding(drift: float) -> None:
    design = screening_design.design(named(8), 24, 3)
    result = screening.analyse(design, values(design, {"area1": 0.02}, noise=0, drift=drift), LEAST)
    assert answers(result) == {"area1": "more"}


def test_a_bent_trend_is_taken_out_and_said() -> None:
    design = screening_design.design(named(8), 24, 3)
    bent = [
        value * math.exp(-0.0005 * phase**2) for phase, value in enumerate(values(design, {"area1": 0.03}))
    ]
    result = screening.analyse(design, bent, LEAST)
    assert "the trend in time is bent, and a curve is taken out" in result.notes
    assert answers(result) == {"area1": "more"}


def interacting(design: Design, first: str, second: str) -> Screening:
    """Two areas have effects, and 30 % more together."""
    measured = values(design, {first: 0.3, second: 0.3})
    for phase in range(len(measured)):
        measured[phase] *= 1.3 if {first, second} <= {*design.applied(phase)} else 1
    return screening.analyse(design, measured, LEAST)


def test_an_interaction_of_two_areas_is_no_effect_of_all_others() -> None:
    """In 24 phases that are not folded over, it is a third of an effect on each of them."""
    result = interacting(screening_design.design(named(14), 24, 3), "area0", "area1")
    assert answers(result) == {"area0": "more", "area1": "more"}
    assert {effect.why for effect in result.effects} == {""}


def test_an_interaction_that_may_be_an_area_is_not_decided() -> None:
    """In 16 phases that are not folded over, it is the whole effect of a third area."""
    design = screening_design.design(named(8), 16, 3)
    levels = dict(zip(design.areas, zip(*design.levels)))
    both = tuple(-one * other for one, other in zip(levels["area0"], levels["area3"]))
    assert both == levels["area4"]
    result = interacting(design, "area0", "area3")
    assert answers(result) == {}
    assert {effect.area: effect.why for effect in result.effects if effect.why} == {
        "area0": "it may be the interaction of area3 and area4; test the three alone",
        "area3": "it may be the interaction of area0 and area4; test the three alone",
        "area4": "it may be the interaction of area0 and area3; test the three alone",
    }


def test_two_effects_whose_interaction_is_not_an_area_are_found() -> None:
    design = screening_design.design(named(8), 16, 3)
    effects = {"area0": 0.3, "area3": 0.3, "area7": 0.1}
    assert answers(screening.analyse(design, values(design, effects), LEAST)) == dict.fromkeys(
        effects, "more"
    )


@pytest.mark.parametrize(
    ("measured", "why"),
    [
        ([1.0] * 23, "values: expected 24, one for each phase; got 23"),
        ([1.0] * 23 + [0.0], "values: expected positive numbers, got 0.0"),
        ([1.0] * 23 + [math.nan], "values: expected positive numbers, got nan"),
        ([1.0] * 23 + [math.inf], "values: expected positive numbers, got inf"),
    ],
)
def test_values_that_are_no_measurements(measured: list[float], why: str) -> None:
    design = screening_design.design(named(8), 24, 3)
    with pytest.raises(ValueError, match=why):
        screening.analyse(design, measured, LEAST)


@pytest.mark.parametrize(("off", "digits"), [(1.21, 1), (1.24, 1), (30.4, 0)])
def test_an_effect_that_rounding_hides_is_not_excluded(off: float, digits: int) -> None:
    """The area has 3 %, and the program prints 1.2 in all phases, or a step."""
    design = screening_design.design([f"area{number}" for number in range(8)], 24, 1)
    measured = [round(off * (1.03 if level[2] > 0 else 1), digits) for level in design.levels]
    step = interval.step({"a": measured}, 24)

    result = screening.analyse(design, measured, LEAST, 1, step)

    effect = result.effects[2]
    assert effect.low <= 0.03 <= effect.high
    assert [other.answer for other in result.effects[:2]] == [Answer.NOT_DECIDED] * 2
    assert result.effects[0].why == "its digits are too few for 1 %"
    noisy = values(design, {"area2": 0.03})
    assert screening.analyse(design, noisy, LEAST, 1, 1e-3) == screening.analyse(design, noisy, LEAST)
