# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import errno
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from mlnode.loader import bls as boot_bls
from mlnode.loader.bls import edited, edited_line
from mlnode.model.errors import HostError

ID = "0123456789abcdef"
ENTRY = f"/boot/loader/entries/{ID}-5.14.0-570.el9.x86_64.conf"
RESCUE = f"/boot/loader/entries/{ID}-0-rescue.conf"
TEXT = """title Red Hat Enterprise Linux (5.14.0-570.el9.x86_64) 9.6 (Plow)
version 5.14.0-570.el9.x86_64
linux /vmlinuz-5.14.0-570.el9.x86_64
initrd /initramfs-5.14.0-570.el9.x86_64.img $tuned_initrd
options root=/dev/mapper/rhel-root ro crashkernel=1G-4G:192M,4G-64G:256M $tuned_params
grub_users $grub_users
"""
PT = {"iommu": ["iommu=pt"]}


@pytest.fixture
def node(tmp_path: Any) -> Machine:
    machine = Machine(str(tmp_path))
    machine.put(ENTRY, TEXT)
    machine.put(RESCUE, TEXT.replace("ro ", "ro rescue "))
    return machine


def test_entries_are_read_but_those_for_repair_are_not(node: Machine) -> None:
    (found,) = boot_bls.entries(node, boot_bls.files(node))
    assert found.where == f"{ENTRY}:5"
    assert found.parameter("crashkernel") == (("crashkernel=1G-4G:192M,4G-64G:256M",), f"{ENTRY}:5", False)
    assert found.parameter("rescue") == ((), f"{ENTRY}:5", False)


def test_several_option_lines_are_one_command_line(node: Machine) -> None:
    node.put(ENTRY, "title x\noptions root=UUID=1 ro\noptions\tiommu=pt quiet\nlinux /vmlinuz\n")
    (found,) = boot_bls.entries(node, boot_bls.files(node))
    assert found.line == "root=UUID=1 ro iommu=pt quiet"
    assert found.where == f"{ENTRY}:2"


def test_a_variable_of_grubs_environment_brings_its_words(node: Machine) -> None:
    block = "# GRUB Environment Block\nsaved_entry=x\ntuned_params=isolcpus=1-3 skew_tick=1\n" + "#" * 200
    node.put("/boot/grub2/grubenv", block)
    (found,) = boot_bls.entries(node, boot_bls.files(node))
    assert found.parameter("isolcpus") == (("isolcpus=1-3",), "/boot/grub2/grubenv:3", True)


def test_an_unreadable_environment_is_no_empty_one(node: Machine) -> None:
    node.unreadable["/boot/grub2/grubenv"] = errno.EACCES
    with pytest.raises(HostError, match="EACCES"):
        boot_bls.entries(node, boot_bls.files(node))


@pytest.mark.parametrize(
    ("before", "changes", "after"),
    [
        (TEXT, {}, TEXT),
        (TEXT, {"ro": ["ro"], "quiet": []}, TEXT),
        (TEXT, PT, TEXT.replace("options root", "options iommu=pt root")),
        (TEXT, {"crashkernel": []}, TEXT.replace(" crashkernel=1G-4G:192M,4G-64G:256M", "")),
        (
            "options a iommu=off\nlinux /x\noptions  iommu=on b\n",
            PT,
            "options iommu=pt a\nlinux /x\noptions  b\n",
        ),
        ("options a", PT, "options iommu=pt a"),
        ("linux /x\n", PT, "linux /x\noptions iommu=pt\n"),
        ("linux /x\n", {"quiet": []}, "linux /x\n"),
        ("linux /x", PT, "linux /x\noptions iommu=pt\n"),
        ("linux /x", {"quiet": []}, "linux /x"),
        (" options a iommu=off\n", PT, " options iommu=pt a\n"),
        ("options a\n", {"pci": ["pci=x@0;y@1", "pci=z"]}, 'options pci="x@0;y@1" pci=z a\n'),
        ("linux /x\n", {"pci": ["pci=x@0;y@1"]}, 'linux /x\noptions pci="x@0;y@1"\n'),
        ("options a pci=x@0;y@1\n", {"pci": ["pci=x@0;y@1"]}, 'options pci="x@0;y@1" a\n'),
        # Behind one of others that is not in quotes, nothing reaches the kernel.
        ("options z=1;2 b\noptions c\n", {"b": ["b"], "c": ["c"]}, "options b c z=1;2\noptions \n"),
        ("options 'z=1;2' b\n", {"b": ["b"]}, "options 'z=1;2' b\n"),
        ("# options a\noptionsx b\n", PT, "# options a\noptionsx b\noptions iommu=pt\n"),
    ],
)
def test_an_entry_keeps_every_byte_that_is_not_named(before: str, changes: Any, after: str) -> None:
    assert edited(before, changes) == after
    assert edited(after, changes) == after


@cases.table
def test_the_line_for_new_kernels(before: str, after: str) -> None:
    assert edited_line(before, PT) == after
    assert edited_line(after, PT) == after
