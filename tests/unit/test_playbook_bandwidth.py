# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""rdma_bandwidth.yml and the uplinks of campaign.yml, with a stand-in for what nodes measure."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases, effect_site
from ansible_collections.mlnode.tuning.tests.unit.effect_site import FAST
from ansible_collections.mlnode.tuning.tests.unit.stub_site import Site

#: In the place of ib_subnet: two readings, of which the second one is low
UPLINKS = """
import pathlib

from ansible.plugins.action import ActionBase


class ActionModule(ActionBase):
    def run(self, tmp=None, task_vars=None):
        super().run(tmp, task_vars)
        check = {"name": "balance", "target": "leaf1", "expected": "", "source": "perfquery", "advice": ""}
        if "since" in self._task.args:
            return {"checks": [{**check, "verdict": "fail", "found": "2 of 4 are below"}]}
        return {"checks": [{**check, "verdict": "skip", "found": "read"}], "traffic": {"1": {}}}
"""


def play(made: Site, playbook: str, *words: str, **given: Any) -> tuple[int, str]:
    """Exit status, and all that was said in one line."""
    folder = str(made.folder / "out")
    more = {**FAST, "campaign_results": folder, **given}
    status, said = made.play(*words, playbook=f"playbooks/{playbook}.yml", **more)
    return status, " ".join(said.split())


def document(made: Site) -> dict[str, Any]:
    [path] = (made.folder / "out").glob("*.json")
    content: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return content


@pytest.mark.parametrize(("names", "rounds"), [("ab", 1), ("abc", 2)], ids=["even", "odd"])
def test_each_node_measures_one_other_node_or_two(tmp_path: pathlib.Path, names: str, rounds: int) -> None:
    made = effect_site.site(tmp_path, names, "declared", groups=["fabric"])

    status, said = play(made, "rdma_bandwidth")

    assert f"of rdma_bw: {len(names)} nodes, {rounds} rounds of" in said, said
    # Nodes that do not say which rate their ports have, and too few to compare, are not proven.
    assert (status == 0) == (document(made)["verdict"] == "pass")
    measured = document(made)["pairs"]
    assert {end["node"] for pair in measured for end in pair["ends"]} == {*names}
    assert all(pair["gbits"] for pair in measured)
    asked = [one for name in names for one in made.asked(name) if one["state"] == "started"]
    assert {(one["kind"], one["rounds"]) for one in asked} == {("rdma_bw", rounds)}


@cases.table
def test_a_node_that_does_not_answer_is_no_success(tmp_path: pathlib.Path, fault: str, reason: str) -> None:
    made = effect_site.site(tmp_path, "ab", "declared", groups=["fabric"])
    (tmp_path / "b/fails").write_text(json.dumps({"": fault}), encoding="utf-8")

    status, said = play(made, "rdma_bandwidth", campaign_second_look=False, campaign_timeout=2)

    assert status == 2
    [lost] = [node for node in document(made)["nodes"] if node["name"] == "b"]
    assert lost["verdict"] == "unknown"
    assert lost["reason"] == reason
    assert f"b: {reason}" in said
    # Asked twice, and begun without it
    assert len(made.asked("b")) == 2


def test_in_check_mode_nothing_is_measured(tmp_path: pathlib.Path) -> None:
    made = effect_site.site(tmp_path, "ab", "declared", groups=["fabric"])

    status, said = play(made, "rdma_bandwidth", "--check")

    assert status == 0, said
    assert made.asked("a") == []
    assert not (tmp_path / "out").exists()

    (tmp_path / "b/busy").touch()
    status, said = play(made, "rdma_bandwidth", "--check")

    assert status == 2
    assert "b: job 7 runs here" in said
    assert "1 of 2 nodes are not ready: b" in said


def test_one_node_is_refused(tmp_path: pathlib.Path) -> None:
    status, said = play(effect_site.site(tmp_path, "a", "declared", groups=["fabric"]), "rdma_bandwidth")

    assert status != 0
    assert "The group `fabric` has 1 host in this inventory, expected 2 or more." in said


@cases.table
def test_a_wrong_option_is_named(tmp_path: pathlib.Path, given: dict[str, Any], words: str) -> None:
    status, said = play(effect_site.site(tmp_path, "ab", "declared"), "campaign", **given)

    assert status == 2
    assert words in said
    assert "Traceback" not in said


def test_uplinks_that_do_not_share_the_traffic_fail_a_campaign(tmp_path: pathlib.Path) -> None:
    made = effect_site.site(tmp_path, "ab", "declared")
    made.note("ib_subnet")
    (made.plugins / "action/ib_subnet.py").write_text(UPLINKS, encoding="utf-8")

    status, said = play(made, "campaign", campaign_balance=True)

    assert status == 2
    assert "leaf1: balance fail: 2 of 4 are below" in said
    assert said.index("round 1 of 1") < said.index("2 of 4 are below")
    assert document(made)["pairs"]


def test_uplinks_are_read_around_the_first_look_alone(tmp_path: pathlib.Path) -> None:
    made = effect_site.site(tmp_path, "abcd", "declared")
    (tmp_path / "d/speeds").write_text(json.dumps({"declared": 20.0}), encoding="utf-8")
    made.note("ib_subnet")
    (made.plugins / "action/ib_subnet.py").write_text(UPLINKS, encoding="utf-8")

    _status, said = play(made, "campaign", campaign_balance=True, campaign_rounds=3)

    assert said.count("round 1 of ") == 2, said
    assert said.index("2 of 4 are below") < said.rindex("round 1 of ")
