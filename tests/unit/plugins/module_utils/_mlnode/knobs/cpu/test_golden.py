# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One declaration on every machine of the fixtures, against texts that were read line by line."""

from __future__ import annotations

import pathlib
import re
from typing import Any

import pytest
from ansible_collections.mlnode.tuning.tests.fixtures.build import tree
from ansible_collections.mlnode.tuning.tests.fixtures.machines import MACHINES
from ansible_collections.mlnode.tuning.tests.unit import door
from ansible_collections.mlnode.tuning.tests.unit.machine import captured
from ansible_collections.mlnode.tuning.tests.unit.work import is_linear
from mlnode.engine import engine
from mlnode.engine.engine import Plan
from mlnode.engine.kind import Row
from mlnode.knobs.cpu import node as cpu_node
from mlnode.knobs.cpu.kind import kind as cpu
from mlnode.model import cpulist
from mlnode.model.setting import Layer

GOLDEN = pathlib.Path(__file__).parents[6] / "fixtures" / "golden"

DECLARATION: dict[str, Any] = {
    "governor": "performance",
    "energy_performance_preference": "performance",
    "energy_perf_bias": "performance",
    "boost": True,
    "min_perf_pct": 100,
    "max_latency_us": 10,
}


def plan(name: str) -> Plan:
    request = door.request("golden", "cpu", DECLARATION, (Layer.RUNTIME,))
    return engine.evaluate(captured(tree(name), cpu.MOUNTS), request)


def described(row: Row) -> list[str]:
    lines = [
        row.setting.key,
        f"    declared {row.setting.claim}, want {row.reading.want}, runtime {row.reading.runtime}",
        f"    {row.status}, {row.info.severity}: {row.reason or '-'}",
    ]
    for text, numbers in _alike(row).items():
        lines.append(
            f"    {text}" if numbers == [cpu_node.WHOLE] else f"    {text}; N = {cpulist.render(numbers)}"
        )
    return lines


def _alike(row: Row) -> dict[str, list[int]]:
    """What is written and put back, with N for the number → the numbers."""
    found: dict[str, list[int]] = {}
    for part in row.reading.parts:
        text = f"{part.path}: {part.runtime} -> {part.want}; back:"
        text += ",".join(f" {write.path.rpartition('/')[2]} = {write.value}" for write in part.undo)
        own = re.sub(r"(policy|cpu)[0-9]+/", r"\1N/", text)
        found.setdefault(own, []).append(part.number)
    return found


@pytest.mark.parametrize("name", MACHINES)
def test_the_plan_for_every_machine(name: str) -> None:
    text = "\n".join(line for row in plan(name).rows for line in described(row)) + "\n"
    assert text == (GOLDEN / f"{name}.cpu.txt").read_text(encoding="utf-8")


def test_each_cpu_more_is_the_same_work() -> None:
    """All but what rules a whole machine."""
    some = {name: value for name, value in DECLARATION.items() if name not in ("boost", "min_perf_pct")}
    host = captured(tree("epyc256"), cpu.MOUNTS)

    def rule(cpus: int) -> int:
        spec = {**some, "cpus": f"0-{cpus - 1}"}
        request = door.request("x", "cpu", spec, (Layer.RUNTIME,))
        found = engine.evaluate(captured(host.root, cpu.MOUNTS), request)
        return max(len(row.reading.parts) for row in found.rows)

    assert rule(128) > 100
    assert is_linear((64, 128, 256), rule)
