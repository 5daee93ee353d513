# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tables about fleets of which it is known which nodes and paths are bad."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.plugins.plugin_utils import path_report
from ansible_collections.mlnode.tuning.plugins.plugin_utils.path_report import Report

HOLE = "packets of 9000 bytes do not arrive, 1500 do and 2044 do not"

Bad = Callable[[int, int], bool]


def check(target: str, verdict: str = "pass", found: str = "packets of 9000 bytes arrive") -> dict[str, Any]:
    advice = "" if verdict == "pass" else "look at the port"
    texts = {
        "name": "path_mtu",
        "target": target,
        "found": found,
        "advice": advice,
        "expected": "",
        "source": "",
    }
    return {**texts, "verdict": verdict}


def fleet(size: int, bad: Bad, verdict: str = "fail", **instead: Any) -> Report:
    """Nodes n1, n2 ... bad: sender and receiver → nothing of full size arrives. instead: node → its
    result."""
    nodes: dict[str, Any] = {f"n{at}": f"10.0.0.{at}" for at in range(1, size + 1)}

    def one(here: int, there: int) -> dict[str, Any]:
        return check(f"10.0.0.{there}", verdict, HOLE) if bad(here, there) else check(f"10.0.0.{there}")

    results = {
        f"n{here}": {"checks": [one(here, there) for there in range(1, size + 1) if there != here]}
        for here in range(1, size + 1)
    }
    return path_report.report(nodes, {**results, **instead})


def named(found: Report) -> set[str]:
    rows = [line.split(maxsplit=1)[1] for line in found.table[1:-1]]
    return {row.split("  ")[0] for row in rows}


def test_a_fleet_in_good_order() -> None:
    found = fleet(5, lambda here, there: False)

    assert found == Report("pass", True, ["pass: 5 of 5 nodes sent packets, 20 of 20 ways are as expected"])


@pytest.mark.parametrize("size", [3, 4, 10, 100])
def test_a_bad_node_is_one_line(size: int) -> None:
    found = fleet(size, lambda here, there: 2 in (here, there))

    assert named(found) == {"node n2"}
    assert (
        f"to {size - 1} of {size - 1} others, from {size - 1} of {size - 1}: {HOLE}; look at"
        in found.table[1]
    )
    assert (found.verdict, found.success) == ("fail", False)


def test_a_node_that_is_only_not_reached_says_so() -> None:
    found = fleet(6, lambda here, there: there == 4)

    assert named(found) == {"node n4"}
    assert "to 0 of 5 others, from 5 of 5" in found.table[1]


def test_two_bad_nodes_and_a_bad_path() -> None:
    found = fleet(10, lambda here, there: {1, 7} & {here, there} != set() or (here, there) == (3, 9))

    assert named(found) == {"node n1", "node n7", "path n3 -> n9"}


@pytest.mark.parametrize("size", [2, 3, 10])
def test_a_path_keeps_its_direction(size: int) -> None:
    found = fleet(size, lambda here, there: (here, there) == (1, 2))

    assert named(found) == {"path n1 -> n2"}
    assert f"10.0.0.2: {HOLE}" in found.table[1]


def test_of_two_nodes_none_is_blamed() -> None:
    assert named(fleet(2, lambda here, there: True)) == {"path n1 -> n2", "path n2 -> n1"}


@pytest.mark.parametrize(("size", "border"), [(4, 2), (10, 5), (10, 3), (64, 32)])
def test_two_groups_are_one_line(size: int, border: int) -> None:
    found = fleet(size, lambda here, there: (here <= border) != (there <= border))

    [row] = found.table[1:-1]
    assert "between 2 groups: " in row
    assert "n[1:" in row or border == 2


def test_a_bad_node_beside_two_groups() -> None:
    found = fleet(9, lambda here, there: 9 in (here, there) or (here <= 4) != (there <= 4))

    first, second = found.table[1:-1]
    assert "between 2 groups: n[1:4]; n[5:8]" in first
    assert "node n9" in second


def test_nodes_that_did_not_send_are_named_with_the_reason() -> None:
    found = fleet(
        4, lambda here, there: False, n2={"unreachable": True, "msg": "timed out"},
        n3={"failed": True, "msg": "no ping"}, n4={},
    )  # fmt: skip

    assert (found.verdict, found.success) == ("unknown", False)
    text = "\n".join(found.table)
    for line in (
        "node n2  not checked: not reachable: timed out",
        "n3  not checked: no ping",
        "n4  not checked: no r",
    ):
        assert line in text
    assert found.table[-1] == "unknown: 1 of 4 nodes sent packets, 3 of 3 ways are as expected"


def test_a_warning_is_shown_and_does_not_fail() -> None:
    found = fleet(3, lambda here, there: (here, there) == (1, 2), "warn")

    assert (found.verdict, found.success, named(found)) == ("warn", True, {"path n1 -> n2"})


def test_a_result_with_other_peers_proves_nothing() -> None:
    found = fleet(3, lambda here, there: False, n1={"checks": [check("10.0.0.2")]})

    assert "node n1  not checked: it has 1 results for 2 peers" in found.table[1]


def test_rails_and_interfaces_of_a_node() -> None:
    rails: dict[str, Any] = {
        "a": ["10.1.0.1", "10.2.0.1"],
        "b": [{"address": "10.1.0.2", "interface": "rail0"}],
    }
    results = {
        "a": {"checks": [check("10.1.0.2 on rail0")]},
        "b": {"checks": [check("10.1.0.1"), check("10.2.0.1", "fail", HOLE)]},
    }
    found = path_report.report(rails, results)

    assert named(found) == {"path b -> a"}
    assert "10.2.0.1: " in found.table[1]


def test_texts_of_nodes_cannot_command_a_terminal() -> None:
    results = {
        "a": {"checks": [check("\x1b[2J", "fail", "\x1b[2J")]},
        "b": {"msg": "\x1b[2J", "failed": True},
    }
    found = path_report.report({"a": "10.0.0.1", "b": "10.0.0.2"}, results)

    assert all(line.isprintable() for line in found.table)


def test_more_lines_than_people_read() -> None:
    found = fleet(40, lambda here, there: (here + there) % 4 == 0 and here != there)

    assert len(found.table) <= path_report.MOST + 3
    assert "more" in found.table[-2] or len(found.table) < path_report.MOST
