# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The task of mlnode.tuning.measure in plays of a user: its keywords, limits, and the hosts that are left."""

from __future__ import annotations

import multiprocessing
import os
import pathlib
import signal
import time
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from ansible_collections.mlnode.tuning.plugins.plugin_utils.measure import nodes as measure_nodes
from ansible_collections.mlnode.tuning.plugins.plugin_utils.measure import states
from ansible_collections.mlnode.tuning.plugins.plugin_utils.measure.states import DECLARED, States
from ansible_collections.mlnode.tuning.tests.unit.effect_site import FAST, site
from ansible_collections.mlnode.tuning.tests.unit.stub_site import Site

#: In the place of the module campaign: a node that notes how it is called, and refuses;
#: without options it is out of reach
CALLED = """
import json
import pathlib

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.action import ActionBase


class ActionModule(ActionBase):
    def run(self, tmp=None, task_vars=None):
        super().run(tmp, task_vars)
        if not self._task.args:
            raise AnsibleConnectionFailure("no route to host")
        host = pathlib.Path(self.get_shell_option("remote_tmp")).parent
        environment = {}
        for one in self._task.environment or ():
            environment.update(one)
        called = {
            "check": bool(self._task.check_mode),
            "remote_user": self._task.remote_user,
            "environment": environment,
            "of_vars": self._templar.template(task_vars.get("of_vars", "")),
            "addresses": self._task.args.get("addresses"),
        }
        with open(host / "asked", "a") as stream:
            stream.write(json.dumps(called) + chr(10))
        return {"changed": False, "shift": 0.0, "took": 0.01} if self._task.check_mode else {"failed": True}
"""

#: At the end of the stub of stub_site.py: the keywords of a call are noted.
ROLE = """

class AgentAction(AgentAction):
    def call(self, name, options, interpreter="", changes=False, of_bare=None):
        task = self._task
        of_vars = self._templar.template(self._templar.available_variables["of_vars"])
        known = [task.check_mode, task.remote_user, task.environment, of_vars]
        host = pathlib.Path(self.get_shell_option("remote_tmp")).parent
        with open(host / "asked", "a") as stream:
            stream.write(json.dumps({"keywords": known}) + chr(10))
        return super().call(name, options, interpreter, changes, of_bare)
"""


@pytest.fixture
def nodes(tmp_path: pathlib.Path) -> Site:
    made = site(tmp_path, "ab", "declared")
    (made.plugins / "action/campaign.py").write_text(CALLED, encoding="utf-8")
    return made


def measure(made: Site, task: dict[str, Any], *earlier: Any, **play: Any) -> tuple[int, str]:
    path = made.folder / "own.yml"
    tasks = [*earlier, {"mlnode.tuning.measure": {"kind": "campaign"}, **task}]
    whole = [{"hosts": "training", "gather_facts": False, "tasks": tasks, **play}]
    path.write_text(yaml.safe_dump(whole), encoding="utf-8")
    status, said = made.play(playbook=str(path), campaign_results=str(made.folder / "out"), **FAST)
    return status, " ".join(said.split())


@pytest.mark.parametrize("limit", ["ansible.cfg", "play", "task"])
def test_the_limit_of_a_task_leaves_its_calls_alone(nodes: Site, limit: str) -> None:
    if limit == "ansible.cfg":
        nodes.settings["task_timeout"] = "300"

    _status, said = measure(
        nodes,
        {"check_mode": True, **({"timeout": 300} if limit == "task" else {})},
        **({"timeout": 300} if limit == "play" else {}),
    )

    assert "alarm" not in said
    assert [one["check"] for one in nodes.asked("a")] == [True], said


def test_calls_have_the_keywords_of_their_task(nodes: Site) -> None:
    for name in "ab":
        nodes.inventory["training"]["hosts"][name].update(own=name)
    task = {
        "check_mode": True,
        "remote_user": "user-{{ own }}",
        "environment": {"OF_TASK": "{{ own }}", "BOTH": "task"},
        "vars": {"of_vars": "vars of {{ own }}"},
    }

    _status, said = measure(nodes, task, environment={"OF_PLAY": "{{ own }}", "BOTH": "play"})

    for name in "ab":
        [called] = nodes.asked(name)
        assert called["check"], said
        assert called["remote_user"] == f"user-{name}"
        assert called["environment"] == {"OF_PLAY": name, "BOTH": "task", "OF_TASK": name}
        assert called["of_vars"] == f"vars of {name}"


def test_the_task_of_a_role_has_them_too(nodes: Site) -> None:
    call = nodes.plugins / "plugin_utils/agent_call.py"
    call.write_text(call.read_text(encoding="utf-8") + ROLE, encoding="utf-8")
    task = {
        "mlnode.tuning.measure": {"kind": "effect"},
        "check_mode": True,
        "remote_user": "user-{{ inventory_hostname }}",
        "environment": {"OF_TASK": "{{ inventory_hostname }}"},
        "vars": {"of_vars": "vars of {{ inventory_hostname }}"},
    }

    _status, said = measure(nodes, task)

    for name in "ab":
        whole = [True, f"user-{name}", [{"OF_TASK": name}], f"vars of {name}"]
        asked = [one["keywords"] for one in nodes.asked(name) if "keywords" in one]
        # Its declaration and its revert
        assert asked == [whole, whole], said


def test_variables_of_nodes_may_be_those_of_the_play_or_the_task(nodes: Site) -> None:
    task = {"check_mode": True, "vars": {"campaign_addresses": ["{{ base }}.{{ own }}"]}}
    for number, name in enumerate("ab", 7):
        nodes.inventory["training"]["hosts"][name].update(own=number)

    _status, said = measure(nodes, task, vars={"base": "198.51.100"})

    assert [one["addresses"] for one in nodes.asked("b")] == [["198.51.100.8"]], said


def test_a_variable_that_cannot_be_templated_is_named(nodes: Site) -> None:
    status, said = measure(nodes, {}, vars={"campaign_addresses": ["{{ nowhere }}"]})

    assert status == 2
    assert "a: " in said
    assert "'nowhere' is undefined" in said
    assert nodes.asked("a") == []


@pytest.mark.parametrize("lost", ["failed", "unreachable"])
def test_a_node_that_the_run_has_lost_is_not_called(nodes: Site, lost: str) -> None:
    fails = {"ansible.builtin.fail": {"msg": "broken"}, "when": "inventory_hostname == 'b'"}
    breaks = {"mlnode.tuning.campaign": {}, "when": "inventory_hostname == 'b'"}

    status, said = measure(nodes, {"check_mode": True}, fails if lost == "failed" else breaks)

    assert status != 0
    assert "b: failed earlier in this run" in said
    assert "1 of 2 nodes are not ready: b" in said
    assert nodes.asked("b") == []
    assert len(nodes.asked("a")) == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_calls_end_with_the_task(number: signal.Signals) -> None:
    fleet = measure_nodes.Fleet.__new__(measure_nodes.Fleet)
    forking = multiprocessing.get_context("fork")
    receiver, _sender = forking.Pipe(duplex=False)
    process = forking.Process(target=time.sleep, args=(60,))
    fleet._running = {receiver: measure_nodes._Running("a", process, float("inf"), 0)}
    # Before it would inherit the handler
    process.start()
    seen: list[int] = []
    before = signal.signal(number, lambda one, _frame: seen.append(one))
    try:
        with fleet._ending():
            os.kill(os.getpid(), number)
            assert seen == [number]
            assert not process.is_alive()
    finally:
        signal.signal(number, before)
        process.kill()


def test_a_call_can_ask_a_person_and_calls_no_callbacks() -> None:
    asked: list[dict[str, Any]] = []
    ansible = SimpleNamespace(send_display=print, send_prompt=lambda **given: asked.append(given))
    _receiver, sender = multiprocessing.Pipe(duplex=False)

    queue = measure_nodes._Queue(ansible, sender)
    queue.send_prompt(worker_id=1, prompt="Continue?")
    queue.send_callback("v2_runner_retry", object())

    assert asked == [{"worker_id": 1, "prompt": "Continue?"}]


def test_a_note_that_cannot_be_removed_is_said(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(states, "say", said.append)
    fleet: Any = SimpleNamespace(
        names=["a", "b"], variables=lambda _spec: {}, declaration=lambda *_given: None, ask=lambda _calls: {}
    )
    made = States(fleet, str(tmp_path), "spring", "")
    made.original = made.now = dict.fromkeys("ab", DECLARED)
    note = tmp_path / "unfinished/effect-a.json"
    note.mkdir(parents=True)
    (tmp_path / "unfinished/effect-b.json").touch()

    assert made.put_back() == []

    assert [line.partition(": cannot be removed: ")[0] for line in said] == [str(note)]
    assert not (tmp_path / "unfinished/effect-b.json").exists()
