# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""From the answers of nodes to an effect, and what must not count as one."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import jsonschema
import pytest
from ansible_collections.mlnode.tuning.plugins.plugin_utils.campaign import schedule
from ansible_collections.mlnode.tuning.plugins.plugin_utils.effect import interval, metrics, readings
from ansible_collections.mlnode.tuning.plugins.plugin_utils.effect import report as effect

SCHEMA = json.loads((pathlib.Path(__file__).parents[5] / "docs/schema/effect.schema.json").read_text("utf-8"))
THREE = "+3.00 % (95 % interval +3.00 to +3.00 %)"

#: Three blocks
ORDER = interval.order(3)

ABOUT = {
    "id": "spring", "ended": "2026-11-25T04:00:00+00:00", "before": "reverted", "nodes": ["a", "b", "c", "d"],
    "duration_seconds": 4,
}  # fmt: skip
PLAN = schedule.plan({name: [f"10.0.0.{number}"] for number, name in enumerate("abcd", 1)}, rounds=1)
SLOTS = PLAN["slots"]

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


def phases(order: str = ORDER, **found: list[Any]) -> list[dict[str, Any]]:
    return [
        {"state": state, **{kind: values[number] for kind, values in found.items()}}
        for number, state in enumerate(order)
    ]


def by_state(a: Any, b: Any, order: str = ORDER) -> list[Any]:
    return [a if state == "A" else b for state in order]


def effect_report(these: list[dict[str, Any]], plan: dict[str, Any], about: dict[str, Any]) -> dict[str, Any]:
    document, lost = effect.document(these, plan, about), readings.lost(these[-1], plan)
    return {
        "document": document,
        "table": effect.lines(document),
        "success": effect.is_success(document),
        "decided": effect.ended(lambda _end: document, None, harms=False) == "decided",
        "lost": effect.loss(lost),
        "again": bool(lost.pairs and not lost.nodes),
    }


def report(these: list[dict[str, Any]]) -> dict[str, Any]:
    done = effect_report(these, PLAN, ABOUT)
    jsonschema.validate(done["document"], SCHEMA)
    return done


def test_an_effect_on_all_pairs() -> None:
    done = report(phases(tcp=[tcp(state) for state in ORDER]))

    assert (done["success"], done["decided"], done["lost"], done["again"]) == (True, True, [], False)
    [result] = done["document"]["results"]
    assert (result["verdict"], result["tools"], result["pairs_measured"]) == ("helps", ["iperf3"], 2)
    assert result["effect"]["value_percent"] == pytest.approx(3.0)
    assert result["effect"]["block_percents"] == pytest.approx([3.0] * 3)
    assert done["table"] == [
        f"{NAME} (Gb/s, iperf3, 2 pairs, 3 blocks): helps: {THREE}",
    ]


@pytest.mark.parametrize("blocks", [1, 2])
def test_too_few_blocks_print_no_interval_and_how_many_more_would_give_one(blocks: int) -> None:
    done = report(phases(ORDER[: 4 * blocks], tcp=[tcp(state) for state in ORDER]))

    assert (done["success"], done["decided"]) == (False, False)
    assert done["document"]["results"][0]["effect"] is None
    [line] = done["table"]
    assert line.endswith(f"got {blocks} block{'s' * (blocks > 1)}; {3 - blocks} more would give one")


def test_phases_of_a_block_that_was_not_finished_are_kept_and_not_compared() -> None:
    order = f"{ORDER}BA"
    stopped = "phase 15 of 24 (A) was lost; unreachable: d"
    values = [*by_state(tcp("A"), tcp("B")), tcp("A"), tcp("B")]

    done = effect_report(phases(order, tcp=values), PLAN, {**ABOUT, "stopped": stopped, "blocks_planned": 6})

    jsonschema.validate(done["document"], SCHEMA)
    [result] = done["document"]["results"]
    assert (done["success"], result["verdict"], result["effect"]["blocks"]) == (False, "unknown", 3)
    assert len(result["pairs"][0]["values"]) == 14
    assert result["words"].startswith("unknown; 2 of 2 pairs in 3 blocks: +3.00 %")
    assert done["table"][-1] == f"stopped: {stopped}"


def test_a_run_that_may_end_early_has_a_wider_interval_until_it_does() -> None:
    values = [tcp(state) for state in ORDER]
    values[0] = tcp("A", **{name: {"forward_gbits": 80.0} for name in "abcd"})

    def width(**more: Any) -> float:
        done = effect_report(phases(tcp=values), PLAN, {**ABOUT, **more})
        effect = done["document"]["results"][0]["effect"]
        return float(effect["high_percent"] - effect["low_percent"])

    assert width(blocks_planned=6) > 4 * width()
    assert width(blocks_planned=6, stopped="a node was lost") == pytest.approx(width())


def measures(*nodes: str) -> str:
    """One of the nodes that measures, and does not serve."""
    [name] = [name for name, slots in SLOTS.items() if not slots[0]["serves"] and name in nodes]
    return name


def test_a_pair_without_a_result_is_named_and_no_success() -> None:
    one = measures("a", "d")
    values = [tcp(state) for state in ORDER]
    values[5] = tcp("A", **{one: {"reason": "no server listened"}})

    done = report(phases(tcp=values))

    assert not done["success"]
    assert done["table"] == [
        f"{NAME} (Gb/s, iperf3, 1 pair, 3 blocks): unknown; 1 of 2 pairs in 3 blocks: {THREE}",
        "  measurements without a result: 1 in A, 0 in B",
        f"  {one} - {SLOTS[one][0]['peer']}: no server listened",
    ]
    assert done["document"]["results"][0]["verdict"] == "unknown"


@pytest.mark.parametrize(
    "ending", [{"reason": "no server listened"}, {"forward_gbits": 0.0}], ids=["a reason", "nothing arrived"]
)
def test_a_lost_pair_is_worth_a_repetition(ending: dict[str, Any]) -> None:
    one = measures("a", "d")

    done = report(phases("B", tcp=[tcp("B", **{one: ending})]))

    words = ending.get("reason", "nothing arrived")
    assert (done["lost"], done["again"]) == ([f"{one} - {SLOTS[one][0]['peer']}: {words}"], True)


@pytest.mark.parametrize("when", ["started", "collected"])
@pytest.mark.parametrize("serves", [True, False])
def test_a_lost_node_is_not(when: str, serves: bool) -> None:
    phase = tcp("B")
    name = next(name for name, slots in SLOTS.items() if slots[0]["serves"] == serves)
    phase[when][name] = {"failed": True, "msg": "job 7 runs here"}

    done = report(phases("A", tcp=[phase]))

    assert (done["lost"], done["again"]) == ([f"{name}: job 7 runs here"], False)


def test_an_answer_that_is_missing_is_a_lost_node() -> None:
    phase = tcp("A")
    del phase["collected"]["c"]

    done = report(phases("A", tcp=[phase]))

    assert (done["lost"], done["again"]) == (["c: no answer was collected"], False)


def test_where_the_cores_were_the_limit_it_is_said() -> None:
    one = measures("a", "d")

    done = report(phases(tcp=[tcp(state, **{one: {"cpu_bound": True}}) for state in ORDER]))

    assert done["table"][1] == "  the cores were the limit in 12 of 24 measurements"


def test_memory_of_each_numa_node_and_which_program_has_measured() -> None:
    done = report(phases(memory=by_state(memory(10.0), memory(10.2))))

    copy, random = done["document"]["results"]
    assert [pair["name"] for pair in copy["pairs"]] == ["a node 0", "a node 1"]
    assert (copy["verdict"], copy["tools"]) == ("helps", ["mlnode"])
    assert copy["effect"]["value_percent"] == pytest.approx(2.0)
    assert (random["verdict"], random["effect"], random["better"]) == ("unknown", None, "lower")
    assert "  a node 0, a node 1: needs numactl" in done["table"]
    # A figure that needs a program is missing in each phase, and is no reason to stop.
    assert (done["success"], done["lost"]) == (False, [])


def test_a_node_that_refused_once_is_in_no_difference() -> None:
    refused = {"a": {"msg": "job 7 runs here"}}
    values = by_state(memory(10.0, 90.0), memory(10.2, 90.0))
    values[1] = refused

    done = report(phases(memory=values))

    assert [one["verdict"] for one in done["document"]["results"]] == ["unknown", "unknown"]
    assert {len(pair["values"]) for one in done["document"]["results"] for pair in one["pairs"]} == {12}
    assert "  a node 0, a node 1: job 7 runs here" in done["table"]
    assert report(phases("A", memory=[refused]))["lost"] == ["a: job 7 runs here"]


@pytest.mark.parametrize("states", ["", "ABAB", "AABB", "ABBAA" + "B" * 3])
def test_another_order_is_refused(states: str) -> None:
    with pytest.raises(ValueError, match="expected blocks of ABBA or BAAB"):
        effect_report([{"state": state} for state in states], PLAN, ABOUT)


def test_nothing_measured_is_no_success() -> None:
    done = report(phases())

    assert (done["success"], done["table"]) == (False, ["unknown: nothing was measured"])


# -- commands ------------------------------------------------------------------------------------------


def answer(tokens: Any, *samples: float) -> dict[str, Any]:
    """Of timed_command, for one run."""
    output = json.dumps({"tokens": tokens, "latency": samples})
    return {"changed": True, "runs": [{"rc": 0, "seconds": 1.5, "stdout": output}]}


SOURCES = metrics.sources([
    {"name": "throughput", "unit": "tokens/s", "better": "higher", "json": "tokens"},
    {"name": "latency", "unit": "s", "better": "lower", "json": "latency[*]", "take": ["mean"]},
])  # fmt: skip


def commanded(order: str, b: float = 1.1, noise: float = 1e-6) -> list[dict[str, Any]]:
    """Phases of two nodes, on which B has b times as much of both."""
    made = []
    for number, state in enumerate(order):
        part = (b if state == "B" else 1.0) * (1 + noise * (number % 3))
        answers = {name: answer(100.1 * part, 0.5 * part, 1.5 * part) for name in "ab"}
        of_phase = readings.commanded(answers, {"a": "a", "b": "b"}, SOURCES)
        made.append({"state": state, "command": of_phase.readings, "runs": of_phase.runs})
    return made


def document(these: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    made = effect.document(these, {}, {**ABOUT, "command": ["job"], **more})
    jsonschema.validate(made, SCHEMA)
    return made


def test_the_harmed_metric_is_first_and_all_runs_are_kept() -> None:
    made = document(commanded(ORDER))

    assert [(one["name"], one["verdict"]) for one in made["results"]] == [
        ("latency", "harms"),
        ("throughput", "helps"),
    ]
    [harmed] = effect.harmed(made)
    assert harmed.startswith("latency: harms: +10.00 % (95 % interval +")
    begin = "latency (s, command, 2 nodes, 3 blocks, lower is better): harms: "
    assert effect.lines(made)[0].startswith(begin)
    assert effect.is_success(made)
    assert [(run["phase"], run["node"]) for run in made["runs"][:3]] == [(1, "a"), (1, "b"), (2, "a")]


def test_two_metrics_have_wider_intervals_than_one() -> None:
    both = commanded(ORDER, noise=0.01)
    [one, _other] = [
        [{**phase, "command": {metric: phase["command"][metric]}} for phase in both]
        for metric in both[0]["command"]
    ]

    of_one, of_both = (
        {result["name"]: result["effect"]["high_percent"] for result in document(these)["results"]}
        for these in (one, both)
    )

    assert of_both["throughput"] > of_one["throughput"]


#: Answer of a node → why its phase is lost
LOST: list[tuple[dict[str, Any], str]] = [
    (answer(0), "a: throughput: expected a number above 0, got 0"),
    (answer("\x1b[1m"), "a: throughput: expected a number above 0, got '\\x1b[1m'"),
    ({"failed": True, "msg": "run 1: no end within 5 s", "changed": True, "runs": []}, "a: run 1: no end"),
    ({"unreachable": True, "msg": "no route to host"}, "a: no route to host"),
    ({}, "a: no answer was collected"),
    ({"changed": True, "runs": [{"rc": 0, "seconds": "x", "stdout": ""}]}, "a: the answer is not understood"),
]


@pytest.mark.parametrize(("result", "words"), LOST)
def test_a_node_without_a_metric_is_lost_and_not_asked_again(result: dict[str, Any], words: str) -> None:
    of_phase = readings.commanded({"a": result, "b": answer(1, 2)}, {"a": "a", "b": "b"}, SOURCES)

    lost = readings.lost({"state": "A", "command": of_phase.readings}, {})

    assert lost.pairs == {}
    [line] = effect.loss(lost)
    assert line.startswith(words)


def test_a_unit_that_changes_between_phases_loses_the_node() -> None:
    sources = metrics.sources([{"name": "age", "unit": "s", "better": "lower", "regex": "age ([0-9.]+)"}])
    units: readings.Units = {}

    def phase(**printed: str) -> readings.Lost:
        answers = {
            name: {"changed": True, "runs": [{"rc": 0, "seconds": 1.0, "stdout": text}]}
            for name, text in printed.items()
        }
        of_phase = readings.commanded(answers, {"a": "a", "b": "b"}, sources, units)
        return readings.lost({"state": "A", "command": of_phase.readings}, {})

    assert phase(a="age 900ms", b="age 1.1s") == readings.Lost({}, {}), "each node has its own"
    lost = phase(a="age 1.1s", b="age 1.2s")
    assert lost.nodes == {"a": "age: expected one unit after its numbers, got 'ms' and 's'"}


def test_the_output_of_a_run_is_cut() -> None:
    run = {"rc": 0, "seconds": 1.0, "stdout": f"{'x' * 5000}end"}

    of_phase = readings.commanded({"a": {"changed": True, "runs": [run]}}, {"a": "a"}, SOURCES)

    assert len(of_phase.runs[0]["stdout"]) == 2000
    assert of_phase.runs[0]["stdout"].endswith("xend")


@pytest.mark.parametrize(
    ("blocks", "b", "noise", "precision", "harms", "end"),
    [
        (3, 1.1, 1e-6, None, False, "decided"),
        (3, 1.1, 0.05, None, False, ""),
        (3, 1.1, 1e-6, 2.0, False, ""),
        (3, 1.1, 1e-6, 2.0, True, "decided"),
        (3, 1.0, 1e-6, 2.0, True, ""),
        (8, 1.1, 1e-6, 2.0, False, "precision"),
        (8, 1.1, 0.05, 0.5, False, ""),
    ],
)
def test_a_run_ends_once_its_rule_says_so(
    blocks: int, b: float, noise: float, precision: float | None, harms: bool, end: str
) -> None:
    these = commanded(interval.order(blocks), b, noise)
    about = {"blocks_planned": 24, "precision_percent": precision}

    assert effect.ended(lambda name: document(these, **about, end=name or "blocks"), precision, harms) == end


@pytest.mark.parametrize(("end", "limit"), [("blocks", "effect_blocks"), ("budget", "effect_budget")])
def test_a_precision_that_was_not_reached_is_said(end: str, limit: str) -> None:
    these = commanded(interval.order(8), noise=0.02)

    lines = effect.lines(document(these, precision_percent=0.1, end=end))

    assert [line for line in lines if line.endswith(f": wider than ±0.1 %; raise {limit}")]
    narrow = effect.lines(document(commanded(interval.order(8)), precision_percent=2.0, end="precision"))
    assert not [line for line in narrow if "wider" in line]
