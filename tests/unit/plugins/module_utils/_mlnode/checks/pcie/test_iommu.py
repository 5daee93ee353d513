# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import errno
import os
import shutil

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases, fabric_tree
from ansible_collections.mlnode.tuning.tests.unit.fabric_tree import GPU, NIC, bad, named, run, virtual
from ansible_collections.mlnode.tuning.tests.unit.plugins.module_utils._mlnode.topology.trees import Tree

GROUP = "/sys/kernel/iommu_groups/16/type"
LINK = f"/sys/bus/pci/devices/{NIC}/iommu_group"


def switched_off(tree: Tree) -> None:
    shutil.rmtree(tree.root / "sys/class/iommu/dmar0")
    for nic in (NIC, "0000:94:00.0"):
        os.unlink(tree.host.real(f"/sys/bus/pci/devices/{nic}/iommu_group", follow=False))


@pytest.mark.parametrize("word", ["DMA", "DMA-FQ"])
def test_translated(fabric: Tree, word: str) -> None:
    fabric.put(GROUP, word)
    found = run(fabric.host)
    assert bad(found) == {("iommu", "mlx5_0"): "warn"}, "jobs run with it, and nothing else was asked for"
    check = named(found, "iommu")["mlx5_0"]
    assert check.found == f"{word} (booted with intel_iommu=on iommu=pt)"
    assert (check.expected, check.source) == ("off or identity", GROUP)
    assert "iommu=pt" in check.advice


@pytest.mark.parametrize("gpus", [True, False])
def test_translated_fails_where_something_else_is_asked_for(fabric: Tree, gpus: bool) -> None:
    fabric.put(GROUP, "DMA")
    for gpu in () if gpus else (GPU, "0000:93:00.0"):
        os.unlink(str(fabric.root) + f"/sys/bus/pci/devices/{gpu}")
    assert named(run(fabric.host), "iommu")["mlx5_0"].verdict == "warn"
    for declared in ("identity", "off", "auto"):
        assert named(run(fabric.host, {"iommu": declared}), "iommu")["mlx5_0"].verdict == "fail"


def menu(fabric: Tree, *words: str, running: str = "ro quiet") -> None:
    """Translated, and GRUB starts kernels with these words."""
    fabric.put(GROUP, "DMA-FQ")
    fabric_tree.menu(fabric, *words, running=running)


@pytest.mark.parametrize("declared", [None, "identity", "auto"])
@pytest.mark.parametrize("word", ["iommu=pt", "iommu=noforce,pt", "iommu.passthrough=1"])
def test_what_the_next_boot_brings_is_pending(fabric: Tree, word: str, declared: str | None) -> None:
    menu(fabric, word, word)
    check = named(run(fabric.host, {"iommu": declared}), "iommu")["mlx5_0"]
    assert (check.verdict, check.advice) == ("pending", "reboot")
    assert check.found == f"DMA-FQ; the next boot has {word} (/boot/grub/grub.cfg:3)"


@pytest.mark.parametrize("words", [("iommu=pt", "quiet"), ("iommu=on", "iommu=on"), ()])
def test_one_kernel_without_it_is_no_promise(fabric: Tree, words: tuple[str, ...]) -> None:
    menu(fabric, *words)
    assert named(run(fabric.host), "iommu")["mlx5_0"].verdict == "warn"


def test_what_did_not_help_at_this_boot_is_not_pending(fabric: Tree) -> None:
    menu(fabric, "iommu=pt", running="iommu=pt")
    assert named(run(fabric.host), "iommu")["mlx5_0"].verdict == "warn"


def test_off_is_pending_only_by_its_own_words(fabric: Tree) -> None:
    menu(fabric, "iommu=pt")
    assert named(run(fabric.host, {"iommu": "off"}), "iommu")["mlx5_0"].verdict == "fail"
    menu(fabric, "intel_iommu=off")
    assert named(run(fabric.host, {"iommu": "off"}), "iommu")["mlx5_0"].verdict == "pending"


@cases.table
def test_off_or_identity(fabric: Tree, declared: object, on: str, off: str) -> None:
    assert named(run(fabric.host, {"iommu": declared}), "iommu")["mlx5_0"].verdict == on
    switched_off(fabric)
    check = named(run(fabric.host, {"iommu": declared}), "iommu")["mlx5_0"]
    assert (check.verdict, check.source) == (off, "/sys/class/iommu")


def test_no_group_beside_an_iommu_is_no_proof(fabric: Tree) -> None:
    os.unlink(fabric.host.real(LINK, follow=False))
    check = named(run(fabric.host), "iommu")["mlx5_0"]
    assert check.verdict == "unknown"
    assert check.found == f"dmar0 in use, and {LINK} does not exist"


def test_a_kernel_without_iommu(fabric: Tree) -> None:
    switched_off(fabric)
    os.rmdir(fabric.root / "sys/class/iommu")
    assert named(run(fabric.host), "iommu")["mlx5_0"].verdict == "skip"
    assert named(run(fabric.host, {"iommu": "off"}), "iommu")["mlx5_0"].verdict == "skip"


@pytest.mark.parametrize("word", ["", "blocked", "unmanaged", "identity DMA", "IDENTITY", "\xff"])
def test_other_words(fabric: Tree, word: str) -> None:
    fabric.put(GROUP, word)
    check = named(run(fabric.host), "iommu")["mlx5_0"]
    assert check.verdict == "unknown"
    assert GROUP in check.found


def test_a_link_to_somewhere_else(fabric: Tree) -> None:
    real = fabric.host.real(LINK, follow=False)
    os.unlink(real)
    os.symlink("../../../../etc", real)
    check = named(run(fabric.host), "iommu")["mlx5_0"]
    assert (check.verdict, check.found) == ("unknown", f"{LINK} leads to 'etc'")


def test_unreadable(fabric: Tree) -> None:
    assert "EACCES" in named(run(fabric.refusing({GROUP: errno.EACCES})), "iommu")["mlx5_0"].found
    os.unlink(fabric.host.real(LINK, follow=False))
    found = named(run(fabric.refusing({"/sys/class/iommu": errno.EACCES})), "iommu")["mlx5_0"]
    assert (found.verdict, "EACCES" in found.found) == ("unknown", True)


def test_a_virtual_machine(fabric: Tree) -> None:
    virtual(fabric)
    fabric.put(GROUP, "DMA")
    assert named(run(fabric.host), "iommu")["mlx5_0"].verdict == "skip"
    assert named(run(fabric.host, {"iommu": "identity"}), "iommu")["mlx5_0"].verdict == "fail"


def test_without_a_command_line_the_group_still_decides(fabric: Tree) -> None:
    os.unlink(fabric.root / "proc/cmdline")
    assert named(run(fabric.host), "iommu")["mlx5_0"].found == "identity"
