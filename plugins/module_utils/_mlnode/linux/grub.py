# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""GRUB's menu, and its generator: grub-mkconfig, or the distribution's update-grub."""

from __future__ import annotations

import re

from ..host.host import Host
from ..model.errors import HostError
from ..model.record import regex

#: Debian and most others; Red Hat and SUSE
CONFIGS = ("/boot/grub/grub.cfg", "/boot/grub2/grub.cfg")
MKCONFIGS = ("/usr/sbin/grub-mkconfig", "/usr/sbin/grub2-mkconfig", "/usr/bin/grub-mkconfig")
_UPDATE = "/usr/sbin/update-grub"

#: Seconds; os-prober, if enabled, mounts every partition of every disk
_MENU_SECONDS = 300.0

#: The line of a menu entry with a kernel: linux of the GRUB manual, and its older variants. The file name is
#: matched as in 10_linux, which excludes memory tests.
KERNEL_LINE = regex(
    r"^[ \t]*linux(?:16|efi)?[ \t]+(?:[^ \t\n]*/)?(?:vmlinu|kernel)[^ \t\n]*(?:[ \t]+(.*))?$", re.MULTILINE
)


def config(host: Host) -> str | None:
    """The path of the menu; None if there is none. Raises HostError if it is unknown."""
    return next((path for path in CONFIGS if host.exists(path)), None)


def mkconfig(host: Host) -> str | None:
    """The program that makes the menu from /etc/default/grub; None if it is not installed."""
    return next((path for path in MKCONFIGS if host.exists(path)), None)


def command(host: Host, menu: str) -> tuple[str, ...] | None:
    """Command by which this distribution regenerates the menu; None if none is installed."""
    if menu == CONFIGS[0] and host.exists(_UPDATE):
        return (_UPDATE,)
    program = mkconfig(host)
    return None if program is None else (program, "-o", menu)


def regenerate(host: Host) -> None:
    """Regenerate the menu. A menu without any kernel is replaced by the old one. Raises HostError."""
    menu = config(host)
    if menu is None:  # GRUB was removed, and has no menu to regenerate
        return
    argv = command(host, menu)
    if argv is None:
        raise HostError("write", menu, None, f"none of {', '.join((_UPDATE, *MKCONFIGS))} is there to do it")
    before = host.read_bytes(menu)
    host.must_run(argv, f"write {menu} with", _MENU_SECONDS)
    if not KERNEL_LINE.search(host.read(menu)):
        host.write_file(menu, before)
        detail = f"{argv[0]} found no kernel, so the old menu was put back; is /boot mounted?"
        raise HostError("write", menu, None, detail)
