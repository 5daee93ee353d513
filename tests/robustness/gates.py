# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every call by which any module of the library changes something, one by one."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from ansible_collections.mlnode.tuning.plugins import module_utils
from ansible_collections.mlnode.tuning.tests.unit.faults import Gate, Os
from ansible_collections.mlnode.tuning.tests.unit.nodes import Node

_LIBRARY = f"{module_utils.__name__}._mlnode."


class EndError(BaseException):
    """The end of a process that was killed: nothing that it does afterwards has any effect."""


class End(Gate):
    """Ends everything just before change number `at`. Unlike a signal it leaves the kernels alive that are
    objects in this process; what is on disk is the same."""

    def step(self, what: str, torn: Callable[[], object] = lambda: None) -> None:
        self.seen.append(what)
        if self.at and len(self.seen) >= self.at:
            if len(self.seen) == self.at:
                torn()
            raise EndError


@contextmanager
def guarded(node: Node, gate: Gate) -> Iterator[Gate]:
    """All that is changed on the node in here passes the gate."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(node, "gate", gate, raising=False)
        guard = Os(gate)
        for name, module in list(sys.modules.items()):
            if name.startswith(_LIBRARY) and vars(module).get("os") is os:
                patch.setattr(module, "os", guard)
        yield gate
    node.forget()


def hit(gate: Gate, node: Node) -> str:
    """The change at which the gate has acted; empty if the work ended before."""
    return gate.seen[gate.at - 1].replace(node.root, "") if len(gate.seen) >= gate.at else ""


def changes(node: Node, work: Callable[[Node], object]) -> list[str]:
    """What the work changes, in order and in words."""
    with guarded(node, Gate()) as gate:
        work(node)
    return [what.replace(node.root, "") for what in gate.seen]
