# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine with ib_write_bw, which prints what a test wants."""

from __future__ import annotations

from collections.abc import Sequence

from ansible_collections.mlnode.tuning.tests.fixtures import perftest as says
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from mlnode.host.system import Finished


class Running(Machine):
    """A machine whose ib_write_bw says what it is told to."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.answer = Finished(0, says.output("93.10"), "")
        self.commands: list[str] = []

    def run(self, command: Sequence[str], seconds: float = 60) -> Finished:
        if command[0] != "timeout":
            return super().run(command, seconds)
        self.commands.append(" ".join(command[3:]))
        return self.answer

    def says(self, average: str) -> None:
        self.answer = Finished(0, says.output(average), "")


def job(machine: Machine) -> None:
    machine.put("/proc/4711/comm", "python3\n")
    machine.put("/proc/4711/cmdline", "")
    machine.link("/proc/4711/fd/3", "/dev/nvidia0")
