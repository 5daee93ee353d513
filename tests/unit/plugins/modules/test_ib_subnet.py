# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module on a captured subnet; each check is tested beside the library."""

from __future__ import annotations

import pathlib

import pytest
import yaml
from ansible_collections.mlnode.tuning.plugins.module_utils import check_module
from ansible_collections.mlnode.tuning.plugins.modules import ib_subnet
from ansible_collections.mlnode.tuning.tests.unit.plugins.modules.running import Make, Runner
from ansible_collections.mlnode.tuning.tests.unit.subnet_machine import SubnetMachine

FILE = "/var/lib/mlnode/ib-subnet.cache"
WHOLE = {"switches": 4, "hcas": 4, "routers": 0}
CHECKS = ("manager", "topology", "links", "leaf_rails", "uplinks", "errors", "sharp", "balance", "baseline")


@pytest.fixture
def node(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> SubnetMachine:
    made = SubnetMachine(str(tmp_path / "subnet"))
    monkeypatch.setattr(check_module, "Host", lambda mounts: made)
    return made


@pytest.fixture
def check(running: Make, node: SubnetMachine) -> Runner:
    return running(ib_subnet)


def test_all_is_well(check: Runner) -> None:
    first = check.ok()
    assert first.result["summary"] == {"pass": 4, "skip": 2}
    done = check.ok(fail_on="warn")
    assert not done.changed
    assert done.result["summary"] == {"pass": 5, "skip": 1}
    assert done.result["subnet"] == WHOLE
    assert done.result["failures"] == done.warnings == []


def test_what_is_wrong_fails_with_what_to_do(check: Runner, node: SubnetMachine) -> None:
    check.ok()
    node.state = "host"
    done = check()
    assert done.rc == 1
    title, line = done.result["msg"].splitlines()
    assert title == "ib_subnet: 1 of 6 checks are not as expected:"
    assert line.startswith("leaf2/1 - gpu003 mlx5_0/1: topology fail: ")
    assert line.endswith("if the change was meant, accept it with baseline: reset")
    assert check.ok(fail_on="never").result["summary"] == {"fail": 1, "pass": 4, "skip": 1}
    assert check.ok(baseline="reset").result["subnet"]["hcas"] == 3
    assert check.ok(fail_on="warn").result["summary"] == {"pass": 5, "skip": 1}


@pytest.mark.parametrize("check_mode", [True, False])
def test_the_subnet_is_kept_by_root_and_not_in_check_mode(
    check: Runner, node: SubnetMachine, check_mode: bool
) -> None:
    before = node.tree()
    node.superuser = check_mode
    check.ok(check=check_mode)
    assert node.tree() == before
    node.superuser = True
    check.ok()
    assert {*node.tree()} - {*before} >= {FILE}


def test_the_traffic_between_two_tasks(check: Runner, node: SubnetMachine) -> None:
    node.state, node.traffic = "uplinks", ["first", "half"]
    before = check.ok(scope="uplinks").result
    assert [one["name"] for one in before["checks"]] == ["balance"]
    # So soon the links cannot have carried that much.
    assert "more than the link can carry" in check.msg(scope="uplinks", since=before["traffic"])
    for reading in before["traffic"].values():
        reading["begun"] -= 100
    done = check(scope="uplinks", since=before["traffic"])
    assert done.rc == 1
    assert "leaf1: balance fail: up: the busiest is" in done.result["msg"]
    assert done.result["traffic"] == {}


def test_leaves_against_what_they_were_built_with(check: Runner, node: SubnetMachine) -> None:
    node.state = "uplinks"
    assert "uplinks" not in str(check.ok(fail_on="never", oversubscription=0.5).result["failures"])
    failing = check(oversubscription=0.4).result["failures"]
    assert any(line.startswith("leaf1: uplinks fail: 20 Gb/s down, 40 up (0.5:1)") for line in failing)


def test_every_check_is_documented() -> None:
    text = str(yaml.safe_load(ib_subnet.RETURN)["checks"])
    assert [name for name in CHECKS if f"V({name})" not in text] == []
