# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Jobs of a fleet in simulated answers: ranks that are odd, missing, repeated or unknown."""

from __future__ import annotations

import copy
import json
import pathlib
from typing import Any

import jsonschema
import pytest
from ansible_collections.mlnode.tuning.plugins.plugin_utils.jobs import report
from ansible_collections.mlnode.tuning.plugins.plugin_utils.jobs.report import Report
from ansible_collections.mlnode.tuning.tests.unit.plugins.plugin_utils.jobs import answers

SCHEMA = json.loads((pathlib.Path(__file__).parents[5] / "docs/schema/jobs.schema.json").read_text("utf-8"))

Results = dict[str, dict[str, Any]]

MEMLOCK = "limit memlock hard"
UNREACHABLE = {"unreachable": True, "msg": "No route to host"}


def judged(results: Any, fail_on: str = "unknown") -> Report:
    made = report.report(results, fail_on)
    jsonschema.validate(made.document, SCHEMA)
    return made


def findings(made: Report, job: int = 0) -> list[tuple[str, str, str, str]]:
    """Verdict, kind, value and ranks of each finding of a job."""
    return [
        (item["verdict"], item["kind"], item["value"], item["who"])
        for item in made.document["jobs"][job]["findings"]
    ]


def test_a_job_without_a_fault_has_a_row_and_no_finding() -> None:
    made = judged(answers.fleet(32))
    assert (made.verdict, made.success) == ("pass", True)
    assert made.table == [
        "JOB         NODES  RANKS     VERDICT  FINDINGS",
        "slurm 4711  4      32 of 32  pass     none; 13 values alike",
        "pass: 1 job on 4 of 4 nodes: 1 pass",
    ]


def test_the_odd_rank_of_512() -> None:
    results = answers.fleet(512)
    answers.of_rank(results, 37)["values"][MEMLOCK] = "8388608"
    made = judged(results)
    assert (made.verdict, made.success) == ("fail", False)
    assert made.table[:5] == [
        "JOB         NODES  RANKS       VERDICT  FINDINGS",
        "slurm 4711  64     512 of 512  fail     1 fail; 12 values alike",
        "",
        "VERDICT  JOB         RANKS              FOUND",
        "fail     slurm 4711  rank 37 on gpu005  limit memlock hard: 8 MiB; 511 others: unlimited",
    ]
    [item] = made.document["jobs"][0]["findings"]
    assert (item["found"], item["others"], item["others_count"]) == ("8388608", "unlimited", 511)
    assert item["ranks"] == [{"node": "gpu005", "rank": 37, "pids": [1037]}]


def test_ranks_with_the_same_deviation_share_a_row_and_values_of_the_same_ranks_too() -> None:
    results = answers.fleet(64)
    results["gpu002"]["places"][0]["values"].update({"shm size": "67108864", "cpu quota": "400000 100000"})
    made = judged(results)
    [row] = [line for line in made.table if line.startswith("fail  ")]
    assert (
        "ranks 8-15 on gpu002  cpu quota: 400000 100000; 56 others: max; shm size: 64 MiB; 56 others" in row
    )
    assert [item[2:] for item in findings(made)] == [
        ("cpu quota", "ranks 8-15 on gpu002"),
        ("shm size", "ranks 8-15 on gpu002"),
    ]


def test_a_line_has_no_more_names_than_people_read() -> None:
    results = answers.fleet(32)
    values = {f"env FI_{number:05d}": "x" for number in range(5000)}
    results["gpu002"]["places"][0]["values"].update(values)
    made = judged(results)
    assert len(made.document["jobs"][0]["findings"]) == 5000
    assert max(map(len, made.table)) < 1000
    assert any(line.endswith(", 4977 more") for line in made.table)


def test_long_names_and_values_leave_room_for_others() -> None:
    results = answers.fleet(32, name="j" * 5000, kind="unit")
    for number in range(32):
        answers.of_rank(results, number)["values"].update({"env MASTER_ADDR": "a" * 5000})
    answers.of_rank(results, 9)["values"].update({"v" * 5000: "x" * 5000})
    made = judged(results)
    assert max(map(len, made.table)) < 600
    [item] = made.document["jobs"][0]["findings"]
    assert (len(item["value"]), len(item["found"])) == (5000, 5000)


def test_a_variable_that_one_rank_lacks_or_has_alone() -> None:
    results = answers.fleet(64)
    del answers.of_rank(results, 3)["values"]["nccl NCCL_IB_HCA"]
    answers.of_rank(results, 4)["values"]["nccl NCCL_ALGO"] = "Ring"
    made = judged(results)
    texts = [item["text"] for item in made.document["jobs"][0]["findings"]]
    assert texts == [
        "nccl NCCL_ALGO: Ring; 63 others: not set",
        "nccl NCCL_IB_HCA: not set; 63 others: mlx5",
    ]


@pytest.mark.parametrize("text", ["not set", '"not set"', "16 | 8", '"16 | 8"'])
def test_a_value_that_looks_like_none_or_several_is_another_value(text: str) -> None:
    results = answers.fleet(24)
    for number in range(24):
        answers.of_rank(results, number)["values"]["env X"] = text
    assert findings(judged(results)) == []
    own = results["gpu001"]["places"][0]["processes"]
    del own[5]["values"]["env X"]
    own.append({**copy.deepcopy(own[6]), "pid": 5})
    own[6]["values"]["env X"], own[-1]["values"]["env X"] = "8", "16"
    [first, second] = sorted(
        judged(results).document["jobs"][0]["findings"], key=lambda item: str(item["who"])
    )
    assert (first["who"], first["found"], first["others_count"]) == ("rank 5 on gpu001", "not set", 22)
    assert (second["who"], second["found"], second["others_count"]) == ("rank 6 on gpu001", "16 | 8", 22)
    assert first["others"] not in (first["found"], second["found"])


def test_values_that_would_look_the_same_are_told_apart() -> None:
    results = answers.fleet(64)
    for number in range(64):
        answers.of_rank(results, number)["values"][MEMLOCK] = str(68719476736 - (number == 9))
    [item] = judged(results).document["jobs"][0]["findings"]
    assert item["text"] == f"{MEMLOCK}: 68719476735; 63 others: 68719476736"
    for number in range(32):
        answers.of_rank(results, number)["values"][MEMLOCK] = "68719476735"
    [item] = judged(results).document["jobs"][0]["findings"]
    assert "68719476735 on 32" in item["text"]
    assert "68719476736 on 32" in item["text"]


def test_small_numbers_are_not_close() -> None:
    results = answers.fleet(64)
    for number in range(64):
        answers.of_rank(results, number)["values"]["memory swappiness"] = "61" if number == 9 else "60"
    assert findings(judged(results)) == [("fail", "odd", "memory swappiness", "rank 9 on gpu002")]


def test_messages_of_one_rank_alone_are_a_warning() -> None:
    results = answers.fleet(64)
    answers.of_rank(results, 0)["values"]["nccl NCCL_DEBUG"] = "INFO"
    made = judged(results)
    assert (made.verdict, made.success) == ("warn", True)
    assert findings(made) == [("warn", "odd", "nccl NCCL_DEBUG", "rank 0 on gpu001")]


@pytest.mark.parametrize("nodes", [2, 4, 64])
def test_two_halves_are_two_groups(nodes: int) -> None:
    results = answers.fleet(8 * nodes)
    for name in [*results][: nodes // 2]:
        results[name]["places"][0]["values"]["shm size"] = "67108864"
    made = judged(results)
    assert (made.verdict, made.success) == ("warn", True)
    [item] = made.document["jobs"][0]["findings"]
    assert (item["kind"], item["value"], len(item["ranks"])) == ("groups", "shm size", 8 * nodes)
    half = 4 * nodes
    assert item["text"].startswith(f"shm size has 2 groups and no majority: 64 MiB on {half} (ranks 0-")
    assert f"; 502.9 GiB on {half} (ranks {half}-" in item["text"]
    assert not judged(results, "warn").success


def test_two_bad_nodes_of_four_are_groups() -> None:
    results = answers.fleet(32)
    for number, name in enumerate([*results][:2]):
        results[name]["places"][0]["values"]["cpu quota"] = str(number)
    assert [item[1] for item in findings(judged(results))] == ["groups"]


def test_a_bad_node_of_three_is_odd() -> None:
    results = answers.fleet(24)
    results["gpu003"]["places"][0]["values"]["cpu quota"] = "1"
    assert findings(judged(results)) == [("fail", "odd", "cpu quota", "ranks 16-23 on gpu003")]


@pytest.mark.parametrize("by_node", [False, True])
def test_a_value_that_differs_by_design_is_not_compared(by_node: bool) -> None:
    results = answers.fleet(64)
    for number in range(64):
        text = f"/var/log/nccl.{number // 8 if by_node else number}"
        answers.of_rank(results, number)["values"]["nccl NCCL_DEBUG_FILE"] = text
    made = judged(results)
    assert (made.verdict, made.success) == ("pass", True)
    assert [item[:3] for item in findings(made)] == [("skip", "unlike", "nccl NCCL_DEBUG_FILE")]


def test_devices_of_a_rank_are_compared_with_the_same_local_rank() -> None:
    results = answers.fleet(64)
    for number in range(64):
        answers.of_rank(results, number)["values"]["env UCX_NET_DEVICES"] = f"mlx5_{number % 8}:1"
    answers.of_rank(results, 13)["values"]["env UCX_NET_DEVICES"] = "mlx5_0:1"
    made = judged(results)
    [item] = made.document["jobs"][0]["findings"]
    expected = "env UCX_NET_DEVICES: mlx5_0:1; 7 others with local rank 5: mlx5_5:1"
    assert (item["who"], item["text"]) == ("rank 13 on gpu002", expected)


def test_sizes_that_follow_the_memory_of_a_node_are_alike() -> None:
    results = answers.fleet(64)
    for number, result in enumerate(results.values()):
        result["places"][0]["values"]["shm size"] = str(540_000_000_000 + number * 50_000_000)
    assert findings(judged(results)) == []
    results["gpu004"]["places"][0]["values"]["shm size"] = str(540_000_000_000 * 31 // 32)
    assert findings(judged(results)) == [("fail", "odd", "shm size", "ranks 24-31 on gpu004")]
    for number, result in enumerate(results.values()):
        result["places"][0]["values"]["shm size"] = str(540_000_000_000 + number * 250_000_000)
    assert findings(judged(results)) == [], "2 % to both sides of the median"
    for result in results.values():
        result["places"][0]["values"]["shm size"] = "9" * 4000
    assert findings(judged(results)) == []


# -- what is not known -----------------------------------------------------------------------------


def test_unknown_values_are_no_majority_and_are_not_alike() -> None:
    results = answers.fleet(24)
    for name in ("gpu001", "gpu002"):
        where = results[name]["places"][0]
        del where["values"]["cpu quota"]
        where["unknown"] = {"cpu quota": "the child stalled", "memory max": "the child stalled"}
    made = judged(results)
    assert (made.verdict, made.success) == ("unknown", False)
    expected = ("unknown", "unknown", "", "ranks 0-7 on gpu001, ranks 8-15 on gpu002")
    assert findings(made) == [expected]
    assert made.document["jobs"][0]["findings"][0]["text"] == "cpu quota, memory max: the child stalled"
    assert judged(results, "fail").success


def unread(process: dict[str, Any], **more: Any) -> None:
    """Let the environment of a process be unknown."""
    left = {name: text for name, text in process["values"].items() if not name.startswith(("env ", "nccl "))}
    process.update(values=left, unknown={"environment": "no answer in 2 s"}, **more)


@pytest.mark.parametrize("local", [None, 5])
def test_variables_of_an_unread_environment_are_unknown_and_not_missing(local: int | None) -> None:
    results = answers.fleet(24)
    unread(answers.of_rank(results, 5), rank=None, world=None, local_rank=local)
    made = judged(results)
    assert findings(made) == [
        ("unknown", "unknown", "environment", "pid 1005 on gpu001"),
        ("unknown", "missing", "rank", "rank 5"),
    ]
    text = made.document["jobs"][0]["findings"][1]["text"]
    assert text == "1 of 24 ranks were seen on no node; rank numbers of 1 process are unknown"
    assert made.document["jobs"][0]["values_alike"] == 10, "without two variables and the world size"


def test_a_file_of_nccl_does_not_count_if_the_environment_is_unknown() -> None:
    results = answers.fleet(24)
    process = answers.of_rank(results, 5)
    unread(process)
    process["values"]["nccl NCCL_IB_HCA"] = "mlx4"
    assert [item[:2] for item in findings(judged(results))] == [("unknown", "unknown")]


@pytest.mark.parametrize(
    ("source", "value"), [("nccl files", "nccl X"), ("hugetlb limit", "hugetlb 2MB limit")]
)
def test_values_of_an_unread_source_are_unknown_and_not_missing(source: str, value: str) -> None:
    results = answers.fleet(24)
    for number in range(24):
        process = answers.of_rank(results, number)
        if number == 5:
            process["unknown"] = {source: "no answer in 2 s"}
        else:
            process["values"][value] = "1"
    assert [item[:3] for item in findings(judged(results))] == [("unknown", "unknown", source)]


def test_a_job_whose_ranks_are_all_unknown() -> None:
    results = answers.fleet(24)
    for number in range(24):
        unread(answers.of_rank(results, number), rank=None, world=None, local_rank=None)
    made = judged(results)
    assert (made.verdict, made.success) == ("unknown", False)
    assert [item[:3] for item in findings(made)] == [("unknown", "unknown", "environment")]


def test_reasons_that_differ_in_numbers_alone_share_a_line() -> None:
    results = answers.fleet(64)
    for number in range(40):
        why = f"cannot read /proc/{1000 + number}/limits: Permission denied"
        answers.of_rank(results, number)["unknown"] = {MEMLOCK: why}
    [item] = judged(results).document["jobs"][0]["findings"]
    assert item["who"] == "ranks 0-39 on gpu[001:005]"
    words = "cannot read /proc/1000/limits: Permission denied and 39 like it"
    assert item["text"] == f"{MEMLOCK}: {words}"


def test_many_and_long_reasons_of_one_rank() -> None:
    results = answers.fleet(24)
    unknown = {f"value {why}{at}": f"reason {why}" for why in "abcdef" for at in (1, 2)}
    answers.of_rank(results, 5)["unknown"] = {**unknown, "x": "w" * 12000}
    made = judged(results)
    [row] = [line for line in made.table if "rank 5" in line]
    assert "value a1, value a2: reason a; " in row
    assert "; also value d1, value d2: reason d, value e1" in row
    assert max(map(len, made.table)) < 1000


def test_values_that_are_unknown_on_some_ranks_or_compared_twice_are_not_alike_twice() -> None:
    results = answers.fleet(32)
    alike = judged(results).document["jobs"][0]["values_alike"]
    for number, result in enumerate(results.values()):
        result["places"][0]["processes"].append(answers.process(None, None, 9000 + number))
    assert judged(results).document["jobs"][0]["values_alike"] == alike
    answers.of_rank(results, 5)["unknown"] = {MEMLOCK: "no answer"}
    assert judged(results).document["jobs"][0]["values_alike"] == alike - 1


def test_a_node_without_an_answer_fails_and_is_named_with_the_missing_ranks() -> None:
    results = answers.fleet(32)
    results["gpu003"] = UNREACHABLE
    made = judged(results, "never")
    assert (made.verdict, made.success) == ("unknown", False)
    [item] = made.document["jobs"][0]["findings"]
    assert (item["kind"], item["who"]) == ("missing", "ranks 16-23")
    assert item["text"] == "8 of 32 ranks were seen on no node; without an answer: gpu003"
    assert "unknown  not checked  1 of 4: gpu003  not reachable: No route to host" in made.table
    assert made.table[-1] == "unknown: 1 job on 3 of 4 nodes: 1 unknown; 1 not checked"


@pytest.mark.parametrize(
    "result", [None, {}, {"checks": []}, {"failed": True, "msg": "x"}, {"places": True}, {"places": [{}]}, 5]
)
def test_anything_else_than_an_answer_is_not_checked(result: Any) -> None:
    made = judged({**answers.fleet(8), "gpu009": result}, "never")
    assert (made.verdict, made.success) == ("unknown", False)
    assert [one["node"] for one in made.document["not_checked"]] == ["gpu009"]


def test_no_node_is_no_success_and_no_job_is() -> None:
    assert (judged({}).verdict, judged({}).success) == ("unknown", False)
    made = judged({"a": answers.answer(), "b": answers.answer()})
    assert (made.verdict, made.success, made.table) == ("skip", True, ["skip: 0 jobs on 0 of 2 nodes"])


# -- numbers of ranks ------------------------------------------------------------------------------


def test_ranks_that_nobody_has_seen_are_missing() -> None:
    results = answers.fleet(32)
    del results["gpu004"]
    results["gpu001"]["places"][0]["processes"].pop(3)
    made = judged(results)
    assert findings(made) == [("unknown", "missing", "rank", "ranks 3, 24-31")]
    assert made.document["jobs"][0]["ranks_seen"] == 23


def test_a_world_that_no_fleet_has_costs_nothing() -> None:
    results = answers.fleet(8)
    for number in range(8):
        answers.of_rank(results, number)["world"] = 10**15
    [item] = findings(judged(results))
    assert item == ("unknown", "missing", "rank", "ranks 8-999999999999999")


def test_a_rank_with_another_world_is_odd_and_one_above_the_world_is_said() -> None:
    results = answers.fleet(32)
    answers.of_rank(results, 9)["world"] = 16
    answers.of_rank(results, 10)["rank"] = 40
    assert findings(judged(results)) == [
        ("fail", "beyond", "rank", "rank 40 on gpu002"),
        ("fail", "odd", "world size", "rank 9 on gpu002"),
        ("unknown", "missing", "rank", "rank 10"),
    ]
    assert judged(results).document["jobs"][0]["ranks_seen"] == 31, "without rank 40"
    alone = judged({"a": answers.answer(answers.place(answers.process(7, 4, 1)))})
    assert alone.document["jobs"][0]["ranks_seen"] == 0


def test_two_jobs_with_the_same_rank_numbers_in_one_place_have_two_world_sizes() -> None:
    processes = [answers.process(at, 2, 50 + at, at) for at in range(2)] + answers.ranks(0, 4)
    made = judged({"a": answers.answer(answers.place(*processes, kind="session", name="3"))})
    assert ("warn", "groups", "world size", "ranks 0-3 on a") in findings(made)
    assert any("2 | 4 on 2 (ranks 0-1 on a)" in line for line in made.table)


def test_rank_numbers_in_two_places_are_said() -> None:
    results = answers.fleet(32)
    results["gpu002"]["places"].append(answers.place(answers.process(3, 32, 77, 3)))
    assert findings(judged(results)) == [("warn", "duplicate", "rank", "rank 3 on gpu001, rank 3 on gpu002")]


def test_workers_of_a_rank_are_not_repeated_ranks() -> None:
    results = answers.fleet(32)
    for result in results.values():
        own = result["places"][0]["processes"]
        workers = copy.deepcopy(own)
        for worker in workers:
            worker.update(pid=worker["pid"] + 50000)
            worker["values"]["env OMP_NUM_THREADS"] = "1"
        own += workers
    made = judged(results)
    assert (made.verdict, findings(made)) == ("pass", [])
    answers.of_rank(results, 5)["values"]["env OMP_NUM_THREADS"] = "8"
    [item] = judged(results).document["jobs"][0]["findings"]
    assert (item["found"], item["others"], item["ranks"][0]["pids"]) == ("1 | 8", "1 | 16", [1005, 51005])


def test_programs_with_a_world_of_one_are_no_repeated_ranks() -> None:
    results: Results = {
        name: answers.answer(answers.place(answers.process(0, 1, 5, 0))) for name in ("a", "b", "c")
    }
    assert (judged(results).verdict, findings(judged(results))) == ("pass", [])


def test_processes_without_a_number_have_their_pid() -> None:
    results = {
        f"gpu00{node}": answers.answer(
            answers.place(*(answers.process(None, None, node * 100 + pid) for pid in range(4)))
        )
        for node in range(1, 5)
    }
    results["gpu003"]["places"][0]["processes"][2]["values"][MEMLOCK] = "65536"
    made = judged(results)
    assert findings(made) == [("fail", "odd", MEMLOCK, "pid 302 on gpu003")]
    assert "16 processes" in made.table[1]
    alone = judged({"a": answers.answer(answers.place(answers.process(None, None, 1)))})
    assert "1 process  " in alone.table[1]
    results["gpu004"]["places"][0]["processes"].pop()
    assert ("fail", "odd", "processes", "node gpu004") in findings(judged(results))


def test_helpers_on_each_node_are_compared_among_themselves() -> None:
    results = answers.fleet(32)
    for number, result in enumerate(results.values()):
        helper = answers.process(None, None, 9000 + number)
        helper["values"]["env OMP_NUM_THREADS"] = "1"
        result["places"][0]["processes"].append(helper)
    assert findings(judged(results)) == []
    results["gpu002"]["places"][0]["processes"][-1]["values"][MEMLOCK] = "65536"
    assert findings(judged(results)) == [("fail", "odd", MEMLOCK, "pid 9001 on gpu002")]


def test_a_rank_without_its_number_is_compared_with_the_others() -> None:
    results = answers.fleet(32)
    process = answers.of_rank(results, 9)
    process.update(rank=None, world=None)
    process["values"][MEMLOCK] = "65536"
    assert findings(judged(results)) == [
        ("fail", "odd", MEMLOCK, "pid 1009 on gpu002"),
        ("fail", "odd", "world size", "pid 1009 on gpu002"),
        ("unknown", "missing", "rank", "rank 9"),
    ]


def test_nodes_of_the_job_without_a_process_of_it() -> None:
    results = answers.fleet(32)
    for number in range(32):
        answers.of_rank(results, number)["values"]["env SLURM_JOB_NUM_NODES"] = "4"
    assert findings(judged(results)) == []
    results["gpu002"]["places"] = []
    assert findings(judged(results)) == [
        ("unknown", "silent", "", "1 of 4 nodes"),
        ("unknown", "missing", "rank", "ranks 8-15"),
    ]


def test_a_place_without_a_process_is_no_answer() -> None:
    made = judged({**answers.fleet(8), "gpu002": answers.answer(answers.place())})
    [lost] = made.document["not_checked"]
    assert lost["reason"].endswith("places[0].processes must be a list with a process, got []")


# -- checks of the nodes ---------------------------------------------------------------------------


def test_checks_of_the_nodes_count_and_share_lines() -> None:
    results = answers.fleet(16)
    for result in results.values():
        result["checks"] = [answers.check("fail")]
    made = judged(results)
    assert (made.verdict, made.success) == ("fail", False)
    assert (
        "fail     job_limit  2 of 2: gpu001, gpu002  Slurm job 4711 (pid 1000): memlock 8388608; raise it"
        in (made.table)
    )
    assert [one["node"] for one in made.document["checks"]] == ["gpu001", "gpu002"]
    results["gpu001"]["checks"] = results["gpu002"]["checks"] = [answers.check("of a later version")]
    assert judged(results).verdict == "unknown"


def test_a_job_that_was_asked_for_has_to_be_on_one_node() -> None:
    lacking = answers.check(
        "unknown", name="job_asked", target="Slurm job 4711", found="no such process here"
    )
    for checks in ([lacking], [lacking, lacking]):
        some = {**answers.fleet(8), "gpu002": answers.answer(checks=checks)}
        assert (judged(some).verdict, judged(some).document["checks"]) == ("pass", [])
    none = {"gpu001": answers.answer(checks=[lacking]), "gpu002": answers.answer(checks=[lacking])}
    assert (judged(none).verdict, judged(none).success) == ("unknown", False)
