# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node on which infiniband-diags reports of a simulated subnet what it has reported: rdma-core 44 with
opensm and ibsim 0.10, of two leaves with two hosts each, and two spines.

States in tests/fixtures/ibdiags: whole; host: gpu003 is gone; switch: spine2 is; cable: that of leaf1/3 and
spine1/1 is; swapped: those of leaf1/1 and leaf1/2; slow: that of gpu003; errors: counters of leaf1 and
gpu003; hung: gpu003 does not answer, whole-hung.diff with it (from whole, in the words of
rdma-core 53); silent: spine2 does not answer, and no subnet manager; noport: no such port to look from.

uplinks is another subnet, of two leaves with four uplinks of 10 Gb/s each. What perfquery has reported of the
leaves is in tests/fixtures/ibdiags/uplinks, with counters that were set in ibsim: first, and then balanced;
half: two of four carry all; dead: port 6 carries nothing; flapping: port 5 was lost three times; reset: port
4 was. refused: the switch did not answer.
"""

from __future__ import annotations

import collections
import errno
import os
import pathlib
from collections.abc import Callable, Sequence

from mlnode.host.system import Finished
from mlnode.model.errors import HostError

from .machine import Machine

FOLDER = pathlib.Path(__file__).parents[1] / "fixtures/ibdiags"
TOOLS = ("sminfo", "ibnetdiscover", "iblinkinfo", "ibqueryerrors")
#: LID of the leaves of uplinks
LEAVES = {2: "leaf1", 3: "leaf2"}
NO_WIDE = (
    "ibwarn: [7] dump_perfcounters: PerfMgt ClassPortInfo CapMask 0x100; "
    "No extended counter support indicated\n"
)


def captured(name: str) -> str:
    path = FOLDER / name
    return path.read_text(encoding="utf-8") if path.exists() else ""


class SubnetMachine(Machine):
    """state: of the subnet. says: tool → what it leaves instead. hangs, missing: tools that do. Its caches
    hold the name of a state.

    traffic: the state of the counters at one reading after the other. changes: of a text of perfquery, for
    a leaf. only_narrow: leaves without counters of 64 bits. refusing: leaves that never answer."""

    def __init__(self, root: str, state: str = "whole") -> None:
        super().__init__(root)
        os.makedirs(root, exist_ok=True)
        self.state = state
        self.says: dict[str, Finished] = {}
        self.hangs: set[str] = set()
        self.missing: set[str] = set()
        self.commands: list[list[str]] = []
        self.traffic = ["first", "balanced"]
        self.readings: collections.Counter[int] = collections.Counter()
        self.changes: dict[str, Callable[[str], str]] = {}
        self.only_narrow: set[str] = set()
        self.refusing: set[str] = set()

    def run(self, command: Sequence[str], seconds: float = 60) -> Finished:
        tool, *words = command
        if tool not in (*TOOLS, "perfquery"):
            return super().run(command, seconds)
        self.commands.append([*command])
        if tool in self.missing:
            raise HostError("run", tool, errno.ENOENT)
        if tool in self.hangs:
            raise HostError("run", tool, None, f"no answer in {seconds:.0f} s")
        if tool == "perfquery":
            return self.says[tool] if tool in self.says else self._counters("-x" in words, int(words[-2]))
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

    def _counters(self, wide: bool, lid: int) -> Finished:
        """A reading begins with the counters of 64 bits."""
        leaf = LEAVES[lid]
        self.readings[lid] += wide
        state = self.traffic[min(self.readings[lid], len(self.traffic)) - 1]
        if state == "refused" or leaf in self.refusing:
            return Finished(255, captured("uplinks/refused.wide"), captured("uplinks/refused.err"))
        if wide and leaf in self.only_narrow:
            return Finished(0, "", NO_WIDE)
        kind = "wide" if wide else "narrow"
        text = captured(f"uplinks/{state}-{leaf}.{kind}") or captured(
            f"uplinks/balanced-{leaf}.{kind}" if wide else "uplinks/first-leaf1.narrow"
        )
        return Finished(0, self.changes.get(f"{kind} {state} {leaf}", str)(text), "")
