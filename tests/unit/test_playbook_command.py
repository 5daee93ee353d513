# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""effect.yml with a command: its metrics and verdicts, and commands that fail. The nodes are files, and the
command runs on this machine."""

from __future__ import annotations

import itertools
import json
import os
import pathlib
import re
import sys
import time
from typing import Any

import jsonschema
import pytest
from ansible_collections.mlnode.tuning.tests.unit import effect_site
from ansible_collections.mlnode.tuning.tests.unit.roles import ROOT

#: A job whose declared state has more throughput and a longer tail. It counts its runs.
JOB = """
import json, pathlib, random, sys
folder = pathlib.Path(sys.argv[1])
state = (folder / "state").read_text()
with open(folder / "ran", "a") as stream:
    stream.write(state + chr(10))
number = len((folder / "ran").read_text().splitlines())
noise = random.Random(number)
tail = 3.0 if state == "declared" else 1.0
samples = [(tail if place < 10 else 1.0) * noise.gauss(1, 0.001) for place in range(200)]
print("loading the model")
print(json.dumps({"tokens": (1.1 if state == "declared" else 1.0) * noise.gauss(100, 0.1),
                  "latency": samples}))
"""

METRICS = [
    {"name": "throughput", "unit": "tokens/s", "better": "higher", "json": "$.tokens"},
    {"name": "latency", "unit": "s", "better": "lower", "json": "latency[*]", "take": ["p50", "p99"]},
]

FAST = {"effect_settle": 0, "effect_kinds": ["command"], "campaign_allow": ["busy"]}


def play(
    folder: pathlib.Path, command: list[Any], *words: str, names: str = "a", **given: Any
) -> tuple[int, str, dict[str, Any]]:
    """Exit status, output and document of a run that begins with declared nodes."""
    made = effect_site.bare(folder, {name: {} for name in names}, "declared")
    out = folder / "out"
    options = {**FAST, "effect_command": command, "campaign_results": str(out), **given}
    status, said = made.play(*words, playbook="playbooks/effect.yml", **options)
    paths = [*out.glob("effect-*.json")]
    document = json.loads(paths[0].read_text(encoding="utf-8")) if paths else {}
    if document:
        schema = json.loads((ROOT / "docs/schema/effect.schema.json").read_text("utf-8"))
        jsonschema.validate(document, schema)
    assert effect_site.states(folder, names) == {"declared"}, said
    assert not [*out.glob("unfinished/*")]
    return status, " ".join(said.split()), document


def job(folder: pathlib.Path) -> list[str]:
    (folder / "job.py").write_text(JOB, encoding="utf-8")
    return [sys.executable, str(folder / "job.py"), str(folder / "a")]


@pytest.mark.long
def test_a_p99_that_loses_is_said_before_a_mean_that_gains_and_ends_the_run(tmp_path: pathlib.Path) -> None:
    status, said, document = play(
        tmp_path, job(tmp_path), effect_metrics=METRICS, effect_fail_on="harms", effect_warmups=1
    )

    assert status == 2, said
    harm, gain, middle = document["results"]
    assert (harm["name"], harm["verdict"], harm["better"]) == ("latency p99", "harms", "lower")
    assert harm["effect"]["low_percent"] > 100
    assert (gain["name"], gain["verdict"]) == ("throughput", "helps")
    assert (middle["name"], middle["verdict"]) == ("latency p50", "no difference")
    assert said.index("latency p99 (s, command") < said.index("throughput (tokens/s, command")
    assert "latency p99: harms: +" in said
    assert "All nodes are put back to their state before the run." in said
    # Harm that is certain ends it, and each phase has a warm-up that is not in the result.
    assert (document["effect"]["end"], len(document["effect"]["order"])) == ("decided", 12)
    assert len((tmp_path / "a/ran").read_text().splitlines()) == 24
    assert [run["phase"] for run in document["runs"]] == [*range(1, 13)]
    assert all('"latency"' in run["stdout"] or run["stdout"].endswith("]}\n") for run in document["runs"])


#: Fault → the shell script, and a part of the message. The tests of metrics.py and timed.py have more.
FAULTS = {
    "it hangs": ("sleep 60", "no end within 1 s"),
    "it prints nan": ("echo score: nan", "score: expected a number above 0, got nan"),
}
LONG_FAULTS = {
    "it fails": ("echo score: 1; exit 3", "run 1: it ended with exit status 3: score: 1"),
    "it ends its parent": ("kill -9 $PPID; sleep 60", "a: "),
    "it prints no metric": ("true", "score: expected a value in the output, got none"),
    "it prints inf": ("echo score: inf", "score: expected a number below 1e+100, got inf"),
    "it prints megabytes": ("head -c 3000000 /dev/zero", "it printed more than 1048576 bytes"),
    "it prints a megabyte of zeros": ("head -c 1048576 /dev/zero", "score: expected a value in the output"),
    "it prints no UTF-8": ("head -c 500000 /dev/urandom; printf 'score: \\377'", r"got '\ufffd'"),
    "it ignores SIGTERM": ("trap '' TERM; sleep 60; sleep 60", "no end within 1 s"),
    "a child keeps its output open": ("setsid sleep 66 & echo score: nan", "score: expected a number above"),
}


@pytest.mark.parametrize(
    "fault", [*FAULTS, *(pytest.param(fault, marks=pytest.mark.long) for fault in LONG_FAULTS)]
)
def test_a_command_that_cannot_be_measured_ends_it_in_its_phase(tmp_path: pathlib.Path, fault: str) -> None:
    script, words = {**FAULTS, **LONG_FAULTS}[fault]
    metric = {"name": "score", "better": "higher", "regex": "score: (.*)"}

    status, said, document = play(
        tmp_path, ["sh", "-c", script], effect_metrics=[metric], effect_timeout=1, effect_warmups=0
    )

    assert status == 2, said
    assert "phase 1 of 24 (A) was lost; a: " in said
    assert words in said
    assert "Traceback" not in said
    assert document["effect"]["end"] == "stopped"
    assert [result["verdict"] for result in document["results"]] == ["unknown"]


@pytest.mark.long
def test_a_command_that_fails_on_one_node_ends_those_of_the_others(tmp_path: pathlib.Path) -> None:
    script = (
        f"mkdir {tmp_path}/first 2>/dev/null && sleep 1 && exit 7; echo $$ > {tmp_path}/other; exec sleep 90"
    )

    status, said, document = play(tmp_path, ["sh", "-c", script], names="ab", effect_warmups=0)

    assert status == 2, said
    [failed] = re.findall(r"([ab]): run 1: it ended with exit status 7", said)[:1]
    assert f"{'ba'['ab'.index(failed)]}: ended, because {failed} was lost" in said
    assert document["results"][0]["lost"] == {"A": 2, "B": 0}
    other = pathlib.Path("/proc", (tmp_path / "other").read_text().strip(), "cmdline")
    for _try in range(200):
        if not other.exists() or b"sleep" not in other.read_bytes():
            return
        time.sleep(0.1)
    pytest.fail("the other command goes on")


#: Place of a metric → the script that prints it, given the file of a state, and why it is lost
CHANGES = {
    "json: reverted": (
        'echo "{{\\"$(cat {0})\\": 1}}"',
        "expected \"reverted\" at $, got {'declared': 1}",
    ),
    "regex: score ([0-9.]+)": (
        "grep -q reverted {0} && echo score 980 MB/s || echo score 1.1 GB/s",
        "expected one unit after its numbers, got 'GB' and 'MB'",
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("place", CHANGES)
def test_a_metric_that_changes_its_name_or_unit_ends_it(tmp_path: pathlib.Path, place: str) -> None:
    """With two nodes, of which both are measured."""
    script, words = CHANGES[place]
    kind, _colon, value = place.partition(": ")
    metric = {"name": "score", "better": "higher", kind: value}
    command = ["sh", "-c", script.format(tmp_path / "a/state")]

    status, said, document = play(tmp_path, command, names="ab", effect_metrics=[metric])

    assert status == 2, said
    assert f"phase 2 of 24 (B) was lost; a, b: score: {words}" in said
    assert document["results"][0]["lost"] == {"A": 0, "B": 2}


@pytest.mark.long
@pytest.mark.parametrize(
    ("script", "verdict"), [("true", "no difference"), ('grep -q reverted "{}"', "harms")]
)
def test_an_exit_status_is_a_metric_and_may_be_0(tmp_path: pathlib.Path, script: str, verdict: str) -> None:
    metric = {"name": "failures", "better": "lower", "measure": "exit"}
    command = ["sh", "-c", script.format(tmp_path / "a/state")]

    status, said, document = play(tmp_path, command, effect_metrics=[metric], effect_blocks=3)

    assert status == 0, said
    [result] = document["results"]
    assert (result["verdict"], result["tools"]) == (verdict, ["exit status"]), said
    [pair] = result["pairs"]
    order = document["effect"]["order"]
    _each_change_is_under_the_lease(effect_site.leases(tmp_path, "a"), order)
    assert pair["values"] == [2 if state == "B" and verdict == "harms" else 1 for state in order]


def _each_change_is_under_the_lease(leases: list[dict[str, Any]], order: str) -> None:
    """Of a node that was declared, in phases of this order, and back to it."""
    changes = [{"A": "revert", "B": "declare"}[state] for state, _phases in itertools.groupby(order)]
    back = ["back"] if order.endswith("A") else []
    assert [lease["step"] for lease in leases] == ["begin", *["renew"] * (len(changes) - 1), *back, "end"]
    assert [lease["call"] for lease in leases] == [*changes, *(["declare"] if back else []), "declare"]
    assert len({lease["id"] for lease in leases}) == 1
    # Two phases of a warm-up and a run of 600 s each, and more than that for slow changes
    assert {lease["seconds"] > 2400 + 600 for lease in leases} == {True}
    [[name, options]] = leases[0]["calls"]
    assert (name, options["name"], options["check"], options["confirm_seconds"]) == (
        "declare",
        "node",
        False,
        0,
    )
    assert options["areas"]
    assert options["confirm_seconds"] == 0


#: Options → the message
WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no program": ({"effect_command": "/no/program"}, "expected an executable program"),
    "a command that is not a kind": (
        {"effect_kinds": ["memory"]},
        "effect_command: has no effect with effect_kinds memory; omit it, or set effect_kinds to command",
    ),
    "a lease shorter than a phase": (
        {"effect_lease": 60},
        "effect_lease: expected 2401 s or more, for 2 phases and the change before them, got 60",
    ),
    "arguments without a launcher": (
        {"effect_launcher": "first", "effect_launcher_arguments": ["-q"]},
        "effect_launcher_arguments: has no effect with effect_launcher first; omit it, or set",
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_option_is_named_before_anything_changes(tmp_path: pathlib.Path, wrong: str) -> None:
    given, words = WRONG[wrong]

    status, said, document = play(tmp_path, ["true"], "--check", **given)

    assert (status, document) == (2, {}), said
    assert words in said


def test_check_mode_says_how_long_a_command_may_take(tmp_path: pathlib.Path) -> None:
    status, said, document = play(tmp_path, ["true"], "--check", effect_budget=30)

    assert (status, document) == (0, {}), said
    assert "1 node alternates between reverted and declared, in 24 blocks of 4 phases at most." in said
    # A warm-up and a run of 600 s
    assert "A phase takes up to 1200 s" in said
    assert "no block begins that would end after 30" in said


#: Launcher → the words before the program
LAUNCHED = {
    "mpirun": "--host localhost:8,b:8,c:8 -np 24 --map-by slot --bind-to none -q",
    "srun": "--nodes 3 --nodelist {0},{0},{0} --ntasks 24 --ntasks-per-node 8 --exclusive "
    "--kill-on-bad-exit=1 --export=ALL -q",
}


@pytest.mark.long
@pytest.mark.parametrize("launcher", LAUNCHED)
def test_a_launcher_starts_it_once_for_all_nodes(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, launcher: str
) -> None:
    """A stand-in prints its words and starts the program after them."""
    words = LAUNCHED[launcher].format(os.uname().nodename)
    program = tmp_path / "bin" / launcher
    program.parent.mkdir()
    script = f'#!/bin/sh\necho "$@"\nshift {len(words.split())}\nexec "$@"\n'
    program.write_text(script, encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    given = {"effect_launcher": launcher, "effect_launcher_arguments": ["-q"], "effect_processes": 8}

    status, said, document = play(tmp_path, ["sleep", 0.01], names="abc", effect_blocks=1, **given)

    # One block has no interval.
    assert status == 2, said
    assert [pair["name"] for pair in document["results"][0]["pairs"]] == [f"3 nodes by {launcher}"]
    assert document["results"][0]["lost"] == {"A": 0, "B": 0}
    assert [run["stdout"] for run in document["runs"]] == [f"{words} sleep 0.01\n"] * 4


@pytest.mark.long
def test_the_budget_ends_it_before_a_block_that_is_too_long(tmp_path: pathlib.Path) -> None:
    status, said, document = play(tmp_path, ["true"], effect_budget=0.01)

    assert status == 2, said
    assert (document["effect"]["end"], document["effect"]["order"]) == ("budget", "ABBA")
    assert document["effect"]["blocks_planned"] == 24
    assert "got 1 block; 2 more would give one" in said
