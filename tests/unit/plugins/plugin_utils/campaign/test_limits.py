# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.checks.campaign import tcp
from ansible_collections.mlnode.tuning.plugins.plugin_utils.campaign import limits
from ansible_collections.mlnode.tuning.plugins.plugin_utils.campaign.model import Facts, Link
from ansible_collections.mlnode.tuning.tests.unit import cases


@pytest.mark.parametrize(("mtu", "part"), [(1500, 1448 / 1538), (9000, 8948 / 9038), (None, 1.0), (0, 1.0)])
def test_a_port_carries_its_rate_less_the_headers_of_its_mtu(mtu: int | None, part: float) -> None:
    [limit] = limits.of_hardware(tcp, [("a", Facts("eth0", 100_000, mtu))])

    assert limit.name == "port"
    assert limit.value == pytest.approx(0.8 * 100 * part)
    assert "a: 0.8 of 100 Gb/s of eth0" in limit.source


@cases.table
def test_what_a_pcie_link_carries(speed: float, lanes: int, gbits: float) -> None:
    assert limits.carries(Link("", speed, lanes)) == pytest.approx(gbits, rel=1e-3)


def test_the_weakest_part_of_both_ends_is_the_limit() -> None:
    good = Facts("eth0", 400_000, 9000, pcie=(Link("0000:17:00.0", 32.0, 16), Link("0000:16:00.0", 32.0, 16)))
    narrow = good._replace(pcie=(Link("0000:17:00.0", 32.0, 16), Link("0000:16:00.0", 32.0, 8)))

    weakest = limits.least(limits.of_hardware(tcp, [("a", good), ("b", narrow)]))

    assert weakest is not None
    assert weakest.name == "pcie"
    assert weakest.source == "b: 0.8 of 212.3 Gb/s, 32 GT/s x8 of 0000:16:00.0"


def test_nothing_known_is_no_limit() -> None:
    assert limits.least(limits.of_hardware(tcp, [("a", Facts()), ("b", Facts())])) is None
    assert limits.spread(tcp, [1.0] * 4) is None


def test_a_fleet_that_measures_the_same_everywhere_has_a_margin_all_the_same() -> None:
    spread = limits.spread(tcp, [100.0] * 9 + [50.0])

    assert spread is not None
    assert spread.limit.value == pytest.approx(95.0)
    assert "5% of it" in spread.limit.source


def test_a_fleet_that_scatters_has_a_wider_one() -> None:
    spread = limits.spread(tcp, [90.0, 95.0, 100.0, 105.0, 110.0])

    assert spread is not None
    assert spread.limit.value == pytest.approx(100 - 4 * 1.4826 * 5)


def test_what_is_slow_does_not_widen_its_own_limit() -> None:
    good = [98.0, 99.0, 99.5, 100.0, 100.5, 101.0, 102.0] * 3
    # One slow node of eight has 7 of 28 pairs.
    alone, beside = (
        limits.spread(tcp, good),
        limits.spread(tcp, [*good, *[80.0, 81.0, 82.0, 83.0, 84.0, 85.0, 86.0]]),
    )

    assert alone is not None
    assert beside is not None
    assert beside.pairs == 28
    assert beside.limit.value == alone.limit.value > 86


def test_pairs_are_like_by_rate_mtu_and_leaf() -> None:
    fast, slow = Facts(speed_mbit=400_000, mtu=9000), Facts(speed_mbit=100_000, mtu=1500)

    assert limits.class_of(fast, slow, None) == (100_000, 1500, None)
    assert limits.class_of(fast, Facts(), True) == (400_000, 9000, True)
