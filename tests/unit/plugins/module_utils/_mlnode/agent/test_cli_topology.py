# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import pathlib

import pytest
from ansible_collections.mlnode.tuning.tests.unit.plugins.module_utils._mlnode.agent import test_cli
from ansible_collections.mlnode.tuning.tests.unit.plugins.module_utils._mlnode.topology.trees import (
    NET,
    Tree,
    rail,
    two_nodes,
)
from mlnode.agent import cli
from mlnode.report.topology import document
from mlnode.topology import hardware

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def tree(tmp_path: pathlib.Path) -> Tree:
    node = two_nodes(Tree(tmp_path / "tree"))
    rail(node, 0x15, 0, 0)
    node.net("eth0", node.pci("pci0000:00/0000:00:03.0", NET))
    node.rdma("rxe0", parent="eth0")
    node.put("/proc/net/route", "Iface")
    return node


def test_the_topology_is_shown(tree: Tree, capsys: Capture) -> None:
    assert cli.main(["topology", "--root", str(tree.root)]) == cli.OK

    out, err = capsys.readouterr()
    assert err == ""
    assert out.startswith("MACHINE  bare metal\nCPUS     8 online (0-7): 2 sockets")
    assert "GPU0  rail0 mlx5_0  PIX  4                numactl --cpunodebind=0 --membind=0\n" in out


def test_json_is_what_its_schema_says(tree: Tree, capsys: Capture) -> None:
    assert cli.main(["topology", "--json", "--root", str(tree.root)]) == cli.OK

    found = json.loads(capsys.readouterr().out)
    test_cli.schema("topology").validate(found)
    assert found == document(hardware.read(tree.host))


def test_an_empty_tree_is_no_error_and_every_part_of_it_is_told(
    tmp_path: pathlib.Path, capsys: Capture
) -> None:
    assert cli.main(["topology", "--root", str(tmp_path)]) == cli.OK
    assert "NOT KNOWN  /proc/cpuinfo does not exist" in capsys.readouterr().out

    assert cli.main(["topology", "--json", "--root", str(tmp_path)]) == cli.OK
    found = json.loads(capsys.readouterr().out)
    test_cli.schema("topology").validate(found)
    assert found["machine"]["kind"] == "unknown"
