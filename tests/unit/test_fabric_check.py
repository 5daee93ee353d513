# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""playbooks/fabric_check.yml with real plays over many nodes. The modules, which would read this machine, are
exchanged for ones that give the result of a node as it was told to them."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import yaml
from ansible_collections.mlnode.tuning.plugins.plugin_utils import fabric_report as fleet
from ansible_collections.mlnode.tuning.tests.unit.plugins.plugin_utils.test_fabric_report import (
    change,
    nodes,
)
from ansible_collections.mlnode.tuning.tests.unit.roles import ROOT, current

#: Gives what is in the file that an argument names, as the module named in it would, in the controller's own
#: process: a module would start a Python for each node
_STUB = """\
import json

from ansible.plugins.action import ActionBase


class ActionModule(ActionBase):
    def run(self, tmp=None, task_vars=None):
        super().run(tmp, task_vars)
        if self._connection.transport == "ssh":
            self._low_level_execute_command("true")
        given = self._task.args
        path = str(given["expect"]["told"] if "expect" in given else given["port"])
        with open(path + ".asked", "w") as stream:
            json.dump({**given, "check": self._task.check_mode}, stream)
        with open(path) as stream:
            result = json.load(stream)
        return {"changed": False, **result, "failed": "msg" in result}
"""

Finished = subprocess.CompletedProcess[str]


@pytest.fixture
def play(tmp_path: pathlib.Path) -> Callable[..., Finished]:
    collection = tmp_path / "collections/ansible_collections/mlnode/tuning"
    (collection / "plugins/action").mkdir(parents=True)
    for name in (
        "galaxy.yml",
        "meta",
        "playbooks",
        "plugins/filter",
        "plugins/lookup",
        "plugins/module_utils",
        "plugins/plugin_utils",
    ):
        (collection / name).symlink_to(ROOT / name)
    for name in ("rdma_check", "ib_subnet"):
        (collection / f"plugins/action/{name}.py").write_text(_STUB, encoding="utf-8")

    def run(given: dict[str, Any], subnet: Any = None, *words: str, **variables: Any) -> Finished:
        told: dict[str, dict[str, Any]] = {}
        for name, result in given.items():
            path = tmp_path / f"{name}.json"
            path.write_text(json.dumps(result), encoding="utf-8")
            told[name] = {"fabric_check_expect": {"told": str(path)}}
            if result.get("unreachable"):
                # Nobody listens there.
                told[name] |= {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 1}
        (tmp_path / "subnet.json").write_text(json.dumps(subnet or {"checks": []}), encoding="utf-8")
        more = {
            "ansible_connection": "local",
            "ansible_become": False,
            "ansible_python_interpreter": sys.executable,
            "fabric_check_subnet_port": str(tmp_path / "subnet.json"),
        }
        inventory = {"fabric": {"hosts": told, "vars": more}}
        (tmp_path / "hosts.yml").write_text(yaml.safe_dump(inventory), encoding="utf-8")
        return subprocess.run(
            [
                str(pathlib.Path(sys.executable).parent / "ansible-playbook"),
                *("-i", str(tmp_path / "hosts.yml"), "playbooks/fabric_check.yml"),
                *("-e", json.dumps(variables), *words),
            ],
            cwd=ROOT,
            env={
                **os.environ,
                "ANSIBLE_COLLECTIONS_PATH": str(tmp_path / "collections"),
                "ANSIBLE_COLLECTIONS_PATHS": str(tmp_path / "collections"),
                "ANSIBLE_LOCAL_TEMP": str(tmp_path / "temporary"),
            },
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def words(done: Finished) -> str:
    return " ".join(current(done.stdout + done.stderr).replace("\n", " ").split())


def asked(tmp_path: pathlib.Path, name: str) -> Any:
    return json.loads((tmp_path / f"{name}.json.asked").read_text(encoding="utf-8"))


def subnet(**verdicts: str) -> Any:
    return {
        "checks": [
            {
                "name": name,
                "target": "subnet",
                "verdict": verdict,
                "found": f"{name} is {verdict}",
                **dict.fromkeys(("expected", "source", "advice"), ""),
            }
            for name, verdict in verdicts.items()
        ]
    }


def test_a_healthy_fleet(play: Callable[..., Finished], tmp_path: pathlib.Path) -> None:
    given = nodes(3, "ndr-ib")
    # The first one has no port from which a subnet could be seen.
    for one in given["gpu001"]["checks"]:
        one.update({"verdict": "warn", "found": "2: INIT"} if one["name"] == "state" else {})

    done = play(given, subnet(manager="pass", links="pass"), "--check", fabric_check_baseline="reset")

    assert done.returncode == 0, words(done)
    assert "3 nodes checked, no failures" in words(done)
    assert "3 alike in hca_type, board_id, firmware" in words(done)
    assert "subnet of gpu002: links is pass" in words(done)
    assert "gpu001 mlx5_0/1: state warn: 2: INIT" in words(done)
    for name in ("gpu001", "gpu003", "subnet"):
        found = asked(tmp_path, name)
        assert (found["check"], found["baseline"], found["fail_on"]) == (True, "reset", "never")


def test_what_differs_and_what_fails_is_named(play: Callable[..., Finished]) -> None:
    given = nodes(3, "ndr-ib")
    change(given["gpu002"], "firmware", "mlx5_3", "28.39.1002")
    given["gpu003"] = {"msg": "rdma_check: expect.all.rate: unknown"}

    done = play(given, subnet(links="fail", topology="warn"))

    assert done.returncode != 0
    said = words(done)
    assert "gpu002 mlx5_3: fleet fail: firmware has no majority" not in said
    assert "firmware has no majority: 28.43.1014 on 1 (gpu001), 28.39.1002 on 1 (gpu002)" in said
    assert "gpu003: fleet fail: not checked" in said
    assert "subnet of gpu001: links fail: links is fail" in said
    assert play(nodes(2, "ndr-ib"), subnet(errors="unknown")).returncode != 0
    assert play(nodes(2, "ndr-ib"), subnet(links="fail"), fabric_check_fail_on="never").returncode == 0


def test_who_cannot_be_asked_is_named(play: Callable[..., Finished]) -> None:
    given = {**nodes(2, "ndr-ib"), "gpu009": {"unreachable": True}}

    done = play(given, {"msg": "ib_subnet: port: none"})

    assert done.returncode != 0
    assert "gpu009: fleet fail: " in words(done)
    assert "gpu001: ib_subnet fail: not checked: ib_subnet: port: none" in words(done)

    done = play(given, None, fabric_check_subnet_node="gpu009", fabric_check_fail_on="fail")

    assert done.returncode != 0
    assert "gpu009: ib_subnet fail: not checked" in words(done)

    done = play(nodes(2, "ndr-ib"), None, fabric_check_subnet_node="nobody")

    assert done.returncode != 0
    assert "nobody: ib_subnet fail: not checked" in words(done)


def test_without_infiniband_the_subnet_is_left_out_and_that_is_said(play: Callable[..., Finished]) -> None:
    done = play(nodes(2, "roce8"))
    assert done.returncode == 0, words(done)
    assert "subnet: not checked; no node has an active InfiniBand port" in words(done)


def test_uplinks_that_were_asked_for_are_looked_at_or_unknown(
    play: Callable[..., Finished], tmp_path: pathlib.Path
) -> None:
    asking = {"fabric_check_balance": 10, "fabric_check_oversubscription": 1.5}
    done = play(nodes(2, "ndr-ib"), subnet(balance="pass"), **asking)
    assert done.returncode == 0, words(done)
    found = asked(tmp_path, "subnet")
    assert (str(found["balance"]), str(found["oversubscription"])) == ("10", "1.5")
    done = play(nodes(2, "roce8"), None, **asking)
    assert done.returncode != 0
    assert "subnet: balance unknown: no node has an active InfiniBand port" in words(done)
    assert play(nodes(2, "roce8"), None, **asking, fabric_check_fail_on="fail").returncode == 0


def test_a_hundred_lines_are_named(play: Callable[..., Finished]) -> None:
    given = nodes(2)
    for one in given["gpu001"]["checks"]:
        one.update({"verdict": "fail"} if one["name"] not in fleet.COMPARED else {})
    given["gpu001"]["checks"] += [
        {**given["gpu001"]["checks"][0], "name": "state", "target": f"x{number}/1", "verdict": "fail"}
        for number in range(200)
    ]
    done = play(given)
    assert done.returncode != 0
    count = len([one for one in given["gpu001"]["checks"] if one["verdict"] == "fail"])
    assert f"and {count - 100} more" in words(done)
    assert "x50/1" in words(done)
    assert "x199/1" not in words(done)


def test_a_group_without_a_host_is_refused(play: Callable[..., Finished]) -> None:
    done = play(nodes(1), None, fabric_check_group="fabrik")
    assert done.returncode != 0
    assert "The group `fabrik` has no hosts in this inventory" in words(done)
