# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The boot loader that starts this machine's kernels, and the command line of each."""

from __future__ import annotations

import re

from ..host import image_mode
from ..host.host import Host
from ..linux import grub, kernel_line, last_boot, systemd_boot
from ..linux.kernel_line import KernelLine
from ..model.errors import HostError
from ..model.record import NamedTuple
from . import bls, cmdline, default, deployed, uefi
from . import grub as menu_grub
from .default import Default
from .grub import Entry


class Loader(NamedTuple):
    """The boot loader of this machine.

    lacks: why parameters cannot be given to it; "" if they can. unreadable: why that is unknown. style:
    drop-in, defaults (both GRUB), entries (of the Boot Loader Specification) or deployment (of ostree).
    default: the entry it starts, if that entry is not generated from the parameters. name: GRUB, or
    systemd-boot, which also stands for firmware that starts a UKI.
    """

    entries: tuple[Entry, ...] = ()
    style: str = ""
    lacks: str = ""
    unreadable: str = ""
    default: Default = Default()
    name: str = "GRUB"

    @property
    def quotes(self) -> str:
        """The signs that the loader takes for quotes, and removes."""
        return cmdline.LOADER_QUOTES if self.name == "GRUB" else cmdline.KERNEL_QUOTES


def next_line(host: Host) -> KernelLine | None:
    """Command line of the next boot, as systemd will read it; None if unknown. Raises HostError.

    The loader's entry counts first, because words added by hand last for one boot. If the loader has no known
    entry, the running command line counts.
    """
    return host.once("line of systemd", lambda: _next_line(host), of_files=True)


def _next_line(host: Host) -> KernelLine | None:
    line = kernel_line.running(host)
    loader = find(host) if line is not None else Loader()
    entry = loader.default.entry or next(iter(loader.entries), None)
    return line if entry is None else kernel_line.parse(entry.command_line, entry.where)


def find(host: Host, image: bool = False) -> Loader:
    """The loader of the machine, or why none can be used. Never raises.

    image: the root is a tree that a machine will boot from; its menu may be written as the last step.
    """
    return host.once(f"boot loader {image}", lambda: _loader(host, image), of_files=True)


def _loader(host: Host, image: bool) -> Loader:
    try:
        return _find(host, image)
    except HostError as error:
        return Loader(unreadable=str(error))


def _find(host: Host, image: bool) -> Loader:
    if not image and host.exists(image_mode.OSTREE_BOOTED):
        return _of_ostree(host)
    other = None if image else _without_grub_menu(host)
    if other is not None:
        return other
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
    entries = menu_grub.entries(text, menu)
    if not entries:
        return Loader(lacks=f"{menu} starts no kernel of this system; is /boot mounted?")
    started = default.beside(host, menu, entries)
    kernels = (*entries, started.entry) if started.entry else (*entries,)
    if _sources_drop_ins(host):
        return Loader(kernels, "drop-in", default=started)
    return Loader(kernels, "defaults", lacks=_not_editable(host), default=started)


def _without_grub_menu(host: Host) -> Loader | None:
    """The loader that started this system, if it was not GRUB, or may not have been. GRUB's menu on the disk
    proves nothing: another loader may be installed, too."""
    if host.exists("/run/systemd/container"):  # variables and menus are the host's
        return None
    program, stub = systemd_boot.started(host)
    if not stub and cmdline.parameter(host.text(cmdline.COMMAND_LINE), "BOOT_IMAGE"):
        return None  # GRUB before 2.12 sets no variable, and another loader may have started it
    if program.startswith(systemd_boot.NAME) or (stub and not program):
        menu = uefi.menu(host)
        return Loader(menu.entries, "entries", menu.lacks, default=menu.default, name=systemd_boot.NAME)
    if stub:
        reason = f"{program} started a unified kernel image, which may ignore words of {program}"
        return Loader(lacks=reason, name=program)
    if program and not program.startswith("GRUB"):
        return Loader(lacks=f"{program} started this system: set parameters there", name=program)
    if program or not systemd_boot.is_blind(host):
        return None
    return Loader(unreadable="it is unknown which boot loader the firmware starts: efivarfs is not mounted")


def _of_ostree(host: Host) -> Loader:
    entry = deployed.next_entry(host)
    try:
        lacks = deployed.lacks(host, entry)
    except HostError as error:  # the entry is known all the same
        lacks = str(error)
    name = systemd_boot.NAME if systemd_boot.is_started(host) else "GRUB"
    return Loader((entry,) if entry else (), "" if lacks else "deployment", lacks, name=name)


def _without_grub(host: Host) -> str:
    reason = f"neither {' nor '.join(grub.CONFIGS)} exists"
    if host.exists("/usr/bin/bootc") or host.exists("/usr/bin/rpm-ostree"):
        system = image_mode.ostree(host)
        return f"{reason}: this is a tree for {system.name}; {system.kernel_arguments}"
    if host.matching(f"{bls.ENTRIES}/*.conf") or host.exists(bls.CMDLINE):
        return (
            f"{reason}: it is systemd-boot or another loader; write the words into {bls.CMDLINE}, and "
            "run kernel-install add for each kernel"
        )
    return f"{reason}: the container, hypervisor or network boot that starts this kernel sets its parameters"


def _reads_entries(host: Host, menu: str) -> bool:
    """True if GRUB builds its menu from the entries (blscfg, a command of the Red Hat family's GRUB)."""
    defaults = host.text(menu_grub.DEFAULTS)
    asked = re.search(r"^[ \t]*GRUB_ENABLE_BLSCFG=[\"']?true", defaults, re.MULTILINE)
    used = re.search(r"^[ \t]*blscfg\b", menu, re.MULTILINE)
    return bool(asked or used) and bool(bls.files(host, image=True))


def _from_entries(host: Host, menu: str, image: bool) -> Loader:
    entries = bls.entries(host, bls.files(host, image))
    if not entries:
        return Loader(lacks=f"no entry of {bls.ENTRIES} starts a kernel of this system")
    for entry in entries:
        if bls.KERNEL_OPTS in entry.line or "${kernelopts}" in entry.line:
            return Loader(
                lacks=f"{entry.where} takes its parameters from {bls.KERNEL_OPTS}, which only grubby "
                "edits: run grubby --update-kernel=ALL --args=... --remove-args=..."
            )
    started = default.beside(host, menu, entries)
    kernels = (*entries, started.entry) if started.entry else (*entries,)
    return Loader(kernels, "entries", lacks=_not_editable(host), default=started)


def _sources_drop_ins(host: Host) -> bool:
    """True if grub-mkconfig reads /etc/default/grub.d, as on Debian and Ubuntu."""
    program = grub.mkconfig(host)
    return program is not None and "/default/grub.d/" in host.read(program)


def _not_editable(host: Host) -> str:
    try:
        menu_grub.edited(host.text(menu_grub.DEFAULTS), {})
    except ValueError as error:
        return str(error)
    return ""


def was_there(host: Host, loader: Loader) -> bool:
    """True if the loader's menu is unchanged since the last boot. Raises HostError."""
    files = {_file(entry) for entry in loader.entries}
    # systemd writes a seed at each boot into the folder of systemd-boot's configuration.
    files |= {*loader.default.files} if loader.name == "GRUB" else set()
    files |= {path.rpartition("/")[0] for path in files}  # a folder changes if a file is removed
    return last_boot.is_older(host, sorted({*files, *loader.default.files, *bls.ENVIRONMENT} - {""}))


def _file(entry: Entry) -> str:
    path, _colon, line = entry.where.rpartition(":")
    return path if line.isdigit() else entry.where


def boot_sources(host: Host, parameter: str) -> list[str]:
    """Lines in the loader's files that set or mention a parameter, as `path:line: text`. Raises HostError."""
    paths = [*grub.CONFIGS, *bls.ENVIRONMENT, menu_grub.DEFAULTS, bls.CMDLINE]
    paths += host.matching(f"{menu_grub.DROP_INS}/*.cfg")
    paths += host.matching(deployed.IMAGE_WORDS)
    paths += [path for folder in bls.FOLDERS for path in host.matching(f"{folder}/*.conf")]
    lines = []
    for path in paths:
        text = host.text(path)
        lines += [f"{path}:{number}: {line}" for number, line in menu_grub.naming(text, parameter)]
    return lines
