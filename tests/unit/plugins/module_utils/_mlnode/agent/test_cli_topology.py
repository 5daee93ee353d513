# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import copy
import json
import pathlib
import subprocess
import sys
from typing import Any, Callable

import pytest
from ansible_collections.mlnode.tuning.tests.unit.plugins.module_utils._mlnode.agent import test_cli
from ansible_collections.mlnode.tuning.tests.unit.plugins.module_utils._mlnode.topology.trees import (
    NET,
    Tree,
    rail,
    two_nodes,
)
from mlnode.agent import cli
from mlnode.agent import install as agent
from mlnode.report.topology import document
from mlnode.topology import read

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
    assert found == document(read.read(tree.host))


def test_an_empty_tree_is_no_error_and_every_part_of_it_is_told(
    tmp_path: pathlib.Path, capsys: Capture
) -> None:
    assert cli.main(["topology", "--root", str(tmp_path)]) == cli.OK
    assert "NOT KNOWN  /proc/cpuinfo does not exist" in capsys.readouterr().out

    assert cli.main(["topology", "--json", "--root", str(tmp_path)]) == cli.OK
    found = json.loads(capsys.readouterr().out)
    test_cli.schema("topology").validate(found)
    assert found["machine"]["kind"] == "unknown"


def test_a_root_that_is_not_there_is_wrong_usage(tmp_path: pathlib.Path, capsys: Capture) -> None:
    assert cli.main(["topology", "--root", str(tmp_path / "missing")]) == cli.USAGE
    assert "no such folder" in capsys.readouterr().err


def test_the_command_on_the_node_knows_it_too(tree: Tree, tmp_path: pathlib.Path) -> None:
    command = tmp_path / "mlnode"
    command.write_bytes(agent.build(sys.executable))
    command.chmod(0o755)

    done = subprocess.run(
        [str(command), "topology", "--json", "--root", str(tree.root)],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stderr) == (cli.OK, "")
    assert json.loads(done.stdout) == document(read.read(tree.host))


def test_every_field_of_the_schema_is_described() -> None:
    test_cli.test_every_field_of_a_schema_is_described_and_no_other_is_allowed("topology")


@pytest.mark.parametrize(
    "mutate",
    [
        lambda found: found.update(format=2),
        lambda found: found.update(extra=1),
        lambda found: found.pop("problems"),
        lambda found: found["machine"].update(kind="mainframe"),
        lambda found: found["machine"].update(product=""),
        lambda found: found["cpus"].update(online="0-"),
        lambda found: found["cpus"]["cores"][0].update(kind="fast"),
        lambda found: found["nodes"][0].update(number=-1),
        lambda found: found["nics"][0].update(kind="wireless"),
        lambda found: found["nics"][0].update(address="00000000:41:00.0:1"),
        lambda found: found["nics"][0].update(speed_mbit=-1),
        lambda found: found["nics"][0].update(node=-1),
        lambda found: found["rdma"][0]["ports"][0].pop("rate"),
        lambda found: found["gpus"][0].update(vendor="ASPEED"),
        lambda found: found["gpus"][0]["link"].update(width=0),
        lambda found: found["distances"]["0000:18:00.0"].update(rail0="NEAR"),
        lambda found: found["distances"].update(GPU0={}),
        lambda found: found["bindings"][0].update(omp_num_threads=0),
        lambda found: found["bindings"][0].update(distance="NEAR"),
        lambda found: found["pci"][0].update(path=[]),
        lambda found: found.update(warnings=[""]),
        lambda found: found.update(problems=[{"path": "/x"}]),
    ],
)
def test_the_schema_refuses_a_wrong_document(tree: Tree, mutate: Callable[[dict[str, Any]], object]) -> None:
    found = document(read.read(tree.host))
    wrong = copy.deepcopy(found)
    mutate(wrong)

    assert test_cli.schema("topology").is_valid(found)
    assert not test_cli.schema("topology").is_valid(wrong)
