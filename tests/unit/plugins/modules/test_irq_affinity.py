# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pathlib
from collections.abc import Iterator

import pytest
from ansible_collections.mlnode.tuning.plugins.modules import irq_affinity
from ansible_collections.mlnode.tuning.tests.unit.faults import in_memory
from ansible_collections.mlnode.tuning.tests.unit.plugins.module_utils._mlnode.knobs.irq.node import (
    IrqNode,
)
from ansible_collections.mlnode.tuning.tests.unit.plugins.modules.running import Make, Runner


@pytest.fixture(name="machine")
def _machine() -> Iterator[IrqNode]:
    """Instead of the small node without NICs: two NICs with queues, and one of virtio."""

    def made(folder: pathlib.Path) -> IrqNode:
        node = IrqNode.made(str(folder / "node"))
        node.enable_agent()
        for number in (25, 26, 33, 38):
            node.place(number, "0-15")
        return node

    for folder in in_memory():
        yield made(folder)


@pytest.fixture
def irq(running: Make) -> Runner:
    return running(irq_affinity)


@pytest.mark.parametrize("check", [True, False])
def test_a_nic_that_has_to_be_there_is_missed_whatever_is_said_of_what_is_unsupported(
    machine: IrqNode, irq: Runner, check: bool
) -> None:
    rules = [{"name": "a", "nics": {"rdma": ["mlx5_9"]}, "strategy": "spread", "rps": "off"}]
    words = "no NIC here matches rdma mlx5_9; here are: eth4 (virtio_net"
    refused = irq(rules=rules, on_unsupported="fail", check=check)
    assert refused.rc == 1
    assert words in refused.result["msg"]
    assert machine.writes == []
    done = irq.ok(rules=rules, on_unsupported="ignore", check=check)
    assert {key: one["status"] for key, one in done.settings.items()} == {
        "irq.a": "drifted",
        "irq.a.rps": "unsupported",
    }
    assert [words in warning for warning in done.warnings] == [True]
