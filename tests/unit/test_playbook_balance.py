# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Traffic, and how the uplinks shared it, with nodes that give the two results they are told."""

from __future__ import annotations

from typing import Any, cast

import pytest
from ansible_collections.mlnode.tuning.plugins.plugin_utils.measure import balance
from ansible_collections.mlnode.tuning.plugins.plugin_utils.measure.balance import Asked
from ansible_collections.mlnode.tuning.plugins.plugin_utils.measure.nodes import Call, Fleet

TRAFFIC = {"0000000000200000": {"name": "leaf1", "begun": 1.0, "ended": 1.1, "ports": [], "why": ""}}


def result(verdict: str, found: str, **more: Any) -> dict[str, Any]:
    texts = {"expected": "", "source": "perfquery", "advice": ""}
    check = {"name": "balance", "target": "leaf1", "verdict": verdict, "found": found, **texts}
    return {"checks": [check], **more}


class Told:
    """Nodes a and b, of which one is told what to answer. said: in order, with the traffic."""

    names = ("a", "b")

    def __init__(self, monkeypatch: pytest.MonkeyPatch, told: list[dict[str, Any]]) -> None:
        self.told = told
        self.asked: list[Call] = []
        self.said: list[str] = []
        monkeypatch.setattr(balance, "say", self.said.append)

    def ask(self, calls: dict[str, Call]) -> dict[str, dict[str, Any]]:
        [(name, call)] = calls.items()
        self.asked.append(call)
        return {name: self.told.pop(0)}

    def failures(self, reader: str = "b") -> list[str]:
        with balance.shared(cast(Fleet, self), Asked(reader, ["gpu1"], "unknown")) as failures:
            assert not failures
            self.said.append("traffic is made")
        return failures


def test_both_readings_are_taken_around_the_traffic(monkeypatch: pytest.MonkeyPatch) -> None:
    first = result("skip", "leaves: 1, uplinks: 4: read, for a second reading", traffic=TRAFFIC)
    told = Told(monkeypatch, [first, result("pass", "leaves: 1; uplinks at most 3% below the busiest")])

    assert told.failures() == []

    traffic, report = told.said
    assert traffic == "traffic is made"
    assert "for a second reading" in report
    assert "at most 3% below the busiest" in report
    assert "nothing to compare" not in report
    before, after = (call.options for call in told.asked)
    assert before == {"scope": "uplinks", "nodes": ["gpu1"], "fail_on": "never"}
    assert after == {"scope": "uplinks", "since": TRAFFIC, "fail_on": "never"}


@pytest.mark.parametrize(
    ("told", "words"),
    [
        (
            [result("skip", "read", traffic=TRAFFIC), result("fail", "2 of 4 are below")],
            "balance fail: 2 of 4 are below",
        ),
        (
            [result("skip", "read", traffic=TRAFFIC), result("unknown", "too little")],
            "balance unknown: too little",
        ),
        ([{"failed": True, "msg": "no umad"}, result("unknown", "since is empty")], "not checked: no umad"),
        ([result("skip", "read", traffic=TRAFFIC), {"failed": True, "msg": "gone"}], "not checked: gone"),
        ([result("unknown", "no tool"), result("unknown", "since is empty")], "balance unknown: no tool"),
    ],
)
def test_whatever_was_not_seen_to_be_well_is_a_failure(
    monkeypatch: pytest.MonkeyPatch, told: list[dict[str, Any]], words: str
) -> None:
    site = Told(monkeypatch, told)

    assert words in "; ".join(site.failures())
    assert words in site.said[-1]


def test_a_reader_that_is_not_in_the_play_is_no_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "nobody: ib_subnet fail: not checked" in "; ".join(Told(monkeypatch, []).failures("nobody"))
