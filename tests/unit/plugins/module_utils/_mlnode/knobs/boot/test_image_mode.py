# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Entries of the boot loader that are another's: ostree's, and those of other systems on the disk."""

from __future__ import annotations

import errno
import pathlib

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.grub_machine import GrubMachine
from mlnode.engine import engine
from mlnode.engine.engine import Outcomes
from mlnode.host import mountinfo
from mlnode.host.host import Host
from mlnode.knobs.boot.kind import kind as boot
from mlnode.loader import boot_loader
from mlnode.model.errors import HostError
from mlnode.model.setting import Status

ENTRIES = "/boot/loader/entries"
SPEC = {"parameters": {"iommu": "pt"}}
ID, OTHER_ID = "0123456789abcdef" * 2, "fedcba9876543210" * 2


@pytest.fixture
def node(tmp_path: pathlib.Path) -> GrubMachine:
    machine = GrubMachine.debian_with_grub(str(tmp_path / "node"))
    machine.remove("/boot/grub/grub.cfg")
    machine.put("/boot/grub2/grub.cfg", "load_env\ninsmod blscfg\nblscfg\n")
    machine.put("/etc/machine-id", f"{ID}\n")
    machine.started("(hd0,gpt3)/vmlinuz-6.12.0 root=UUID=1 ro")
    return machine


def deployment(machine: GrubMachine, number: int, words: str = "") -> str:
    path = f"{ENTRIES}/ostree-{number}.conf"
    machine.put(
        path,
        f"title Fedora CoreOS\nversion {number}\nlinux /ostree/x/vmlinuz-6.12.0\n"
        f"options {words} ostree=/ostree/boot.1/x/{number}/0 root=UUID=1 rw\n",
    )
    return path


def entry(machine: GrubMachine, name: str, text: str) -> str:
    machine.put(f"{ENTRIES}/{name}.conf", text)
    return f"{ENTRIES}/{name}.conf"


def applied(machine: GrubMachine) -> Outcomes:
    machine.forget()
    return engine.apply_together(machine, lambda: [engine.Request("site", boot, SPEC)])


def test_the_words_of_the_next_deployment_are_its_boot(node: GrubMachine) -> None:
    """rpm-ostree kargs makes a deployment with them; that of a rollback lacks them."""
    node.put("/run/ostree-booted", "")
    deployment(node, 9)
    path = deployment(node, 10, "iommu=pt")
    (row,) = applied(node).outcomes[0].rows
    assert (row.status, row.reading.boot.source) == (Status.PENDING_REBOOT, f"{path}:4")
    node.started("(hd0,gpt3)/vmlinuz iommu=pt root=UUID=1 rw")
    (row,) = applied(node).outcomes[0].rows
    assert row.status is Status.OK


#: As GLib packs a{sv} with kargs of the type as, and with others before and behind it
RECORD = (
    b"target\0\0name\0\0\0\0osx\0\0s\5\x0f\0a{sv}\7\0kargs\0\0\0"
    b"iommu=pt\0root=UUID=1\0\t\x15\0as\6\0\0\0\0\0overlay-initrds\0x\0\2\0as\x10\x1fC_"
)


@pytest.mark.parametrize(
    ("record", "status"),
    [
        (RECORD, Status.PENDING_REBOOT),
        (RECORD.replace(b"pt", b"on"), Status.UNSUPPORTED),
        (RECORD.replace(b"\t\x15\0as", b"\t\x14\0as"), Status.UNKNOWN),
        (RECORD[:40], Status.UNKNOWN),
        (RECORD.replace(b"iommu", b"iomm\xff"), Status.UNKNOWN),
        (b"target\0x\0kargs\0iommu=pt\0root=UUID=1\0", Status.UNKNOWN),
        (b"target\0x\0", Status.UNSUPPORTED),
    ],
)
def test_words_of_a_staged_deployment_are_its_boot(node: GrubMachine, record: bytes, status: Status) -> None:
    """rpm-ostree kargs and bootc stage a deployment, which becomes an entry at shutdown."""
    node.put("/run/ostree-booted", "")
    deployment(node, 9)
    node.put("/run/ostree/staged-deployment", record)
    (row,) = applied(node).outcomes[0].rows
    assert row.status is status
    staged = row.status in (Status.UNKNOWN, Status.PENDING_REBOOT) or b"iommu=on" in record
    assert ("/run/ostree/staged-deployment" in f"{row.reason}{row.reading.boot.source}") is staged


def test_many_staged_words_have_ends_of_two_bytes(node: GrubMachine) -> None:
    node.put("/run/ostree-booted", "")
    words = ["iommu=pt", *(f"x{number}=0123456789" for number in range(30))]
    strings = "".join(f"{word}\0" for word in words).encode()
    ends = [sum(len(word) + 1 for word in words[: number + 1]) for number in range(len(words))]
    table = b"".join(end.to_bytes(2, "little") for end in ends)
    node.put("/run/ostree/staged-deployment", b"kargs\0\0\0" + strings + table + b"\0as")
    (entry,) = boot_loader.find(node).entries
    assert entry.command_line.split() == words


@cases.table
def test_only_entries_of_this_system_are_written(node: GrubMachine, name: str, text: str, ours: bool) -> None:
    entry(node, f"{ID}-6.12.1", "linux /vmlinuz\noptions root=UUID=1 ro\n")
    path = entry(node, name, text)
    applied(node)
    assert ("iommu=pt" in node.read(path)) is ours
    assert "iommu=pt" in node.read(f"{ENTRIES}/{ID}-6.12.1.conf")


def test_an_image_writes_all_its_entries(node: GrubMachine) -> None:
    entry(node, f"{OTHER_ID}-6.8.0", "linux /vmlinuz\noptions root=UUID=2 ro\n")
    assert boot_loader.find(node, image=True).entries
    assert boot_loader.find(node).lacks == f"no entry of {ENTRIES} starts a kernel of this system"


@cases.table
def test_a_read_only_file_system_is_named_by_the_system_that_has_it(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, files: list[str], words: str
) -> None:
    machine = GrubMachine(str(tmp_path))
    for path in files:
        machine.put(path, "")
    machine.put("/boot/loader/entries/x.conf", "")
    machine.put("/proc/self/mountinfo", "30 1 8:3 / /boot ro,relatime shared:2 - ext4 /dev/sda3 ro\n")

    def refuse(*_args: object, **_more: object) -> None:
        raise OSError(errno.EROFS, "")

    monkeypatch.setattr("mlnode.host.writing.replace", refuse)
    with pytest.raises(HostError) as raised:
        Host(machine.root).write_file("/boot/loader/entries/x.conf", b"")
    assert words in str(raised.value)
    assert words in mountinfo.read_only(machine, "/boot/loader/entries/x.conf")
