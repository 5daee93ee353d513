# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Results of campaigns for tests, made by what makes real ones."""

from __future__ import annotations

import datetime as dt
import json
import random
from collections.abc import Mapping
from typing import Any

from ansible_collections.mlnode.tuning.plugins.plugin_utils.campaign import schedule
from ansible_collections.mlnode.tuning.tests.unit.plugins.plugin_utils.campaign import fleets

#: Of the payload of a port of 100 Gb/s
GBITS = 98.0


def campaign(
    nodes: int = 16,
    day: int = 1,
    *,
    slow: Mapping[str, float] = {},
    silent: tuple[str, ...] = (),
    rounds: int = 8,
    seed: int = 0,
    noise: float = 0.005,
    level: float = 1.0,
    kernel: str = "6.12.0",
    firmware: str = "28.1",
    leaves: int = 0,
    more: str = "",
) -> dict[str, Any]:
    """Nodes gpu001, gpu002 ... measured on a day of a month. slow: node → the part of its speed that is left.
    silent: nodes without an answer. more: name of a node that comes last."""
    names = [f"gpu{number:03}" for number in range(1, nodes + 1)] + ([more] if more else [])
    addresses = {name: [f"10.0.{number // 250}.{number % 250 + 1}"] for number, name in enumerate(names)}
    where = {name: f"leaf{number % leaves:02}" for number, name in enumerate(names)} if leaves else {}
    plan = schedule.plan(addresses, leaves=where, rounds=rounds, seed=seed)
    chance = random.Random(day)
    rail = {
        "interface": "eth0",
        "speed_mbit": 100_000,
        "mtu": 9000,
        "driver": "mlx5_core",
        "firmware": firmware,
        "pcie": [],
    }

    def slot(name: str, one: Mapping[str, Any]) -> dict[str, Any]:
        part = min(slow.get(name, 1.0), slow.get(one["peer"], 1.0))
        gbits = GBITS * level * part * (1 + chance.gauss(0, noise))
        return {
            "round": one["round"], "rail": 0, "forward_gbits": gbits, "backward_gbits": gbits, "hole": 0.97,
            "cpu_bound": False, "reason": "", "evidence": {"command": "iperf3"},
        }  # fmt: skip

    collected = {
        name: {
            "answer": json.dumps({
                "kernel": kernel, "declarations": {"node": "0123456789abcdef"}, "rails": [rail], "served": [],
                "slots": [slot(name, one) for one in slots if not one["serves"]],
            }),
            "problem": "",
        }
        for name, slots in plan["slots"].items() if name not in silent
    }  # fmt: skip
    begin = dt.datetime(2026, 11, day, 3, 0, tzinfo=dt.timezone.utc)
    about = {**fleets.ABOUT, "id": begin.strftime("%Y%m%d-%H%M%S"), "started": begin.isoformat()}
    started = {name: {"ends": 1.0} for name in names}
    report = fleets.report(plan, started, collected, about)
    found: dict[str, Any] = json.loads(report["document"])
    # A real one was judged a little later, and not today.
    found["campaign"]["ended"] = (begin + dt.timedelta(minutes=2)).isoformat()
    return found
