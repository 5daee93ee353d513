# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import math
import random

import pytest
from ansible_collections.mlnode.tuning.plugins.plugin_utils.campaign import numbers
from ansible_collections.mlnode.tuning.tests.unit import cases


@pytest.mark.parametrize(("part", "value"), [(0.0, 1.0), (0.5, 2.5), (1.0, 4.0), (1 / 3, 2.0), (0.25, 1.75)])
def test_quantiles_are_interpolated(part: float, value: float) -> None:
    assert numbers.quantile([1.0, 2.0, 3.0, 4.0], part) == pytest.approx(value)
    assert numbers.quantile([7.0], part) == 7.0


def test_the_deviation_is_that_of_a_normal_distribution_and_outliers_do_not_count() -> None:
    chance = random.Random(1)
    values = [chance.gauss(3, 0.5) for _ in range(2000)]

    assert numbers.deviation(values, 3) == pytest.approx(0.5, rel=0.05)
    assert numbers.deviation([*values, *[100.0] * 100], 3) == pytest.approx(0.5, rel=0.12)


@cases.table
def test_students_quantiles(normal: float, freedom: float, table: float) -> None:
    assert numbers.student(normal, freedom) == pytest.approx(table, rel=0.01)


def test_students_quantile_of_few_is_large_and_finite() -> None:
    assert numbers.student(8, 1) < math.inf
    assert numbers.student(3, 1e9) == pytest.approx(3)


@pytest.mark.parametrize("part", [0.0, 0.1, 0.5, 0.98])
def test_a_loss_is_a_difference_of_logarithms(part: float) -> None:
    assert numbers.share(-math.log(1 - part)) == pytest.approx(part)
