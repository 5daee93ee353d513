# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The agent's answers about itself, which a module of one area asks the installed agent for."""

from __future__ import annotations

import errno
import json
import os
import pathlib
from collections.abc import Sequence

import pytest
from ansible_collections.mlnode.tuning.plugins.module_utils.tuning_module import Agent
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from mlnode.agent import cli, declare
from mlnode.agent import mounts as drivers
from mlnode.agent import state as agent_state
from mlnode.agent.declare import Order
from mlnode.agent.registry import KINDS
from mlnode.engine import boot_service, confirm_store, engine
from mlnode.engine.confirm_store import Pending, Undone
from mlnode.engine.kind import (
    AGENT_FAULT,
    AGENT_FILE,
    AGENT_IMAGE_FAULT,
    AGENT_PENDING,
    AGENT_UNDONE,
    NO_AGENT,
)
from mlnode.host import places
from mlnode.host.host import Mounts
from mlnode.host.places import AGENT_COMMAND
from mlnode.host.system import Finished
from mlnode.model.errors import HostError

FILES = (AGENT_FAULT, AGENT_IMAGE_FAULT, AGENT_PENDING, AGENT_UNDONE)
ORDER = Order("one", KINDS, {"thp": {"enabled": "madvise"}}, ("thp",))
PENDING = Pending(
    "0a1b2c3d", "one", "2026-01-31 12:00:00 UTC", 60, "eth0.mtu from 1500 to 9000", "", 0.0, "", (), ()
)
UNDONE = Undone("0a1b2c3d", "one", "2026-01-31 12:00:00 UTC", "it was not confirmed", "eth0.mtu", ())


class Node(Machine):
    """Its agent is the library of this test. mounts: as a module of one area has them."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.asked = 0
        self.answer: Finished | None = None
        self.mounts: Mounts = drivers.ALL

    def run(self, command: Sequence[str], seconds: float = 60) -> Finished:
        if list(command) != [AGENT_COMMAND, "self"]:
            return super().run(command, seconds)
        self.asked += 1
        return self.answer or Finished(0, json.dumps(agent_state.answers(self)), "")

    def as_of_a_module(self) -> None:
        agent = Agent()
        self.mounts = {places.AGENT: lambda: agent}


@pytest.fixture
def node(tmp_path: pathlib.Path) -> Node:
    return Node.debian(str(tmp_path / "node"))


def broken(node: Node) -> None:
    node.enable_agent()
    node.remove(AGENT_FILE)
    node.link(AGENT_FILE, "/dev/null")


def waiting(node: Node) -> None:
    node.enable_agent()
    confirm_store.save(node, PENDING)


def undone(node: Node) -> None:
    node.enable_agent()
    confirm_store.save(node, UNDONE)


@pytest.mark.parametrize("arrange", [Node.enable_agent, broken, waiting, undone, lambda _node: None])
def test_a_module_without_its_files_hears_what_the_agent_says(node: Node, arrange: object) -> None:
    assert callable(arrange)
    arrange(node)
    own = {path: node.read(path) for path in FILES}
    exists = node.exists(places.AGENT)

    node.as_of_a_module()

    assert {path: node.read(path) for path in FILES} == own
    assert node.exists(places.AGENT) == exists
    assert node.asked == exists, "once, and nobody who is not there"


def test_the_answers_tell_the_states_apart(node: Node) -> None:
    assert node.read(AGENT_FAULT) == NO_AGENT
    waiting(node)
    confirm_store.save(node, UNDONE)
    assert node.read(AGENT_FAULT) == boot_service.stopped(node) == ""
    assert "its time is over, and `mlnode undo 0a1b2c3d`" in node.read(AGENT_PENDING)
    assert "it was not confirmed" in node.read(AGENT_UNDONE)
    assert node.names(places.AGENT) == ["fault", "image-fault", "pending", "undone"]


def test_nothing_of_it_is_set(node: Node) -> None:
    for mounts in (node.mounts, {places.AGENT: Agent}):
        node.mounts = mounts
        with pytest.raises(HostError) as caught:
            node.mounts[places.AGENT]().write(node, AGENT_FAULT, "x")
        assert caught.value.errno == errno.EROFS
        assert node.blocked(AGENT_FAULT) == ""
    assert not places.may_set(AGENT_FAULT, "thp.enabled")


def test_a_file_that_it_does_not_have_is_absent(node: Node) -> None:
    with pytest.raises(HostError) as caught:
        node.read(f"{places.AGENT}/other")
    assert caught.value.absent


# -- a run of a module of one area ---------------------------------------------------------


def test_the_next_boot_is_judged_by_the_agent(node: Node) -> None:
    node.enable_agent()
    node.as_of_a_module()
    assert declare.run(node, ORDER).areas["thp"]["settings"][0]["boot"] == "madvise"

    broken_too = Node.debian(f"{node.root}-two")
    broken(broken_too)
    broken_too.as_of_a_module()
    [setting] = declare.run(broken_too, ORDER).areas["thp"]["settings"]
    assert setting["status"] == "drifted"
    assert f"{AGENT_FILE} masks mlnode-apply.service" in setting["reason"]


def not_sent() -> None:
    raise ImportError


def test_a_change_that_waits_refuses_the_run(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "_confirm", not_sent)
    waiting(node)
    node.as_of_a_module()
    found = declare.run(node, ORDER)
    assert (found.failed, found.changed) == (True, False)
    assert "eth0.mtu from 1500 to 9000" in found.msg


def test_a_change_that_waits_refuses_the_run_where_the_agent_is_gone(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "_confirm", not_sent)
    confirm_store.save(node, PENDING)
    node.as_of_a_module()
    found = declare.run(node, ORDER)
    assert (found.failed, found.changed) == (True, False)
    assert confirm_store.PENDING in found.msg
    assert "install the agent again" in found.msg


def test_what_was_undone_is_reported_by_one_run(node: Node) -> None:
    undone(node)
    node.as_of_a_module()
    assert [UNDONE.text] == declare.undone(node, check=True)
    assert [UNDONE.text] == declare.undone(node, check=False)
    node.as_of_a_module()
    assert declare.undone(node, check=False) == []


@pytest.mark.parametrize(
    "answer, words",
    [
        (Finished(2, "", "mlnode: error: invalid choice: 'self'\n"), "invalid choice"),
        (Finished(0, "[]", ""), "another version"),
        (Finished(0, "{", ""), "ask the agent"),
        (Finished(0, json.dumps({AGENT_FAULT: {"error": "cannot read it"}}), ""), "cannot read it"),
    ],
)
def test_an_agent_that_does_not_answer_leaves_the_boot_layer_unknown(
    node: Node, answer: Finished, words: str
) -> None:
    node.enable_agent()
    node.as_of_a_module()
    node.answer = answer
    predicted = declare.run(node, ORDER._replace(check=True))
    assert not predicted.failed, predicted.msg
    [setting] = predicted.areas["thp"]["settings"]
    assert words in setting["reason"]


def test_a_command_that_others_can_change_is_not_run(node: Node) -> None:
    node.enable_agent()
    os.chmod(node.root + AGENT_COMMAND, 0o777)
    node.as_of_a_module()
    with pytest.raises(HostError, match="can be changed by others than root"):
        node.read(AGENT_FAULT)
    assert node.asked == 0


# -- the command ---------------------------------------------------------------------------


def test_the_command_prints_all_answers(
    node: Node, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    waiting(node)
    node.put(confirm_store.PENDING, "{")
    monkeypatch.setattr(cli, "Host", lambda _root, _mounts: node)

    assert cli.main(["self"]) == 0

    found = json.loads(capsys.readouterr().out)
    assert {*found} == {*FILES}
    assert found[AGENT_FAULT] == {"text": ""}
    assert "is damaged" in found[AGENT_PENDING]["error"]
