# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Jobs in the fleet report: findings of nodes, the part of the table and the section of the page."""

from __future__ import annotations

import re
from typing import Any

from ansible_collections.mlnode.tuning.plugins.plugin_utils.fleet_report import page, table
from ansible_collections.mlnode.tuning.plugins.plugin_utils.fleet_report.model import Fleet
from ansible_collections.mlnode.tuning.plugins.plugin_utils.jobs import in_fleet
from ansible_collections.mlnode.tuning.tests.unit.plugins.plugin_utils.fleet_report import fleets
from ansible_collections.mlnode.tuning.tests.unit.plugins.plugin_utils.jobs import answers


def fleet(results: dict[str, Any]) -> Fleet:
    made = fleets.empty()
    in_fleet.add(made, results)
    return made


def odd() -> dict[str, Any]:
    results = answers.fleet(32)
    answers.of_rank(results, 9)["values"]["limit memlock hard"] = "8388608"
    results["gpu003"]["places"][0]["processes"].pop()
    return {**results, "gpu005": answers.answer(), "gpu006": {"unreachable": True}}


def test_a_node_has_the_deviations_of_its_ranks() -> None:
    made = fleet(odd())
    found = {
        name: {key: item.status for (_kind, key), item in host.findings.items()}
        for name, host in made.hosts.items()
    }
    memlock, rank = "slurm 4711 limit memlock hard", "slurm 4711 rank"
    looked = {"jobs node": "pass"}
    assert found == {
        "gpu001": {**looked, memlock: "pass", rank: "unknown"},
        "gpu002": {**looked, memlock: "fail", rank: "unknown"},
        "gpu003": {**looked, memlock: "pass", rank: "unknown"},
        "gpu004": {**looked, memlock: "pass", rank: "unknown"},
        "gpu005": looked,
        "gpu006": {"jobs node": "unknown"},
    }
    [item] = [one for one in made.hosts["gpu002"].bad if one.status == "fail"]
    assert (item.want, item.runtime, item.severity) == ("unlimited (on 30 others)", "8 MiB", "high")


def test_a_node_does_not_pass_a_value_that_is_unknown_there() -> None:
    results = odd()
    results["gpu001"]["places"][0]["unknown"] = {"limit memlock hard": "the child stalled"}
    answers.of_rank(results, 9)["values"]["env OMP_NUM_THREADS"] = "1"
    found = fleet(results).hosts["gpu001"].findings.values()
    assert {item.key.partition("4711 ")[2]: item.status for item in found if "4711" in item.key} == {
        "limit memlock hard": "unknown",
        "rank": "unknown",
        "env OMP_NUM_THREADS": "pass",
    }


def test_a_node_does_not_pass_a_variable_of_an_unread_environment() -> None:
    results = answers.fleet(32)
    answers.of_rank(results, 9)["values"]["env OMP_NUM_THREADS"] = "1"
    answers.of_rank(results, 1)["unknown"] = {"environment": "no answer in 2 s"}
    hosts = fleet(results).hosts
    key = "slurm 4711 env OMP_NUM_THREADS"
    assert {
        name: [item.status for item in host.findings.values() if item.key == key]
        for name, host in hosts.items()
    } == {
        "gpu001": [],
        "gpu002": ["fail"],
        "gpu003": ["pass"],
        "gpu004": ["pass"],
    }


def test_a_value_and_the_others_look_different() -> None:
    results = answers.fleet(32)
    for number in range(32):
        text = str(68719476736 - (number == 9))
        answers.of_rank(results, number)["values"]["limit memlock hard"] = text
    [item] = fleet(results).hosts["gpu002"].bad
    assert (item.runtime, item.want) == ("68719476735", "68719476736 (on 31 others)")


def test_two_deviations_of_a_node_in_one_value_are_one_finding() -> None:
    results = answers.fleet(32)
    for number, text in ((8, "8388608"), (9, "65536")):
        answers.of_rank(results, number)["values"]["limit memlock hard"] = text
    [item] = fleet(results).hosts["gpu002"].bad
    assert (item.runtime, item.want) == ("8 MiB; 64 KiB", "unlimited (on 30 others)")


def test_the_table_has_a_part_for_jobs() -> None:
    lines = table.lines(fleet(odd()), None)
    assert lines[lines.index("Jobs") + 1 :][:3] == [
        "  slurm 4711: fail: 4 nodes (gpu[001:004]), ranks 31 of 32, 12 values alike",
        "    fail: rank 9 on gpu002: limit memlock hard: 8 MiB; 30 others: unlimited",
        "    unknown: rank 23: 1 of 32 ranks were seen on no node; without an answer: gpu006",
    ]


def test_the_page_has_a_section_for_jobs() -> None:
    text = "".join(page.lines(fleet(odd())))
    section = text.partition("<h2>Jobs</h2>")[2].partition("</section>")[0]
    assert re.findall(r"<strong>(.*?) </strong>(.*?)</li>", section) == [
        ("rank 9 on gpu002", "limit memlock hard: 8 MiB; 30 others: unlimited"),
        ("rank 23", "1 of 32 ranks were seen on no node; without an answer: gpu006"),
    ]
    assert 'data-status="fail|unknown"' in section
    assert "<h2>Jobs</h2>" not in "".join(page.lines(fleets.mixed()))
