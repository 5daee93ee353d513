# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from ansible_collections.mlnode.tuning.plugins.plugin_utils.fleet_report.table import lines
from ansible_collections.mlnode.tuning.tests.unit.plugins.plugin_utils.fleet_report import fleets


def test_the_whole_table() -> None:
    assert lines(fleets.mixed(), 80) == [
        "drift.yml: 6 hosts: 1 unreachable, 1 failed, 2 differ, 1 not checked, 1 ok",
        "  1 fail (1 high), 1 drifted (1 high), 3 ok",
        "",
        "HOSTS  STATE        WORST  SYSCTL  RDMA_CHECK  NAMES",
        "1      unreachable  -      -       -           gpu004",
        "1      failed       -      -       -           gpu005",
        "1      differs      high   1/2     -           gpu002",
        "1      differs      high   -       1/1         gpu003",
        "1      not checked  -      -       -           gpu006",
        "1      ok           -      ok      -           gpu001",
        "",
        "Differences",
        "  1 of 2 differs in vm.swappiness (high, drifted): gpu002",
        "  rate mlx5_0/1 differs (high, fail)",
        "",
        "Unreachable",
        "  gpu004: Connection timed out",
        "",
        "Failed",
        "  gpu005: Declare kernel settings: EINVAL",
        "",
        "Not checked",
        "  gpu006",
    ]


def test_a_fleet_as_it_should_be_is_two_lines() -> None:
    fleet = fleets.synthetic(500, knobs=5, drift=0)

    assert len(lines(fleet, 80)) == 2


def test_three_of_512_are_named() -> None:
    fleet = fleets.empty()
    for at in range(1, 513):
        name = f"gpu{at:03d}"
        bad = name in ("gpu017", "gpu101", "gpu440")
        found = (
            fleets.drifted("thp.enabled", kind="thp") if bad else fleets.setting("thp.enabled", kind="thp")
        )
        fleet.take(fleet.host(name), {"settings": [found]}, "node_drift")

    text = "\n".join(lines(fleet, None))

    assert "3 of 512 differ in thp.enabled (high, drifted): gpu017, gpu101, gpu440" in text


@pytest.mark.parametrize("width", [40, 80, 200, None])
@pytest.mark.parametrize("hosts", [1, 10, 2000])
def test_it_is_short_and_keeps_to_the_terminal(hosts: int, width: int | None) -> None:
    told = lines(fleets.synthetic(hosts, drift=0.01), width)

    assert len(told) < 120
    if width is not None and width >= 80:
        assert max(map(len, told)) <= width


def test_nothing_moves_the_cursor() -> None:
    for line in lines(fleets.hostile(), 100):
        assert line.isprintable(), line


def test_exceptions_without_use_are_told() -> None:
    fleet = fleets.mixed()
    told = {"key": "net.*", "reason": "old driver", "until": "2027-01-31", "state": "unused"}
    fleet.take(fleet.host("gpu001"), {"exceptions": [told]}, "node_drift")

    assert lines(fleet, None)[-2:] == [
        "Exceptions without use",
        "  net.* (until 2027-01-31): old driver: nothing on any host needs it",
    ]
