# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two declarations on every machine of the fixtures, against texts that were read line by line."""

from __future__ import annotations

import functools
import math
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.fixtures.build import tree
from ansible_collections.mlnode.tuning.tests.fixtures.hardware import Machine
from ansible_collections.mlnode.tuning.tests.fixtures.machines import MACHINES
from ansible_collections.mlnode.tuning.tests.unit.machine import captured
from ansible_collections.mlnode.tuning.tests.unit.work import is_linear
from mlnode.engine import engine
from mlnode.engine.engine import Plan, Request
from mlnode.engine.kind import Row
from mlnode.knobs.irq.kind import kind as irq
from mlnode.model import cpulist
from mlnode.model.setting import KnobFile, Layer
from mlnode.topology import read

GOLDEN = pathlib.Path(__file__).parents[6] / "fixtures" / "golden"

#: A training node's, and a serving node's
DECLARATIONS: dict[str, dict[str, Any]] = {
    "training": {"rules": [{"name": "all", "strategy": "spread", "rps": "auto", "xps": "auto"}]},
    "serving": {"rules": [{"name": "rails", "nics": {"rails": True}, "strategy": "housekeeping"}]},
}


@functools.lru_cache(maxsize=None)
def plan(machine: str, declaration: str) -> Plan:
    request = Request(declaration, irq, DECLARATIONS[declaration], (Layer.RUNTIME,))
    return engine.evaluate(captured(tree(machine), irq.MOUNTS), request)


def described(row: Row) -> list[str]:
    return [
        row.setting.key,
        f"    declared {row.setting.claim}",
        f"    want     {row.reading.want}",
        f"    runtime  {row.reading.runtime}",
        f"    {row.status}, {row.info.severity}: {row.reason or '-'}",
        *(f"    note: {note}" for note in [row.reading.note] if note not in ("", row.reason)),
        *_parts(row.reading.parts),
    ]


def _parts(parts: Sequence[KnobFile]) -> Iterator[str]:
    """One line for the files of a NIC, and for all NICs of which it says the same. What is now is what is put
    back. `0 .. 2` are three files, in which every CPU is one higher than in the file before."""
    files: dict[tuple[str, str], list[KnobFile]] = {}
    for part in parts:
        assert [(write.path, write.value) for write in part.undo] == [(part.path, part.runtime)]
        files.setdefault(_place(part), []).append(part)
    alike: dict[str, list[str]] = {}
    for (nic, kind), mine in files.items():
        words = f"{kind} {cpulist.render(part.number for part in mine)}: "
        runtime, want = [part.runtime for part in mine], [part.want for part in mine]
        words += f"{_spelled(runtime, kind)} -> {_spelled(want, kind)}"
        alike.setdefault(words, []).append(nic)
    for words, nics in alike.items():
        yield f"    {' '.join(nics)} {words}"


def _place(part: KnobFile) -> tuple[str, str]:
    words = part.path.split("/")
    return (part.device.split("/")[5], "irq") if words[2] == "irq" else (words[4], words[7])


def _spelled(texts: Sequence[str], kind: str) -> str:
    read = cpulist.parse if kind == "irq" else cpulist.from_mask
    runs: list[list[tuple[int, ...]]] = []
    for cpus in map(read, texts):
        if runs and cpus and cpus == tuple(cpu + 1 for cpu in runs[-1][-1]):
            runs[-1].append(cpus)
        else:
            runs.append([cpus])
    words = [_run(run) for run in runs]
    found: list[tuple[str, int]] = []
    for word in words:
        if found and found[-1][0] == word:
            found[-1] = (word, found[-1][1] + 1)
        else:
            found.append((word, 1))
    return ", then ".join(word if times == 1 else f"{times} times {word}" for word, times in found)


def _run(run: Sequence[tuple[int, ...]]) -> str:
    ends = [cpulist.render(cpus) or "none" for cpus in (run[0], run[-1])]
    return ends[0] if len(run) == 1 else " .. ".join(ends)


def text_of(machine: str) -> str:
    lines = []
    for declaration in DECLARATIONS:
        lines += [
            f"# {declaration}",
            *(line for row in plan(machine, declaration).rows for line in described(row)),
        ]
    return "\n".join([*lines, ""])


@pytest.mark.parametrize("name", MACHINES)
def test_the_plan_for_every_machine(name: str) -> None:
    assert text_of(name) == (GOLDEN / f"{name}.irq.txt").read_text(encoding="utf-8")


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
    # Each queue of virtio has two interrupts, one for each direction.
    halves = {function.address for _root, _above, function in machine.functions() if function.virtio}
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
    names = [nic.name for nic in read.read(host).nics if nic.address]

    def spread(nics: int) -> int:
        rule = {"name": "all", "strategy": "spread", "nics": {"names": names[:nics]}}
        found = engine.evaluate(captured(host.root, irq.MOUNTS), Request("x", irq, {"rules": [rule]}))
        return len(found.rows[0].reading.parts)

    sizes = (2, 4, 8)
    assert [spread(nics) for nics in sizes] == [127 * nics for nics in sizes]
    assert is_linear(sizes, spread)
