# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What effect.yml refuses before anything is touched; docs/guide/effects.md has a run of it."""

from __future__ import annotations

import json
import pathlib

import pytest
import yaml
from ansible_collections.mlnode.tuning.tests.unit.stub_site import Site
from ansible_collections.mlnode.tuning.tests.unit.test_playbooks import ansible


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        (["a"], "has 1 host in this inventory, expected 2 or more."),
        (["a", "b"], "One pair in one block is one difference"),
    ],
    ids=["one node", "one difference"],
)
def test_what_could_say_nothing_is_refused(tmp_path: pathlib.Path, nodes: list[str], words: str) -> None:
    hosts = {
        name: {
            "ansible_connection": "local",
            "ansible_become": False,
            "campaign_addresses": [f"192.0.2.{at}"],
        }
        for at, name in enumerate(nodes, 1)
    }
    inventory = tmp_path / "hosts.yml"
    inventory.write_text(yaml.safe_dump({"training": {"hosts": hosts}}), encoding="utf-8")

    done = ansible("ansible-playbook", "-i", str(inventory), "playbooks/effect.yml", "--check")

    said = " ".join((done.stdout + done.stderr).split())
    assert done.returncode == 2, said
    assert words in said
    assert "Look in which state the node is" not in said


#: At the end of the stub of stub_site.py: a node that is reverted or declared, and looks which it is. Where
#: it has a file `dies`, its revert ends the controller, as a power cut would.
STATES = """

import os
import signal

class AgentAction(AgentAction):
    def call(self, name, options, interpreter="", changes=False, of_bare=None):
        host = pathlib.Path(self.get_shell_option("remote_tmp")).parent
        state = host / "state"
        wanted = "reverted" if name == "revert" else "declared"
        changed = state.read_text() != wanted
        if not options["check"]:
            state.write_text(wanted)
            if name == "revert" and (host / "dies").exists():
                os.kill(os.getppid(), signal.SIGKILL)
        answer = {"changed": changed, "areas": {}, "reboot_required": False, "not_in_force": []}
        return {"changed": changed} if name == "revert" else answer
"""

FAST = {"effect_settle": 0, "campaign_lead": 0, "campaign_duration": 1}


def site(folder: pathlib.Path, names: str, state: str) -> Site:
    """Nodes in a state, whose links are not measured."""
    made = Site(folder)
    call = made.folder / "collections/ansible_collections/mlnode/tuning/plugins/plugin_utils/agent_call.py"
    call.write_text(f"{call.read_text(encoding='utf-8')}{STATES}", encoding="utf-8")
    made.note("campaign")
    for number, name in enumerate(names, 1):
        made.host(name, {}, campaign_addresses=[f"192.0.2.{number}"])
        (folder / name / "state").write_text(state, encoding="utf-8")
    return made


def states(folder: pathlib.Path, names: str) -> set[str]:
    return {(folder / name / "state").read_text(encoding="utf-8") for name in names}


def test_three_nodes_are_measured_with_a_rest_for_one_in_each_round(tmp_path: pathlib.Path) -> None:
    three = site(tmp_path, "abc", "declared")

    _status, said = three.play(
        playbook="playbooks/effect.yml", campaign_results=str(tmp_path / "out"), **FAST
    )

    # The stand-in measures nothing, which is said at the end and is no success.
    assert "Say the effect" in said, said
    assert "measured in all phases of a block: 0 of 2" in said, said
    [path] = (tmp_path / "out").glob("effect-*.json")
    [result] = json.loads(path.read_text(encoding="utf-8"))["results"]
    assert {node for pair in result["pairs"] for node in pair["name"].split(" - ")} == {*"abc"}
    asked = [one for name in "abc" for one in three.asked(name) if one.get("state") == "started"]
    assert asked
    assert all(one["slots"] and one["rounds"] == 2 for one in asked)
    assert states(tmp_path, "abc") == {"declared"}
    assert [*(tmp_path / "out/unfinished").iterdir()] == []


def test_a_limit_of_one_node_is_named(tmp_path: pathlib.Path) -> None:
    status, said = site(tmp_path, "ab", "declared").play("--limit", "a", playbook="playbooks/effect.yml")

    assert status == 2
    assert "--limit a leaves a alone, expected 2 nodes or more" in " ".join(said.split())


@pytest.mark.long
@pytest.mark.parametrize("measures", [True, False], ids=["measured again", "put back"])
def test_after_a_controller_that_died_nodes_become_what_they_were_found_as(
    tmp_path: pathlib.Path, measures: bool
) -> None:
    nodes = site(tmp_path, "abcd", "declared")
    (tmp_path / "b/dies").touch()
    given = {"campaign_results": str(tmp_path / "out"), **FAST}

    status, said = nodes.play(playbook="playbooks/effect.yml", **given)

    assert status < 0, said
    assert "reverted" in states(tmp_path, "abcd")
    (tmp_path / "b/dies").unlink()

    more = {} if measures else {"effect_put_back": True}
    _status, said = nodes.play(playbook="playbooks/effect.yml", **given, **more)

    assert states(tmp_path, "abcd") == {"declared"}, said
    assert ("Say the effect" in said) == measures
    assert [*(tmp_path / "out/unfinished").iterdir()] == []

    # What was found is forgotten, so that a later run finds what there is.
    for name in "abcd":
        (tmp_path / name / "state").write_text("reverted", encoding="utf-8")
    nodes.play(playbook="playbooks/effect.yml", **given)
    assert states(tmp_path, "abcd") == {"reverted"}
