# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kernel parameters that wait for a reboot: the boot loader has them, and the running kernel does not."""

from __future__ import annotations

from typing import Callable, Sequence

from ...host.host import Host
from ...loader import boot_loader, cmdline


def running(host: Host, names: Sequence[str]) -> list[str]:
    """The words of these parameters that the running kernel was started with."""
    line = host.value(cmdline.COMMAND_LINE).text or ""
    return [word for name in names for word in cmdline.of(line, name)]


def brings(host: Host, names: Sequence[str], bringing: Callable[[Sequence[str]], str]) -> str:
    """The parameter by which the next boot brings something, and where it stands. Empty if not all kernels of
    the loader have it, or if the running one was started with it, which did not help.

    bringing: takes the words of these parameters, and returns the one that brings it, or "".
    """
    if bringing(running(host, names)):
        return ""
    parameter = ""
    for entry in boot_loader.find(host).entries:
        word = bringing([word for name in names for word in entry.of(name)[0]])
        if not word:
            return ""
        parameter = parameter or f"{word} ({entry.where})"
    return parameter
