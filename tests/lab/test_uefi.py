# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kernel command line through systemd-boot's entries, and through a unified kernel image: pending, there
after a reboot, named where others override it, and gone after a revert. A menu of GRUB lies beside both."""

from __future__ import annotations

from typing import Any

import pytest

from . import guest_facts as facts
from .collection import Collection
from .machine import Machine

pytestmark = pytest.mark.long

ESP = "/boot/efi"
CMDLINE = "/etc/kernel/cmdline"
ADDON = f"{ESP}/loader/addons/site.addon.efi"
GIVEN: dict[str, Any] = {
    "parameters": {"transparent_hugepage": "madvise", "iommu": "pt"},
    "absent": ["audit"],
}
WORDS = {"transparent_hugepage=madvise", "iommu=pt"}
ADD = "v=$(uname -r); kernel-install add $v /boot/vmlinuz-$v /boot/initrd.img-$v"


def words(machine: Machine) -> set[str]:
    return set(machine.read("/proc/cmdline").split())


def declare(machine: Machine, collection: Collection) -> int:
    assert collection.task("agent", machine).status == 0
    played = collection.task("boot_params", machine, name="lab", **GIVEN)
    assert played.status == 0
    return played.changed


def assert_waits(machine: Machine) -> None:
    wrong = facts.wrong(machine)
    assert {*wrong} == {"boot.transparent_hugepage", "boot.iommu", "boot.audit"}
    assert {reason.partition(":")[0] for reason in wrong.values()} == {"pending_reboot"}, wrong


def test_an_entry_gets_the_words_and_loses_them(uefi: Machine, collection: Collection) -> None:
    entries = uefi.read(f"{ESP}/loader/entries/*")
    menu, line = uefi.read("/boot/grub/grub.cfg"), uefi.read(CMDLINE)
    assert declare(uefi, collection) == 1
    assert_waits(uefi)
    assert declare(uefi, collection) == 0
    assert uefi.read("/boot/grub/grub.cfg") == menu
    uefi.reboot()
    assert words(uefi) >= WORDS
    assert "audit=0" not in words(uefi)
    assert facts.wrong(uefi) == {}
    uefi.run("mlnode revert")
    assert uefi.read(f"{ESP}/loader/entries/*") == entries
    assert uefi.read(CMDLINE) == line


def test_an_image_gets_the_words(uefi: Machine, collection: Collection) -> None:
    uefi.run(
        f"echo layout=uki >/etc/kernel/install.conf && {ADD} && rm {ESP}/loader/entries/*.conf", seconds=900
    )
    uefi.reboot()
    assert uefi.out("ls /sys/firmware/efi/efivars/StubInfo-*"), "the image was not started"
    assert not WORDS & words(uefi)
    assert declare(uefi, collection) == 1
    assert_waits(uefi)
    uefi.reboot()
    assert words(uefi) >= WORDS
    assert facts.wrong(uefi) == {}


def test_an_addon_that_sets_another_value_is_named(uefi: Machine) -> None:
    uefi.run(f"mkdir -p {ESP}/loader/addons")
    uefi.run(f"ukify build --cmdline=transparent_hugepage=always --output={ADDON}")
    wrong = facts.wrong(uefi)
    assert {*wrong} == {"boot.transparent_hugepage"}
    assert wrong["boot.transparent_hugepage"].startswith("overridden:")
    assert ADDON in wrong["boot.transparent_hugepage"]
    uefi.run(f"rm {ADDON}")
    assert facts.wrong(uefi) == {}


def test_the_service_makes_an_image_again_that_lost_a_word(uefi: Machine) -> None:
    """In its sandbox, which sees no other file system but those that the agent writes."""
    uefi.run(f"sed -i 's/iommu=pt //' {CMDLINE} && {ADD}", seconds=900)
    assert "iommu=pt" not in uefi.out("bootctl list")
    uefi.run("systemctl restart mlnode-apply.service", seconds=900)
    assert "iommu=pt" in uefi.out("bootctl list")
    assert uefi.out(f"ls {ESP}/EFI/Linux | wc -l") == "1", "the previous image is removed"
    assert facts.wrong(uefi) == {}


def test_after_a_revert_and_a_reboot_they_are_gone(uefi: Machine) -> None:
    uefi.run("mlnode revert", seconds=900)
    assert not WORDS & set(uefi.out("bootctl list").split())
    uefi.reboot()
    assert not WORDS & words(uefi)
    assert "audit=0" in words(uefi)


def test_an_initramfs_with_an_older_copy_is_named(uefi: Machine, collection: Collection) -> None:
    """The driver of the disk is loaded there, and keeps its parameters."""
    key, shown = "module.virtio_blk.queue_depth", "/sys/module/virtio_blk/parameters/queue_depth"
    assert uefi.read(shown) == "0"
    assert collection.task("agent", uefi).status == 0
    options = {"virtio_blk": {"queue_depth": 64}}
    assert collection.task("kernel_modules", uefi, name="disk", options=options).status == 0
    command = f"update-initramfs -u -k {uefi.out('uname -r')}"
    assert facts.wrong(uefi)[key].startswith("overridden:")
    assert facts.wrong(uefi)[key].endswith(f"run {command}")
    uefi.run(command, seconds=900)
    assert facts.wrong(uefi)[key].startswith("pending_reboot:")
    uefi.reboot()
    assert uefi.read(shown) == "64"
    assert key not in facts.wrong(uefi)
