# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Odd ranks that jobs.yml names in jobs whose faults are known, and nothing else.

A world is a Slurm job of 2 to 4,096 ranks in which 1 to 7 ranks have 1 to 7 kinds of faults. Each rank is
alone in a place, as tasks of Slurm are, or the ranks of a node share one.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from ansible_collections.mlnode.tuning.plugins.plugin_utils.jobs import report
from ansible_collections.mlnode.tuning.tests.unit.effort import EFFORT, some
from ansible_collections.mlnode.tuning.tests.unit.plugins.plugin_utils.jobs import answers

pytestmark = pytest.mark.robustness

Process = dict[str, Any]
Place = dict[str, Any]


def _text(name: str, text: str) -> Callable[[Place, Process], None]:
    return lambda _place, process: process["values"].update({name: text})


def _shared(name: str, text: str) -> Callable[[Place, Process], None]:
    return lambda place, _process: place["values"].update({name: text})


#: Value → the fault of one rank. Faults of a place need ranks that are alone.
OF_RANK: dict[str, Callable[[Place, Process], None]] = {
    "limit memlock hard": _text("limit memlock hard", "8388608"),
    "limit nofile hard": _text("limit nofile hard", "1024"),
    "nccl NCCL_IB_HCA": lambda _place, process: process["values"].pop("nccl NCCL_IB_HCA"),
    "nccl NCCL_ALGO": _text("nccl NCCL_ALGO", "Tree"),
    "env OMP_NUM_THREADS": _text("env OMP_NUM_THREADS", "1"),
}
OF_PLACE: dict[str, Callable[[Place, Process], None]] = {
    "shm size": _shared("shm size", "67108864"),
    "sysctl net.core.somaxconn": _shared("sysctl net.core.somaxconn", "128"),
    "cpu quota": _shared("cpu quota", "400000 100000"),
    "network namespace": lambda place, _process: place.update(network="4026532471"),
    "user": lambda place, _process: place.update(user=0),
}


class World(NamedTuple):
    """alone: each rank has a separate place. faults: ranks with a fault; kinds: different faults."""

    ranks: int
    per_node: int
    alone: bool
    faults: int
    kinds: int


GRID = [
    World(ranks, per_node, alone, faults, kinds)
    for ranks, per_node, alone, faults, kinds in itertools.product(
        (2, 3, 4, 7, 8, 16, 24, 64, 100, 512), (1, 4, 8), (False, True), range(1, 8), (1, 2, 3, 7)
    )
    if kinds <= faults <= ranks
]

#: A job of each size that the grid leaves out for its time
LARGE = [World(4096, 8, True, 7, 3), World(4096, 8, False, 5, 2), World(4096, 1, True, 1, 1)]


def made(world: World, seed: int) -> tuple[dict[str, Any], set[tuple[str, int]]]:
    """Answers of the nodes, and the value and rank of each fault."""
    chance = random.Random(f"{world}{seed}")
    kinds = {**OF_RANK, **(OF_PLACE if world.alone else {})}
    names = chance.sample([*kinds], min(world.kinds, len(kinds)))
    numbers = chance.sample(range(world.ranks), world.faults)
    faults = dict(zip(numbers, itertools.cycle(names)))
    nodes: dict[str, Any] = {}
    for at in range(-(-world.ranks // world.per_node)):
        processes = answers.ranks(at, world.ranks, world.per_node)
        groups = [[process] for process in processes] if world.alone else [processes]
        places = [answers.place(*group) for group in groups]
        for place in places:
            for process in place["processes"]:
                if process["rank"] in faults:
                    kinds[faults[process["rank"]]](place, process)
        nodes[f"gpu{at:04d}"] = answers.answer(*places)
    # Nodes answer in any order.
    order = chance.sample([*nodes], len(nodes))
    return {name: nodes[name] for name in order}, {(name, number) for number, name in faults.items()}


def check(world: World, seed: int) -> None:
    nodes, faults = made(world, seed)
    [job] = report.report(nodes).document["jobs"]
    odd = {
        (item["value"], rank["rank"])
        for item in job["findings"]
        if item["kind"] == "odd"
        for rank in item["ranks"]
    }
    # A value with a fault on more than a third of the ranks has no majority, or that of the fault.
    often = {name: sum(name == other for other, _rank in faults) for name, _rank in faults}
    clear = {name for name, number in often.items() if 3 * number <= world.ranks}
    assert {pair for pair in odd if pair[0] in clear} == {pair for pair in faults if pair[0] in clear}
    said = {name for name, number in often.items() if number < world.ranks}
    assert {item["value"] for item in job["findings"]} == said
    assert (job["ranks_seen"], job["world_size"]) == (world.ranks, world.ranks)


@pytest.mark.parametrize("world", [*some(GRID, 60), *LARGE[: 1 if EFFORT == 1 else None]], ids=str)
def test_all_odd_ranks_are_named_and_no_others(world: World) -> None:
    for seed in range(EFFORT):
        check(world, seed)


def test_seven_odd_ranks_of_seven_kinds_among_512() -> None:
    world = World(512, 8, True, 7, 7)
    for seed in range(5 * EFFORT):
        check(world, seed)
