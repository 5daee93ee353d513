# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module on a simulated subnet; what each check says is tested beside the library."""

from __future__ import annotations

import pathlib
from dataclasses import replace
from typing import Any

import pytest
import yaml
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode import subnet_check
from ansible_collections.mlnode.tuning.plugins.module_utils.mlnode.checks.model import Verdict
from ansible_collections.mlnode.tuning.plugins.modules import ib_subnet
from ansible_collections.mlnode.tuning.tests.fixtures import infiniband
from ansible_collections.mlnode.tuning.tests.unit.plugins.modules.running import Make, Runner
from ansible_collections.mlnode.tuning.tests.unit.subnet_machine import SubnetMachine

FILE = "/var/lib/mlnode/ib-subnet.json"
WHOLE = {
    "port": "mlx5_0/1",
    "manager": "0x946dae0300d40041",
    "switches": 4,
    "hcas": 4,
    "routers": 0,
    "cables": 8,
}


@pytest.fixture
def node(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> SubnetMachine:
    made = SubnetMachine(str(tmp_path / "subnet"), infiniband.ndr())
    monkeypatch.setattr(ib_subnet, "Host", lambda mounts: made)
    return made


@pytest.fixture
def check(running: Make, node: SubnetMachine) -> Runner:
    return running(ib_subnet)


def test_all_is_well(check: Runner) -> None:
    first = check.ok()
    assert first.result["summary"] == {"pass": 2, "skip": 2}
    done = check.ok(fail_on="warn")
    assert not done.changed
    assert done.result["summary"] == {"pass": 4}
    assert done.result["subnet"] == WHOLE
    assert done.result["failures"] == done.warnings == []


def test_what_is_wrong_fails_with_what_to_do(check: Runner, node: SubnetMachine) -> None:
    check.ok()
    node.subnet = replace(node.subnet.without("gpu004 mlx5_0"), could={("leaf1", 1): "Could be 4X"})
    done = check()
    assert done.rc == 1
    title, *lines = done.result["msg"].splitlines()
    assert title == "ib_subnet: the subnet is not as it should be:"
    assert [line.partition("; ")[0] for line in lines] == [
        "gpu001 mlx5_0/1 - leaf1/1: links fail: 4X 106.25 Gbps Active/LinkUp (expected 4X)",
        "gpu004 mlx5_0: topology fail: the HCA is gone from leaf2/2 (expected is there)",
    ]
    assert lines[1].endswith("if it was meant, accept it with baseline: reset")
    assert check.ok(fail_on="never").result["summary"] == {"fail": 2, "pass": 2}
    assert "links fail" in check.msg(baseline="reset")
    node.subnet = replace(node.subnet, could={})
    assert check.ok(fail_on="warn").result["subnet"]["hcas"] == 3


def test_what_is_new_warns(check: Runner, node: SubnetMachine) -> None:
    whole = node.subnet
    node.subnet = whole.without("gpu004 mlx5_0")
    check.ok()
    node.subnet = whole
    [warning] = check.ok().warnings
    assert warning.startswith("gpu004 mlx5_0: topology warn: new, at leaf2/2")
    assert "topology warn" in check.msg(fail_on="warn")


def test_what_cannot_be_looked_at_fails(check: Runner, node: SubnetMachine) -> None:
    node.missing |= {"sminfo", "ibnetdiscover"}
    msg = check.msg()
    assert "topology unknown: cannot run ibnetdiscover: ENOENT" in msg
    assert "install infiniband-diags" in msg
    node.without_umad()
    assert "access unknown" in check.msg()
    assert check.ok(fail_on="never").result["subnet"]["port"] == ""


def test_of_many_eight_are_named(check: Runner, node: SubnetMachine) -> None:
    check.ok()
    for number in range(1, 5):
        node.subnet = node.subnet.without(f"gpu00{number} mlx5_0") if number < 4 else node.subnet
    node.subnet = replace(
        node.subnet,
        could=dict.fromkeys([end for cable in node.subnet.cables for end in cable], "Could be 8X"),
    )
    node.subnet = replace(
        node.subnet, counters={("leaf2", 2): {"LinkDownedCounter": 99}, ("leaf1", 5): {"PortRcvErrors": 1}}
    )
    msg = check.msg(fail_on="warn").splitlines()
    assert len(msg) == 1 + ib_subnet.NAMED + 1
    assert msg[-1] == "and 2 more"


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


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"port": "mlx5_0; rm"}, "ib_subnet: port: 'mlx5_0; rm' is no device or port"),
        ({"timeout": 0}, "ib_subnet: timeout: 0 is not between 1 and 3600 seconds"),
        ({"baseline": "new"}, "value of baseline must be one of: keep, reset"),
        ({"fail_on": "always"}, "value of fail_on must be one of: fail, warn, never"),
    ],
)
def test_what_is_wrong_is_said(check: Runner, arguments: dict[str, Any], words: str) -> None:
    assert check.msg(**arguments).startswith(words)


def test_the_documented_fields_are_those_it_has(check: Runner) -> None:
    documented = yaml.safe_load(ib_subnet.RETURN)
    done = check.ok()
    assert {*documented} <= {*done.result}
    assert [*documented["checks"]["contains"]] == [*done.result["checks"][0]]
    assert {*documented["subnet"]["sample"]} == {*WHOLE}
    text = str(documented["checks"])
    for word in (*Verdict, *subnet_check.NAMES):
        assert f"V({word})" in text, word
