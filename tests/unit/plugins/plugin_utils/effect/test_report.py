# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""From the answers of nodes to an effect, and what must not count as one."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import jsonschema
import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.mlnode.tuning.plugins.filter.campaign_plan import campaign_plan
from ansible_collections.mlnode.tuning.plugins.filter.effect_report import effect_report

SCHEMA = json.loads((pathlib.Path(__file__).parents[5] / "docs/schema/effect.schema.json").read_text("utf-8"))
ABOUT = {
    "id": "spring", "ended": "2026-11-25T04:00:00+00:00", "before": "reverted", "nodes": ["a", "b", "c", "d"],
    "duration_seconds": 4,
}  # fmt: skip
PLAN = campaign_plan({name: [f"10.0.0.{number}"] for number, name in enumerate("abcd", 1)}, rounds=1)
SLOTS = {name: json.loads(own) for name, own in PLAN["slots"].items()}

NAME = "bandwidth between two nodes, mean of both directions"

#: Gb/s of each phase, for each of the two pairs
SPEEDS = {"A": 90.0, "B": 92.7}


def tcp(state: str, **changes: dict[str, Any]) -> dict[str, Any]:
    """Answers of one phase. changes: of the node that measures."""
    answers = {}
    for number, (name, slots) in enumerate(SLOTS.items()):
        speed = SPEEDS[state] * (1 + number / 1000)
        way = {"forward_gbits": speed * 1.01, "backward_gbits": speed / 1.01, "hole": 0.9}
        mine = [
            {"round": 0, "rail": 0, **way, **changes.get(name, {})} for slot in slots if not slot["serves"]
        ]
        answers[name] = {"answer": json.dumps({"rails": [], "served": [], "slots": mine}), "problem": ""}
    return {"started": {name: {"ends": 1.0} for name in answers}, "collected": answers}


def memory(copy: float | None, random: float | None = None) -> dict[str, Any]:
    parts = {"copied": (copy, "mlnode"), "read": (random, "numactl, sysbench")}
    node = {
        name: {"value": value, "tool": tool if value else "", "reason": "" if value else "needs numactl"}
        for name, (value, tool) in parts.items()
    }
    return {"a": {"nodes": [{"node": 0, **node}, {"node": 1, **node}]}}


def phases(**found: list[Any]) -> list[dict[str, Any]]:
    return [
        {"state": state, **{kind: values[number] for kind, values in found.items()}}
        for number, state in enumerate("ABBA")
    ]


def report(these: list[dict[str, Any]]) -> dict[str, Any]:
    done = effect_report(these, PLAN, ABOUT)
    jsonschema.validate(done["document"], SCHEMA)
    return done


def test_an_effect_on_all_pairs() -> None:
    done = report(phases(tcp=[tcp(state) for state in "ABBA"]))

    assert done["success"]
    [result] = done["document"]["results"]
    assert (result["outcome"], result["tools"], result["pairs_measured"]) == ("effect", ["iperf3"], 2)
    assert result["effect"]["value_percent"] == pytest.approx(3.0)
    assert (result["effect"]["differences"], result["effect"]["of_each"]) == (2, "pair")
    assert done["table"] == [
        f"{NAME} (Gb/s, iperf3, 2 pairs): +3.00 % (95 % interval +3.00 to +3.00 %)",
    ]


def test_a_pair_without_a_result_is_named_and_no_success() -> None:
    [measures] = [name for name, slots in SLOTS.items() if not slots[0]["serves"] and name in "ad"]
    lost = {measures: {"reason": "no server listened"}}

    done = report(phases(tcp=[tcp("A"), tcp("B", **lost), tcp("B"), tcp("A")]))

    assert not done["success"]
    assert done["table"][1:] == [
        "  measured in all phases of a block: 1 of 2",
        f"  {measures} - {SLOTS[measures][0]['peer']}: no server listened",
    ]
    assert done["document"]["results"][0]["outcome"] == "unknown"


def test_where_the_cores_were_the_limit_it_is_said() -> None:
    [first, *_others] = [name for name, slots in SLOTS.items() if not slots[0]["serves"]]

    done = report(phases(tcp=[tcp(state, **{first: {"cpu_bound": True}}) for state in "ABBA"]))

    assert done["table"][1] == "  the cores were the limit in 4 of 8 measurements"


def test_memory_of_each_numa_node_and_which_program_has_measured() -> None:
    done = report(phases(memory=[memory(10.0), memory(10.2), memory(10.2), memory(10.0)]))

    copy, random = done["document"]["results"]
    assert [pair["name"] for pair in copy["pairs"]] == ["a node 0", "a node 1"]
    assert (copy["outcome"], copy["tools"]) == ("effect", ["mlnode"])
    assert copy["effect"]["value_percent"] == pytest.approx(2.0)
    assert (random["outcome"], random["effect"], random["better"]) == ("unknown", None, "less")
    assert "  a node 0, a node 1: needs numactl" in done["table"]
    assert not done["success"]


def test_a_node_that_refused_once_is_in_no_difference() -> None:
    refused = {"a": {"msg": "job 7 runs here"}}

    done = report(phases(memory=[memory(10.0, 90.0), refused, memory(10.2, 90.0), memory(10.0, 90.0)]))

    assert [one["outcome"] for one in done["document"]["results"]] == ["unknown", "unknown"]
    assert "  a: job 7 runs here" in done["table"]


@pytest.mark.parametrize("states", ["", "ABB", "AABB"])
def test_another_order_is_refused(states: str) -> None:
    with pytest.raises(AnsibleFilterError, match="and not ABBA once or several times"):
        effect_report([{"state": state} for state in states], PLAN, ABOUT)


def test_nothing_measured_is_no_success() -> None:
    done = report(phases())

    assert (done["success"], done["table"]) == (False, ["unknown: nothing was measured"])
