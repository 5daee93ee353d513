# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node that goes from one profile to another in one run, as its declaration has the same name."""

from __future__ import annotations

import json
from typing import Any

from ansible_collections.mlnode.tuning.plugins.plugin_utils import profile
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from mlnode.agent import declare
from mlnode.agent.declare import Order, Result
from mlnode.agent.registry import KINDS
from mlnode.engine import declared

DECLARED = declared.path_of("node")

#: Only the profile inference has it; the kernel's own value is 1
ONLY_INFERENCE = "/proc/sys/kernel/timer_migration"


def _declared(machine: Machine, name: str) -> Result:
    areas = profile.combined(name, {}).areas
    found = declare.run(machine, Order("node", KINDS, areas, tuple(KINDS), whole=True))
    assert not found.failed, found.msg
    return found


def test_a_node_moves_between_the_groups_in_one_run_and_back(machine: Machine) -> None:
    machine.enable_agent()
    machine.put(ONLY_INFERENCE, "1\n")
    _declared(machine, "training")
    as_trainer = machine.tree()

    assert _declared(machine, "inference").changed
    assert machine.now(ONLY_INFERENCE) == "0"
    assert [item.name for item in declared.load_all(machine)] == ["node"]
    assert not _declared(machine, "inference").changed

    assert _declared(machine, "training").changed
    assert machine.now(ONLY_INFERENCE) == "1", "what leaves the declaration goes back to its origin"
    assert not _declared(machine, "training").changed
    assert _files(machine.tree()) == _files(as_trainer)


def _files(tree: dict[str, tuple[str, int]]) -> dict[str, Any]:
    """Without what runs keep for themselves. An area that has left and come back is the last of its
    declaration, which has no meaning: they are applied in an order of their own."""
    own = ("/var/lib/mlnode/", "/etc/mlnode/origin.json")
    files: dict[str, Any] = {path: what for path, what in tree.items() if not path.startswith(own)}
    return {**files, DECLARED: json.loads(files[DECLARED][0])}
