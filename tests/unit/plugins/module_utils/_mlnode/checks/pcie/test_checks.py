# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""All checks of PCIe, GPUDirect and memlock together: on a node as it should be, and without each file."""

from __future__ import annotations

import errno
import os
import pathlib
import re
import shutil

import pytest
from ansible_collections.mlnode.tuning.tests.fixtures import build
from ansible_collections.mlnode.tuning.tests.fixtures.machines import MACHINES
from ansible_collections.mlnode.tuning.tests.unit.fabric_tree import (
    DROP_IN,
    GPU,
    NIC,
    ROOT,
    TO_GPU,
    TO_NIC,
    UPSTREAM,
    bad,
    files,
    healthy,
    named,
    run,
    virtual,
)
from ansible_collections.mlnode.tuning.tests.unit.plugins.module_utils._mlnode.topology.trees import Tree
from mlnode.checks.model import Check
from mlnode.checks.pcie import checks as pcie
from mlnode.checks.rdma import gpudirect, memlock
from mlnode.host.host import Host
from mlnode.topology import hardware

BUS = "/sys/bus/pci/devices"


@pytest.fixture
def node(tmp_path: pathlib.Path) -> Tree:
    return healthy(Tree(tmp_path / "node"))


def passed(found: list[Check]) -> set[tuple[str, str]]:
    """Name and target; a GPU by its address, as its number changes where another one is gone."""
    return {(one.name, re.sub(r"GPU[0-9]+ ", "", one.target)) for one in found if one.verdict == "pass"}


def test_a_healthy_node_passes_everything(node: Tree) -> None:
    found = run(node.host)
    assert bad(found) == {}
    assert {one.name for one in found} == {*pcie.NAMES, *gpudirect.NAMES, *memlock.NAMES}
    assert not [one for one in found if one.advice]


def test_a_check_has_one_name_and_target(node: Tree) -> None:
    found = run(node.host)
    for name in {one.name for one in found}:
        named(found, name)


STANDS_ON = [
    *[("pcie_link", "mlx5_0", f"{BUS}/{NIC}/{file}") for file in (
        "current_link_speed", "current_link_width", "max_link_speed", "max_link_width")],
    ("pcie_link", f"PCIe switch {UPSTREAM}", f"{BUS}/{UPSTREAM}/current_link_width"),
    *[("max_payload", "mlx5_0", f"{BUS}/{one}/config") for one in (ROOT, UPSTREAM, TO_NIC, NIC)],
    *[(name, "mlx5_0", f"{BUS}/{NIC}/config") for name in ("max_read_request", "relaxed_ordering", "ats")],
    ("numa_locality", "mlx5_0", f"{BUS}/{NIC}/numa_node"),
    ("numa_locality", "mlx5_0", "/sys/devices/system/node/online"),
    ("irq_locality", "mlx5_0", "/proc/irq/118/effective_affinity_list"),
    ("irq_locality", "mlx5_0", f"{BUS}/{NIC}/numa_node"),
    *[("acs", f"PCIe bridge {one}", f"{BUS}/{one}/config") for one in (UPSTREAM, TO_GPU, TO_NIC)],
    ("iommu", "mlx5_0", "/sys/kernel/iommu_groups/16/type"),
    ("iommu", "mlx5_0", f"{BUS}/{NIC}/iommu_group"),
    ("gpudirect", "NVIDIA GPUs", "/proc/sys/kernel/osrelease"),
    ("memlock", "slurmd", "/proc/900/limits"),
]  # fmt: skip


#: Whoever may look into a folder may read the links in it; nodes are found by their folders, too.
NO_WAYS = {
    ("unreadable", f"{BUS}/{NIC}/iommu_group"),
    ("removed", "/sys/devices/system/node/online"),
}
WAYS = [
    (how, *one)
    for how in ("removed", "unreadable", "emptied", "garbled")
    for one in STANDS_ON
    if (how, one[2]) not in NO_WAYS
]


@pytest.mark.parametrize("how, name, target, path", WAYS)
def test_no_evidence_no_pass(node: Tree, how: str, name: str, target: str, path: str) -> None:
    host = node.host
    real = host.real(path, follow=False)
    if how == "removed":
        os.unlink(real)
    elif how == "unreadable":
        host = node.refusing({path: errno.EACCES, real[len(str(node.root)) :]: errno.EACCES})
    elif os.path.islink(real):
        os.unlink(real)
        os.symlink("../nowhere", real)
    else:
        pathlib.Path(real).write_bytes(b"" if how == "emptied" else b"\xff what\x00" * 700)
    found = named(run(host), name).get(target) or named(run(host), name)["node"]
    assert found.verdict in ("unknown", "skip")
    assert found.found
    if how == "unreadable":
        assert "EACCES" in found.found or name == "irq_locality"


def test_each_file_in_turn(node: Tree) -> None:
    """Nothing raises, and nothing passes that did not before."""
    before = passed(run(node.host))
    for path in files(node):
        real = str(node.root) + path
        if os.path.islink(real):
            target = os.readlink(real)
            os.unlink(real)
            after = passed(run(node.host))
            os.symlink(target, real)
        else:
            content = pathlib.Path(real).read_bytes()
            os.unlink(real)
            after = passed(run(node.host))
            pathlib.Path(real).write_bytes(content)
        assert after <= before, path
    assert passed(run(node.host)) == before


def test_a_folder_that_nobody_may_list(node: Tree) -> None:
    for path in ("/proc", "/sys/class/iommu", "/etc/systemd/system.conf.d", f"{BUS}/{NIC}/msi_irqs", BUS):
        assert passed(run(node.refusing({path: errno.EACCES}))) <= passed(run(node.host))


def test_only_root_reads_configuration_space(node: Tree) -> None:
    for path in pathlib.Path(node.root, "sys/bus/pci/devices").glob("*/config"):
        path.write_bytes(path.read_bytes()[:64])
    found = run(node.host)
    unknown = {name for (name, _target), verdict in bad(found).items() if verdict == "unknown"}
    assert unknown == {"max_payload", "max_read_request", "relaxed_ordering", "ats", "acs"}
    assert all("root" in one.found for one in found if one.name in unknown)


def test_a_virtual_machine(node: Tree) -> None:
    virtual(node)
    skipped = {name for (name, _target), verdict in bad(run(node.host)).items() if verdict == "skip"}
    assert skipped == {"max_payload", "max_read_request", "relaxed_ordering", "ats", "acs", "iommu"}


def test_a_node_without_anything(tmp_path: pathlib.Path) -> None:
    found = run(Tree(tmp_path / "empty").host)
    assert {one.name for one in found} == {*pcie.NAMES, *gpudirect.NAMES, *memlock.NAMES}
    assert {str(one.verdict) for one in found} == {"skip"}
    assert all(one.found for one in found)


def test_soft_roce_has_no_function(tmp_path: pathlib.Path) -> None:
    tree = Tree(tmp_path / "soft")
    tree.rdma("rxe0")
    assert {str(one.verdict) for one in run(tree.host)} == {"skip"}


def test_a_node_without_gpus(node: Tree) -> None:
    for bus in ("10", "90"):
        shutil.rmtree(node.host.real(f"{BUS}/0000:{bus[0]}3:00.0"))
        os.unlink(str(node.root) + f"{BUS}/0000:{bus[0]}3:00.0")
    found = run(node.host)
    assert bad(found) == {
        ("gpu_distance", "node"): "skip",
        ("acs", "node"): "skip",
        ("gpudirect", "node"): "skip",
    }


@pytest.mark.parametrize("name", MACHINES)
def test_trees_of_whole_machines_raise_nothing(name: str) -> None:
    found = run(Host(build.tree(name), hardware.MOUNTS))
    assert all(one.found for one in found)


def test_the_drop_in_that_the_tree_has(node: Tree) -> None:
    assert named(run(node.host), "memlock_default")["systemd"].source == f"{DROP_IN}:2"


def test_a_gpu_is_called_by_number_and_address(node: Tree) -> None:
    assert next(iter(named(run(node.host), "gpu_distance"))) == f"GPU0 ({GPU})"
