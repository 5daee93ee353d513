# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Against the table of NIST/SEMATECH, e-Handbook of Statistical Methods, 1.3.6.7.2."""

from __future__ import annotations

import statistics

import pytest
from ansible_collections.mlnode.tuning.plugins.plugin_utils.effect.student import quantile

#: Degrees of freedom → the columns 0.90, 0.95, 0.975, 0.99, 0.995 and 0.999, of one side
TABLE = {
    1: (3.078, 6.314, 12.706, 31.821, 63.657, 318.309),
    2: (1.886, 2.920, 4.303, 6.965, 9.925, 22.327),
    3: (1.638, 2.353, 3.182, 4.541, 5.841, 10.215),
    4: (1.533, 2.132, 2.776, 3.747, 4.604, 7.173),
    5: (1.476, 2.015, 2.571, 3.365, 4.032, 5.893),
    10: (1.372, 1.812, 2.228, 2.764, 3.169, 4.144),
    29: (1.311, 1.699, 2.045, 2.462, 2.756, 3.396),
    100: (1.290, 1.660, 1.984, 2.364, 2.626, 3.174),
}


@pytest.mark.parametrize("degrees", TABLE)
def test_the_table(degrees: int) -> None:
    found = [quantile(2 * (1 - below), degrees) for below in (0.90, 0.95, 0.975, 0.99, 0.995, 0.999)]

    assert found == pytest.approx(TABLE[degrees], abs=5.1e-4)


@pytest.mark.parametrize("outside", [0.2, 0.05, 0.001, 1e-5])
def test_with_many_degrees_it_is_normal(outside: float) -> None:
    normal = statistics.NormalDist().inv_cdf(1 - outside / 2)

    assert quantile(outside, 499) == pytest.approx(normal, rel=0.02)
    assert quantile(outside, 4999) == pytest.approx(normal, rel=0.002)
