# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Faults of systemd as a whole at the next boot: words on its command line, and the environment that it
gives to all units."""

from __future__ import annotations

from ..host.host import Host
from ..linux import systemd_conf
from ..linux.kernel_line import KernelLine
from ..loader import boot_loader
from ..model.record import NamedTuple
from . import harmless

TAKE_OUT = "take that line out and run systemctl daemon-reload"
TAKE_OUT_WORD = "take that out of the boot loader's entry"
#: For a line that may stop a unit
NOT_JUDGED = "which was not judged"

#: Names of systemd as the first program, init= (bootparam(7))
_INIT = ("systemd", "init")


class Fault(NamedTuple):
    """remedy: the action to take. theirs: it lies in a file of others, which an installation leaves alone.
    stops: the unit does not do its work; else it only differs from the installed unit. judged: False if the
    effect on the unit is unknown."""

    words: str
    remedy: str
    theirs: bool = False
    stops: bool = True
    judged: bool = True

    def __str__(self) -> str:
        return f"{self.words}: {self.remedy}"


def line_of_next_boot(host: Host, running: bool) -> KernelLine | None:
    """The kernel command line of the next boot, as far as it is known. Raises HostError."""
    return boot_loader.next_line(host) if running else None


def words(host: Host, running: bool) -> list[Fault]:
    """Faults of words for systemd that concern no unit. For words that choose a target see boot_service."""
    line = line_of_next_boot(host, running)
    faults = []
    for word in line.words if line else ():
        said = f"{line.where if line else ''} has {word.text}"
        if word.key == "init" and word.value.rpartition("/")[2] not in _INIT:
            faults.append(Fault(f"{said}, which starts no systemd", TAKE_OUT_WORD, theirs=True))
        elif not harmless.allows_parameter(word.key, word.value):
            faults.append(Fault(f"{said}, {NOT_JUDGED}", TAKE_OUT_WORD, theirs=True, judged=False))
    return faults


def environment(host: Host) -> list[Fault]:
    """Faults of the environment that the manager gives to all its units (systemd-system.conf(5))."""
    return [
        Fault(f"{line.where} sets {line.text}, {NOT_JUDGED}", TAKE_OUT, theirs=True, judged=False)
        for key in ("DefaultEnvironment", "ManagerEnvironment")
        for line in systemd_conf.manager(host, key)
        if line.value and not harmless.environment(line.value)
    ]


def masking(name: str, line: KernelLine | None) -> list[Fault]:
    """Fault of a unit that a word masks; empty without one."""
    word = line.masking(name) if line else ""
    return [Fault(f"{line.where if line else ''} has {word}", TAKE_OUT_WORD, theirs=True)] if word else []
