# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two declarations on every machine of the fixtures."""

from __future__ import annotations

import functools
import math
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.fixtures.build import tree
from ansible_collections.mlnode.tuning.tests.fixtures.hardware import Machine
from ansible_collections.mlnode.tuning.tests.fixtures.machines import MACHINES
from ansible_collections.mlnode.tuning.tests.unit.machine import captured
from ansible_collections.mlnode.tuning.tests.unit.work import is_linear
from mlnode.engine import engine
from mlnode.engine.engine import Plan, Request
from mlnode.knobs.irq.kind import kind as irq
from mlnode.model.setting import Layer
from mlnode.topology import hardware

#: A training node's, and a serving node's
DECLARATIONS: dict[str, dict[str, Any]] = {
    "training": {"rules": [{"name": "all", "strategy": "spread", "rps": "auto", "xps": "auto"}]},
    "serving": {"rules": [{"name": "rails", "nics": {"rails": True}, "strategy": "housekeeping"}]},
}


@functools.lru_cache(maxsize=None)
def plan(machine: str, declaration: str) -> Plan:
    request = Request(declaration, irq, DECLARATIONS[declaration], (Layer.RUNTIME,))
    return engine.evaluate(captured(tree(machine), irq.MOUNTS), request)


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("declaration", DECLARATIONS)
def test_every_interrupt_is_beside_its_nic_on_a_core_of_its_own(name: str, declaration: str) -> None:
    """Told from the description of the machine, not from what is read of its tree."""
    machine = MACHINES[name]()
    cpus = machine.cpus
    cores = cpus.sockets * cpus.cores
    nodes = {
        function.address: machine.node_of(root, function) for root, _above, function in machine.functions()
    }
    quiet = {*cpus.isolated, *(cpus.nohz_full or ())}
    # Each queue of virtio has two interrupts, one for each direction; bnxt has one of RDMA beside each queue.
    halves = {
        function.address
        for _root, _above, function in machine.functions()
        if function.virtio or function.driver == "bnxt_en"
    }
    for row in plan(name, declaration).rows:
        used: dict[str, list[int]] = {}
        for part in row.reading.parts if row.setting.key in ("irq.all", "irq.rails") else ():
            used.setdefault(part.device.split("/")[5], []).append(int(part.want))
        for address, wanted in used.items():
            local = {*cpus.local(nodes[address])} - quiet
            assert {*wanted} <= local
            assert len({cpu % cores for cpu in wanted}) == len({*wanted})
            most = len({cpu % cores for cpu in local})
            if declaration == "serving":
                most = min(most, _serving(machine, nodes[address]))
            queues = len(wanted) // 2 if address in halves else len(wanted)
            assert len({*wanted}) == min(most, queues)


def _serving(machine: Machine, node: int) -> int:
    """Cores of a node for interrupts: its share of the socket's four, or one for 128 of their queues."""
    nics = [
        function.nics[0].queues[0]
        for root, _above, function in machine.functions()
        if function.nics and machine.node_of(root, function) == node
    ]
    return max(4 // max(1, machine.cpus.nodes // machine.cpus.sockets), math.ceil(sum(nics) / 128))


def test_each_interrupt_more_is_the_same_work() -> None:
    """NICs with 127 queues each, on 256 CPUs."""
    host = captured(tree("epyc256"), irq.MOUNTS)
    names = [nic.name for nic in hardware.read(host).nics if nic.address]

    def spread(nics: int) -> int:
        rule = {"name": "all", "strategy": "spread", "nics": {"names": names[:nics]}}
        found = engine.evaluate(captured(host.root, irq.MOUNTS), Request("x", irq, {"rules": [rule]}))
        return len(found.rows[0].reading.parts)

    sizes = (2, 4, 8)
    assert [spread(nics) for nics in sizes] == [127 * nics for nics in sizes]
    assert is_linear(sizes, spread)
