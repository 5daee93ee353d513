# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The task of mlnode.tuning.measure in plays of a user: its keywords, limits, and the hosts that are left."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
import yaml
from ansible_collections.mlnode.tuning.tests.unit.effect_site import FAST, site
from ansible_collections.mlnode.tuning.tests.unit.stub_site import Site

#: In the place of the module campaign: a node that notes how it is called, and refuses
CALLED = """
import json
import pathlib

from ansible.plugins.action import ActionBase


class ActionModule(ActionBase):
    def run(self, tmp=None, task_vars=None):
        super().run(tmp, task_vars)
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
