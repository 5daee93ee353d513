# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The entry that GRUB starts by default, if our parameters cannot reach it.

GRUB_DEFAULT, the saved_entry of grub-set-default or a file sourced by grub.cfg (custom.cfg) may select an
entry of /etc/grub.d/40_custom. Its command line is fixed: neither GRUB_CMDLINE_LINUX nor an entry of the Boot
Loader Specification changes it.
"""

from __future__ import annotations

from typing import Mapping, Sequence

from ..host.host import Host
from ..linux import grub, grub_menu
from ..linux.grub_menu import Item
from ..model.record import NamedTuple, regex
from .grub import Entry, entry

#: Prefix of another system's entry (util/grub.d/30_os-prober.in)
_OTHER_SYSTEM = regex(r"osprober-")
#: Recovery entry of this system (10_linux.in), whose command line contains GRUB_CMDLINE_LINUX
_FOR_REPAIR = regex(r"gnulinux-.*-recovery-")
#: Limit for menus that start each other; no useful setup has more
_DEPTH = 4


class Default(NamedTuple):
    """The default entry, if it is not a known entry.

    entry: its kernel. astray: why it starts no kernel of this system. place: the line or file that selects
    it. files: all files that decide this.
    """

    entry: Entry | None = None
    astray: str = ""
    place: str = ""
    files: tuple[str, ...] = ()


def beside(host: Host, menu: str, known: Sequence[Entry]) -> Default:
    """The default entry if it differs from the known ones, else empty; also if unknown. Raises HostError."""
    place = ""
    files: tuple[str, ...] = (menu,)
    exported: Mapping[str, str | None] = {}
    for _depth in range(_DEPTH):
        try:
            boot_menu = grub_menu.menu(host, menu, exported)
        except ValueError:
            break
        place, files = place or boot_menu.place, (*files, *boot_menu.files)
        item = grub_menu.chosen(boot_menu)
        if item is None or _FOR_REPAIR.match(item.id):
            break
        kernel = None if _OTHER_SYSTEM.match(item.id) else _kernel(item)
        if kernel is not None:
            is_known = any(kernel.where == known_entry.where for known_entry in known)
            return Default(None if is_known else kernel._replace(by_hand=True), "", place, files)
        further = "" if _OTHER_SYSTEM.match(item.id) else grub_menu.further(host, menu, boot_menu, item)
        if further == "":
            chosen = f"GRUB starts {item.title!r} by default ({place or menu})"
            words = f"{chosen}, which starts none of this system's kernels"
            return Default(None, f"{words}: {item.where}", place, files)
        if further is None:
            break
        menu, exported = further, boot_menu.exported
    return Default(files=files)


def _kernel(item: Item) -> Entry | None:
    match = grub.KERNEL_LINE.search(item.text)
    if match is None:
        return None
    number = item.text_line + item.text.count("\n", 0, match.start())
    return entry(f"{item.path}:{number}", match.group(1) or "", {})
