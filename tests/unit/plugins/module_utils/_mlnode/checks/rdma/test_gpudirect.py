# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import errno
import os

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.fabric_tree import CLOSED, GPU, NIC, named, run
from ansible_collections.mlnode.tuning.tests.unit.plugins.module_utils._mlnode.topology.trees import Tree
from mlnode.checks.model import Check
from mlnode.checks.rdma import gpudirect
from mlnode.drivers.gpu import nvidia_smi

VERSION, RELEASE = nvidia_smi.DRIVER, gpudirect.RELEASE
MODULES_DEP = "/lib/modules/6.8.0-60-generic/modules.dep"
P2P = f"/sys/bus/pci/devices/{NIC}/p2p"


def only(tree: Tree, **expect: object) -> Check:
    (check,) = named(run(tree.host, expect), "gpudirect").values()
    return check


def registered(tree: Tree, name: str) -> None:
    tree.put(f"{gpudirect.PEERS}/{name}/version", "1.0")


def built(tree: Tree, line: str) -> None:
    """The modules of the running kernel, as depmod(8) lists them."""
    tree.put(RELEASE, "6.8.0-60-generic")
    tree.put(MODULES_DEP, line)


@cases.table
def test_what_files_say(
    fabric: Tree, files: dict[str, str], declared: str | None, verdict: str, found: str
) -> None:
    for path, text in files.items():
        fabric.put(path, text)
    check = only(fabric, gpudirect=declared)
    assert (check.verdict, check.target) == (verdict, "NVIDIA GPUs")
    assert found in check.found
    assert len(check.found) < 400
    assert bool(check.advice) is (verdict in ("warn", "fail"))


def test_a_module_that_the_next_boot_loads_is_pending(fabric: Tree) -> None:
    fabric.put(VERSION, CLOSED)
    fabric.put("/etc/modules-load.d/mlnode-modules.fabric.conf", "ib_uverbs\nnvidia_peermem")
    fabric.put("/proc/cmdline", "ro quiet")
    built(fabric, "updates/nvidia_peermem.ko: updates/ib_core.ko")
    assert only(fabric, gpudirect="peermem").verdict == "fail", "beside this RDMA core it does not load"
    fabric.put("/sys/kernel/mm/memory_peers/other/version", "1.0\n")
    for declared in (None, "auto", "peermem"):
        check = only(fabric, gpudirect=declared)
        assert check.verdict == "pending"
        assert (
            "nvidia_peermem is not loaded, and /etc/modules-load.d/mlnode-modules.fabric.conf:2 lists it"
            in (check.found)
        )
        assert check.advice.startswith("modprobe nvidia_peermem, or reboot")
    assert only(fabric, gpudirect="dmabuf").verdict == "fail", "which the module does not bring"


@cases.table
def test_a_module_that_the_next_boot_does_not_load_is_not_pending(fabric: Tree, path: str, text: str) -> None:
    fabric.put(VERSION, CLOSED)
    fabric.put("/etc/modules-load.d/site.conf", "nvidia_peermem")
    fabric.put("/sys/kernel/mm/memory_peers/other/version", "1.0\n")
    fabric.put("/proc/cmdline", "ro quiet")
    built(fabric, "updates/nvidia_peermem.ko: updates/ib_core.ko")
    assert only(fabric, gpudirect="peermem").verdict == "pending"
    fabric.put(path, text)
    assert only(fabric, gpudirect="peermem").verdict == "fail"


def test_efas_module_needs_no_peer_memory_of_the_rdma_core(fabric: Tree) -> None:
    fabric.put(VERSION, CLOSED)
    fabric.put("/etc/modules-load.d/site.conf", "efa_nv_peermem")
    fabric.put("/proc/cmdline", "ro quiet")
    built(fabric, "updates/efa_nv_peermem.ko: updates/nvidia.ko")
    assert only(fabric, gpudirect="peermem").verdict == "pending"


def test_no_driver(fabric: Tree) -> None:
    os.unlink(fabric.host.real(VERSION))
    assert only(fabric).verdict == "unknown"  # a driver holds the GPUs, and its file is not there
    for gpu in (GPU, "0000:93:00.0"):
        os.unlink(fabric.host.real(f"/sys/bus/pci/devices/{gpu}/driver", follow=False))
    check = only(fabric)
    assert check.verdict == "warn"
    assert "no driver of NVIDIA is loaded" in check.found


@pytest.mark.parametrize("path", [VERSION, RELEASE, P2P, gpudirect.PEERS])
def test_unreadable(fabric: Tree, path: str) -> None:
    fabric.put(P2P, "")
    if path in (P2P, gpudirect.PEERS):
        fabric.put(VERSION, CLOSED)
    real = fabric.host.real(path)[len(str(fabric.root)) :]
    refused = {path: errno.EACCES, real: errno.EACCES}
    if path == gpudirect.PEERS:
        refused = {f"{path}/{name}/version": errno.EACCES for name in ("nv_mem", "nv_mem_nc")}
    (check,) = named(run(fabric.refusing(refused)), "gpudirect").values()
    assert check.verdict == "unknown"
    assert "EACCES" in check.found


# -- other makers ----------------------------------------------------------------------------


@pytest.fixture
def instinct(fabric: Tree) -> Tree:
    for gpu in (GPU, "0000:93:00.0"):
        fabric.put(f"/sys/bus/pci/devices/{gpu}/vendor", "0x1002")
        os.unlink(fabric.host.real(f"/sys/bus/pci/devices/{gpu}/driver", follow=False))
        fabric.link(f"/sys/bus/pci/devices/{gpu}/driver", "/sys/bus/pci/drivers/amdgpu")
    os.unlink(fabric.host.real(VERSION))
    return fabric


BUILT = "/boot/config-6.8.0-60-generic"


@cases.table
def test_amd(instinct: Tree, lines: str, verdict: str) -> None:
    instinct.put(BUILT, lines)
    check = only(instinct)
    assert (check.verdict, check.target) == (verdict, "AMD GPUs")


def test_amd_without_the_kernels_configuration(instinct: Tree) -> None:
    check = only(instinct)
    assert check.verdict == "unknown"
    assert f"{BUILT} does not exist" in check.found
    registered(instinct, "amdkfd")
    assert only(instinct).verdict == "pass"


def test_amd_without_a_driver(instinct: Tree) -> None:
    instinct.put(BUILT, "CONFIG_PCI_P2PDMA=y")
    for gpu in (GPU, "0000:93:00.0"):
        os.unlink(instinct.host.real(f"/sys/bus/pci/devices/{gpu}/driver", follow=False))
    assert only(instinct).verdict == "warn"


def test_who_is_not_known_is_not_judged(fabric: Tree) -> None:
    for gpu in (GPU, "0000:93:00.0"):
        fabric.put(f"/sys/bus/pci/devices/{gpu}/vendor", "0x1da3")
        fabric.put(f"/sys/bus/pci/devices/{gpu}/class", "0x120000")
    check = only(fabric)
    assert (check.verdict, check.target) == ("skip", "Habana GPUs")
    assert only(fabric, gpudirect="auto").verdict == "unknown", "it was asked for"
