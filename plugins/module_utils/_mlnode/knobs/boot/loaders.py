# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The boot loader that starts this machine's kernels, and how parameters are given to it."""

from __future__ import annotations

import re
from typing import Callable, Mapping, Sequence

from ...engine import edited_file
from ...engine.handlers import BOOT_LOADER
from ...host import image_mode
from ...host.host import Host
from ...linux import grub, last_boot
from ...model.errors import HostError
from ...model.record import NamedTuple
from ...model.setting import BootFile
from . import bls as boot_bls
from . import default
from . import grub as boot_grub
from .default import Default
from .grub import Entry

#: Loaded by its name where a file is written that others edit, too: this area has it sent along
BRINGS = (edited_file,)

Changes = Mapping[str, Sequence[str]]


class Loader(NamedTuple):
    """The boot loader of this machine.

    lacks: why parameters cannot be given to it; empty if they can. unreadable: why that is unknown.
    style: drop-in, defaults (both GRUB) or entries (of the Boot Loader Specification). default: the entry
    that it starts, if that is none of those that are made for parameters.
    """

    entries: tuple[Entry, ...] = ()
    style: str = ""
    lacks: str = ""
    unreadable: str = ""
    default: Default = Default()


def find(host: Host, image: bool = False) -> Loader:
    """The loader of the machine, or why none can be used; never raises.

    image: it is a tree that a machine will boot from, whose menu may be written last of all.
    """
    try:
        return _find(host, image)
    except HostError as error:
        return Loader(unreadable=str(error))


def _find(host: Host, image: bool) -> Loader:
    if not image and host.exists(image_mode.OSTREE_BOOTED):
        return _of_ostree(host)
    menu = grub.config(host)
    if menu is None and image and _sources_drop_ins(host):
        return Loader(style="drop-in")
    if menu is None:
        return Loader(lacks=_without_grub(host))
    text = host.read(menu)
    if _reads_entries(host, text):
        return _from_entries(host, menu, image)
    if grub.command(host, menu) is None:
        return Loader(lacks=f"{menu} exists, but no grub-mkconfig that could regenerate it")
    entries = boot_grub.entries(text, menu)
    if not entries:
        return Loader(lacks=f"{menu} starts no kernel of this system; is /boot mounted?")
    started = default.beside(host, menu, entries)
    kernels = (*entries, started.entry) if started.entry else (*entries,)
    if _sources_drop_ins(host):
        return Loader(kernels, "drop-in", default=started)
    return Loader(kernels, "defaults", lacks=_not_editable(host), default=started)


def _of_ostree(host: Host) -> Loader:
    """The deployment that is booted next. Another one beside it is what a rollback goes back to."""
    system = image_mode.ostree(host)
    path = boot_bls.of_ostree(host)
    entries = boot_bls.entries(host, [path]) if path else []
    lacks = (
        f"{system.name} makes the entries of the boot loader with each deployment: {system.kernel_arguments}"
    )
    return Loader((*entries,), lacks=lacks)


def _without_grub(host: Host) -> str:
    reason = f"neither {' nor '.join(grub.CONFIGS)} exists"
    if host.exists("/usr/bin/bootc"):
        system = image_mode.ostree(host)
        return f"{reason}: this is a tree for {system.name}; {system.kernel_arguments}"
    if host.matching(f"{boot_bls.ENTRIES}/*.conf") or host.exists(boot_bls.CMDLINE):
        return (
            f"{reason}: it is systemd-boot or another loader; write the words into {boot_bls.CMDLINE}, and "
            "run kernel-install add for each kernel"
        )
    return f"{reason}: what starts this kernel (container, hypervisor, network boot) sets its parameters"


def _reads_entries(host: Host, menu: str) -> bool:
    """True if GRUB makes its menu of the entries (blscfg, a command of the Red Hat family's GRUB)."""
    defaults = host.text(boot_grub.DEFAULTS)
    asked = re.search(r"^[ \t]*GRUB_ENABLE_BLSCFG=[\"']?true", defaults, re.MULTILINE)
    used = re.search(r"^[ \t]*blscfg\b", menu, re.MULTILINE)
    return bool(asked or used) and bool(boot_bls.files(host, image=True))


def _from_entries(host: Host, menu: str, image: bool) -> Loader:
    entries = boot_bls.entries(host, boot_bls.files(host, image))
    if not entries:
        return Loader(lacks=f"no entry of {boot_bls.ENTRIES} starts a kernel of this system")
    for entry in entries:
        if boot_bls.KERNEL_OPTS in entry.line or "${kernelopts}" in entry.line:
            return Loader(
                lacks=f"{entry.where} takes its parameters from {boot_bls.KERNEL_OPTS}, which only grubby "
                "edits: run grubby --update-kernel=ALL --args=... --remove-args=..."
            )
    started = default.beside(host, menu, entries)
    kernels = (*entries, started.entry) if started.entry else (*entries,)
    return Loader(kernels, "entries", lacks=_not_editable(host), default=started)


def _sources_drop_ins(host: Host) -> bool:
    """True if grub-mkconfig reads /etc/default/grub.d, as Debian's and Ubuntu's do."""
    program = grub.mkconfig(host)
    return program is not None and "/default/grub.d/" in host.read(program)


def _not_editable(host: Host) -> str:
    try:
        boot_grub.edited(host.text(boot_grub.DEFAULTS), {})
    except ValueError as error:
        return str(error)
    return ""


def later_file(host: Host, name: str, parameter: str, lost: bool = False) -> str:
    """`path:line` of a drop-in that names a parameter and is read after mlnode's; empty if none does.

    lost: mlnode's words are gone, so that it may be one that replaces the whole variable. Raises HostError.
    Only to be called where mlnode's own drop-in names it.
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


def given(host: Host, name: str, parameter: str) -> tuple[str, ...] | None:
    """The words that the drop-in of a declaration gives to a parameter; None where it does not speak of it.
    Raises HostError."""
    return boot_grub.given(host.text(drop_in(name)), parameter)


def menu_source(loader: Loader, host: Host, name: str, parameter: str, words: Sequence[str]) -> str:
    """The file of which GRUB's menu will be made, if it gives the parameter these words; else empty. Raises
    HostError."""
    if loader.lacks or loader.unreadable:
        return ""
    if loader.style == "drop-in":
        right = given(host, name, parameter) == tuple(words) and not later_file(host, name, parameter)
        return drop_in(name) if right else ""
    text = host.text(boot_grub.DEFAULTS)
    right = loader.style == "defaults" and boot_grub.edited(text, {parameter: words}) == text
    return boot_grub.DEFAULTS if right else ""


def drop_in(name: str) -> str:
    return f"{boot_grub.DROP_INS}/{boot_grub.DROP_IN_NAME}{name}.cfg"


def files(loader: Loader, name: str, changes: Changes, stale: bool, host: Host) -> list[BootFile]:
    """The files that give the parameters of one declaration to the loader. Raises HostError.

    stale: the menu is not what these files say, even if they are right.
    """
    if loader.style == "drop-in":
        content = boot_grub.drop_in(name, changes) if changes else None
        return [BootFile(drop_in(name), content, BOOT_LOADER, stale)]
    if loader.lacks or loader.unreadable or not changes:
        return []
    if loader.style == "defaults":
        content = _edited(host, boot_grub.DEFAULTS, boot_grub.edited, changes)
        return [BootFile(boot_grub.DEFAULTS, content, BOOT_LOADER, stale)]
    # The entries first: they are what counts at the next boot, the others at the next kernel.
    boot_files = [
        BootFile(path, _edited(host, path, boot_bls.edited, changes))
        for path in dict.fromkeys(entry.where.rpartition(":")[0] or entry.where for entry in loader.entries)
        if path.startswith(boot_bls.ENTRIES)
    ]
    for path, edit in ((boot_bls.CMDLINE, boot_bls.edited_line), (boot_grub.DEFAULTS, boot_grub.edited)):
        if host.exists(path):
            boot_files.append(BootFile(path, _edited(host, path, edit, changes)))
    return boot_files


def _edited(host: Host, path: str, edit: Callable[[str, Changes], str], changes: Changes) -> bytes:
    return edit(host.text(path), changes).encode("utf-8", "surrogateescape")


def was_there(host: Host, loader: Loader) -> bool:
    """True if the last boot found the loader's menu as it is: nothing of it was changed since. Raises
    HostError."""
    files = {*loader.default.files, *(entry.where.rpartition(":")[0] for entry in loader.entries)}
    files |= {path.rpartition("/")[0] for path in files}  # one that was removed since
    return last_boot.is_older(host, sorted({*files, *boot_bls.ENVIRONMENT} - {""}))


def boot_sources(host: Host, parameter: str) -> list[str]:
    """Every line of a file of a loader that names a parameter, as `path:line: text`. Raises HostError."""
    paths = [*grub.CONFIGS, *boot_bls.ENVIRONMENT, boot_grub.DEFAULTS, boot_bls.CMDLINE]
    paths += host.matching(f"{boot_grub.DROP_INS}/*.cfg") + host.matching(f"{boot_bls.ENTRIES}/*.conf")
    lines = []
    for path in paths:
        text = host.text(path)
        lines += [f"{path}:{number}: {line}" for number, line in boot_grub.naming(text, parameter)]
    return lines
