# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs of a machine, started without a shell."""

from __future__ import annotations

import os
from functools import partial
from typing import Callable, Sequence

from ..model.errors import HostError
from . import system
from .system import USUAL_SECONDS, Finished


class Programs:
    """Runs programs if root is /, and refuses for a captured tree."""

    def __init__(self, root: str) -> None:
        self.root = os.path.abspath(root)

    @property
    def live(self) -> bool:
        """False for a captured tree, on which nothing can be run."""
        return self.root == "/"

    def run(self, command: Sequence[str], seconds: float = USUAL_SECONDS) -> Finished:
        """Run a program without a shell. Raises HostError if it cannot be started or takes longer."""
        if not self.live:
            raise HostError("run", command[0], None, f"{self.root} is a captured tree, not a machine")
        return system.run(command, seconds)

    def begin(self, command: Sequence[str], seconds: float = USUAL_SECONDS) -> Callable[[], Finished]:
        """Start a program as run() does, and return at once: the result waits for its end. Both raise
        HostError."""
        return system.begin(command, seconds) if self.live else partial(self.run, command, seconds)

    def must_run(self, command: Sequence[str], purpose: str, seconds: float = USUAL_SECONDS) -> str:
        """The output of a program that ended successfully. Raises HostError with the program's last words."""
        done = self.run(command, seconds)
        if done.rc != 0:
            messages = done.err.strip().splitlines() or [f"exit status {done.rc}"]
            raise HostError(purpose, command[0], None, messages[-1])
        return done.out
