# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Real plays on hosts in groups. The hosts are not asked: their answers are what a test has given them, and
what they would have been asked is noted."""

from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
from typing import Any

import yaml
from ansible_collections.mlnode.tuning.tests.unit.roles import ROOT, current

#: At the end of plugin_utils/agent_call.py. ansible_remote_tmp of a host is in its own folder, so that this
#: knows where it runs.
_STUB = """

import json
import pathlib

class AgentAction(AgentAction):
    def call(self, name, options, interpreter="", changes=False, of_bare=None):
        host = pathlib.Path(self.get_shell_option("remote_tmp")).parent
        with open(host / "asked", "a") as stream:
            stream.write(json.dumps({"call": name, **options}) + chr(10))
        answers = json.loads((host / "answers.json").read_text())
        if name == "revert":
            done = [{"key": "vm.swappiness", "value": "60"}]
            return {"changed": True, "reverted": done, "reboot_required": False}
        if name == "drift":
            return {"changed": False, **answers["drift"]}
        missed = [] if options["check"] else answers.get(options["name"], [])
        areas = answers.get("areas", {})
        waits = any(area["reboot_required"] for area in areas.values())
        return {"changed": False, "areas": areas, "reboot_required": waits, "not_in_force": missed}

    def ask(self, name, options, changes=False):
        # What looks at a node runs as a module, here.
        return None if name == "look" else self.call(name, options, changes=changes)
"""

#: An action in the place of a module that would look at this machine
_NOTED = """\
import json
import pathlib

from ansible.plugins.action import ActionBase


class ActionModule(ActionBase):
    def run(self, tmp=None, task_vars=None):
        host = pathlib.Path(self.get_shell_option("remote_tmp")).parent
        with open(host / "asked", "a") as stream:
            stream.write(json.dumps({"call": self._task.action, **self._task.args}) + chr(10))
        return {**super().run(tmp, task_vars), "changed": False}
"""

#: Answer of a node that is as declared
FINE = {"compliant": True, "verdict": "as declared: 2 ok", "failures": [], "drift": [], "ignored": []}


class Site:
    """Hosts in groups, what their modules answer, and plays on them."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.inventory: dict[str, Any] = {name: {"hosts": {}} for name in ("training", "fabric", "others")}
        self.everywhere: dict[str, Any] = {}
        collection = folder / "collections/ansible_collections/mlnode/tuning"
        self.plugins = collection / "plugins"
        utils = collection / "plugins/plugin_utils"
        utils.mkdir(parents=True)
        #: Of ansible.cfg, section [defaults]
        self.settings = {"forks": "8"}
        plugins = ("callback", "doc_fragments", "filter", "lookup", "module_utils")
        folders = ("meta", "observability", "playbooks", "roles")
        for name in ("galaxy.yml", *folders, *(f"plugins/{one}" for one in plugins)):
            (collection / name).symlink_to(ROOT / name)
        # A test writes its own actions; the files of the checkout are never written to.
        shutil.copytree(ROOT / "plugins/action", self.plugins / "action")
        for kind in ("plugin_utils", "modules"):
            (collection / "plugins" / kind).mkdir(exist_ok=True)
            for path in (ROOT / "plugins" / kind).glob("[!_]*"):
                (collection / "plugins" / kind / path.name).symlink_to(path)
        call = utils / "agent_call.py"
        real = call.read_text(encoding="utf-8")
        call.unlink()
        call.write_text(f"{real}{_STUB}", encoding="utf-8")

    def note(self, module: str) -> None:
        """The module is not run: what it is asked is noted, as what the agent is asked."""
        (self.plugins / f"action/{module}.py").write_text(_NOTED, encoding="utf-8")

    def host(self, name: str, answers: dict[str, Any], *groups: str, **variables: Any) -> None:
        (self.folder / name).mkdir()
        (self.folder / name / "answers.json").write_text(json.dumps(answers), encoding="utf-8")
        known = {
            "ansible_connection": "local",
            "ansible_become": False,
            "ansible_python_interpreter": sys.executable,
            "ansible_remote_tmp": str(self.folder / name / "tmp"),
            # No machine is looked at.
            "fabric_layers": ["boot"],
            **variables,
        }
        for group in groups or ("training",):
            self.inventory[group]["hosts"][name] = known

    def play(self, *words: str, playbook: str = "playbooks/site.yml", **variables: Any) -> tuple[int, str]:
        hosts = self.folder / "hosts.yml"
        groups = {**self.inventory, "inference": {}, "all": {"vars": self.everywhere}}
        hosts.write_text(yaml.safe_dump(groups), encoding="utf-8")
        lines = [f"{name} = {value}\n" for name, value in self.settings.items()]
        (self.folder / "ansible.cfg").write_text("".join(["[defaults]\n", *lines]), encoding="utf-8")
        program = str(pathlib.Path(sys.executable).parent / "ansible-playbook")
        done = subprocess.run(
            [program, "-i", str(hosts), playbook, "-e", json.dumps(variables), *words],
            cwd=ROOT,
            env={
                **os.environ,
                "ANSIBLE_COLLECTIONS_PATH": str(self.folder / "collections"),
                "ANSIBLE_COLLECTIONS_PATHS": str(self.folder / "collections"),
                "ANSIBLE_CONFIG": str(self.folder / "ansible.cfg"),
            },
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, current(done.stdout + done.stderr)

    def asked(self, name: str) -> list[dict[str, Any]]:
        path = self.folder / name / "asked"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def failed(output: str) -> set[str]:
    """The hosts that the recap says have failed."""
    return {*re.findall(r"^(\S+) +: .* failed=[1-9]", output, re.MULTILINE)}
