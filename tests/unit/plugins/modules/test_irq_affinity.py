# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator

import pytest
from ansible_collections.mlnode.tuning.plugins.modules import irq_affinity
from ansible_collections.mlnode.tuning.tests.unit.faults import in_memory
from ansible_collections.mlnode.tuning.tests.unit.plugins.module_utils._mlnode.knobs.irq.node import (
    FULL,
    IrqNode,
)
from ansible_collections.mlnode.tuning.tests.unit.plugins.modules.running import Make, Runner

DECLARATION = "/etc/mlnode/declared.d/training.json"


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


def test_every_interrupt_and_queue_has_its_cpus(irq: Runner) -> None:
    done = irq.ok(name="training", **FULL)

    assert {key: setting["runtime"] for key, setting in done.settings.items()} == {
        "irq.rails": "eth2: 0..3; eth3: 4..7 4..5",
        "irq.rails.rps": "eth2, eth3: off",
        "irq.rails.xps": (
            "eth2: 0,4,8,12 1,5,9,13 2,6,10,14 3,7,11,15; eth3: 2,4,10,12 3,5,11,13 6,14 7,15 0,8 1,9"
        ),
        "irq.rest": "eth4: 0 x2",
        "irq.rest.rps": "eth4: 0-3",
        "irq.rest.rfs": "table 1024; eth4: 1024 per queue",
        "irq.irqbalance": "agree",
    }


def test_the_node_keeps_what_was_said_and_nothing_else(machine: IrqNode, irq: Runner) -> None:
    irq.ok(name="training", rules=[{"name": "a", "nics": {"names": ["eth2"]}, "rps": False}])
    assert json.loads(machine.read(DECLARATION))["kinds"] == {
        "irq": {"rules": [{"name": "a", "nics": {"names": ["eth2"]}, "rps": "off"}]}
    }


def test_the_diff_shows_what_moves(machine: IrqNode, irq: Runner) -> None:
    done = irq.ok(name="training", rules=[{"name": "a", "nics": {"names": ["eth3"]}, "strategy": "spread"}])
    assert [*done.diff] == [DECLARATION, "runtime"]
    assert done.diff["runtime"] == (
        "irq.a = 0-15: 33,38; 12: 37\n",  # mlx5 itself uses the second threads once the cores are used up
        "irq.a = 4: 33,37; 5: 38\n",
    )


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


def test_a_declaration_of_nothing_leaves_the_node(machine: IrqNode, irq: Runner) -> None:
    before = machine.affinity("eth2")
    irq.ok(name="training", **FULL)
    done = irq.ok(name="training", allow=["isolated_cpus"])
    assert not machine.exists(DECLARATION)
    assert [*done.diff] == [DECLARATION, "runtime"], "what leaves goes back to its origin"
    assert machine.affinity("eth2") == before
    assert not irq.ok(name="training").changed


def test_an_image_build_reads_no_hardware(machine: IrqNode, irq: Runner) -> None:
    irq.ok(name="training", layers=["boot"], **FULL)
    done = irq.ok(name="training", layers=["boot"], **FULL)
    assert {setting["status"] for setting in done.settings.values()} == {"ok"}
    assert done.settings["irq.rails"]["boot"] == "spread (all rails)"
    assert machine.writes == []
