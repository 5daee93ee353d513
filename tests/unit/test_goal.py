# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a run ends where something declared is not in force afterwards. The plays are real; nodes are not
asked: their answers are what they were told to give, and what they would have been asked is noted."""

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
from ansible_collections.mlnode.tuning.tests.unit.roles import ROOT, declaration
from mlnode.agent import registry
from mlnode.agent.registry import KINDS
from mlnode.model import schema

#: In the place of plugin_utils/agent_call.py. ansible_remote_tmp of a host is in its own folder, so that this
#: knows where it runs.
_STUB = """\
import json
import pathlib

from ansible.plugins.action import ActionBase


class NoAnswerError(Exception):
    pass


class AgentAction(ActionBase):
    TRANSFERS_FILES = False

    def call(self, name, options, interpreter="", changes=False, of_bare=None):
        host = pathlib.Path(self.get_shell_option("remote_tmp")).parent
        with open(host / "asked", "a") as stream:
            stream.write(json.dumps({"call": name, **options}) + chr(10))
        answers = json.loads((host / "answers.json").read_text())
        if name == "drift":
            return {"changed": False, **answers["drift"]}
        missed = [] if options["check"] else answers.get(options["name"], [])
        return {"changed": False, "areas": {}, "reboot_required": False, "not_in_force": missed}
"""

FILE = "/etc/sysctl.d/zzz.conf:2"
MISSED = f"vm.swappiness: overridden, want 1, runtime 1, boot 30 (high): boot: {FILE} sets 30"
SWAPPINESS = {"node": [MISSED]}


class Site:
    """Hosts in groups, what their modules answer, and plays on them."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.inventory: dict[str, Any] = {name: {"hosts": {}} for name in ("training", "fabric", "others")}
        self.everywhere: dict[str, Any] = {}
        collection = folder / "collections/ansible_collections/mlnode/tuning"
        utils = collection / "plugins/plugin_utils"
        utils.mkdir(parents=True)
        (folder / "ansible.cfg").write_text("[defaults]\nforks = 8\n")
        plugins = ("action", "doc_fragments", "filter", "module_utils", "modules")
        for name in ("galaxy.yml", "meta", "playbooks", "roles", *(f"plugins/{one}" for one in plugins)):
            (collection / name).symlink_to(ROOT / name)
        for path in (ROOT / "plugins/plugin_utils").glob("*.py"):
            (utils / path.name).symlink_to(path)
        (utils / "agent_call.py").unlink()
        (utils / "agent_call.py").write_text(_STUB, encoding="utf-8")

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

    def asked(self, name: str) -> list[dict[str, Any]]:
        path = self.folder / name / "asked"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.fixture
def site(tmp_path: pathlib.Path) -> Site:
    return Site(tmp_path)


def failed(output: str) -> set[str]:
    """The hosts that the recap says have failed."""
    return {*re.findall(r"^(\S+) +: .* failed=[1-9]", output, re.MULTILINE)}


def test_it_ends_in_failure_after_all_nodes_and_groups(site: Site) -> None:
    known = {"key": "vm.swap*", "reason": "OPS-1", "until": "2099-12-31"}
    site.host("both", SWAPPINESS, "training", "fabric")
    site.host("fine", {}, drift_ignore=[known], node_fail_at="low")
    site.host("hostile", {"node": ["{{ 6000 * 7 }}"]})
    site.host("rail", {"fabric": ["qos.rails.trust: drifted"]}, "fabric")

    code, output = site.play()

    assert (code, failed(output)) == (2, {"both", "hostile", "rail"}), output
    assert MISSED in " ".join(output.split())
    assert "qos.rails.trust: drifted" in output
    assert "{{ 6000 * 7 }}" in output, "what a node says is no template"
    assert [asked["name"] for asked in site.asked("both")] == ["node", "fabric"], "one call per declaration"
    node, fabric = (
        {area for area, spec in asked["areas"].items() if schema.checked(area, spec, registry.options(area))}
        for asked in site.asked("both")
    )
    assert (node, fabric) == ({*declaration("training")}, {*declaration("fabric")})
    [asked] = site.asked("fine")
    assert (asked["fail_at"], asked["ignore"]) == ("low", [known])


def test_a_check_fails_nothing(site: Site) -> None:
    site.host("one", SWAPPINESS, "training", "fabric")
    code, output = site.play("--check")
    assert (code, failed(output)) == (0, set()), output
    assert [asked["check"] for asked in site.asked("one")] == [True, True]


def test_in_batches_the_next_one_is_left_alone(site: Site) -> None:
    site.host("first", SWAPPINESS)
    site.host("second", {})
    code, output = site.play(mlnode_serial=1)
    assert (code, failed(output)) == (2, {"first"}), output
    assert FILE in output
    assert site.asked("second") == []


@pytest.mark.parametrize(
    ("words", "selected"),
    [
        (["--tags", "thp"], [["thp"]]),
        (["--skip-tags", "nic,irq"], [[area for area in KINDS if area not in ("nic", "irq")]]),
        (["--tags", "verify"], []),
    ],
)
def test_tags_choose_areas_of_the_one_call(site: Site, words: list[str], selected: list[list[str]]) -> None:
    site.host("one", {})
    code, output = site.play(*words)
    assert code == 0, output
    assert [asked["selected"] for asked in site.asked("one")] == selected


def test_a_role_alone_ends_like_that(site: Site) -> None:
    site.host("one", SWAPPINESS)
    task = {"ansible.builtin.include_role": {"name": "mlnode.tuning.training_node"}}
    playbook = site.folder / "play.yml"
    playbook.write_text(yaml.safe_dump([{"hosts": "training", "gather_facts": False, "tasks": [task]}]))
    code, output = site.play(playbook=str(playbook))
    assert (code, failed(output)) == (2, {"one"}), output
    assert FILE in output


def test_what_a_play_does_after_the_role_is_done(site: Site) -> None:
    """The role ends early where no reboot is wanted, and only itself."""
    site.host("one", {})
    after = {"name": "Say so", "ansible.builtin.debug": {"msg": "after the role"}}
    roles = [
        {"role": "mlnode.tuning.training_node"},
        {"role": "mlnode.tuning.node", "vars": {"node_layers": ["boot"]}},
    ]
    playbook = site.folder / "play.yml"
    play = {"hosts": "training", "gather_facts": False, "roles": roles, "post_tasks": [after]}
    playbook.write_text(yaml.safe_dump([play]))
    code, output = site.play(playbook=str(playbook))
    assert code == 0, output
    assert [asked["layers"] for asked in site.asked("one")] == [["runtime", "boot"], ["boot"]]
    assert "after the role" in output


@pytest.mark.parametrize("name", ["node_sysctll", "training_node_sysctl"])
def test_a_mistaken_variable_is_named_before_a_node_is_asked(site: Site, name: str) -> None:
    others = {"node_exporter_port": 9100, "fabric_name": "east", "fabric_vlan": 100, "node_gpus": 8}
    site.host("one", {}, **{name: {}, **others})
    code, output = site.play("--tags", "no_area")
    assert (code, failed(output)) == (2, {"one"}), output
    assert f"{name}: unknown variable; did you mean node_sysctl?" in " ".join(output.split())
    assert not [other for other in others if other in output]
    assert site.asked("one") == []


def test_a_host_that_has_left_all_groups_fails_the_drift_check_with_what_to_do(site: Site) -> None:
    fine = {"compliant": True, "verdict": "as declared: 2 ok", "failures": [], "drift": [], "ignored": []}
    remedy = "declared on the node as node, and the inventory declares nothing: ansible-playbook revert.yml"
    left = {"failed": True, "msg": remedy, "verdict": "not as declared", "failures": [remedy]}
    site.host("here", {"drift": fine})
    site.host("gone", {"drift": left}, "others")
    site.host("bare", {"drift": fine}, "others")

    code, output = site.play(playbook="playbooks/drift.yml")

    assert (code, failed(output)) == (2, {"gone"}), output
    assert remedy in " ".join(output.split())
    [asked] = site.asked("gone")
    assert (asked["declarations"], asked["fail_at"]) == ({"node": {}, "fabric": {}}, "low")


FINE = {"compliant": True, "verdict": "as declared: 2 ok", "failures": [], "drift": [], "ignored": []}


@pytest.mark.parametrize("as_extra", [True, False], ids=["-e", "variables of all"])
def test_groups_may_have_names_of_their_own(site: Site, as_extra: bool) -> None:
    site.inventory |= {name: {"hosts": {}} for name in ("gpu", "serving", "rdma")}
    named = {"mlnode_training": "gpu", "mlnode_inference": "serving", "mlnode_fabric": "rdma"}
    extra = named if as_extra else {}
    site.everywhere = {} if as_extra else named
    site.host("trains", {"drift": FINE}, "gpu", "rdma")
    site.host("serves", {"drift": FINE}, "serving")
    site.host("usual", {"drift": FINE}, "training")

    code, output = site.play("--check", **extra)
    assert code == 0, output
    assert [asked["name"] for asked in site.asked("trains")] == ["node", "fabric"]
    assert [asked["name"] for asked in site.asked("serves")] == ["node"]
    assert site.asked("usual") == [], "a group of the usual name is another one now"

    code, output = site.play(playbook="playbooks/drift.yml", **extra)
    assert code == 0, output
    declared = {name: site.asked(name)[-1]["declarations"] for name in ("trains", "serves", "usual")}
    assert {name: [key for key in one if one[key]] for name, one in declared.items()} == {
        "trains": ["node", "fabric"],
        "serves": ["node"],
        "usual": [],
    }
    [site_asked] = [asked for asked in site.asked("serves") if asked["call"] == "declare"]
    assert declared["serves"]["node"] == site_asked["areas"], "one profile, declared and compared"


def test_drift_needs_no_group(site: Site) -> None:
    """Each host is compared with what it keeps, which the inventory does not know; one that keeps nothing
    has lost it."""
    lost = {"failed": True, "msg": "nothing is declared", "verdict": "nothing is declared", "drift": []}
    site.host("tuned", {"drift": FINE}, "others")
    site.host("lost", {"drift": {**lost, "failures": ["nothing is declared"], "ignored": []}}, "others")

    code, output = site.play(playbook="playbooks/drift.yml")

    assert (code, failed(output)) == (2, {"lost"}), output
    assert [asked["declarations"] for asked in site.asked("tuned")] == [{}]


def test_the_variables_of_another_team_fail_no_play(site: Site) -> None:
    """They share the prefix, and one of them nearly a name."""
    site.everywhere = {
        "fabric_name": "east",
        "fabric_vlan": 7,
        "fabric_leaves": ["a"],
        "node_cpus": "{{ n }}",
    }
    site.host("one", {"drift": FINE}, "training", "fabric")
    for playbook in ("playbooks/site.yml", "playbooks/drift.yml"):
        code, output = site.play(playbook=playbook)
        assert code == 0, output
    assert [asked["call"] for asked in site.asked("one")] == ["declare", "declare", "drift"]
