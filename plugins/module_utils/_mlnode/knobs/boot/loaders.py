# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files that give parameters to the boot loader."""

from __future__ import annotations

from functools import partial
from typing import Callable, Mapping, Sequence

from ...engine import edited_file
from ...engine.handlers import BOOT_LOADER, KERNEL_ARGUMENTS, KERNEL_IMAGES
from ...host.host import Host
from ...linux import systemd_boot
from ...loader import bls as boot_bls
from ...loader import deployed
from ...loader import grub as boot_grub
from ...loader.boot_loader import Loader
from ...model.setting import BootFile

#: Modules that are loaded by name to write a shared file; this area adds them to the agent
BRINGS = (edited_file,)

Changes = Mapping[str, Sequence[str]]


def later_file(host: Host, name: str, parameter: str, lost: bool = False) -> str:
    """`path:line` of a drop-in that names a parameter and is read after mlnode's; empty if there is none.

    lost: mlnode's words are gone, so a later file may replace the whole variable. Call it only if mlnode's
    own drop-in names the parameter. Raises HostError if a file cannot be read.
    """
    own = drop_in(name)
    for path in reversed(host.matching(f"{boot_grub.DROP_INS}/*.cfg")):
        if path > own and not path.startswith(f"{boot_grub.DROP_INS}/{boot_grub.DROP_IN_NAME}"):
            text = host.text(path)
            lines = [number for number, _line in boot_grub.naming(text, parameter)]
            lines += boot_grub.emptying(text) if lost else []
            if lines:
                return f"{path}:{max(lines)}"
    return ""


def given(loader: Loader, host: Host, name: str, parameter: str) -> tuple[str, ...] | None:
    """The words that a declaration's own file gives to a parameter; None if it does not mention it. Raises
    HostError.
    """
    if loader.style == "deployment":
        return deployed.given(host, name, parameter)
    return boot_grub.given(host.text(drop_in(name)), parameter)


def menu_source(loader: Loader, host: Host, name: str, parameter: str, words: Sequence[str]) -> str:
    """The source file of GRUB's menu, if it gives the parameter these words; else empty. Raises HostError."""
    if loader.lacks or loader.unreadable:
        return ""
    if loader.style == "drop-in":
        right = given(loader, host, name, parameter) == tuple(words) and not later_file(host, name, parameter)
        return drop_in(name) if right else ""
    text = host.text(boot_grub.DEFAULTS)
    right = loader.style == "defaults" and boot_grub.edited(text, {parameter: words}) == text
    return boot_grub.DEFAULTS if right else ""


def drop_in(name: str) -> str:
    return f"{boot_grub.DROP_INS}/{boot_grub.DROP_IN_NAME}{name}.cfg"


def files(loader: Loader, name: str, changes: Changes, stale: bool, host: Host) -> list[BootFile]:
    """The files that give the parameters of one declaration to the loader. Raises HostError.

    stale: the menu differs from these files, even if they are right.
    """
    if loader.style == "drop-in":
        content = boot_grub.drop_in(name, changes) if changes else None
        return [BootFile(drop_in(name), content, BOOT_LOADER, stale)]
    if loader.style == "deployment":
        content = deployed.content(changes) if changes else None
        stale = stale or deployed.is_owed(host)
        return [BootFile(deployed.path_of(name), content, KERNEL_ARGUMENTS, stale)]
    if loader.lacks or loader.unreadable or not changes:
        return []
    if loader.style == "defaults":
        content = _edited(host, boot_grub.DEFAULTS, boot_grub.edited, changes)
        return [BootFile(boot_grub.DEFAULTS, content, BOOT_LOADER, stale)]
    # The entries come first: they decide the next boot, the other files only the next kernel.
    edit_entry = partial(boot_bls.edited, quotes=loader.quotes)
    boot_files = [
        BootFile(path, _edited(host, path, edit_entry, changes))
        for path in dict.fromkeys(entry.where.rpartition(":")[0] or entry.where for entry in loader.entries)
        if "/loader/entries/" in path
    ]
    edit_line = partial(boot_bls.edited_line, quotes=loader.quotes)
    if any(entry.where.endswith(".efi") for entry in loader.entries):
        source = boot_bls.CMDLINE if host.exists(boot_bls.CMDLINE) else systemd_boot.DEFAULT_CMDLINE
        line = _edited(host, source, edit_line, changes)
        boot_files.append(BootFile(boot_bls.CMDLINE, line, KERNEL_IMAGES, stale))
    elif host.exists(boot_bls.CMDLINE):
        boot_files.append(BootFile(boot_bls.CMDLINE, _edited(host, boot_bls.CMDLINE, edit_line, changes)))
    if loader.name == "GRUB" and host.exists(boot_grub.DEFAULTS):
        boot_files.append(
            BootFile(boot_grub.DEFAULTS, _edited(host, boot_grub.DEFAULTS, boot_grub.edited, changes))
        )
    return boot_files


def _edited(host: Host, path: str, edit: Callable[[str, Changes], str], changes: Changes) -> bytes:
    return edit(host.text(path), changes).encode("utf-8", "surrogateescape")
