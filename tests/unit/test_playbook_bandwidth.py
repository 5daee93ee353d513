# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ring of rdma_bandwidth.yml, with nodes that are this machine and have no RDMA device of that name. Who
measures to whom is told by a stand-in of the module, which takes a second of a processor for each end."""

from __future__ import annotations

import pathlib
import re
from typing import Any

import pytest
import yaml
from ansible_collections.mlnode.tuning.tests.unit.roles import ROOT
from ansible_collections.mlnode.tuning.tests.unit.test_playbooks import ansible

#: No machine has it
DEVICE = "no_such_device"

#: Says in the controller's own process what the module says of a port that is not there. What serves has
#: ended at once, and left what the module's job would have left for async_status.
_STANDIN = """\
import json
import os
import pathlib
import time

from ansible.plugins.action import ActionBase


class ActionModule(ActionBase):
    def run(self, tmp=None, task_vars=None):
        self._supports_async = True
        result = super().run(tmp, task_vars)
        given = self._task.args
        target = f"{given['device']}/1" + ("" if given.get("serve") else f" -> {given['peer']}")
        said = {"changed": False, "failures": [f"{target}: bandwidth fail: there is no such port"]}
        if not given.get("serve"):
            return {**result, **said}
        assert self._task.async_val > given["timeout"] and self._task.poll == 0
        job = pathlib.Path(task_vars["ansible_async_dir"], f"{time.time_ns()}.{os.getpid()}")
        job.parent.mkdir(exist_ok=True)
        job.write_text(json.dumps(said))
        return {**result, "changed": False, "ansible_job_id": job.name, "started": 1, "finished": 0}
"""


@pytest.fixture
def standin(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The collection with the stand-in in the place of the action that has the module run."""
    collection = tmp_path / "collections/ansible_collections/mlnode/tuning"
    (collection / "plugins/action").mkdir(parents=True)
    folders = ("callback", "doc_fragments", "filter", "lookup", "module_utils", "modules", "plugin_utils")
    for name in ("galaxy.yml", "meta", *(f"plugins/{one}" for one in folders)):
        (collection / name).symlink_to(ROOT / name)
    (collection / "plugins/action/node_preflight.py").write_text(_STANDIN, encoding="utf-8")
    for name in ("ANSIBLE_COLLECTIONS_PATH", "ANSIBLE_COLLECTIONS_PATHS"):
        monkeypatch.setenv(name, str(tmp_path / "collections"))


def play(path: pathlib.Path, nodes: dict[str, dict[str, Any]], *words: str) -> tuple[int, str]:
    """Exit status, and all that was said in one line."""
    here = {
        "ansible_connection": "local",
        "ansible_become": False,
        "ansible_host": "127.0.0.1",
        "ansible_python_interpreter": "{{ ansible_playbook_python }}",
        # Not the home folder of the user, for which Ansible does not always ask $HOME
        "ansible_async_dir": str(path / "async"),
        "rdma_bandwidth_devices": [DEVICE],
    }
    inventory = path / "hosts.yml"
    inventory.write_text(yaml.safe_dump({"fabric": {"hosts": nodes, "vars": here}}), encoding="utf-8")
    done = ansible("ansible-playbook", "-i", str(inventory), "playbooks/rdma_bandwidth.yml", *words)
    return done.returncode, " ".join((done.stdout + done.stderr).split())


def pairs(said: str) -> set[tuple[str, str]]:
    return set(re.findall(r"'(\w+) -> (\w+): no_such_device/1 -> 127\.0\.0\.1: bandwidth fail", said))


@pytest.mark.usefixtures("standin")
@pytest.mark.parametrize("ring", [("a", "b", "c"), ("a", "b", "c", "d")], ids=["odd", "even"])
def test_each_node_measures_to_the_next_one(tmp_path: pathlib.Path, ring: tuple[str, ...]) -> None:
    status, said = play(tmp_path, {name: {} for name in ring})

    assert status != 0
    assert pairs(said) == {*zip(ring, [*ring[1:], ring[0]], strict=True)}
    # The server's own words are beside the client's.
    assert "(b says: no_such_device/1: bandwidth fail: there is no such port" in said


def test_a_node_that_cannot_be_reached_is_no_success(tmp_path: pathlib.Path) -> None:
    """With the module itself, and Ansible's own way of running a server meanwhile."""
    lost = {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 1}
    status, said = play(tmp_path, {"a": {}, "b": lost, "c": {}})

    assert status != 0
    assert "b -> the next node: not measured" in said
    assert ("c", "a") in pairs(said)
    assert "(a says: no_such_device/1: bandwidth fail: there is no such port" in said


def test_in_check_mode_nothing_is_measured(tmp_path: pathlib.Path) -> None:
    status, said = play(tmp_path, {"a": {}, "b": {}}, "--check")

    assert status == 0
    assert "Serve the node before" not in said


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        ({"a": {}}, "The group `fabric` has 1 host in this inventory, expected 2 or more."),
        (
            {"a": {}, "b": {"rdma_bandwidth_devices": [DEVICE, DEVICE]}},
            "as many entries in rdma_bandwidth_devices",
        ),
    ],
)
def test_what_is_no_ring_is_refused(
    tmp_path: pathlib.Path, nodes: dict[str, dict[str, Any]], words: str
) -> None:
    status, said = play(tmp_path, nodes)

    assert status != 0
    assert words in said
    assert pairs(said) == set()
