# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node that UEFI firmware starts through systemd-boot. Its bootctl and kernel-install do to files below a
folder what those of systemd 257 do to the EFI system partition; a unified image is a text with its words."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

from ansible_collections.mlnode.tuning.tests.unit.grub_machine import GrubMachine
from mlnode.host.system import Finished

ESP = "/boot/efi"
MACHINE_ID = "0123456789abcdef" * 2
ENTRY = f"{ESP}/loader/entries/{MACHINE_ID}-6.12.0.conf"
IMAGE = f"{ESP}/EFI/Linux/{MACHINE_ID}-6.12.0.efi"
CMDLINE = "/etc/kernel/cmdline"
_EFIVARS = "/sys/firmware/efi/efivars"
_INTERFACE = "4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"
SECURE_BOOT = f"{_EFIVARS}/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
LOADER_INFO = f"{_EFIVARS}/LoaderInfo-{_INTERFACE}"
STUB_INFO = f"{_EFIVARS}/StubInfo-{_INTERFACE}"
#: Name of a section in an image that has an initramfs
INITRD = "\n.initrd\0"
_LINE = "root=UUID=1111 ro quiet"


class UefiMachine(GrubMachine):
    """layout: that of kernel-install. default: the entry that is started; empty for the first. spoilt: images
    that lack the words, from now on. bare: those without an initramfs. token: the beginning of their
    names. failing: a kernel whose image finds no space."""

    layout = "bls"
    default = ""
    spoilt = 0
    bare = 0
    made = 0
    token = MACHINE_ID
    failing = ""

    @classmethod
    def with_entries(cls, root: str) -> UefiMachine:
        """Entries of type 1, with a menu of GRUB beside them that nothing reads."""
        machine = cls.debian_with_grub(root)
        assert isinstance(machine, UefiMachine)
        machine.variable("LoaderInfo", "systemd-boot 257.13-1~deb13u1")
        machine.put("/etc/machine-id", f"{MACHINE_ID}\n")
        machine.put(f"{ESP}/loader/loader.conf", "timeout 0\n")
        machine.put(ENTRY, f"title Debian\nmachine-id {MACHINE_ID}\nlinux /x/linux\noptions {_LINE}\n")
        machine.put(CMDLINE, f"{_LINE}\n")
        machine.put("/boot/vmlinuz-6.12.0", "")
        machine.put("/boot/initrd.img-6.12.0", "")
        machine.boot_entry()
        return machine

    @classmethod
    def with_images(cls, root: str) -> UefiMachine:
        machine = cls.with_entries(root)
        machine.layout = "uki"
        machine.remove(ENTRY)
        machine.put(IMAGE, f"{_LINE}{INITRD}")
        machine.variable("StubInfo", "systemd-stub 257.13-1~deb13u1")
        machine.boot_entry()
        return machine

    def variable(self, name: str, text: str) -> None:
        self.put(f"{_EFIVARS}/{name}-{_INTERFACE}", "")
        with open(self.real(f"{_EFIVARS}/{name}-{_INTERFACE}"), "wb") as stream:
            stream.write(b"\6\0\0\0" + f"{text}\0".encode("utf-16-le"))

    def boot_entry(self) -> None:
        """Boot what systemd-boot would start."""
        item = next(item for item in self.listed() if item["isDefault"])
        self.started(item["cmdline"])
        self.put("/proc/cmdline", f"{item['cmdline']}\n")
        self.forget()

    # -- programs --------------------------------------------------------------------------

    def run(self, command: Sequence[str], seconds: float = 60) -> Finished:
        program, *words = command
        if program == "bootctl":
            return Finished(0, json.dumps(self.listed()), "")
        if program == "kernel-install":
            return self._kernel_install(words)
        if program in ("mv", "rm") and ESP in command[-1]:
            paths = [self.real(path) for path in words[words.index("--") + 1 :]]
            os.remove(paths[0]) if program == "rm" else os.replace(paths[0], paths[1])
            return Finished(0, "", "")
        return Finished(0, "", "") if program == "sync" else super().run(command, seconds)

    def listed(self) -> list[dict[str, Any]]:
        entries = [self._type1(path) for path in self.matching(f"{ESP}/loader/entries/*.conf")]
        entries += [self._type2(path) for path in self.matching(f"{ESP}/EFI/Linux/*.efi")]
        for at, entry in enumerate(entries):
            chosen = entry["path"] == self.default if self.default else at == 0
            addons = " ".join(addon["options"] for addon in entry["addons"] or ())
            entry.update(isDefault=chosen, cmdline=f"{entry['options']} {addons}".strip())
        firmware = {"type": "auto", "id": "auto-reboot-to-firmware-setup", "showTitle": "Setup"}
        return [*entries, {**firmware, "isDefault": False}]

    def _type1(self, path: str) -> dict[str, Any]:
        pairs = [line.partition(" ") for line in self.read(path).splitlines()]
        options = " ".join(value for key, _blank, value in pairs if key == "options")
        return {**_entry("type1", path, options), **_tries(path)}

    def _type2(self, path: str) -> dict[str, Any]:
        addons = [
            {"localAddon": addon.rpartition("EFI/Linux/")[2], "options": self.read(addon)}
            for addon in self.matching(f"{path}.extra.d/*.addon.efi")
        ]
        options = self.read(path).partition("\n")[0]
        return {**_entry("type2", path, options), **_tries(path), "addons": addons or None}

    def _kernel_install(self, words: Sequence[str]) -> Finished:
        if words[0] == "inspect":
            if not words[2:]:
                return Finished(1, "", "Kernel image not installed to '/usr/lib/modules/6.12.0/vmlinuz'\n")
            return Finished(0, json.dumps({"Layout": self.layout}, separators=(",", ":")), "")
        self.made += 1
        _add, version, kernel, *initrds = words
        assert all(self.exists(path) for path in (kernel, *initrds)), words
        if self.broken or version == self.failing:
            self.broken = max(0, self.broken - 1)
            self.put(f"{ESP}/EFI/Linux/{MACHINE_ID}-{version}.efi", "half of an ima")
            return Finished(1, "", "ukify failed: No space left on device\n")
        line = "another line" if self.spoilt else self.text(CMDLINE) or self.text("/usr/lib/kernel/cmdline")
        self.spoilt = max(0, self.spoilt - 1)
        words_of_image = f"{' '.join(line.split())} systemd.machine_id={MACHINE_ID}"
        section = INITRD if initrds and not self.bare else ""
        self.bare = max(0, self.bare - 1)
        self.put(f"{ESP}/EFI/Linux/{self.token}-{version}.efi", f"{words_of_image}{section}")
        return Finished(0, "", "")


def _entry(kind: str, path: str, options: str) -> dict[str, Any]:
    name = path.rpartition("/")[2]
    return {
        "type": kind,
        "source": "esp",
        "id": name,
        "path": path,
        "root": ESP,
        "showTitle": "Debian",
        "options": options,
        "addons": None,
    }


def _tries(path: str) -> dict[str, Any]:
    left = path.rpartition("+")[2].partition(".")[0].partition("-")[0]
    return {"triesLeft": int(left)} if "+" in path else {}
