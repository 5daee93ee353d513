# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import errno
import os
import pathlib

import pytest
from ansible_collections.mlnode.tuning.tests.unit.plugins.module_utils._mlnode.topology.trees import (
    BRIDGE,
    GEN5,
    GPU,
    NET,
    Tree,
    rail,
    two_nodes,
)
from mlnode.host.host import Host
from mlnode.model.errors import HostError
from mlnode.topology import hardware


def test_a_small_node_from_end_to_end(tree: Tree) -> None:
    two_nodes(tree)
    rail(tree, 0x15, 0, 0)
    rail(tree, 0x97, 1, 1)
    tree.put("/proc/net/route", "Iface\tDestination")

    found = hardware.read(tree.host)

    assert found.problems == ()
    assert found.warnings == ()
    assert [(gpu.address, gpu.node) for gpu in found.gpus] == [("0000:18:00.0", 0), ("0000:9a:00.0", 1)]
    assert {(one.gpu, one.nic): one.kind for one in found.distances} == {
        ("0000:18:00.0", "rail0"): "PIX",
        ("0000:18:00.0", "rail1"): "SYS",
        ("0000:9a:00.0", "rail0"): "SYS",
        ("0000:9a:00.0", "rail1"): "PIX",
    }
    assert [(one.nics, one.omp_num_threads) for one in found.bindings] == [(("rail0",), 4), (("rail1",), 4)]
    assert [nic.rail for nic in found.nics] == [0, 1]


def test_a_machine_of_which_nothing_is_known_says_so_part_by_part(tmp_path: pathlib.Path) -> None:
    found = hardware.read(Host(str(tmp_path), hardware.MOUNTS))

    assert found.machine.kind == "unknown"
    assert [problem.path for problem in found.problems] == [
        "/proc/cpuinfo",
        "/sys/devices/system/cpu/online",
        "/sys/devices/system/node/online",
        "/sys/devices/system/cpu/possible",
        "/sys/devices/system/cpu/present",
        "/sys/bus/pci/devices",
        "/sys/class/net",
    ]
    assert all(problem.what == f"{problem.path} does not exist" for problem in found.problems)
    assert found.bindings == found.warnings == found.nics == ()


def files(tree: Tree) -> list[str]:
    return [
        "/" + os.path.relpath(os.path.join(folder, name), tree.root)
        for folder, folders, names in os.walk(tree.root)
        for name in (*folders, *names)
    ]


@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO])
def test_no_part_that_fails_takes_the_others_along(tree: Tree, number: int) -> None:
    two_nodes(tree)
    rail(tree, 0x15, 0, 0)
    for name in ("/proc/net/route", "/run/systemd/container"):
        tree.put(name, "")
    whole = hardware.read(tree.host)
    assert whole.problems == ()

    # What the kernel answers with an error where it does not apply
    quiet = (
        "speed",
        "dev_port",
        "operstate",
        "address",
        "rate",
        "link_speed",
        "link_width",
        "_id",
        "phys_port_name",
    )
    told = 0
    for path in files(tree):
        found = hardware.read(tree.refusing({path: number}))
        expected = any(path in problem.what for problem in found.problems)
        told += expected
        if found != whole and not path.endswith(quiet):
            assert found.problems, path
        assert len(found.problems) <= 4, path
    assert told > 30


def test_the_topology_is_read_once_per_run(tree: Tree) -> None:
    two_nodes(tree)

    first = hardware.topology(tree.host)
    two_more = tree.pci("pci0000:15/0000:15:00.0", NET)
    tree.net("eth0", two_more)

    assert hardware.topology(tree.host) is first
    tree.host.forget()
    assert [nic.name for nic in hardware.topology(tree.host).nics] == ["eth0"]


def test_reading_writes_nothing_and_runs_nothing(tree: Tree) -> None:
    two_nodes(tree)
    rail(tree, 0x15, 0, 0)
    before = sorted(files(tree))

    hardware.read(tree.host)

    assert sorted(files(tree)) == before
    with pytest.raises(HostError, match="captured tree"):
        tree.host.run(["nvidia-smi"])


def test_links_that_lead_in_a_circle_are_told(tree: Tree) -> None:
    two_nodes(tree)
    tree.link("/sys/bus/pci/devices", "/sys/bus/pci/devices")
    tree.put("/sys/class/net/.keep", "")

    found = hardware.read(tree.host)

    assert any("/sys/bus/pci/devices" in problem.what for problem in found.problems)
    assert found.pci == ()


def test_hostile_names_end_in_no_traceback(tree: Tree) -> None:
    two_nodes(tree)
    folder = tree.pci("pci0000:15/0000:15:00.0", GPU, "10de:2330", 0)
    for name in ("\udcff\x1b[31m", "eth²", "9" * 200):
        tree.net(name, folder)
        tree.rdma(name, folder)
    tree.pci("pci0000:15/0000:16:00.0", BRIDGE, link=GEN5)
    tree.link("/sys/bus/pci/devices/..x", "/etc")

    found = hardware.read(tree.host)

    assert {nic.name for nic in found.nics} == {"\udcff\x1b[31m", "eth²", "9" * 200}


def test_this_machine_can_be_read() -> None:
    found = hardware.read(Host())

    assert found.cpus.online
    assert found.machine.kind in ("bare metal", "virtual machine", "container", "unknown")


def test_a_processing_accelerator_of_an_unknown_vendor_gets_a_warning(tree: Tree) -> None:
    two_nodes(tree)
    rail(tree, 0x15, 0, 0)
    for slot, ids in (("01", "10ee:5000"), ("02", "10ee:5000"), ("03", "1eff:1250")):
        tree.pci(f"pci0000:40/0000:40:{slot}.0", "0x120000", ids, 0)
    tree.put("/proc/net/route", "Iface\tDestination")

    topology = hardware.read(tree.host)

    assert [(gpu.vendor, gpu.address) for gpu in topology.gpus] == [
        ("NVIDIA", "0000:18:00.0"),
        ("Rebellions", "0000:40:03.0"),
    ]
    (warning,) = [text for text in topology.warnings if "processing accelerator" in text]
    assert warning.startswith("0000:40:01.0 (10ee:5000), 0000:40:02.0 (10ee:5000): a processing accelerator")
