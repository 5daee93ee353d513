# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The callback in real runs of Ansible, in which an action tells what a host's variables say."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
import yaml
from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.model.errors import MlnodeError
from ansible_collections.mlnode.tuning.plugins.plugin_utils.results import result
from ansible_collections.mlnode.tuning.tests.unit.plugins.plugin_utils.fleet_report import fleets
from ansible_collections.mlnode.tuning.tests.unit.plugins.plugin_utils.results import campaigns, test_effects

ROOT = pathlib.Path(__file__).resolve().parents[4]

COLLECTIONS = ROOT / ".ansible/collections"

CALLBACK = "mlnode.tuning.fleet_report"

#: In the controller's own process: a module would start a Python for each host
ACTION = """
from ansible.module_utils.parsing.convert_bool import boolean
from ansible.plugins.action import ActionBase


class ActionModule(ActionBase):
    def run(self, tmp=None, task_vars=None):
        super().run(tmp, task_vars)
        if self._connection.transport == "ssh":
            self._low_level_execute_command("true")
        result = {"changed": False, **self._task.args.get("told", {})}
        fails = boolean(self._task.args.get("fails", False))
        return {**result, "failed": True, "msg": "it did not work"} if fails else result
"""

TELL = {"name": "Tell", "told": {"told": "{{ told | default({}) }}", "fails": "{{ fails | default(false) }}"}}

#: Nobody can be reached there, and it is known at once
GONE = {"ansible_connection": "ssh", "ansible_host": "localhost", "ansible_port": 1}


@dataclass
class Run:
    """A folder with a playbook and an inventory, and what came of them."""

    folder: pathlib.Path
    hosts: dict[str, dict[str, Any]]
    tasks: list[dict[str, Any]] = field(default_factory=lambda: [TELL])
    play: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    config: str = ""
    words: tuple[str, ...] = ()

    def prepare(self) -> None:
        (self.folder / "action_plugins").mkdir()
        for name in ("told", "ib_subnet"):
            (self.folder / f"action_plugins/{name}.py").write_text(ACTION, encoding="utf-8")
        local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
        groups = {"training": {"hosts": {name: {**local, **more} for name, more in self.hosts.items()}}}
        (self.folder / "hosts.yml").write_text(yaml.safe_dump(groups), encoding="utf-8")
        play = {"hosts": "training", "gather_facts": False, "tasks": self.tasks, **self.play}
        (self.folder / "play.yml").write_text(yaml.safe_dump([play]), encoding="utf-8")
        (self.folder / "ansible.cfg").write_text(f"[defaults]\n{self.config}", encoding="utf-8")

    @property
    def variables(self) -> dict[str, str]:
        return {
            **{
                name: value
                for name, value in os.environ.items()
                if not name.startswith(("ANSIBLE_", "MLNODE_"))
            },
            "ANSIBLE_CONFIG": str(self.folder / "ansible.cfg"),
            "ANSIBLE_COLLECTIONS_PATH": str(COLLECTIONS),
            "ANSIBLE_CALLBACKS_ENABLED": CALLBACK,
            "MLNODE_REPORT_JSON": str(self.folder / "out/fleet.json"),
            **self.environment,
        }

    def __call__(self, timeout: int | None = None) -> str:
        self.prepare()
        program = str(pathlib.Path(sys.executable).parent / "ansible-playbook")
        done = subprocess.run(
            [program, "-i", "hosts.yml", "play.yml", *self.words],
            cwd=self.folder,
            env=self.variables,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout,
        )
        assert "Callback dispatch" not in done.stderr, done.stderr
        return done.stdout + done.stderr

    def document(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / "out/fleet.json").read_text(encoding="utf-8"))
        return found

    def states(self) -> dict[str, str]:
        return {host["name"]: host["state"] for host in self.document()["hosts"]}


def fleet() -> dict[str, dict[str, Any]]:
    return {
        "n1": {"told": {"settings": [fleets.setting(), fleets.setting("vm.b")]}},
        "n2": {"told": {"settings": [fleets.drifted(), fleets.setting("vm.b")]}},
        "n3": {"told": {"checks": [fleets.check()]}, "fails": True},
        "n4": {"fails": True},
        "n5": GONE,
    }


STATES = {"n1": "ok", "n2": "differs", "n3": "differs", "n4": "failed", "n5": "unreachable"}


@pytest.mark.parametrize("strategy", ["linear", "free"])
def test_every_host_ends_in_its_state(tmp_path: pathlib.Path, strategy: str) -> None:
    run = Run(tmp_path, fleet(), play={"strategy": strategy})

    said = run()

    assert run.states() == STATES
    table = said.partition("FLEET REPORT")[2]
    assert "play.yml: 5 hosts: 1 unreachable, 1 failed, 2 differ, 1 ok\n" in table
    assert "1 of 5 differs in vm.swappiness (high, drifted): n2; 1 reports nothing about it\n" in table
    assert "n4: Tell: it did not work\n" in table
    found = run.document()
    assert (found["playbook"], found["check_mode"]) == ("play.yml", False)
    assert [host["groups"] for host in found["hosts"]] == [["training"]] * 5
    assert found["started"] <= found["ended"]


def test_a_host_that_was_not_reached_in_its_turn_is_not_checked(tmp_path: pathlib.Path) -> None:
    hosts = {**fleet(), "n1": {"told": {"settings": [fleets.drifted()]}, "fails": True}}
    run = Run(tmp_path, hosts, play={"serial": 1, "max_fail_percentage": 0})

    run()

    assert run.states() == {"n1": "differs", **dict.fromkeys(["n2", "n3", "n4", "n5"], "not checked")}


def test_what_an_assertion_says_of_findings_is_no_failure_of_its_own(tmp_path: pathlib.Path) -> None:
    verdict = {"name": "Report", "ansible.builtin.assert": {"that": False, "fail_msg": "drift"}}
    hosts = {
        "n1": {"told": {"settings": [fleets.setting()]}},
        "n2": {"told": {"settings": [fleets.drifted()]}},
    }
    run = Run(tmp_path, hosts, [TELL, verdict])

    run()

    assert run.states() == {"n1": "failed", "n2": "differs"}
    assert run.document()["hosts"][0]["failures"] == ["Report: drift"]


def test_what_an_assertion_of_a_role_says_is_told_beside_the_findings(tmp_path: pathlib.Path) -> None:
    role = tmp_path / "roles/picky/tasks"
    role.mkdir(parents=True)
    task = {"name": "Stop", "ansible.builtin.assert": {"that": False, "fail_msg": "no RDMA device"}}
    (role / "main.yml").write_text(json.dumps([task]))
    include = {"name": "Role", "ansible.builtin.include_role": {"name": str(role.parent)}}
    run = Run(tmp_path, {"n1": {"told": {"settings": [fleets.drifted()]}}}, [TELL, include])

    run()

    assert any("no RDMA device" in words for words in run.document()["hosts"][0]["failures"])


def test_what_was_rescued_or_ignored_is_no_failure(tmp_path: pathlib.Path) -> None:
    fine = {"told": {"settings": [fleets.setting()]}}
    tasks = [
        {"name": "Try", "block": [{"name": "Break", "told": {"fails": True}}], "rescue": [TELL]},
        {"name": "Whatever", "told": {"fails": True}, "ignore_errors": True},
        {"name": "Each", "told": {"told": "{{ item }}"}, "loop": [{"settings": [fleets.setting("vm.c")]}]},
    ]
    run = Run(tmp_path, {"n1": fine}, tasks, words=("--check",))

    run()

    assert run.states() == {"n1": "ok"}
    assert run.document()["check_mode"] is True
    assert run.document()["hosts"][0]["counts"] == {"ok": {"medium": 2}}


def test_a_playbook_without_our_modules_gets_no_report(tmp_path: pathlib.Path) -> None:
    run = Run(tmp_path, {"n1": {}, "n2": {"fails": True}})

    assert "FLEET REPORT" not in run()
    assert not (tmp_path / "out").exists()


def test_what_no_log_hides_leaves_no_report_of_an_earlier_run(tmp_path: pathlib.Path) -> None:
    """It is not known how the host is, which a report of yesterday would not say."""
    # Only a look, as other tests may change this machine meanwhile
    hidden = {"mlnode.tuning.rdma_check": {"fail_on": "never"}, "no_log": True}
    run = Run(tmp_path, {"n1": {}}, tasks=[{"name": "Look", **hidden}])
    (tmp_path / "out").mkdir()
    (tmp_path / "out/fleet.json").write_text("yesterday's", encoding="utf-8")

    said = run()

    assert run.states() == {"n1": "failed"}, said
    assert "n1: Look: no_log hides what rdma_check has reported" in said.partition("FLEET REPORT")[2], said


def test_hosts_that_are_left_alone_are_named(tmp_path: pathlib.Path) -> None:
    name = {"ansible.builtin.debug": {"var": "mlnode_left_alone"}, "run_once": True}
    left = {"mlnode_left_alone": {"web1": "web", "web2": "web", "x": "no group"}}
    told = {"settings": [fleets.setting()], "mlnode_left_alone": {"forged": "by a node"}}
    run = Run(tmp_path, {"n1": {"told": told}}, tasks=[{**name, "vars": left}, TELL])

    table = run().partition("In no group known here, and left alone\n")[2]
    assert table.splitlines()[:2] == ["  web1, web2 (web)", "  x (no group)"]
    assert "forged" not in table


def test_options_come_from_the_configuration_and_from_extra_variables(tmp_path: pathlib.Path) -> None:
    run = Run(
        tmp_path,
        fleet(),
        environment={"MLNODE_REPORT_JSON": ""},
        config="[callback_fleet_report]\nhtml = sub/page.html\ntable = false\n",
        words=("-e", "mlnode_report_junit=fleet.xml"),
    )

    assert "FLEET REPORT" not in run()
    assert "<title>Fleet report: play.yml: 5 hosts" in (tmp_path / "sub/page.html").read_text(
        encoding="utf-8"
    )
    root = ET.parse(tmp_path / "fleet.xml").getroot()
    assert [suite.get("name") for suite in root] == ["n1", "n2", "n3", "n4", "n5"]
    assert (tmp_path / "fleet.xml").stat().st_mode & 0o777 == 0o666 & ~umask()
    assert sorted(path.name for path in (tmp_path / "sub").iterdir()) == ["page.html"]


def umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_a_file_that_cannot_be_written_is_a_warning(tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").write_text("")
    run = Run(tmp_path, fleet(), environment={"MLNODE_REPORT_JSON": str(tmp_path / "file/fleet.json")})

    said = run()

    assert "fleet_report: cannot write" in said
    assert "FLEET REPORT" in said


#: In the place of the action that measures
MEASURED = """
import json
import pathlib

from ansible.plugins.action import ActionBase


class ActionModule(ActionBase):
    BYPASS_HOST_LOOP = True

    def run(self, tmp=None, task_vars=None):
        super().run(tmp, task_vars)
        path = pathlib.Path(self._task.args["path"])
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(self._task.args["document"]))
        failed = self._task.args["document"].get("verdict") == "fail"
        return {"failed": failed, "msg": "1 fail", "folder": str(path.parent), "file": path.name}
"""


def write(document: Any, path: pathlib.Path) -> dict[str, Any]:
    """The task with which a playbook adds a result to the report."""
    given = {"document": document, "path": str(path)}
    return {"name": "Measure", "mlnode.tuning.measure": given}


def test_the_result_of_a_campaign_is_a_column_and_a_map_of_pairs(tmp_path: pathlib.Path) -> None:
    """As campaign.yml writes it, and fails: that is about the fleet, and not about the host that runs it."""
    names = [f"gpu{number:03}" for number in range(1, 9)]
    content = campaigns.campaign(8, 1, slow={"gpu007": 0.8})
    effect = json.loads(test_effects.written(tmp_path, tail=1.1).read_text(encoding="utf-8"))
    # Of one node, and about none: the others are no less measured.
    subnet = {"checks": [{"name": "balance", "target": "subnet", "verdict": "pass"}]}
    collection = tmp_path / "collections/ansible_collections/mlnode/tuning"
    (collection / "plugins/action").mkdir(parents=True)
    for name in (
        "galaxy.yml",
        "meta",
        *(f"plugins/{one}" for one in ("callback", "module_utils", "plugin_utils")),
    ):
        (collection / name).symlink_to(ROOT / name)
    (collection / "plugins/action/measure.py").write_text(MEASURED, encoding="utf-8")
    run = Run(
        tmp_path,
        {name: {} for name in [*names, "other"]},
        [
            {"name": "Look", "ib_subnet": {"told": subnet}, "when": "inventory_hostname == 'gpu001'"},
            write(effect, tmp_path / "results/effect-1.json"),
            write({"effect": {}}, tmp_path / "results/effect-2.json"),
            write({"campaign": {}}, tmp_path / "results/broken.json"),
            write(content, tmp_path / "results/1.json"),
        ],
        environment={
            "MLNODE_REPORT_HTML": str(tmp_path / "page.html"),
            "ANSIBLE_COLLECTIONS_PATH": str(tmp_path / "collections"),
        },
    )

    said = run()

    assert run.states() == {**dict.fromkeys(names, "ok"), "gpu007": "differs", "other": "not checked"}, said
    [found] = run.document()["findings"]
    assert (found["kind"], found["key"], found["status"], found["hosts"]) == (
        *("campaign", "tcp rail 0", "fail"),
        ["gpu007"],
    )
    assert found["runtime"].startswith("0.80 of the fleet's median: 78.")
    assert "tcp, campaign 20261101-030000" in (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "broken.json is not the result of a campaign" in " ".join(said.split())
    assert "effect-1.json: expected" not in " ".join(said.split())
    assert "effect-2.json: expected a result of effect.yml" in " ".join(said.split())
    assert "············│···········●  harms" in said
    assert "Effect spring" in (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "Traceback" not in said


def test_no_file_is_read_that_a_node_names(tmp_path: pathlib.Path) -> None:
    """In the words of set_stats, and in those of the action that writes results, whichever task it answers.
    A FIFO without a writer would be waited for, a device has no end, and an old result is of another node."""
    os.mkfifo(tmp_path / "fifo")
    forged = json.dumps(campaigns.campaign(2, 1, slow={"gpu002": 0.5}))
    (tmp_path / "old.json").write_text(forged, encoding="utf-8")
    named = [str(tmp_path / "fifo"), "/dev/zero", str(tmp_path / "old.json")]
    answer = {
        "settings": [fleets.setting()],
        "ansible_stats": {"data": {"mlnode_results": named}, "aggregate": True, "per_host": False},
        "folder": str(tmp_path),
        "file": "old.json",
    }
    run = Run(tmp_path, {"gpu001": {"told": answer}, "gpu002": {"told": {"settings": [fleets.setting()]}}})

    said = run(timeout=60)

    assert run.states() == {"gpu001": "ok", "gpu002": "ok"}, said
    assert run.document()["findings"] == []


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: os.mkfifo(path), "it is not a regular file"),
        (lambda path: path.symlink_to("/dev/zero"), "Too many levels of symbolic links"),
        (lambda path: path.mkdir(), "Is a directory"),
        (lambda path: (path.touch(), os.truncate(path, result.MOST + 1)), "it has more than"),
    ],
    ids=["fifo", "link", "folder", "endless"],
)
def test_in_the_place_of_a_written_result_nothing_but_a_file_of_its_size_is_read(
    tmp_path: pathlib.Path, make: Callable[[pathlib.Path], Any], words: str
) -> None:
    make(tmp_path / "1.json")

    with pytest.raises(MlnodeError, match=words):
        result.written(tmp_path / "1.json")


def test_it_works_under_ansible_runner(tmp_path: pathlib.Path) -> None:
    runner = pytest.importorskip("ansible_runner", reason="ansible-runner is not installed")
    run = Run(tmp_path, fleet())
    run.prepare()
    (tmp_path / "private").mkdir()

    done = runner.run(
        private_data_dir=str(tmp_path / "private"),
        project_dir=str(tmp_path),
        playbook="play.yml",
        inventory=str(tmp_path / "hosts.yml"),
        envvars={**run.variables, "PATH": f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"},
        quiet=True,
    )

    assert run.states() == STATES
    with done.stdout as output:
        assert "FLEET REPORT" in output.read()
    assert done.status == "failed"
