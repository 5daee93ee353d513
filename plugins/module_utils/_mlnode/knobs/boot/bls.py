# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kernel parameters in the entries of the Boot Loader Specification that GRUB reads on the Red Hat family.

One file per kernel below /boot/loader/entries, whose `options` lines are the command line. New kernels take
theirs from /etc/kernel/cmdline where it is there (kernel-install(8)), else from /etc/default/grub.
"""

from __future__ import annotations

import re
from typing import Mapping, Sequence

from ...host.host import Host
from ...model.errors import HostError
from ...model.record import regex
from . import cmdline
from .grub import Entry, entry

ENTRIES = "/boot/loader/entries"
CMDLINE = "/etc/kernel/cmdline"
#: Variables of GRUB that an entry may use; kernelopts is the whole command line on RHEL 8
ENVIRONMENT = ("/boot/grub2/grubenv", "/boot/grub/grubenv")
KERNEL_OPTS = "$kernelopts"

_OPTIONS = regex(r"([ \t]*options[ \t]+)(.*)\Z")
#: Kernels for repair only, which dracut-config-rescue makes
_RESCUE = regex(r"-0-rescue\b|-rescue\.conf\Z")


def files(host: Host) -> list[str]:
    """The entries of this system's kernels, but for those for repair. Raises HostError."""
    return [path for path in host.matching(f"{ENTRIES}/*.conf") if not _RESCUE.search(path)]


def entries(host: Host) -> list[Entry]:
    """The command line of each kernel. Raises HostError."""
    known = variables(host)
    kernels = []
    for path in files(host):
        options = _options(host.read(path))
        where = f"{path}:{options[0][0] + 1}" if options else path
        kernels.append(entry(where, " ".join(match.group(2) for _number, match in options), known))
    return kernels


def _options(text: str) -> list[tuple[int, re.Match[str]]]:
    matches = ((number, _OPTIONS.match(line)) for number, line in enumerate(text.splitlines()))
    return [(number, match) for number, match in matches if match]


def variables(host: Host) -> dict[str, tuple[str, str]]:
    """Name → value and place; the last name of a file that is there. Raises HostError."""
    values: dict[str, tuple[str, str]] = {}
    for path in ENVIRONMENT:
        try:
            text = host.read(path)
        except HostError as error:
            if not error.absent:
                raise
            continue
        for number, line in enumerate(text.splitlines(), 1):
            name, equals, value = line.partition("=")
            if equals and not line.startswith("#"):
                values[name] = (value, f"{path}:{number}")
    return values


def edited(text: str, changes: Mapping[str, Sequence[str]]) -> str:
    """An entry with these words in its options, and every other byte as it was."""
    lines = text.splitlines(keepends=True)
    options = _options(text)
    if not options:
        (line,) = cmdline.merged([""], changes, cmdline.LOADER_QUOTES)
        end = "" if not text or text.endswith("\n") else "\n"
        return f"{text}{end}options {line}\n" if line else text
    merged = cmdline.merged([match.group(2) for _number, match in options], changes, cmdline.LOADER_QUOTES)
    for (number, match), line in zip(options, merged):
        end = lines[number][match.end() :]
        lines[number] = f"{match.group(1)}{line}{end}"
    return "".join(lines)


def edited_line(text: str, changes: Mapping[str, Sequence[str]]) -> str:
    """/etc/kernel/cmdline, which is one command line, with these words in it."""
    line = text.rstrip("\n")
    (merged,) = cmdline.merged([line], changes, cmdline.LOADER_QUOTES)
    return merged + text[len(line) :]
