# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Campaigns between containers. The kernel slows two of them down, and three paths between them: a campaign
must report exactly these."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

from ..plugins.plugin_utils.campaign import schedule
from .campaigns import CAMPAIGN
from .fleet import Fleet, podman
from .measure import BenchError

#: Mb/s that leave a container, a slow one, and one on its way to a certain other: two cores can carry this
#: load for 20 containers
_RATE, _SLOW, _BAD = 40, 28, 20

#: Places of the slow nodes among all
_PLACES = (2, 11)
_PATHS = 3

#: Behind the usual thousand packets a message would wait for a third of a second
_QUEUE = "pfifo limit 50"

Path = tuple[str, str]


def campaigns(
    made: Fleet, folder: pathlib.Path, times: int, say: Callable[[str], None]
) -> list[dict[str, Any]]:
    """Nodes and paths that each campaign reports, and whether they are exactly the slow ones."""
    found = podman("inspect", "--format={{.NetworkSettings.IPAddress}}", *made.names).split()
    if len(found) != len(made.names):
        raise BenchError(f"{len(found)} of {len(made.names)} containers have an address")
    addresses = dict(zip(made.names, found))
    made.variables = {name: {"campaign_addresses": [own]} for name, own in addresses.items()}
    slow = [made.names[place] for place in _PLACES]
    paths = bad_paths(addresses, slow)
    for name in made.names:
        _shape(name, 10, _SLOW if name in slow else _RATE)
    for one, other in paths:
        number = 20 + made.names.index(other)
        _shape(one, number, _BAD)
        match = f"u32 match ip dst {addresses[other]}/32 flowid 1:{number}"
        _tc(one, f"filter add dev eth0 parent 1: protocol ip prio 1 {match}")
    return [_campaign(made, folder / f"shaped-{at}", slow, paths, say) for at in range(times)]


def bad_paths(addresses: Mapping[str, str], slow: list[str]) -> list[Path]:
    """Pairs that the plan measures, of nodes that are in no other of them and are not slow."""
    plan = schedule.plan({name: [own] for name, own in addresses.items()})
    paths: list[Path] = []
    taken = {*slow}
    for name, slots in plan["slots"].items():
        # In different rounds, as it would be by chance
        peer = slots[len(paths)]["peer"]
        if len(paths) < _PATHS and not {name, peer} & taken:
            paths.append((name, peer))
            taken |= {name, peer}
    if len(paths) < _PATHS:
        raise BenchError(f"the plan has {len(paths)} such ways of {_PATHS}")
    return paths


def _shape(name: str, number: int, rate: int) -> None:
    if number == 10:
        _tc(name, "qdisc replace dev eth0 root handle 1: htb default 10")
    _tc(name, f"class replace dev eth0 parent 1: classid 1:{number} htb rate {rate}mbit burst 8k")
    _tc(name, f"qdisc replace dev eth0 parent 1:{number} handle {number}: {_QUEUE}")


def _tc(name: str, words: str) -> None:
    podman("exec", name, "tc", *words.split())


def _campaign(
    made: Fleet, results: pathlib.Path, slow: list[str], paths: list[Path], say: Callable[[str], None]
) -> dict[str, Any]:
    options = {"campaign_results": str(results)}
    sample = made.sample(len(made.names), (CAMPAIGN, f"--extra-vars={json.dumps(options)}"), fine=(0, 2))
    [path] = results.glob("*.json")
    document = json.loads(path.read_bytes())
    nodes = sorted(node["name"] for node in document["nodes"] if node["verdict"] == "fail")
    ways = sorted(sorted(end["node"] for end in one["ends"]) for one in document["paths"])
    exact = nodes == sorted(slow) and ways == sorted(sorted(one) for one in paths)
    seen = document["coverage"]
    say(f"campaign of {sample.wall:.0f} s: {nodes}, {ways}, {'exact' if exact else 'NOT exact'}")
    return {
        "seconds": sample.wall,
        "nodes": nodes,
        "paths": ways,
        "exact": exact,
        "pairs": seen["pairs_planned"],
        "pairs_measured": seen["pairs_measured"],
    }
