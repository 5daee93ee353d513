# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import errno
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import cases
from ansible_collections.mlnode.tuning.tests.unit.grub_machine import (
    DEFAULTS,
    DROP_INS,
    MENU,
    MKCONFIG,
    GrubMachine,
    menu,
)
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from mlnode.knobs.boot import loaders as boot_loaders
from mlnode.loader import boot_loader
from mlnode.loader import grub as boot_grub
from mlnode.model.setting import BootFile

ENTRY = "/boot/loader/entries/0123-5.14.0.conf"
PT = {"iommu": ["iommu=pt"]}


@pytest.fixture
def redhat(tmp_path: Any) -> Machine:
    machine = Machine(str(tmp_path / "redhat"))
    machine.put("/boot/grub2/grub.cfg", "set default=0\nblscfg\n")
    machine.put(ENTRY, "linux /vmlinuz-5.14.0\noptions root=UUID=1 ro\n")
    machine.put(DEFAULTS, 'GRUB_CMDLINE_LINUX="crashkernel=1G"\nGRUB_ENABLE_BLSCFG=true\n')
    machine.put("/usr/sbin/grub2-mkconfig", MKCONFIG)
    return machine


def files(machine: Machine, changes: Any = None, stale: bool = False) -> dict[str, BootFile]:
    loader = boot_loader.find(machine)
    found = boot_loaders.files(loader, "training", PT if changes is None else changes, stale, machine)
    return {file.path: file for file in found}


# -- GRUB with drop-ins ----------------------------------------------------------------------


def test_debian_and_ubuntu_take_a_drop_in(node: GrubMachine) -> None:
    loader = boot_loader.find(node)
    assert (loader.style, loader.lacks, loader.unreadable) == ("drop-in", "", "")
    (file,) = files(node, stale=True).values()
    assert file.path == f"{DROP_INS}/zz-mlnode-training.cfg"
    assert (file.notify, file.stale) == ("boot loader", True)
    assert b"iommu=pt" in (file.content or b"")


def test_what_is_declared_no_more_leaves_no_drop_in(node: GrubMachine) -> None:
    (file,) = files(node, {}).values()
    assert (file.content, file.notify) == (None, "boot loader")


def test_a_later_drop_in_is_named_with_its_last_line(node: GrubMachine) -> None:
    for name, text in {
        "50-cloud.cfg": "iommu=1\n",
        "zz-mlnode-other.cfg": boot_grub.drop_in("other", PT).decode(),
        "zz-mlnode-zebra.cfg": "iommu=3\n",
        "zz-other.cfg": "iommu=4\nx\niommu=5\n",
        "zzz.cfg": "# iommu=6\n",
        "zzz.txt": "iommu=7\n",
    }.items():
        node.put(f"{DROP_INS}/{name}", text)
    assert boot_loaders.later_file(node, "training", "iommu") == f"{DROP_INS}/zz-other.cfg:3"
    assert boot_loaders.later_file(node, "training", "quiet") == ""
    assert boot_loaders.given(boot_loader.Loader(style="drop-in"), node, "other", "iommu") == ("iommu=pt",)
    assert boot_loaders.given(boot_loader.Loader(style="drop-in"), node, "other", "quiet") is None
    assert boot_loaders.given(boot_loader.Loader(style="drop-in"), node, "training", "iommu") is None


@cases.table
def test_a_later_drop_in_that_sets_the_variable_anew_takes_all_words_away(
    node: GrubMachine, line: str, lost: bool
) -> None:
    node.put(f"{DROP_INS}/zzz.cfg", f"GRUB_TIMEOUT=1\n{line}\n")
    expected = f"{DROP_INS}/zzz.cfg:2" if lost else ""
    assert boot_loaders.later_file(node, "training", "iommu", lost=True) == expected
    assert boot_loaders.later_file(node, "training", "iommu") == ""


# -- GRUB without drop-ins -------------------------------------------------------------------


def test_where_drop_ins_are_not_read_the_defaults_are_edited(node: GrubMachine) -> None:
    node.put("/usr/sbin/grub-mkconfig", MKCONFIG)
    assert boot_loader.find(node).style == "defaults"
    (file,) = files(node, stale=True).values()
    assert file == BootFile(
        DEFAULTS, b'GRUB_CMDLINE_LINUX_DEFAULT="quiet"\nGRUB_CMDLINE_LINUX="iommu=pt"\n', "boot loader", True
    )
    assert files(node, {}) == {}


def test_defaults_that_cannot_be_edited_are_left_alone(node: GrubMachine) -> None:
    node.put("/usr/sbin/grub-mkconfig", MKCONFIG)
    node.put(DEFAULTS, "GRUB_CMDLINE_LINUX=$(cat /x)\n")
    loader = boot_loader.find(node)
    assert loader.lacks.startswith(f"{DEFAULTS}:1 is not a plain GRUB_CMDLINE_LINUX=")
    assert loader.entries
    assert files(node) == {}


def test_bytes_that_are_no_text_survive(node: GrubMachine) -> None:
    node.put("/usr/sbin/grub-mkconfig", MKCONFIG)
    with open(node.real(DEFAULTS), "wb") as stream:
        stream.write(b"# caf\xe9\n")
    (file,) = files(node).values()
    assert file.content == b'# caf\xe9\nGRUB_CMDLINE_LINUX="iommu=pt"\n'


# -- entries ---------------------------------------------------------------------------------


@cases.table
def test_the_red_hat_family_keeps_parameters_in_entries(redhat: Machine, defaults: str, text: str) -> None:
    redhat.put(DEFAULTS, defaults)
    redhat.put("/boot/grub2/grub.cfg", text)
    redhat.put("/etc/kernel/cmdline", "root=UUID=1 ro\n")
    assert boot_loader.find(redhat).style == "entries"
    found = files(redhat)
    assert [*found] == [ENTRY, "/etc/kernel/cmdline", DEFAULTS]
    assert found[ENTRY].content == b"linux /vmlinuz-5.14.0\noptions iommu=pt root=UUID=1 ro\n"
    assert found["/etc/kernel/cmdline"].content == b"iommu=pt root=UUID=1 ro\n"
    assert b'GRUB_CMDLINE_LINUX="iommu=pt"\n' in (found[DEFAULTS].content or b"")
    assert {file.notify for file in found.values()} == {""}, "GRUB reads the entries as it starts"


def test_files_that_are_not_there_are_not_made(redhat: Machine) -> None:
    redhat.remove(DEFAULTS)
    assert [*files(redhat)] == [ENTRY]


def test_entries_with_kernelopts_are_for_grubby(redhat: Machine) -> None:
    redhat.put(ENTRY, "linux /vmlinuz-4.18.0\noptions $kernelopts $tuned_params\n")
    loader = boot_loader.find(redhat)
    assert loader.lacks.startswith(
        f"{ENTRY}:2 takes its parameters from $kernelopts, which only grubby edits"
    )
    assert files(redhat) == {}


def test_entries_that_grub_does_not_read_count_for_nothing(redhat: Machine) -> None:
    """As after a change from one loader to another."""
    redhat.put(DEFAULTS, "GRUB_ENABLE_BLSCFG=false\n")
    redhat.put("/boot/grub2/grub.cfg", menu("nosmt"))
    assert boot_loader.find(redhat).style == "defaults"


# -- no loader that we know ------------------------------------------------------------------


def test_without_grub_somebody_else_sets_the_parameters(tmp_path: Any) -> None:
    loader = boot_loader.find(Machine(str(tmp_path)))
    assert "/boot/grub2/grub.cfg exists: the container, hypervisor or network boot" in loader.lacks
    assert files(Machine(str(tmp_path))) == {}


@pytest.mark.parametrize("path", [ENTRY, "/etc/kernel/cmdline"])
def test_systemd_boot_is_told_how_to_do_it_by_hand(tmp_path: Any, path: str) -> None:
    machine = Machine(str(tmp_path))
    machine.put(path, "")
    lacks = boot_loader.find(machine).lacks
    assert "systemd-boot or another loader; write the words into /etc/kernel/cmdline" in lacks


def test_a_menu_that_nobody_can_write_anew(node: GrubMachine) -> None:
    node.remove("/usr/sbin/update-grub")
    node.remove("/usr/sbin/grub-mkconfig")
    assert boot_loader.find(node).lacks == f"{MENU} exists, but no grub-mkconfig that could regenerate it"
    assert files(node) == {}


def test_a_menu_without_kernels_is_not_written_to(node: GrubMachine) -> None:
    node.put(MENU, "menuentry 'x' {\n}\n")
    assert boot_loader.find(node).lacks == f"{MENU} starts no kernel of this system; is /boot mounted?"


@pytest.mark.parametrize("path", [MENU, DEFAULTS, "/usr/sbin/grub-mkconfig"])
def test_what_cannot_be_read_is_not_taken_for_missing(node: GrubMachine, path: str) -> None:
    node.unreadable[path] = errno.EACCES
    loader = boot_loader.find(node)
    assert (loader.style, loader.lacks) == ("", "")
    assert f"cannot read {path}: EACCES" in loader.unreadable
    assert files(node) == {}


def test_it_is_read_once_until_a_file_changes(node: GrubMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    looks, read = [], GrubMachine.read_bytes
    monkeypatch.setattr(GrubMachine, "read_bytes", lambda host, path: looks.append(path) or read(host, path))
    found = boot_loader.find(node)
    number = len(looks)
    node.forget(files=False)
    assert boot_loader.find(node) == found
    assert len(looks) == number
    assert boot_loader.find(node, image=True).style == "drop-in"
    assert len(looks) > number
    node.forget()
    node.remove(MENU)
    assert boot_loader.find(node).lacks


def test_every_line_that_names_a_parameter_is_found(node: GrubMachine, redhat: Machine) -> None:
    node.put(f"{DROP_INS}/a.cfg", "# iommu\nGRUB_CMDLINE_LINUX=iommu=pt\n")
    node.write_menu()
    kernel = "linux\t/boot/vmlinuz-6.12.0 root=UUID=1111 ro"
    assert boot_loader.boot_sources(node, "iommu") == [
        f"{MENU}:16: {kernel} iommu=pt quiet",
        f"{MENU}:22: {kernel} iommu=pt quiet",
        f"{MENU}:26: {kernel} single iommu=pt",
        f"{DROP_INS}/a.cfg:2: GRUB_CMDLINE_LINUX=iommu=pt",
    ]
    redhat.put("/boot/grub2/grubenv", "tuned_params=ro\n")
    assert boot_loader.boot_sources(redhat, "ro") == [
        "/boot/grub2/grubenv:1: tuned_params=ro",
        f"{ENTRY}:2: options root=UUID=1 ro",
    ]
