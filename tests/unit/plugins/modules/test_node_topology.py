# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pathlib
from typing import Any

import pytest
import yaml
from ansible_collections.mlnode.tuning.plugins.module_utils import check_module
from ansible_collections.mlnode.tuning.plugins.modules import node_topology
from ansible_collections.mlnode.tuning.tests.unit.plugins.module_utils._mlnode.topology.trees import (
    Tree,
    rail,
    two_nodes,
)
from ansible_collections.mlnode.tuning.tests.unit.plugins.modules.running import Make, Runner
from mlnode.host.host import Host
from mlnode.report.topology import document
from mlnode.topology import hardware


@pytest.fixture
def tree(tmp_path: pathlib.Path) -> Tree:
    node = two_nodes(Tree(tmp_path / "tree"))
    rail(node, 0x15, 0, 0)
    return node


@pytest.fixture
def topology(tree: Tree, running: Make, monkeypatch: pytest.MonkeyPatch) -> Runner:
    monkeypatch.setattr(check_module, "Host", lambda mounts: Host(str(tree.root), mounts))
    return running(node_topology)


@pytest.mark.parametrize("check", [False, True])
def test_the_topology_is_told_and_nothing_is_changed(tree: Tree, topology: Runner, check: bool) -> None:
    before = sorted(tree.root.rglob("*"))

    done = topology.ok(check)

    assert not done.changed
    assert done.warnings == []
    assert done.result["topology"] == document(hardware.read(tree.host))
    assert done.result["topology"]["distances"] == {"0000:18:00.0": {"rail0": "PIX"}}
    assert sorted(tree.root.rglob("*")) == before


def test_what_cannot_be_read_is_told_and_does_not_fail(tree: Tree, topology: Runner) -> None:
    (tree.root / "sys/devices/system/cpu/online").unlink()

    found = topology.ok().result["topology"]

    assert {"path": "/proc/net/route", "what": "/proc/net/route does not exist"} in found["problems"]
    assert found["cpus"]["online"], "by the folders of the CPUs"


def fields(value: Any) -> Any:
    """The names of all fields, level by level; of a list those of its first entry."""
    if isinstance(value, list):
        return fields(value[0]) if value else None
    return {key: fields(item) for key, item in value.items()} if isinstance(value, dict) else None


def test_the_documented_fields_are_those_it_has(topology: Runner) -> None:
    [(_name, documented)] = yaml.safe_load(node_topology.RETURN).items()
    found = topology.ok().result["topology"]

    assert [*documented["contains"]] == [*found]
    types = {"str": str, "int": int, "list": list, "dict": dict}
    for name, about in documented["contains"].items():
        assert isinstance(found[name], types[about["type"]]), name
        assert isinstance(about["sample"], types[about["type"]]), name
        if name not in ("distances", "problems"):
            assert fields(about["sample"]) == fields(found[name]), name
