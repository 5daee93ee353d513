# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Traffic of a play, and how the uplinks shared it: playbooks/tasks/with_balance.yml with a real play, and a
stand-in for ib_subnet that gives the two results it is told."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
from typing import Any

import pytest
import yaml
from ansible_collections.mlnode.tuning.tests.unit.roles import ROOT, current

TASKS = ROOT / "playbooks/tasks"

_STUB = """\
import json
import pathlib

from ansible.plugins.action import ActionBase


class ActionModule(ActionBase):
    def run(self, tmp=None, task_vars=None):
        super().run(tmp, task_vars)
        folder = pathlib.Path(task_vars["told"])
        asked = [*folder.glob("asked.*")]
        (folder / f"asked.{len(asked)}").write_text(json.dumps(self._task.args))
        return {"changed": False, **json.loads((folder / "told.json").read_text())[len(asked)]}
"""

TRAFFIC = {"0000000000200000": {"name": "leaf1", "begun": 1.0, "ended": 1.1, "ports": [], "why": ""}}


def result(verdict: str, found: str, **more: Any) -> dict[str, Any]:
    texts = {"expected": "", "source": "perfquery", "advice": ""}
    check = {"name": "balance", "target": "leaf1", "verdict": verdict, "found": found, **texts}
    return {"checks": [check], **more}


def play(folder: pathlib.Path, told: list[dict[str, Any]], **variables: Any) -> tuple[int, str]:
    """Exit status, and all that was said in one line."""
    collection = folder / "collections/ansible_collections/mlnode/tuning"
    (collection / "plugins/action").mkdir(parents=True)
    for name in (
        "galaxy.yml",
        "meta",
        "plugins/callback",
        "plugins/filter",
        "plugins/module_utils",
        "plugins/plugin_utils",
    ):
        (collection / name).symlink_to(ROOT / name)
    (collection / "plugins/action/ib_subnet.py").write_text(_STUB, encoding="utf-8")
    (folder / "told.json").write_text(json.dumps(told), encoding="utf-8")
    traffic = folder / "traffic.yml"
    traffic.write_text("- ansible.builtin.debug: {msg: traffic is made}\n", encoding="utf-8")
    given = {
        "balance_tasks": str(traffic), "balance_asked": True, "balance_node": "b", "balance_names": ["gpu1"],
        "balance_fail_on": "unknown", "told": str(folder), "ansible_become": False, **variables,
    }  # fmt: skip
    tasks = [
        {"ansible.builtin.include_tasks": str(TASKS / "with_balance.yml")},
        {"ansible.builtin.include_tasks": str(TASKS / "balance_result.yml"), "when": "balance_asked"},
    ]
    site = folder / "site.yml"
    site.write_text(
        yaml.safe_dump([{"hosts": "all", "gather_facts": False, "vars": given, "tasks": tasks}]),
        encoding="utf-8",
    )
    done = subprocess.run(
        [
            str(pathlib.Path(sys.executable).parent / "ansible-playbook"),
            "-c",
            "local",
            "-i",
            "a,b,",
            str(site),
        ],
        cwd=ROOT,
        env={
            **os.environ,
            "ANSIBLE_COLLECTIONS_PATH": str(folder / "collections"),
            "ANSIBLE_CALLBACKS_ENABLED": "mlnode.tuning.fleet_report",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, " ".join(current(done.stdout + done.stderr).split())


def asked(folder: pathlib.Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text("utf-8")) for path in sorted(folder.glob("asked.*"))]


def test_both_readings_are_taken_around_the_traffic(tmp_path: pathlib.Path) -> None:
    first = result("skip", "leaves: 1, uplinks: 4: read, for a second reading", traffic=TRAFFIC)
    status, said = play(tmp_path, [first, result("pass", "leaves: 1; uplinks at most 3% below the busiest")])
    assert status == 0, said
    assert said.index("for a second reading") > said.index("traffic is made")
    assert "at most 3% below the busiest" in said
    assert "nothing to compare" not in said
    # The other node was asked nothing.
    assert "1 host: 1 ok" in said
    before, after = asked(tmp_path)
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
def test_whatever_was_not_seen_to_be_well_ends_the_play(
    tmp_path: pathlib.Path, told: list[dict[str, Any]], words: str
) -> None:
    status, said = play(tmp_path, told)
    assert status != 0
    assert "traffic is made" in said
    assert words in said


def test_a_reader_that_is_not_in_the_play_is_no_pass(tmp_path: pathlib.Path) -> None:
    status, said = play(tmp_path, [], balance_node="nobody")
    assert status != 0
    assert "nobody: ib_subnet fail: not checked" in said


def test_nothing_is_asked_without_a_wish(tmp_path: pathlib.Path) -> None:
    status, said = play(tmp_path, [], balance_asked=False)
    assert (status, asked(tmp_path)) == (0, []), said


@pytest.mark.parametrize(("name", "tasks"), [("nccl", "nccl_groups.yml"), ("campaign", "campaign.yml")])
def test_the_playbooks_make_their_traffic_within(name: str, tasks: str) -> None:
    [_inventory, book] = yaml.safe_load((ROOT / f"playbooks/{name}.yml").read_text("utf-8"))
    [within] = [task for task in book["tasks"] if "tasks/with_balance.yml" in task.values()]
    assert within["vars"]["balance_tasks"] == tasks
    assert (TASKS / tasks).exists()
    last = book["tasks"][-1]
    assert "tasks/balance_result.yml" in last.values()
    assert f"{name}_balance" in last["when"]
