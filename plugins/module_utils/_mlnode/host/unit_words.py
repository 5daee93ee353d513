# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The last lines of a unit, for a message about it: systemctl only refers to the journal, on a node that may
be one of many."""

from __future__ import annotations

from ..model.errors import HostError, printable
from .host import Host

#: A command that cannot be executed leaves five (src/core/service.c, src/core/job.c), the last of them being
#: the least telling.
_LINES = 5
#: As much as two lines of a terminal have
_CHARACTERS = 160
#: The end of a journal is found at once, even on a busy machine.
_SECONDS = 10


def last(host: Host, unit: str) -> str:
    """The last lines of a unit in this boot's journal, or what systemd calls its result; empty without both.
    Each line is cut, and no sign of it moves a terminal's cursor."""
    journal = ["journalctl", "--quiet", "--no-pager", "--output=cat", "--boot", f"--lines={_LINES}"]
    lines = _lines(host, [*journal, f"--unit={unit}"])
    if not lines:
        lines = _lines(host, ["systemctl", "show", "--property=Result", unit])
        lines = [line for line in lines if line.startswith("Result=")]
    return "; ".join(line[:_CHARACTERS].rstrip(".") for line in lines[-_LINES:])


def _lines(host: Host, command: list[str]) -> list[str]:
    try:
        done = host.run(command, _SECONDS)
    except HostError:
        return []
    lines = [printable(line.strip()) for line in done.out.splitlines()] if done.rc == 0 else []
    return [line for line in lines if line]
