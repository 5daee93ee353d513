# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from ansible_collections.mlnode.tuning.plugins.plugin_utils.fleet_report.table import lines
from ansible_collections.mlnode.tuning.tests.unit import cases
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
        "  1 of 6 differs in vm.swappiness (high, drifted): gpu002; 1 reports nothing",
        "    about it",
        "  1 of 6 differs in rate mlx5_0/1 (high, fail): gpu003; 2 report nothing about",
        "    it",
        "    look at the cable",
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


def test_what_was_asked_for_and_not_done_is_named() -> None:
    fleet = fleets.synthetic(2, knobs=1, drift=0)
    fleet.unsupported = {"vm.x: not here": ["gpu001", "gpu002"]}
    fleet.left_alone = {"web2": "web", "web10": "web", "lone": "no group"}

    assert lines(fleet, 80)[-7:] == [
        "",
        "Declared by you, and unsupported",
        "  gpu001, gpu002: vm.x: not here",
        "",
        "In no group known here, and left alone",
        "  lone (no group)",
        "  web2, web10 (web)",
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


def test_what_has_one_cause_is_one_item() -> None:
    fleet = fleets.empty()
    reason = "boot: no file in sysctl.d sets it"
    for name in ("n1", "n2", "n3", "n4"):
        settings = [
            fleets.drifted(f"vm.s{at:02d}", runtime=str(at), why=reason)
            if name != "n4"
            else fleets.setting(f"vm.s{at:02d}")
            for at in range(15)
        ]
        fleet.take(fleet.host(name), {"settings": settings}, "node_drift")

    assert lines(fleet, 80)[-5:] == [
        "Differences",
        "  3 of 4 differ in vm.s00 and 14 more (high, drifted): n[1:3]",
        f"    {reason}",
        "    also vm.s01, vm.s02, vm.s03, vm.s04, vm.s05, vm.s06, vm.s07, vm.s08,",
        "      vm.s09, vm.s10, vm.s11, vm.s12 and 2 more",
    ]


def test_a_failed_link_stands_above_forty_equal_governors() -> None:
    told = lines(fleets.link_and_governors(), 100)

    rows = [line.split()[0] for line in told[told.index("") + 2 :][:3]]
    assert rows == ["1", "40", "9"]
    differences = told[told.index("Differences") + 1 :]
    assert differences[0] == "  1 of 50 differs in rate mlx5_0/1 (high, fail): gpu045"
    assert "  40 of 50 differ in cpu.governor (high, drifted): gpu[001:040]" in differences


@pytest.mark.parametrize("hosts", [1, 10, 2000])
def test_it_is_short_and_keeps_to_the_terminal(hosts: int) -> None:
    fleet = fleets.synthetic(hosts, drift=0.01)
    for width in (40, 80, 200, None):
        told = lines(fleet, width)

        assert len(told) < 130
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


@cases.table
def test_a_difference_says_how_many_of_all_hosts(
    differing: int, alike: int, others: int, lost: int, expected: str
) -> None:
    fleet = fleets.empty()
    settings = [fleets.drifted()] * differing + [fleets.setting()] * alike
    settings += [fleets.setting("vm.b")] * others
    for number, one in enumerate(settings, 1):
        fleet.take(fleet.host(f"n{number}"), {"settings": [one]}, "node_drift")
    for number in range(lost):
        fleet.host(f"gone{number}").unreachable = "timed out"

    assert f"  {expected}" in lines(fleet, None)
