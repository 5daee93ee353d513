# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a run ends where something declared is not in force afterwards. The plays are real; the modules are
exchanged for ones that note that they were called, and answer as they were told to."""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import sys
from typing import Any

import pytest
import yaml
from ansible_collections.mlnode.tuning.tests.unit.roles import ROOT, load

#: ansible_remote_tmp of a host is in its own folder, so that this knows where it runs.
_STUB = """\
#!/usr/bin/python
# WANT_JSON
import json
import pathlib
import sys

with open(sys.argv[1]) as stream:
    given = json.load(stream)
host = pathlib.Path(sys.argv[0]).parents[2]
with open(host / "called", "a") as stream:
    stream.write("{module} " + str(given.get("name")) + chr(10))
answers = json.loads((host / "answers.json").read_text())
answer = answers.get("{module} " + str(given.get("name")), {{}})
print(json.dumps({{"changed": False, "running": [], **answer}}))
"""

MODULES = sorted(path.stem for path in ROOT.glob("plugins/modules/*.py"))
FILE = "/etc/sysctl.d/zzz.conf:2"
#: All that a role declares, in the order of its tasks
AREAS = [
    name.rpartition(".")[2]
    for task in load("roles/node/tasks/declare.yml")
    for name in task
    if name.startswith("mlnode.tuning.")
]


def swappiness(status: str = "overridden", severity: str = "high") -> dict[str, Any]:
    reason = f"boot: {FILE} sets 30"
    row = {"key": "vm.swappiness", "status": status, "severity": severity, "reason": reason}
    return {"sysctl_ml training_node": {"settings": [{**row, "want": "1", "runtime": "1", "boot": "30"}]}}


class Site:
    """Hosts in groups, what their modules answer, and plays on them."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.inventory: dict[str, Any] = {"training": {"hosts": {}}, "fabric": {"hosts": {}}}
        collection = folder / "collections/ansible_collections/mlnode/tuning"
        (collection / "plugins/modules").mkdir(parents=True)
        (folder / "ansible.cfg").write_text("[defaults]\nforks = 8\n")
        for name in ("galaxy.yml", "meta", "playbooks", "roles", "plugins/filter", "plugins/module_utils"):
            (collection / name).symlink_to(ROOT / name)
        for module in MODULES:
            stub = collection / f"plugins/modules/{module}.py"
            stub.write_text(_STUB.format(module=module), encoding="utf-8")

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
        hosts.write_text(yaml.safe_dump({**self.inventory, "inference": {}}), encoding="utf-8")
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
        return done.returncode, done.stdout + done.stderr

    def called(self, name: str) -> list[str]:
        path = self.folder / name / "called"
        return path.read_text().splitlines() if path.exists() else []


@pytest.fixture
def site(tmp_path: pathlib.Path) -> Site:
    return Site(tmp_path)


def failed(output: str) -> set[str]:
    """The hosts that the recap says have failed."""
    return {*re.findall(r"^(\S+) +: .* failed=[1-9]", output, re.MULTILINE)}


def declares(site: Site, name: str, role: str) -> set[str]:
    return {call.split()[0] for call in site.called(name) if call.endswith(f" {role}")}


def test_it_ends_in_failure_after_all_nodes_and_groups(site: Site) -> None:
    known = {"key": "vm.swap*", "reason": "OPS-1", "until": "2099-12-31"}
    site.host("both", swappiness(), "training", "fabric")
    site.host("mild", swappiness(severity="medium"))
    hostile = swappiness(severity="low")
    hostile["sysctl_ml training_node"]["settings"][0]["reason"] = "{{ 6000 * 7 }}"
    site.host("strict", hostile, training_node_fail_at="low")
    site.host("lenient", swappiness(), training_node_fail_at="never")
    site.host("known", swappiness(), drift_ignore=[known])
    site.host("waiting", swappiness("pending_reboot"), training_node_fail_at="low")
    site.host("unsupported", swappiness("unsupported"), training_node_fail_at="low")

    code, output = site.play()

    assert (code, failed(output)) == (2, {"both", "strict"}), output
    assert f"vm.swappiness: overridden, want 1, runtime 1, boot 30 (high): boot: {FILE} sets 30" in output
    assert "(low): {{ 6000 * 7 }}" in output, "what a node says is no template"
    training = {*AREAS} - {"multi_rail", "roce_qos", "nccl_conf", "kernel_modules"}
    for name in site.inventory["training"]["hosts"]:
        assert declares(site, name, "training_node") == training, name
    assert declares(site, "both", "fabric") >= {"multi_rail", "roce_qos", "nccl_conf", "kernel_modules"}


def test_a_check_fails_nothing(site: Site) -> None:
    site.host("one", swappiness(), "training", "fabric")
    code, output = site.play("--check")
    assert (code, failed(output)) == (0, set()), output


def test_in_batches_the_next_one_is_left_alone(site: Site) -> None:
    site.host("first", swappiness())
    site.host("second", {})
    code, output = site.play(mlnode_serial=1)
    assert (code, failed(output)) == (2, {"first"}), output
    assert FILE in output
    assert site.called("second") == []


@pytest.mark.parametrize(("tag", "code"), [("thp", 0), ("sysctl", 2)])
def test_what_was_not_played_is_not_judged(site: Site, tag: str, code: int) -> None:
    site.host("one", swappiness())
    ended, output = site.play("--tags", tag)
    assert ended == code, output
    assert len(declares(site, "one", "training_node")) == 1


def test_a_role_alone_ends_like_that(site: Site) -> None:
    site.host("one", swappiness())
    task = {"ansible.builtin.include_role": {"name": "mlnode.tuning.training_node"}}
    playbook = site.folder / "play.yml"
    playbook.write_text(yaml.safe_dump([{"hosts": "training", "gather_facts": False, "tasks": [task]}]))
    code, output = site.play(playbook=str(playbook))
    assert (code, failed(output)) == (2, {"one"}), output
    assert FILE in output
    assert site.called("one")[-1] == "boot_params training_node"


def test_every_area_hands_over_its_result() -> None:
    for task in load("roles/node/tasks/declare.yml"):
        [tag] = task["tags"]
        assert task["register"] == f"node_declared_{tag}"
