# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""systemd-boot's entries and unified kernel images, beside a menu of GRUB that nothing reads."""

from __future__ import annotations

import errno
import json
import os
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.unit import door
from ansible_collections.mlnode.tuning.tests.unit.grub_machine import MENU
from ansible_collections.mlnode.tuning.tests.unit.uefi_machine import (
    CMDLINE,
    ENTRY,
    ESP,
    IMAGE,
    LOADER_INFO,
    MACHINE_ID,
    SECURE_BOOT,
    UefiMachine,
)
from mlnode.engine.engine import Outcome, Request
from mlnode.engine.revert import revert
from mlnode.host.system import Finished
from mlnode.knobs.boot.kind import kind as boot
from mlnode.loader import boot_loader
from mlnode.model.errors import TransactionError

ACS = "config_acs=xx000x0@0000:17:00.0;xx000x0@0000:18:08.0"
SPEC: dict[str, Any] = {"parameters": {"iommu": "pt", "pci": [ACS]}, "absent": ["quiet"]}
WORDS = {"iommu=pt", f"pci={ACS}"}

Make = Callable[[str], UefiMachine]


@pytest.fixture(params=[UefiMachine.with_entries, UefiMachine.with_images], ids=["entries", "images"])
def node(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> UefiMachine:
    make: Make = request.param
    return make(str(tmp_path / "node"))


@pytest.fixture
def entries(tmp_path: pathlib.Path) -> UefiMachine:
    return UefiMachine.with_entries(str(tmp_path / "node"))


@pytest.fixture
def images(tmp_path: pathlib.Path) -> UefiMachine:
    return UefiMachine.with_images(str(tmp_path / "node"))


def applied(machine: UefiMachine, spec: dict[str, Any] | None = None) -> Outcome:
    machine.forget()
    return door.apply(machine, Request("site", boot, spec or SPEC))


def statuses(outcome: Outcome) -> dict[str, str]:
    return {row.setting.key[len("boot.") :]: str(row.status) for row in outcome.rows}


def reasons(outcome: Outcome) -> str:
    return "\n".join(row.reason for row in outcome.rows)


def line(machine: UefiMachine) -> list[str]:
    return str(next(item for item in machine.listed() if item["isDefault"])["cmdline"]).split()


def test_set_pending_in_force_and_undone(node: UefiMachine) -> None:
    menu = node.read(MENU)
    born = {path: node.read(path) for path in (CMDLINE, ENTRY) if node.exists(path)}
    assert {*statuses(applied(node)).values()} == {"pending_reboot"}
    assert {*line(node)} >= WORDS
    assert "quiet" not in line(node)
    assert node.read(MENU) == menu, "GRUB did not start this node"
    assert not applied(node).changed
    node.boot_entry()
    again = applied(node)
    assert ({*statuses(again).values()}, again.changed) == ({"ok"}, False)
    made = node.made
    assert {change.key for change in revert(node)} >= {CMDLINE}
    assert not WORDS & {*line(node)}
    assert "quiet" in line(node)
    assert {path: node.read(path) for path in born} == born
    assert node.made == made + (node.layout == "uki")


def test_a_value_with_a_semicolon_gets_no_quotes(node: UefiMachine) -> None:
    """Only GRUB removes them; here the kernel would see them, and a PCI address would be malformed."""
    applied(node)
    assert '"' not in " ".join(line(node))


def test_words_that_others_removed_are_set_again(node: UefiMachine) -> None:
    applied(node)
    node.put(CMDLINE, "root=UUID=1111 ro\n")
    if node.layout == "uki":
        node.put(IMAGE, "root=UUID=1111 ro")
    else:
        node.put(ENTRY, f"machine-id {MACHINE_ID}\nlinux /x/linux\noptions root=UUID=1111 ro\n")
    assert applied(node).changed
    assert {*line(node)} >= WORDS


def test_a_boot_that_did_not_bring_it_is_an_override(node: UefiMachine) -> None:
    applied(node)
    node.put("/proc/stat", "btime 32503680000\n")
    outcome = applied(node)
    assert {*statuses(outcome).values()} == {"overridden"}
    assert "the boot chain starts another entry (systemd-boot)" in reasons(outcome)
    assert "GRUB" not in reasons(outcome)


def test_the_seed_that_each_boot_writes_does_not_hide_it(node: UefiMachine) -> None:
    """Else the node would be rebooted again and again."""
    applied(node)
    node.put("/proc/stat", "btime 32503680000\n")
    os.utime(node.real(f"{ESP}/loader"), (32503680001, 32503680001))
    assert {*statuses(applied(node)).values()} == {"overridden"}
    (path,) = (path for path in (ENTRY, IMAGE) if node.exists(path))
    os.utime(node.real(path), (32503680001, 32503680001))
    assert {*statuses(applied(node)).values()} == {"pending_reboot"}


def test_another_system_s_entry_that_is_started_is_named(node: UefiMachine) -> None:
    other = f"{ESP}/loader/entries/{'f' * 32}-6.8.0.conf"
    node.put(other, f"machine-id {'f' * 32}\nlinux /y/linux\noptions root=UUID=2222 ro\n")
    node.default = other
    outcome = applied(node)
    assert {*statuses(outcome).values()} == {"overridden"}
    assert f"({other}) by default; have bootctl set-default name" in reasons(outcome)
    assert "iommu" not in node.read(other)


def test_a_rescue_entry_keeps_its_words(node: UefiMachine) -> None:
    rescue = f"{ESP}/loader/entries/{MACHINE_ID}-0-rescue.conf"
    text = f"machine-id {MACHINE_ID}\nlinux /x/linux\noptions root=UUID=1111 ro\n"
    node.put(rescue, text)
    node.default = ENTRY if node.exists(ENTRY) else IMAGE
    assert {*statuses(applied(node)).values()} == {"pending_reboot"}
    assert node.read(rescue) == text


def test_an_addon_that_adds_another_value_is_named(images: UefiMachine) -> None:
    addon = f"{IMAGE}.extra.d/50-site.addon.efi"
    images.put(addon, "iommu=off")
    outcome = applied(images)
    assert statuses(outcome)["iommu"] == "overridden"
    [row] = [row for row in outcome.rows if row.setting.key == "boot.iommu"]
    assert row.reading.boot.source == addon


@pytest.mark.parametrize("fault", ["broken", "spoilt", "bare"])
def test_an_image_that_cannot_be_made_again_stays(images: UefiMachine, fault: str) -> None:
    """broken: kernel-install fails in the middle of the file. spoilt: it makes one without the words. bare:
    one without an initramfs."""
    before = images.read(IMAGE)
    setattr(images, fault, 1)
    with pytest.raises(TransactionError):
        applied(images)
    assert [path.rpartition("/")[2] for path in images.matching(f"{ESP}/EFI/Linux/*")] == [
        f"{MACHINE_ID}-6.12.0.efi"
    ]
    assert images.read(CMDLINE) == "root=UUID=1111 ro quiet\n"
    assert images.read(IMAGE).split()[:3] == before.split()[:3]


def test_a_power_cut_finds_an_image(images: UefiMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The new image is on the disk before the old one is removed."""
    commands: list[str] = []
    usual = images.run

    def run(command: Sequence[str], seconds: float = 60) -> Finished:
        commands.append(" ".join(command))
        return usual(command, seconds)

    monkeypatch.setattr(images, "run", run)
    applied(images)
    removal = next(at for at, command in enumerate(commands) if command.startswith("rm "))
    assert commands[removal - 1] == f"sync -f -- {IMAGE}"


@pytest.mark.parametrize("failing", ["6.1.0", "6.12.0"])
def test_two_images_or_none(images: UefiMachine, failing: str) -> None:
    """One cannot be made, now or on the way back: both have the words of before."""
    older = IMAGE.replace("6.12.0", "6.1.0")
    images.put(older, images.read(IMAGE))
    images.put("/boot/vmlinuz-6.1.0", "")
    images.put("/boot/initrd.img-6.1.0", "")
    images.default = IMAGE
    images.failing = failing
    with pytest.raises(TransactionError, match="No space left"):
        applied(images)
    assert images.matching(f"{ESP}/EFI/Linux/*") == sorted([IMAGE, older])
    assert not [path for path in (IMAGE, older, CMDLINE) if "iommu" in images.read(path)]
    images.failing = ""
    assert {*statuses(applied(images)).values()} == {"pending_reboot"}
    assert all("iommu=pt" in images.read(path) for path in (IMAGE, older))


def test_a_killed_run_s_old_image_is_put_back_and_made_again(images: UefiMachine) -> None:
    applied(images)
    images.put(f"{ESP}/EFI/Linux/{MACHINE_ID}-6.12.0.mlnode-kept.efi", "root=UUID=1111 ro quiet")
    images.put(IMAGE, "half")
    applied(images)
    assert images.matching(f"{ESP}/EFI/Linux/*") == [IMAGE]
    assert {*line(images)} >= WORDS


def test_a_counted_entry_waits(node: UefiMachine) -> None:
    """Its name changes with each boot."""
    (path,) = (path for path in (ENTRY, IMAGE) if node.exists(path))
    counted = "+2-1.".join(path.rsplit(".", 1))
    node.put(counted, node.read(path))
    node.remove(path)
    outcome = applied(node)
    assert {*statuses(outcome).values()} == {"unsupported"}
    assert f"{counted}: systemd-boot still counts its boots" in reasons(outcome)


def test_a_revert_waits_for_a_counted_image(images: UefiMachine) -> None:
    applied(images)
    counted = IMAGE.replace(".efi", "+2-1.efi")
    images.put(counted, images.read(IMAGE))
    images.remove(IMAGE)
    with pytest.raises(TransactionError, match="still counts its boots"):
        revert(images)
    images.put(IMAGE, images.read(counted))
    images.remove(counted)
    revert(images)
    assert not WORDS & {*line(images)}


def test_an_image_under_another_name_goes_again(images: UefiMachine) -> None:
    """Else the loader might start it, with words that the run has reported as not set."""
    images.token = "changed"
    with pytest.raises(TransactionError, match="kernel-install made no image with the words"):
        applied(images)
    assert images.matching(f"{ESP}/EFI/Linux/*") == [IMAGE]
    assert "iommu" not in images.read(IMAGE)


def test_an_image_of_another_system_with_the_same_kernel_is_left_alone(images: UefiMachine) -> None:
    other = f"{ESP}/EFI/Linux/{'f' * 32}-6.12.0.efi"
    images.put(other, "root=UUID=2222 ro")
    images.default = IMAGE
    assert {*statuses(applied(images)).values()} == {"pending_reboot"}
    assert (images.read(other), images.made) == ("root=UUID=2222 ro", 1)


@pytest.mark.parametrize(
    ("path", "text", "words"),
    [
        (SECURE_BOOT, "\6\0\0\0\1", "Secure Boot is on and uki.conf has no SecureBootPrivateKey"),
        ("/etc/kernel/tries", "3\n", "/etc/kernel/tries exists"),
        ("/boot/initrd.img-6.12.0", None, "an image without an initramfs"),
    ],
)
def test_a_revert_makes_no_image_that_would_not_start(
    images: UefiMachine, path: str, text: str | None, words: str
) -> None:
    applied(images)
    images.remove(path) if text is None else images.put(path, text)
    images.forget()
    before = images.read(IMAGE)
    with pytest.raises(TransactionError, match=words):
        revert(images)
    assert images.matching(f"{ESP}/EFI/Linux/*") == [IMAGE]
    assert images.read(IMAGE) == before


def test_a_tool_without_a_key_signs_nothing(images: UefiMachine) -> None:
    images.put(SECURE_BOOT, "\6\0\0\0\1")
    images.put("/etc/kernel/uki.conf", "[UKI]\nSecureBootSigningTool=sbsign\n")
    assert {*statuses(applied(images)).values()} == {"unsupported"}


@pytest.mark.parametrize(
    ("path", "text", "words"),
    [
        (SECURE_BOOT, "\6\0\0\0\1", "Secure Boot is on and uki.conf has no SecureBootPrivateKey"),
        (CMDLINE, "ro quiet\n", f"starts with root=UUID=1111, and {CMDLINE} has no root="),
        (CMDLINE, "", f"starts with root=UUID=1111, and {CMDLINE} has no root="),
        (CMDLINE, "root=UUID=2222 ro\n", f"and {CMDLINE} has root=UUID=2222: correct {CMDLINE}"),
        ("/etc/kernel/tries", "3\n", "/etc/kernel/tries exists"),
        (CMDLINE, None, f"{CMDLINE} is missing, so kernel-install would take the running words"),
        ("/boot/vmlinuz-6.12.0", None, f"{IMAGE} is not named after an installed kernel"),
    ],
)
def test_an_image_that_would_not_start_or_not_be_right_is_left_alone(
    images: UefiMachine, path: str, text: str | None, words: str
) -> None:
    images.remove(path) if text is None else images.put(path, text)
    outcome = applied(images)
    assert {*statuses(outcome).values()} == {"unsupported"}
    assert words in reasons(outcome)
    assert images.made == 0


def test_an_image_that_kernel_install_does_not_make_is_its_maker_s(images: UefiMachine) -> None:
    images.layout = "bls"
    assert f"have the maker of {IMAGE} change it" in reasons(applied(images))


def test_a_signing_key_permits_secure_boot(images: UefiMachine) -> None:
    images.put(SECURE_BOOT, "\6\0\0\0\1")
    images.put("/etc/kernel/uki.conf", "[UKI]\nSecureBootPrivateKey=/etc/kernel/key.pem\n")
    assert {*statuses(applied(images)).values()} == {"pending_reboot"}


def test_without_a_file_of_its_own_the_distribution_s_line_is_taken(images: UefiMachine) -> None:
    images.put("/usr/lib/kernel/cmdline", images.read(CMDLINE))
    images.remove(CMDLINE)
    applied(images)
    assert {*images.read(CMDLINE).split()} >= WORDS
    revert(images)
    assert not images.exists(CMDLINE)
    assert not WORDS & {*line(images)}


# -- which loader --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("info", "stub", "style", "lacks"),
    [
        ("GRUB 2.12", "", "drop-in", ""),
        ("GRUB 2.12", "systemd-stub 257", "", "GRUB 2.12 started a unified kernel image"),
        ("rEFInd 0.14.2", "", "", "rEFInd 0.14.2 started this system"),
        ("", "", "drop-in", ""),
    ],
)
def test_the_firmware_s_variable_decides(
    entries: UefiMachine, info: str, stub: str, style: str, lacks: str
) -> None:
    entries.remove(LOADER_INFO)
    entries.put("/sys/firmware/efi/efivars/Boot0000-x", "")
    for name, text in {"LoaderInfo": info, "StubInfo": stub}.items():
        if text:
            entries.variable(name, text)
    loader = boot_loader.find(entries)
    assert (loader.style, loader.unreadable) == (style, "")
    assert loader.lacks.startswith(lacks)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/proc/cmdline", "BOOT_IMAGE=/boot/vmlinuz-6.12.0 root=UUID=1111 ro quiet\n"),
        ("/run/systemd/container", "podman\n"),
    ],
)
def test_grub_that_another_loader_started_and_a_container_need_none(
    entries: UefiMachine, path: str, text: str
) -> None:
    """GRUB of Debian 12 leaves the variable of the loader that started it."""
    entries.put(path, text)
    assert boot_loader.find(entries).name == "GRUB"


def test_firmware_that_starts_an_image_itself_needs_no_loader(images: UefiMachine) -> None:
    images.remove(LOADER_INFO)
    assert {*statuses(applied(images)).values()} == {"pending_reboot"}


def test_two_loaders_and_no_variables_are_unknown(entries: UefiMachine) -> None:
    entries.remove(LOADER_INFO)
    outcome = applied(entries)
    assert {*statuses(outcome).values()} == {"unknown"}
    assert "efivarfs is not mounted" in reasons(outcome)


@pytest.mark.parametrize(
    "content", [b"", b"\6\0\0\0", b"\6\0\0\0s", b"\6\0\0\0\0\xd8\0\xd8", b"\6\0\0\0\1\0\2\0", b"\xff" * 70000]
)
def test_a_damaged_variable_is_unknown(entries: UefiMachine, content: bytes) -> None:
    pathlib.Path(entries.real(LOADER_INFO)).write_bytes(content)
    before = entries.tree()
    assert {*statuses(applied(entries)).values()} == {"unknown"}
    assert entries.tree()[ENTRY] == before[ENTRY]


@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO])
@pytest.mark.parametrize("path", [LOADER_INFO, ENTRY, "/etc/machine-id"])
def test_files_that_cannot_be_read_are_unknown(entries: UefiMachine, path: str, number: int) -> None:
    entries.unreadable[path] = number
    loader = boot_loader.find(entries)
    assert loader.style == ""
    assert errno.errorcode[number] in loader.unreadable


@pytest.mark.parametrize(
    "finished",
    [
        Finished(1, "", "Couldn't find EFI system partition."),
        Finished(0, "", ""),
        Finished(0, "{", ""),
        Finished(0, "{}", ""),
        Finished(0, "[1]", ""),
        Finished(0, json.dumps([{"type": "type2", "path": IMAGE}]), ""),
        Finished(
            0,
            json.dumps([{"type": "type1", "path": 1, "showTitle": "", "options": "", "isDefault": True}]),
            "",
        ),
        Finished(0, "[" * 100000, ""),
    ],
)
def test_an_answer_of_bootctl_that_is_not_understood_is_unknown(
    images: UefiMachine, monkeypatch: pytest.MonkeyPatch, finished: Finished
) -> None:
    monkeypatch.setattr(images, "run", lambda _command, _seconds=60: finished)
    assert boot_loader.find(images).unreadable


def test_no_entry_at_all_is_not_supported(images: UefiMachine) -> None:
    images.remove(IMAGE)
    lacks = boot_loader.find(images).lacks
    assert lacks == "none of the entries that bootctl lists starts a kernel of this system"
