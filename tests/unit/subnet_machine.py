# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node on which infiniband-diags reports of a simulated subnet what it has reported: rdma-core 44 with
opensm and ibsim 0.10, of two leaves with two hosts each, and two spines.

States in tests/fixtures/ibdiags: whole; host: gpu003 is gone; switch: spine2 is; cable: that of leaf1/3 and
spine1/1 is; swapped: those of leaf1/1 and leaf1/2; slow: that of gpu003; errors: counters of leaf1 and
gpu003; silent: spine2 does not answer, and no subnet manager; noport: no such port to look from.
"""

from __future__ import annotations

import errno
import os
import pathlib
from collections.abc import Sequence

from mlnode.host.system import Finished
from mlnode.model.errors import HostError

from .machine import Machine

FOLDER = pathlib.Path(__file__).parents[1] / "fixtures/ibdiags"
TOOLS = ("sminfo", "ibnetdiscover", "iblinkinfo", "ibqueryerrors")


def captured(name: str) -> str:
    path = FOLDER / name
    return path.read_text(encoding="utf-8") if path.exists() else ""


class SubnetMachine(Machine):
    """state: of the subnet. says: tool → what it leaves instead. hangs, missing: tools that do. Its caches
    hold the name of a state."""

    def __init__(self, root: str, state: str = "whole") -> None:
        super().__init__(root)
        os.makedirs(root, exist_ok=True)
        self.state = state
        self.says: dict[str, Finished] = {}
        self.hangs: set[str] = set()
        self.missing: set[str] = set()
        self.commands: list[list[str]] = []

    def run(self, command: Sequence[str], seconds: float = 60) -> Finished:
        tool, *words = command
        if tool not in TOOLS:
            return super().run(command, seconds)
        self.commands.append([*command])
        if tool in self.missing:
            raise HostError("run", tool, errno.ENOENT)
        if tool in self.hangs:
            raise HostError("run", tool, None, f"no answer in {seconds:.0f} s")
        options = dict(zip(words, words[1:]))
        if "--cache" in options:
            pathlib.Path(options["--cache"]).write_text(self.state, encoding="ascii")
        return self.says[tool] if tool in self.says else self._report(tool, options)

    def _report(self, tool: str, options: dict[str, str]) -> Finished:
        state = self.state
        if "--load-cache" in options:
            state = pathlib.Path(options["--load-cache"]).read_text(encoding="ascii")
        if "--diff" in options:
            was = pathlib.Path(self.root + options["--diff"]).read_text(encoding="ascii")
            if not (FOLDER / f"{was}.links").exists():
                return Finished(255, captured("damaged.diff"), "")
            return Finished(0, captured(f"{was}-{state}.diff"), "")
        kind = dict(zip(TOOLS, ("manager", "nodes", "links", "errors")))[tool]
        name = f"{state}.{kind}" if (FOLDER / f"{state}.{kind}").exists() else f"whole.{kind}"
        out, err = captured(name), captured(f"{name}.err")
        rc = 255 if "iberror" in out else int(kind == "errors" and "Errors for" in out)
        return Finished(rc, out, err)
