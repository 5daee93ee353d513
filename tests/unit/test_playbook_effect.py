# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""effect.yml on nodes that measure nothing: what it refuses, when it ends, and what a lost phase does."""

from __future__ import annotations

import fcntl
import json
import os
import pathlib
import re
import shutil
from typing import Any

import jsonschema
import pytest
import yaml
from ansible_collections.mlnode.tuning.plugins.plugin_utils.effect import interval
from ansible_collections.mlnode.tuning.tests.unit.effect_site import FAST, fails, site, states
from ansible_collections.mlnode.tuning.tests.unit.roles import ROOT
from ansible_collections.mlnode.tuning.tests.unit.stub_site import Site
from ansible_collections.mlnode.tuning.tests.unit.test_playbooks import ansible


def test_one_node_is_refused(tmp_path: pathlib.Path) -> None:
    own = {"ansible_connection": "local", "ansible_become": False, "campaign_addresses": ["192.0.2.1"]}
    inventory = tmp_path / "hosts.yml"
    inventory.write_text(yaml.safe_dump({"training": {"hosts": {"a": own}}}), encoding="utf-8")

    done = ansible("ansible-playbook", "-i", str(inventory), "playbooks/effect.yml", "--check")

    said = " ".join((done.stdout + done.stderr).split())
    assert done.returncode == 2, said
    assert "has 1 host in this inventory, expected 2 or more." in said
    assert "Detect the state of the node" not in said


def effect(made: Site, **given: Any) -> tuple[int, str]:
    out = made.folder / "out"
    status, said = made.play(playbook="playbooks/effect.yml", campaign_results=str(out), **{**FAST, **given})
    return status, " ".join(said.split())


def written(folder: pathlib.Path) -> dict[str, Any]:
    [path] = (folder / "out").glob("effect-*.json")
    document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    jsonschema.validate(document, json.loads((ROOT / "docs/schema/effect.schema.json").read_text("utf-8")))
    return document


def waiting(folder: pathlib.Path) -> list[str]:
    """Nodes of which it is noted that they are not put back."""
    return sorted(path.stem for path in (folder / "out/unfinished").iterdir())


def test_check_mode_says_how_long_it_takes(tmp_path: pathlib.Path) -> None:
    made = site(tmp_path, "ab", "declared")

    status, said = made.play("--check", playbook="playbooks/effect.yml", campaign_lead=10)

    assert status == 0, said
    said = " ".join(said.split())
    # 24 phases of 10 s before the first round, one of 14 s, 5 s to collect and 5 s to settle are 14 minutes;
    # 16 changes are some seconds more.
    assert "2 nodes alternate between reverted and declared, in 6 blocks of 4 phases at most. " in said
    assert re.search(
        r"A phase takes about 34 s, .* up to 1[45678] minutes, and [789] if 3 blocks decide", said
    )
    assert "The links carry as much as they can for 6 of them." in said
    assert states(tmp_path, "ab") == {"declared"}


#: Fault → phase, the fault of CAMPAIGN, the words about it, and what stays to be put back
FAULTS: dict[str, tuple[int, str, str, list[str]]] = {
    "a node dies": (1, "dies", "b: Task failed: no route to host", ["effect-b"]),
    "a node is out of reach for once": (2, "unreachable", "b: Task failed: no route to host", []),
    "a node refuses": (2, "job 7 runs here", "b: job 7 runs here", []),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_lost_phase_ends_it_at_once_and_puts_nodes_back(tmp_path: pathlib.Path, fault: str) -> None:
    made = site(tmp_path, "abcd", "declared")
    phase, happens, words, left = FAULTS[fault]
    fails(tmp_path, "b", phase, happens)

    status, said = effect(made)

    assert status != 0, said
    assert f"stopped: phase {phase} of 24 ({'AB'[phase - 1]}) was lost; {words}" in said
    assert ("Not put back: b" in said) == bool(left)
    assert states(tmp_path, "acd") == {"declared"}
    assert waiting(tmp_path) == left
    document = written(tmp_path)
    assert document["effect"]["order"] == "AB"[:phase]
    assert [one["verdict"] for one in document["results"]] == ["unknown"]
    # Nothing is measured after it.
    assert {one["id"][-1] for one in made.asked("a")} == {*"12"[:phase]}


@pytest.mark.long
@pytest.mark.parametrize("phase", [3, 4])
def test_a_node_that_is_booted_within_a_phase_ends_it(tmp_path: pathlib.Path, phase: int) -> None:
    """It measures its original state, and no change follows the last phase."""
    made = site(tmp_path, "ab", "declared")
    fails(tmp_path, "b", phase, "boots")

    status, said = effect(made, effect_blocks=1)

    assert status == 2, said
    assert "phase 4 of 4" in written(tmp_path)["effect"]["stopped"], said
    assert "was lost; b: lease: it is over: the node was booted" in said
    assert states(tmp_path, "ab") == {"declared"}


@pytest.mark.long
@pytest.mark.parametrize("found", ["reverted", "declared"])
def test_a_state_that_cannot_be_reached_ends_it(tmp_path: pathlib.Path, found: str) -> None:
    made = site(tmp_path, "ab", found)
    (tmp_path / "b/cannot be declared").touch()

    status, said = effect(made)

    assert status != 0, said
    assert re.search(r"phase 2 of 24 \(B\) was lost; b: .*the disk is full", said)
    # Where that is also the state that was found, it is not reached at the end either, on this node alone.
    assert waiting(tmp_path) == (["effect-b"] if found == "declared" else [])
    assert ("Not put back: b;" in said) == (found == "declared")
    assert states(tmp_path, "a") == {found}
    assert states(tmp_path, "b") == {"reverted"}


@pytest.mark.long
def test_pairs_without_a_result_are_measured_again_and_then_end_it(tmp_path: pathlib.Path) -> None:
    made = site(tmp_path, "ab", "reverted")
    for name in "ab":
        fails(tmp_path, name, 2, {"pair": "no server listened"})

    status, said = effect(made, effect_blocks=1)

    # Asked for so, but without the interval that an effect needs
    assert status == 2, said
    assert "measured twice, as pairs had no result the first time: phase 2" in said
    assert (
        "unknown: an interval comes from the scatter of 3 blocks or more, got 1 block; 2 more would" in said
    )
    assert written(tmp_path)["results"][0]["lost"] == {"A": 0, "B": 0}

    shutil.rmtree(tmp_path / "out")
    for name in "ab":
        fails(tmp_path, name, 3, {"pair": "no server listened", "again": True})

    status, said = effect(made, effect_blocks=1)

    assert status == 2, said
    assert re.search(r"phase 3 of 4 \(B\) was lost; [ab] - [ab]: no server listened", said)
    assert written(tmp_path)["results"][0]["lost"] == {"A": 0, "B": 1}
    assert states(tmp_path, "ab") == {"reverted"}


@pytest.mark.long
@pytest.mark.parametrize(("declared", "blocks"), [(99.0, 3), (90.0, 4)], ids=["effect", "none"])
def test_it_ends_as_soon_as_more_blocks_would_change_nothing(
    tmp_path: pathlib.Path, declared: float, blocks: int
) -> None:
    made = site(tmp_path, "abcd", "declared", declared=declared)

    status, said = effect(made, effect_blocks=5, effect_least=2)

    assert status == 0, said
    document = written(tmp_path)
    [result] = document["results"]
    assert result["verdict"] == ("helps" if declared > 90 else "no difference")
    assert result["effect"]["blocks"] <= blocks
    blocks = document["effect"]["blocks_planned"]
    order = interval.order(blocks, document["effect"]["id"])
    assert document["effect"]["order"] == order[: interval.BLOCK * result["effect"]["blocks"]]
    assert states(tmp_path, "abcd") == {"declared"}


@pytest.mark.long
def test_three_nodes_are_measured_with_a_rest_for_one_in_each_round(tmp_path: pathlib.Path) -> None:
    three = site(tmp_path, "abc", "declared")

    status, said = effect(three, effect_blocks=1)

    assert status == 2, said
    [result] = written(tmp_path)["results"]
    assert {node for pair in result["pairs"] for node in pair["name"].split(" - ")} == {*"abc"}
    assert all(None not in pair["values"] for pair in result["pairs"])
    asked = [one for name in "abc" for one in three.asked(name) if one.get("state") == "started"]
    assert asked
    assert all(one["slots"] and one["rounds"] == 2 for one in asked)
    assert states(tmp_path, "abc") == {"declared"}
    assert waiting(tmp_path) == []


def test_a_limit_of_one_node_is_named(tmp_path: pathlib.Path) -> None:
    status, said = site(tmp_path, "ab", "declared").play("--limit", "a", playbook="playbooks/effect.yml")

    assert status == 2
    assert "--limit a leaves a alone, expected 2 nodes or more" in " ".join(said.split())


def test_notes_of_a_run_that_lives_are_left_to_it(tmp_path: pathlib.Path) -> None:
    made = site(tmp_path, "ab", "reverted")
    folder = tmp_path / "out/unfinished"
    folder.mkdir(parents=True)
    note = {"id": "1", "node": "a", "found": "declared", "lease": "0123abcd"}
    (folder / "effect-a.json").write_text(json.dumps(note), encoding="utf-8")
    other = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(other, fcntl.LOCK_SH)

        status, said = effect(made, effect_put_back=True)
    finally:
        os.close(other)

    assert status == 2, said
    assert f"a: another run in {tmp_path}/out may measure it now; wait, or stop that run" in said
    assert states(tmp_path, "ab") == {"reverted"}
    assert waiting(tmp_path) == ["effect-a"]


@pytest.mark.long
@pytest.mark.parametrize("measures", [True, False], ids=["measured again", "put back"])
def test_after_a_controller_that_died_nodes_become_what_they_were_found_as(
    tmp_path: pathlib.Path, measures: bool
) -> None:
    nodes = site(tmp_path, "abcd", "declared")
    (tmp_path / "b/dies").touch()
    given = {"campaign_results": str(tmp_path / "out"), "effect_blocks": 1, **FAST}

    status, said = nodes.play(playbook="playbooks/effect.yml", **given)

    assert status < 0, said
    assert "reverted" in states(tmp_path, "abcd")
    (tmp_path / "b/dies").unlink()

    more = {} if measures else {"effect_put_back": True}
    _status, said = nodes.play(playbook="playbooks/effect.yml", **given, **more)

    assert states(tmp_path, "abcd") == {"declared"}, said
    assert "All nodes are put back" in said
    assert ("phase 4 of 4" in said) == measures
    assert [*(tmp_path / "out/unfinished").iterdir()] == []

    # What was found is forgotten, so that a later run finds what there is.
    for name in "abcd":
        (tmp_path / name / "state").write_text("reverted", encoding="utf-8")
    nodes.play(playbook="playbooks/effect.yml", **given)
    assert states(tmp_path, "abcd") == {"reverted"}
