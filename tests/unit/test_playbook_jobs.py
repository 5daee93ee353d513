# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whole plays of jobs.yml over nodes with simulated answers: exit status, table and file."""

from __future__ import annotations

import json
import pathlib

import jsonschema
import pytest
import yaml
from ansible_collections.mlnode.tuning.tests.unit import test_hostile_node
from ansible_collections.mlnode.tuning.tests.unit.plugins.plugin_utils.jobs import answers
from ansible_collections.mlnode.tuning.tests.unit.plugins.plugin_utils.jobs.test_report import SCHEMA

#: Nobody can be reached there, and it is known at once
GONE = {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 1}


@pytest.mark.parametrize("words", [["--check"], ["-e", "jobs_fail_on=never"]])
def test_a_success_and_its_file(tmp_path: pathlib.Path, words: list[str]) -> None:
    results = answers.fleet(24)
    is_odd = "--check" not in words
    if is_odd:
        answers.of_rank(results, 9)["values"]["limit memlock hard"] = "8388608"
    path = tmp_path / "jobs.json"

    done = test_hostile_node.play(tmp_path, results, "jobs.yml", "-e", f"jobs_json={path}", *words)

    assert done.returncode == 0, done.stdout + done.stderr
    assert path.exists() == is_odd, "a preview writes nothing"
    report = json.loads((tmp_path / "fleet.json").read_text(encoding="utf-8"))
    assert {tuple(host["groups"]) for host in report["hosts"]} == {("training",)}
    said = "rank 9 on gpu002  limit memlock hard: 8 MiB; 23 others: unlimited"
    assert (said in done.stdout) == is_odd
    if is_odd:
        document = json.loads(path.read_text(encoding="utf-8"))
        jsonschema.validate(document, SCHEMA)
        assert [job["ranks_seen"] for job in document["jobs"]] == [24]


def test_an_unreachable_node_fails_after_all_others_were_compared(tmp_path: pathlib.Path) -> None:
    inventory = {"training": {"hosts": {"gpu009": GONE}}}
    (tmp_path / "gone.yml").write_text(yaml.safe_dump(inventory), encoding="utf-8")
    words = ("-i", str(tmp_path / "gone.yml"), "-e", "jobs_fail_on=never")

    done = test_hostile_node.play(tmp_path, answers.fleet(24), "jobs.yml", *words)

    assert done.returncode != 0
    assert "unknown: 1 job on 3 of 4 nodes: 1 pass; 1 not checked" in done.stdout
    report = json.loads((tmp_path / "fleet.json").read_text(encoding="utf-8"))
    states = {host["name"]: host["state"] for host in report["hosts"]}
    assert states == {**dict.fromkeys(("gpu001", "gpu002", "gpu003"), "ok"), "gpu009": "differs"}
    [lost] = [one for one in report["findings"] if one["hosts"] == ["gpu009"]]
    assert (lost["status"], lost["reason"].partition(":")[0]) == ("unknown", "not reachable")
