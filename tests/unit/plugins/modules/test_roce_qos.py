# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.plugins.modules import roce_qos
from ansible_collections.mlnode.tuning.tests.unit.faults import in_memory
from ansible_collections.mlnode.tuning.tests.unit.plugins.module_utils._mlnode.knobs.qos.node import (
    ROCE,
    QosNode,
)
from ansible_collections.mlnode.tuning.tests.unit.plugins.modules.running import Make, Runner

FULL: dict[str, Any] = {"rules": [ROCE]}


@pytest.fixture(name="machine")
def _machine() -> Iterator[QosNode]:
    for folder in in_memory():
        yield QosNode.made(folder / "node")


@pytest.fixture(name="module")
def _module(running: Make) -> Runner:
    return running(roce_qos)


def changes(machine: QosNode) -> list[list[str]]:
    return [call for call in machine.bridge.calls if "show" not in call]


def test_what_to_do_elsewhere_is_told_though_nothing_changes(machine: QosNode, module: Runner) -> None:
    module.ok(name="fabric", **FULL)
    told = module.ok(name="fabric", **FULL).result
    assert "PFC on priority 3 and on no other, on every port between two nodes" in told["switch"]
    assert "dcb pfc set dev eth3 prio-pfc all:off 3:on" in told["commands"]
