# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Answers of node_job for tests: a job with eight ranks on each node."""

from __future__ import annotations

import copy
from typing import Any

LOCAL = 8

#: Of each process of a job without a fault
VALUES = {
    "limit memlock hard": "unlimited",
    "limit nofile hard": "1048576",
    "nccl NCCL_IB_HCA": "mlx5",
    "env OMP_NUM_THREADS": "16",
}
#: Of each place
SHARED = {"shm size": "540000000000", "sysctl net.core.somaxconn": "4096", "cpu quota": "max"}


def process(number: int | None, world: int | None, pid: int, local: int | None = None) -> dict[str, Any]:
    return {
        "pid": pid,
        "name": "python",
        "devices": [f"/dev/nvidia{local or 0}"],
        "rank": number,
        "world": world,
        "local_rank": local,
        "values": {**VALUES},
    }


def place(*processes: dict[str, Any], kind: str = "slurm", name: str = "4711", **more: Any) -> dict[str, Any]:
    container = name if kind in ("pod", "container") else ""
    return {
        "job": {"kind": kind, "id": name, "container": container, "runtime": ""},
        **dict.fromkeys(("network", "mount", "pid"), "host"),
        "cgroup": f"/system.slice/{name}",
        "user": 1000,
        "processes": [*processes],
        "values": {**SHARED},
        "unknown": {},
        **more,
    }


def answer(*places: dict[str, Any], checks: Any = ()) -> dict[str, Any]:
    return {"changed": False, "checks": [*checks], "places": [*places], "unseen": []}


def check(verdict: str, **more: str) -> dict[str, str]:
    texts = {
        "name": "job_limit",
        "target": "Slurm job 4711 (pid 1000)",
        "expected": "unlimited",
        "source": "",
    }
    return {**texts, "found": "memlock 8388608", "advice": "raise it", "verdict": verdict, **more}


def ranks(node: int, world: int, per_node: int = LOCAL) -> list[dict[str, Any]]:
    """Processes of one node, counted from 0."""
    numbers = range(node * per_node, min(world, (node + 1) * per_node))
    return [process(number, world, 1000 + number, number % per_node) for number in numbers]


def fleet(world: int, per_node: int = LOCAL, **more: Any) -> dict[str, dict[str, Any]]:
    """A Slurm job without a fault on gpu001 and later nodes."""
    nodes = range(-(-world // per_node))
    return {
        f"gpu{node + 1:03d}": answer(place(*ranks(node, world, per_node), **copy.deepcopy(more)))
        for node in nodes
    }


def of_rank(results: dict[str, dict[str, Any]], number: int) -> dict[str, Any]:
    """Process of a rank, to be changed."""
    found: dict[str, Any] = next(
        one
        for result in results.values()
        for where in result["places"]
        for one in where["processes"]
        if one["rank"] == number
    )
    return found
