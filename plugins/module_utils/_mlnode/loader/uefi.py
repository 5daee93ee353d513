# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kernel parameters in the menu of systemd-boot, and in unified kernel images (UKI) that it or the firmware
starts. Both give the words to the kernel as they are: no quotes are removed, and a semicolon ends nothing.
"""

from __future__ import annotations

from ..host.host import Host
from ..linux import systemd_boot
from ..linux.systemd_boot import Item
from ..model.record import NamedTuple
from . import bls, cmdline
from .default import Default
from .grub import Entry


class Menu(NamedTuple):
    """entries: this system's kernels. default: the started entry, if it is another one. lacks: why parameters
    cannot be given to them."""

    entries: tuple[Entry, ...]
    default: Default
    lacks: str


def menu(host: Host) -> Menu:
    """The kernels of this system. Raises HostError."""
    items = systemd_boot.items(host)
    own = [item for item in items if item.tries != 0 and _is_own(host, item)]
    own.sort(key=lambda item: not item.default)
    files = tuple(dict.fromkeys(_configuration(item.path) for item in items))
    others = [item for item in items if item.default and item not in own]
    astray = f"systemd-boot starts {others[0].title!r} ({others[0].path}) by default" if others else ""
    default = Default(None, astray, others[0].path if others else "", files)
    return Menu(tuple(_entry(host, item) for item in own), default, _lacks(host, own))


def _configuration(path: str) -> str:
    return path.partition("/loader/entries/")[0].partition("/EFI/Linux/")[0] + "/loader/loader.conf"


def _is_own(host: Host, item: Item) -> bool:
    text = f"uki {item.path}\noptions {item.options}" if item.unified else host.read(item.path)
    return bls.is_own(host, item.path, text)


def _entry(host: Host, item: Item) -> Entry:
    quotes = cmdline.KERNEL_QUOTES
    if item.unified:
        return Entry(item.path, item.options, item.added, quotes=quotes)
    (entry,) = bls.entries(host, [item.path], quotes)
    return entry


def _lacks(host: Host, own: list[Item]) -> str:
    if not own:
        return "none of the entries that bootctl lists starts a kernel of this system"
    counted = next((item for item in own if item.tries is not None), None)
    if counted:  # its name changes with each boot, and the way back knows the file by its name
        return f"{counted.path}: {systemd_boot.COUNTED}"
    images = [item for item in own if item.unified]
    return systemd_boot.lacks(host, images) if images else ""
