# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whole plays in which some nodes answer what they like, as nodes without an agent: the Python of each
node is a program that prints its answer."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
from typing import Any

import yaml
from ansible_collections.mlnode.tuning.tests.unit.plugins.plugin_utils.jobs import answers
from ansible_collections.mlnode.tuning.tests.unit.roles import ROOT

PLAYBOOK = str(pathlib.Path(sys.executable).parent / "ansible-playbook")

#: A title for the window, and a screen without what was printed before
ESCAPES = "\x1b]0;owned\x07\x1b[2J\u202e"

CHECK = {
    "name": "time_wait", "target": "node", "verdict": "pass", "expected": "", "found": "7", "source": "",
    "advice": "",
}  # fmt: skip


def play(
    folder: pathlib.Path, answers: dict[str, Any], playbook: str, *words: str, junk: str = ""
) -> subprocess.CompletedProcess[str]:
    """answers: node → its answer, whatever it is asked. junk: after the answers of bad nodes."""
    hosts = {}
    inventory = folder / "hosts.yml"
    for number, (name, answer) in enumerate(answers.items(), 1):
        (folder / f"{name}.json").write_text(
            json.dumps(answer) + (junk if name.startswith("bad") else ""), encoding="utf-8"
        )
        python = folder / name
        python.write_text(f"#!/bin/sh\ncat {folder / name}.json\n", encoding="utf-8")
        python.chmod(0o755)
        hosts[name] = {
            "ansible_connection": "local", "ansible_become": False, "ansible_python_interpreter": str(python),
            "ansible_remote_tmp": str(folder / f"tmp-{name}"), "campaign_addresses": [f"192.0.2.{number}"],
        }  # fmt: skip
    inventory.write_text(yaml.safe_dump({"training": {"hosts": hosts}}), encoding="utf-8")
    report = (
        "-e",
        f"mlnode_report_json={folder / 'fleet.json'}",
        "-e",
        f"mlnode_report_html={folder / 'page.html'}",
    )
    # Nodes announce here what Ansible will refuse, so that it says so.
    command = [PLAYBOOK, "-i", str(inventory), f"playbooks/{playbook}", *report, *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def shown(done: subprocess.CompletedProcess[str]) -> str:
    """Both streams, in which nothing commands a terminal."""
    text = done.stdout + done.stderr
    assert {char for char in text if not char.isprintable()} <= {"\n", "\t"}
    return " ".join(text.split())


HOSTILE: list[dict[str, Any]] = [
    {"changed": False, "checks": True},
    {"changed": False, "checks": [CHECK], "seconds": float("nan")},
    {"changed": False, "checks": [{**CHECK, "found": [[{}]]}]},
    {"changed": False, "failed": True, "msg": ESCAPES, "exception": ESCAPES},
    {"failed": True, "msg": {"a": [ESCAPES]}, "exception": [ESCAPES], "warnings": {"a": ESCAPES}},
]

#: Of types that ansible-core 2.21 makes right before it passes them on
MENDED: list[dict[str, Any]] = [
    {"changed": "\x1b[2J", "checks": [CHECK]},
    {"changed": False, "checks": [CHECK], "ansible_facts": {"preflight_fail_on": "never"}, "rc": "x"},
]


def test_a_preflight_judges_all_other_nodes(tmp_path: pathlib.Path) -> None:
    good = {"changed": False, "checks": [CHECK], "failures": [], "summary": {"pass": 1}}
    more = {"warnings": [ESCAPES], "deprecations": [{"msg": ESCAPES, "version": "9"}]}
    bad = {f"bad{number}": {**more, **answer} for number, answer in enumerate([*HOSTILE, *MENDED])}

    done = play(tmp_path, {"a": good, **bad, "c": good}, "preflight.yml", junk=f"\n{ESCAPES}\n")

    said = shown(done)
    assert done.returncode == 2, said
    unknown = (len(bad), len(HOSTILE))
    nodes = len(bad) + 2
    assert any(f"unknown: {nodes} nodes: {one} unknown, {nodes - one} pass" in said for one in unknown), said
    report = json.loads((tmp_path / "fleet.json").read_text(encoding="utf-8"))
    states = {host["name"]: host["state"] for host in report["hosts"]}
    assert {*states} == {"a", "c", *bad}
    assert {states["a"], states["c"]} == {"ok"}
    assert "ok" not in {states[f"bad{number}"] for number in range(len(HOSTILE))}
    for name in ("fleet.json", "page.html"):
        text = (tmp_path / name).read_text(encoding="utf-8")
        assert {char for char in text if not char.isprintable()} <= {"\n", "\t"}


#: In the place of what a node has measured
WRONG: list[Any] = [True, "{", json.dumps({"slots": [[]]}), json.dumps({"rails": ESCAPES})]


def test_a_campaign_judges_all_other_nodes(tmp_path: pathlib.Path) -> None:
    def of(value: Any) -> dict[str, Any]:
        told = {"changed": True, "ends": 1.0, "done": True, "problem": "", "warnings": [ESCAPES]}
        return {**told, "answer": value}

    way = {"forward_gbits": 9.0, "backward_gbits": 9.0, "hole": 0.9, "reason": ""}
    slots = [{"round": number, "rail": 0, **way} for number in range(5)]
    good = json.dumps({"rails": [], "served": [], "slots": slots, "kernel": "6.12"})
    bad = {f"bad{number}": of(answer) for number, answer in enumerate(WRONG)}
    given = ("duration=1", "lead=0", "second_look=false", "rounds=0", f"results={tmp_path}/results")
    words = [word for one in given for word in ("-e", f"campaign_{one}")]

    done = play(tmp_path, {"a": of(good), **bad, "c": of(good)}, "campaign.yml", *words)

    said = shown(done)
    assert done.returncode == 2, said
    [path] = (tmp_path / "results").glob("*.json")
    document = json.loads(path.read_text(encoding="utf-8"))
    nodes = {node["name"]: node for node in document["nodes"]}
    assert {*nodes} == {"a", "c", *bad}
    assert all(nodes[name]["reason"] for name in bad), document
    [pair] = [one for one in document["pairs"] if {end["node"] for end in one["ends"]} == {"a", "c"}]
    assert pair["gbits"] == 9.0


def test_jobs_name_the_odd_ranks_of_all_other_nodes(tmp_path: pathlib.Path) -> None:
    good = answers.fleet(32)
    answers.of_rank(good, 9)["values"]["cpu quota"] = ESCAPES
    [place] = good["gpu004"]["places"]
    wrong = [
        {"changed": False, "places": True},
        {"changed": False, "places": [{**place, "processes": []}]},
        {"changed": False, "places": [{**place, "job": {**place["job"], "kind": ESCAPES}}]},
        {"changed": False, "places": [{**place, "values": {ESCAPES: [1]}}]},
        {"failed": True, "msg": ESCAPES},
    ]
    odd = answers.answer(answers.place(*answers.ranks(4, 40), name=ESCAPES, kind="container"))
    bad = {f"bad{number}": answer for number, answer in enumerate([*wrong, odd])}
    words = ("-e", f"jobs_json={tmp_path}/jobs.json")

    done = play(tmp_path, {**good, **bad}, "jobs.yml", *words, junk=f"\n{ESCAPES}\n")

    said = shown(done)
    assert done.returncode == 2, said
    assert "rank 9 on gpu002" in said
    document = json.loads((tmp_path / "jobs.json").read_text(encoding="utf-8"))
    assert [one["node"] for one in document["not_checked"]] == [f"bad{at}" for at in range(len(wrong))]
    [slurm] = [job for job in document["jobs"] if job["name"] == "slurm 4711"]
    assert slurm["ranks_seen"] == 32
    for name in ("jobs.json", "fleet.json", "page.html"):
        text = (tmp_path / name).read_text(encoding="utf-8")
        assert {char for char in text if not char.isprintable()} <= {"\n", "\t"}
