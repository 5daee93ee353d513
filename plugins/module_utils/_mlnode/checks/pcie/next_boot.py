# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kernel parameters pending a reboot: the boot loader has them, but the running kernel does not."""

from __future__ import annotations

from typing import Callable, Sequence

from ...host.host import Host
from ...loader import boot_loader, cmdline


def running(host: Host, names: Sequence[str]) -> list[str]:
    """The words of these parameters on the running kernel's command line."""
    line = host.value(cmdline.COMMAND_LINE).text or ""
    return [word for name in names for word in cmdline.parameter(line, name)]


def brings(host: Host, names: Sequence[str], bringing: Callable[[Sequence[str]], str]) -> str:
    """The parameter with which the next boot brings a setting, and its place in the boot loader.

    "" if some kernels of the loader lack it, or if the running kernel has it too, because then it did not
    help. bringing: returns the effective word among the words of these parameters, or "".
    """
    if bringing(running(host, names)):
        return ""
    parameter = ""
    for entry in boot_loader.find(host).entries:
        word = bringing([word for name in names for word in entry.parameter(name)[0]])
        if not word:
            return ""
        parameter = parameter or f"{word} ({entry.where})"
    return parameter
