# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.mlnode.tuning.plugins.plugin_utils import preflight
from ansible_collections.mlnode.tuning.tests.unit import cases

# -- peers ---------------------------------------------------------------------------------


def neighbours(number: int, at_once: int) -> dict[int, set[int]]:
    found = preflight.peers({f"n{at}": f"10.0.0.{at}" for at in range(number)}, at_once)
    return {
        int(name[1:]): {int(peer["address"].rpartition(".")[2]) for peer in peers}
        for name, peers in found.items()
    }


@pytest.mark.parametrize("at_once", [1, 2, 3, 5, 20, 500])
@pytest.mark.parametrize("number", [1, 2, 3, 4, 5, 20, 21, 201])
def test_each_node_has_two_neighbours_that_are_worked_on_with_it(number: int, at_once: int) -> None:
    found = neighbours(number, at_once)
    assert {*found} == {*range(number)}
    for node, peers in found.items():
        assert node not in peers
        assert len(peers) in (1, 2) or number == 1
        assert len(peers) == 2 or min(number, at_once) < 3 or node >= number - 2
        # Each waits for those who connect to it, and they are started after each other.
        assert all(node in found[peer] for peer in peers)
        assert all(abs(node - peer) <= 2 for peer in peers)
        # In the same turn, but for a last node that would have none
        turn = max(2, at_once)
        assert all(node // turn == peer // turn or number % turn == 1 for peer in peers)


def test_with_addresses_of_rails_each_rail_has_its_own() -> None:
    found = preflight.peers({"a": ["10.1.0.1", "10.2.0.1"], "b": ["10.1.0.2", "10.2.0.2"]}, 5)
    assert found["a"] == [
        {"address": "10.1.0.2", "source": "10.1.0.1"},
        {"address": "10.2.0.2", "source": "10.2.0.1"},
    ]


def test_no_nodes() -> None:
    assert preflight.peers({}, 5) == {}


# -- report --------------------------------------------------------------------------------


def check(
    verdict: str, name: str = "time_wait", found: str = "7", advice: str = "", **more: str
) -> dict[str, Any]:
    texts = {"name": name, "target": "node", "found": found, "advice": advice, "expected": "", "source": ""}
    return {**texts, "verdict": verdict, **more}


GOOD = {"checks": [check("pass")]}


@pytest.mark.parametrize(
    ("results", "fail_on", "verdict", "success"),
    [
        ({"a": GOOD, "b": GOOD}, "warn", "pass", True),
        ({"a": GOOD, "b": {"checks": [check("pass"), check("warn")]}}, "unknown", "warn", True),
        ({"a": GOOD, "b": {"checks": [check("pass"), check("warn")]}}, "warn", "warn", False),
        # Unknown is worse than all but a failure, and shown where it does not fail.
        ({"a": {"checks": [check("warn")]}, "b": {"checks": [check("unknown")]}}, "fail", "unknown", True),
        ({"a": GOOD, "b": {"checks": [check("unknown")]}}, "unknown", "unknown", False),
        ({"a": GOOD, "b": {"checks": [check("unknown"), check("fail")]}}, "fail", "fail", False),
        ({"a": GOOD, "b": {"checks": [check("fail")]}}, "never", "fail", True),
        # A node of which nothing was looked at
        ({"a": GOOD, "b": {"checks": [check("skip")]}}, "fail", "unknown", True),
        ({"a": GOOD, "b": {"checks": [check("skip")]}}, "unknown", "unknown", False),
        # One word of another version
        ({"a": GOOD, "b": {"checks": [check("fine")]}}, "unknown", "unknown", False),
    ],
)
def test_the_worst_of_each_and_of_all(
    results: dict[str, Any], fail_on: str, verdict: str, success: bool
) -> None:
    found = preflight.report(results, fail_on)
    assert (found.verdict, found.success) == (verdict, success)
    assert found.table[-1].startswith(f"{verdict}: 2 nodes: ")


@cases.table
def test_a_node_without_a_result_fails_the_fleet_whatever_may_fail(result: Any, why: str) -> None:
    found = preflight.report({"a": GOOD, "b": result}, "never")
    assert (found.verdict, found.success, found.nodes["b"]) == ("unknown", False, "unknown")
    assert f"1 of 2: b  {why}" in found.table[1]


def test_what_is_unknown_is_no_success_unless_it_is_accepted() -> None:
    results = {name: {"checks": [check("pass"), check("unknown")]} for name in "abc"}
    assert not preflight.report(results).success
    assert preflight.report(results, "fail").success


def test_a_fleet_without_nodes_is_no_success() -> None:
    found = preflight.report({})
    assert (found.verdict, found.success) == ("unknown", False)


def test_nodes_share_a_line_and_the_worst_and_rarest_are_first() -> None:
    waits = check("warn", found="2000", advice="keep them")
    results: dict[str, Any] = {f"gpu{at:03}": {"checks": [check("pass"), waits]} for at in range(1, 61)}
    results["gpu007"] = {"checks": [check("warn", found="9000", advice="keep them")]}
    results["gpu009"]["checks"] += [check("fail", "path_mtu_9000", "1500 do", target="10.0.0.8", expected="")]
    results["gpu010"]["checks"] += [check("warn", "tcp_connect", "p99 9000", "look at it", target="10.0.0.8")]
    results["gpu011"]["checks"] += [check("skip", "nic_drops", "baseline taken", target="rail0")]
    found = preflight.report(results)
    assert found.table == [
        "VERDICT  CHECK          NODES                   FOUND",
        "fail     path_mtu_9000  1 of 60: gpu009         10.0.0.8: 1500 do",
        "warn     tcp_connect    1 of 60: gpu010         10.0.0.8: p99 9000; look at it",
        "warn     time_wait      60 of 60: gpu[001:060]  2000; keep them (and 59 more)",
        "skip     nic_drops      1 of 60: gpu011         rail0: baseline taken",
        "fail: 60 nodes: 1 fail, 59 warn",
    ]


def test_a_table_is_no_longer_than_people_read() -> None:
    results = {f"n{at}": {"checks": [check("fail", f"check{at}")]} for at in range(100)}
    table = preflight.report(results).table
    assert len(table) == 43
    assert table[-2] == "and 60 more"


def test_a_text_of_a_node_moves_no_cursor() -> None:
    assert "\x1b" not in "".join(preflight.report({"a": {"checks": [check("fail", found="\x1b[2J")]}}).table)


# -- unknown that is accepted --------------------------------------------------------------


@pytest.mark.parametrize(
    ("checks", "accepted", "verdict", "success"),
    [
        ([check("pass"), check("unknown", "jobs")], [], "unknown", False),
        ([check("pass"), check("unknown", "jobs")], ["jobs"], "pass", True),
        ([check("pass"), check("unknown", "jobs"), check("unknown", "drift")], ["jobs"], "unknown", False),
        # Only what is unknown is accepted.
        ([check("pass"), check("fail", "jobs")], ["jobs"], "fail", False),
        # A node of which nothing passes is not proven.
        ([check("unknown", "jobs")], ["jobs"], "unknown", False),
    ],
)
def test_checks_that_may_be_unknown(checks: Any, accepted: list[str], verdict: str, success: bool) -> None:
    found = preflight.report({"a": {"checks": checks}}, accepted=accepted)

    assert (found.verdict, found.success) == (verdict, success)
    shown = any("jobs" in line and "(accepted)" in line for line in found.table)
    assert shown == (bool(accepted) and verdict != "fail")


def test_a_node_without_a_result_is_never_accepted() -> None:
    found = preflight.report({"a": GOOD, "b": {}}, accepted=["not checked"])

    assert not found.success


def test_a_name_that_no_check_has_is_said() -> None:
    found = preflight.report({"a": GOOD}, accepted=["jbos"])

    assert "accepted, and no node has such a check: jbos" in found.table
