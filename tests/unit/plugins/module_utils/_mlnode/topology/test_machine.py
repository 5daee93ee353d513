# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import errno
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.plugins.module_utils._mlnode.topology.trees import Tree
from mlnode.host.host import Host
from mlnode.topology import machine
from mlnode.topology.model import Machine
from mlnode.topology.sysfs import Reader

DMI = "/sys/class/dmi/id"
VIRTUAL = "processor\t: 0\nflags\t\t: fpu vme hypervisor lahf_lm\n"
ARM = "processor\t: 0\nFeatures\t: fp asimd\n"


def read(host: Host) -> tuple[Machine, list[str]]:
    reader = Reader(host)
    return machine.read(reader), [problem.what for problem in reader.problems]


def dmi(tree: Tree, **texts: str) -> None:
    for name, text in texts.items():
        tree.put(f"{DMI}/{name}", text)


@cases.table
def test_bare_metal_has_no_hypervisor_bit(
    tree: Tree, vendor: str, product: str, tag: str, expected: list[Any]
) -> None:
    dmi(tree, sys_vendor=vendor, product_name=product, chassis_asset_tag=tag)

    assert read(tree.host) == (Machine(*expected), [])


@cases.table
def test_a_hypervisor_that_hides_itself_is_known_by_the_machine_it_makes_up(
    tree: Tree, vendor: str, product: str, hypervisor: str
) -> None:
    dmi(tree, sys_vendor=vendor, product_name=product)

    found, problems = read(tree.host)

    assert (found.kind, found.hypervisor) == ("virtual machine" if hypervisor else "bare metal", hypervisor)
    assert problems == []


@cases.table
def test_a_virtual_machine_its_hypervisor_and_its_cloud(
    tree: Tree, vendor: str, product: str, tag: str, hypervisor: str, cloud: str
) -> None:
    tree.put("/proc/cpuinfo", VIRTUAL)
    dmi(tree, sys_vendor=vendor, product_name=product, chassis_asset_tag=tag)

    found, problems = read(tree.host)

    assert (found.kind, found.hypervisor, found.cloud) == ("virtual machine", hypervisor, cloud)
    assert problems == []


def test_a_virtual_machine_without_firmware_tables_is_one_all_the_same(tree: Tree) -> None:
    tree.put("/proc/cpuinfo", VIRTUAL)

    assert read(tree.host) == (Machine("virtual machine"), [])


def test_an_old_instance_of_ec2_says_so_in_its_firmware(tree: Tree) -> None:
    tree.put("/proc/cpuinfo", VIRTUAL)
    tree.put("/sys/hypervisor/type", "xen")
    dmi(tree, sys_vendor="Xen", product_name="HVM domU", bios_version="4.11.amazon")

    found, _problems = read(tree.host)

    assert (found.hypervisor, found.cloud) == ("xen", "aws")


@cases.table
def test_on_arm64_only_the_firmware_tells(
    tree: Tree, vendor: str, product: str, kind: str, hypervisor: str
) -> None:
    tree.put("/proc/cpuinfo", ARM)
    dmi(tree, sys_vendor=vendor, product_name=product)

    found, problems = read(tree.host)

    assert (found.kind, found.hypervisor) == (kind, hypervisor)
    assert problems == []


def test_a_processor_that_cannot_be_read_is_told_and_not_guessed(tree: Tree) -> None:
    found, problems = read(tree.refusing({"/proc/cpuinfo": errno.EACCES}))

    assert found.kind == "unknown"
    assert len(problems) == 1
    assert "EACCES" in problems[0]


@cases.table
def test_a_container_and_who_started_it(tree: Tree, path: str, text: str, name: str) -> None:
    tree.put(path, text)
    dmi(tree, sys_vendor="NVIDIA", product_name="DGXH100")

    found, problems = read(tree.host)

    assert (found.kind, found.container, found.product) == ("container", name, "NVIDIA DGXH100")
    assert problems == []


FIRST = {
    "self/ns/pid": "pid:[4026531836]",
    "self/ns/uts": "uts:[4026531838]",
    "self/ns/mnt": "mnt:[4026531841]",
    "1/ns/mnt": "mnt:[4026531841]",
}


@pytest.mark.parametrize("marker", ["/.dockerenv", "/run/.containerenv"])
@cases.table
def test_a_marker_is_of_a_container_where_the_namespaces_are(
    tree: Tree, marker: str, other: dict[str, str], container: bool
) -> None:
    """The root file system of a virtual machine may have been made of a container's image."""
    tree.put(marker, "")
    for name, target in {**FIRST, **other}.items():
        if target:
            (tree.root / "proc" / name).parent.mkdir(parents=True, exist_ok=True)
            (tree.root / "proc" / name).symlink_to(target)

    assert (read(tree.host)[0].kind == "container") is container


@pytest.mark.parametrize("text", ["PATH=/bin\0", "container=\0", "other_container=x\0", ""])
def test_an_environment_that_says_nothing_of_a_container(tree: Tree, text: str) -> None:
    tree.put("/proc/1/environ", text)

    assert read(tree.host)[0].container == ""


def test_an_environment_that_only_root_may_read_is_no_problem(tree: Tree) -> None:
    dmi(tree, sys_vendor="NVIDIA")

    assert read(tree.refusing({"/proc/1/environ": errno.EACCES})) == (
        Machine("bare metal", product="NVIDIA"),
        [],
    )


def test_a_container_file_that_nobody_may_look_for_is_told(tree: Tree) -> None:
    _found, problems = read(tree.refusing({"/.dockerenv": errno.EACCES}))

    assert len(problems) == 1
    assert "/.dockerenv" in problems[0]
