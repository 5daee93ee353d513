# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command mlnode-size: the network that a training job needs, and the switches of a fabric.

Exit status as for mlnode: 0 done, 1 the output cannot be written, 2 wrong usage.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from ...module_utils._mlnode.agent import output
from ...module_utils._mlnode.model.errors import DeclarationError
from ...module_utils._mlnode.model.version import VERSION
from ...module_utils._mlnode.report.grid import grid, wrapped
from .arguments import parser, refuse
from .fabric import Fabric, Plan, fabrics
from .figure import FAT_TREE, RAILS, text
from .traffic import Job, Traffic, traffic

OK, ERROR = 0, 1

#: Raised when a field changes its meaning or goes
FORMAT = 1

#: Conditions of an estimate
_PLACEMENT = (
    "Estimates place tensor-parallel GPUs next to each other, then data-parallel ones, then pipeline stages, "
    "and count the node with the most traffic. Inside a node the ring takes NVLink. Shards and stages are of "
    "equal size. Traffic of tensor and pipeline parallelism is not counted."
)
_BOUNDS = (
    "Efficiencies are bounds: all traffic between nodes passes the oversubscribed leaves, a rail carries "
    "--usable of its rate, and the exchange overlaps with no part of the step, or with all of it."
)
_COUNTS = f"Switch and link counts are exact: {FAT_TREE}; rail-optimized: {RAILS}."
_BISECTION = (
    "Bisection bandwidth is an estimate: it is in each direction, without protocol overhead, and with even "
    "routing over all uplinks."
)


def main(words: Sequence[str]) -> int:
    output.begin()
    asked = parser().parse_args(words)
    try:
        {"traffic": _traffic, "fabric": _fabric}[asked.command](asked)
    except DeclarationError as error:
        refuse(str(error))
    return output.ended(OK, ERROR)


def _traffic(asked: argparse.Namespace) -> None:
    job = Job(
        parameters=asked.parameters,
        bytes_each=asked.bytes,
        gpus=asked.gpus,
        step=asked.step,
        tensor=asked.tensor,
        pipeline=asked.pipeline,
        zero=asked.zero,
        gpus_per_node=asked.gpus_per_node,
        rails=asked.rails or asked.gpus_per_node,
        gbit=asked.gbit,
        usable=asked.usable,
    )
    job_traffic = traffic(job)
    if asked.json:
        _print("traffic", job._asdict(), traffic_document(job_traffic), (_PLACEMENT, _BOUNDS))
    else:
        _say(traffic_lines(job_traffic, output.width()), (_PLACEMENT, _BOUNDS))


def traffic_document(job_traffic: Traffic) -> dict[str, Any]:
    return {
        "figures": [figure.document() for figure in job_traffic.figures],
        "efficiency": [{**estimate._asdict(), "basis": "estimate"} for estimate in job_traffic.efficiency],
    }


def traffic_lines(job_traffic: Traffic, width: int | None) -> list[str]:
    rows = [
        (figure.name, text(figure.value), figure.unit, figure.basis, figure.formula, figure.source)
        for figure in job_traffic.figures
    ]
    efficiency = [
        (
            f"{estimate.ratio}:1",
            f"{text(estimate.exchange)} s",
            f"{estimate.without_overlap:.1%}",
            f"{estimate.with_overlap:.1%}",
            "estimate",
        )
        for estimate in job_traffic.efficiency
    ]
    return [
        *grid(("FIGURE", "VALUE", "UNIT", "BASIS", "FORMULA", "SOURCE"), rows, width),
        "",
        *grid(("LEAVES", "EXCHANGE", "NO OVERLAP", "FULL OVERLAP", "BASIS"), efficiency, width),
    ]


def _fabric(asked: argparse.Namespace) -> None:
    plan = Plan(asked.nodes, asked.rails, asked.ports, asked.oversubscription, asked.gbit)
    designs = fabrics(plan)
    if asked.json:
        _print("fabric", plan._asdict(), fabric_document(plan, designs), (_COUNTS, _BISECTION))
    else:
        _say(fabric_lines(plan, designs, output.width()), (_COUNTS, _BISECTION))


def fabric_document(plan: Plan, designs: Sequence[Fabric]) -> dict[str, Any]:
    return {
        "leaf": {"down": plan.down, "up": plan.up, "oversubscription": plan.down / plan.up},
        "fabrics": [{**fabric._asdict(), "switches": fabric.switches} for fabric in designs],
    }


def fabric_lines(plan: Plan, designs: Sequence[Fabric], width: int | None) -> list[str]:
    head = ("DESIGN", "TIERS", "LEAVES", "SPINES", "CORES", "SWITCHES", "LINKS", "BISECTION")
    rows = []
    for fabric in designs:
        links = f"{fabric.node_links} + {fabric.leaf_links} + {fabric.core_links}"
        numbers = (fabric.tiers, fabric.leaves, fabric.spines, fabric.cores, fabric.switches)
        rows.append((fabric.design, *map(str, numbers), links, f"{text(fabric.bisection)} GB/s"))
    leaf = f"A leaf under spines has {plan.down} ports for nodes and {plan.up} uplinks"
    ratio = f"{plan.down / plan.up:.3g}:1"
    return [
        *grid(head, rows, width),
        "",
        f"{leaf}, {ratio}. Links are node-leaf + leaf-spine + spine-core.",
    ]


def _print(size: str, given: dict[str, Any], body: dict[str, Any], notes: Sequence[str]) -> None:
    head = {"format": FORMAT, "mlnode": VERSION, "size": size, "given": given}
    output.print_json({**head, **body, "notes": [*notes]})


def _say(lines: Sequence[str], notes: Sequence[str]) -> None:
    columns = output.width()
    output.say("\n".join([*lines, "", *(line for note in notes for line in wrapped(note, columns))]))
