# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import pathlib

import pytest
from ansible_collections.mlnode.tuning.tests.unit.plugins.module_utils._mlnode.topology.trees import (
    Tree,
    rail,
    two_nodes,
)
from mlnode.model.version import VERSION
from mlnode.report.topology import document
from mlnode.topology import hardware
from mlnode.topology.model import Cpu, Cpus, Machine, Topology


@pytest.fixture
def tree(tmp_path: pathlib.Path) -> Tree:
    return two_nodes(Tree(tmp_path / "tree"))


def test_a_node_as_plain_data(tree: Tree) -> None:
    rail(tree, 0x15, 1, 0)

    found = document(hardware.read(tree.host))

    assert (found["format"], found["mlnode"]) == (1, VERSION)
    assert found["machine"]["kind"] == "bare metal"
    assert found["nodes"][1] == {"number": 1, "cpus": "4-7", "memory_kbytes": 65536000, "distances": [20, 10]}
    assert found["distances"] == {"0000:18:00.0": {"rail0": "PIX"}}
    assert found["bindings"] == [
        {
            "gpu": "0000:18:00.0",
            "node": 1,
            "numactl": "numactl --cpunodebind=1 --membind=1",
            "omp_num_threads": 4,
            "nics": ["rail0"],
            "distance": "PIX",
        }
    ]
    assert found["gpus"][0]["link"] == {
        "speed": "32.0 GT/s PCIe",
        "width": 16,
        "max_speed": "32.0 GT/s PCIe",
        "max_width": 16,
        "degraded": False,
    }
    assert found["rdma"][0]["ports"] == [
        {"number": 1, "link_layer": "Ethernet", "state": "ACTIVE", "rate": "400 Gb/sec (4X NDR)"}
    ]
    assert found["pci"][-1]["path"] == ["0000:15:01.0", "0000:16:00.0", "0000:17:01.0", "0000:19:00.0"]
    assert found["problems"] == [{"path": "/proc/net/route", "what": "/proc/net/route does not exist"}]


def test_plain_data_survives_json(tree: Tree) -> None:
    rail(tree, 0x15, 1, 0)
    found = document(hardware.read(tree.host))

    assert json.loads(json.dumps(found)) == found


def test_what_nobody_says_is_null() -> None:
    found = document(Topology(Machine("unknown")))

    assert found["machine"] == {
        "kind": "unknown",
        "hypervisor": None,
        "container": None,
        "cloud": None,
        "product": None,
    }
    assert (
        found["cpus"]["sockets"]
        is found["cpus"]["physical_cores"]
        is found["cpus"]["threads_per_core"]
        is None
    )
    assert found["cpus"]["cores"] == found["gpus"] == found["warnings"] == []
    assert found["distances"] == {}


def test_a_core_is_told_once_with_all_of_its_threads() -> None:
    every = (
        Cpu(0, online=True, package=0, core=7, node=0, siblings=(0, 2), kind="performance"),
        Cpu(1, online=False),
        Cpu(2, online=True, package=0, core=7, node=0, siblings=(0, 2), kind="performance"),
        Cpu(3, online=True),
    )

    cpus = document(Topology(Machine("unknown"), Cpus(all=every)))["cpus"]

    assert cpus["cores"] == [{"cpus": "0,2", "socket": 0, "core": 7, "node": 0, "kind": "performance"}]
    assert (cpus["physical_cores"], cpus["threads_per_core"], cpus["hybrid"]) == (1, 2, True)
