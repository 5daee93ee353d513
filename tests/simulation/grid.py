# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The grid: worlds by kind and name, and how the judge does in one of them compared with a second method."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ansible_collections.mlnode.tuning.plugins.module_utils._mlnode.checks.model import Verdict
from ansible_collections.mlnode.tuning.plugins.plugin_utils.campaign import judge, schedule
from ansible_collections.mlnode.tuning.plugins.plugin_utils.campaign.blame import Certainty
from ansible_collections.mlnode.tuning.plugins.plugin_utils.campaign.judge import Judged, Stage
from ansible_collections.mlnode.tuning.plugins.plugin_utils.campaign.model import End
from ansible_collections.mlnode.tuning.tests.simulation import reference
from ansible_collections.mlnode.tuning.tests.simulation.worlds import GBITS, Fleet, World

_LOSSES = (0.05, 0.10, 0.15, 0.50)

#: Kind → name → world. Unless the name tells another one: 256 nodes, 8 rounds, noise 2 %, loss 15 %.
KINDS: Mapping[str, Mapping[str, World]] = {
    "noise": {
        f"noise {noise:.0%}, 5% lose {loss:.0%}": World(noise=noise, slow=0.05, loss=loss)
        for noise in (0.01, 0.02, 0.03, 0.04, 0.06)
        for loss in _LOSSES
    },
    "share of slow nodes": {
        f"{slow:.0%} lose {loss:.0%}": World(slow=slow, loss=loss)
        for slow in (0.01, 0.05, 0.10, 0.30, 0.50)
        for loss in _LOSSES
    },
    "losses between half and one and a half of 15%": {"10% slow": World(slow=0.1, spread=True)},
    "no fault": {
        **{f"{nodes} nodes": World(nodes=nodes) for nodes in (2, 3, 4, 5, 8, 10, 256)},
        "256 nodes, noise 6%": World(noise=0.06),
        "256 nodes, noise only takes": World(tail="half"),
        "256 nodes, Student's t": World(tail="student"),
    },
    "small fleets": {
        **{
            f"1 of {nodes} loses {loss:.0%}": World(nodes=nodes, slow=1 / nodes, loss=loss)
            for nodes in (2, 3, 4, 5, 8, 10)
            for loss in (0.15, 0.5)
        },
        **{f"half of {nodes} lose 15%": World(nodes=nodes, slow=0.5) for nodes in (4, 5, 8, 10)},
        "1 of 4 loses 40%": World(nodes=4, slow=0.25, loss=0.4),
    },
    "large fleets": {
        "1,023 nodes, 8 rounds": World(nodes=1023, slow=0.02, loss=0.12, bad=0.01),
        "1,024 nodes, 12 rounds": World(nodes=1024, rounds=12, slow=0.05, loss=0.12, bad=0.04),
    },
    "noise by node": {
        "10% at 6%, others 1.5%": World(noise=0.015, noisy=0.1, slow=0.05),
        "30% at 6%, 10% lose 10%": World(noisy=0.3, slow=0.1, loss=0.1),
        "30% at 6%, no fault": World(noisy=0.3),
    },
    "heavy tails": {
        "Student's t, 5% lose 10%": World(tail="student", slow=0.05, loss=0.1),
        "Student's t, 10% at 6%": World(tail="student", noise=0.015, noisy=0.1, slow=0.05),
        "noise only takes, 5% lose 10%": World(tail="half", slow=0.05, loss=0.1),
        "noise only takes, 10% at 6%": World(tail="half", noise=0.015, noisy=0.1, slow=0.05),
    },
    "one direction": {
        "sending": World(slow=0.05, way="send"),
        "receiving": World(slow=0.05, way="receive"),
        "sending, 10%, noise 3%": World(slow=0.05, way="send", loss=0.1, noise=0.03),
    },
    "rails": {
        "8 rails, one of a node": World(nodes=64, rails=8, slow=0.05, one_rail=True),
        "8 rails, all of a node": World(nodes=64, rails=8, slow=0.05),
    },
    "leaves": {
        "uplinks of 1 of 16": World(leaf_size=16, leaves=1),
        "uplinks of 1 of 16, 15%": World(leaf_size=16, leaves=1, group_loss=0.15),
        "uplinks of 3 of 16, 3% of nodes": World(leaf_size=16, leaves=3, slow=0.03),
        "uplinks of 1 of 2": World(nodes=32, leaf_size=16, leaves=1),
        "1 way between two of 16": World(leaf_size=16, links=1),
        "1 way between two of 4": World(nodes=64, leaf_size=16, links=1),
        "5 ways, 2% of nodes": World(leaf_size=32, links=5, slow=0.02),
        "no fault": World(leaf_size=16),
    },
    "bad paths": {
        "5% of paths": World(bad=0.05),
        "5% of paths and nodes": World(bad=0.05, slow=0.05),
        "20% of paths": World(nodes=96, bad=0.2),
        "2% of paths, noise 3.5%": World(bad=0.02, noise=0.035, slow=0.05),
    },
    "measurements": {
        "10% without a result": World(missing=0.1, slow=0.05),
        "2% are 0": World(zeros=0.02, slow=0.05),
        "5% disturbed": World(disturbed=0.05, slow=0.05),
    },
    "generations": {
        "half at half of the rate, rates unknown": World(old=0.5, rated=False, slow=0.05),
        "half at half of the rate, rates known": World(old=0.5, slow=0.05),
        "half negotiated 10 of 400 Gb/s": World(negotiated=0.5),
    },
}  # fmt: skip

WORLDS: Mapping[str, World] = {
    f"{kind}: {name}": world for kind, worlds in KINDS.items() for name, world in worlds.items()
}


class Look(NamedTuple):
    """Sums over campaigns. slow: ends with a fault. found, wrong: of them and of others, those that fail.
    blind: passes although more is lost than would have been seen. unknown: ends. paths, uplinks: bad ones,
    those of them that are named, and others that are named. reference: ends that the second method names
    rightly and wrongly, from the same measurements."""

    slow: int = 0
    found: int = 0
    wrong: int = 0
    blind: int = 0
    unknown: int = 0
    paths: int = 0
    paths_found: int = 0
    paths_wrong: int = 0
    uplinks: int = 0
    uplinks_found: int = 0
    uplinks_wrong: int = 0
    reference: int = 0
    reference_wrong: int = 0

    def __add__(self, other: object) -> Look:
        assert isinstance(other, Look)
        return Look(*(one + more for one, more in zip(self, other)))


class Outcome(NamedTuple):
    """One campaign, or the sum of several."""

    campaigns: int
    first: Look
    both: Look


def run(world: World, seed: int) -> Outcome:
    """One campaign with its second look."""
    fleet = Fleet(world, seed)
    first = _stage(fleet, fleet.plan)
    judged = judge.judge("tcp", fleet.plan["nodes"], first)
    again = schedule.second(fleet.plan, judged)
    before = _look(fleet, judged, [first])
    if not again["rounds"]:
        return Outcome(1, before, before)
    second = _stage(fleet, again)
    after = judge.judge("tcp", fleet.plan["nodes"], first, second)
    return Outcome(1, before, _look(fleet, after, [first, second]))


def runs(world: World, seeds: range) -> Outcome:
    found = [run(world, seed) for seed in seeds]
    return Outcome(
        len(found), sum((one.first for one in found), Look()), sum((one.both for one in found), Look())
    )


def _stage(fleet: Fleet, plan: dict[str, Any]) -> Stage:
    return Stage(plan["slots"], fleet.answers(plan["slots"]))


def _look(fleet: Fleet, judged: Judged, stages: list[Stage]) -> Look:
    ends = [*judged.blame.ends]
    faulty = {*fleet.slow} | {end for end in ends if end[0] in fleet.negotiated}
    named = {*judged.blame.slow}
    second = _reference(ends, stages)
    bad, paths = _paths(fleet), {_nodes(pair) for pair, how in judged.paths if how is not Certainty.CLEARED}
    uplinks = _uplinks(fleet)
    ways = {(one.leaves, one.rail) for one in judged.between if one.verdict is Verdict.FAIL}
    return Look(
        slow=len(faulty),
        found=len(named & faulty),
        wrong=len(named - faulty),
        blind=_blind(fleet, judged, bad | _between(fleet, judged)),
        unknown=sum(one.verdict is Verdict.UNKNOWN for one in judged.blame.ends.values()),
        paths=len(bad),
        paths_found=len(bad & paths),
        paths_wrong=len(paths - {frozenset(pair) for pair in fleet.bad}),
        uplinks=len(uplinks),
        uplinks_found=len(uplinks & ways),
        uplinks_wrong=len(ways - uplinks),
        reference=len(second & faulty),
        reference_wrong=len(second - faulty),
    )


def _blind(fleet: Fleet, judged: Judged, low: set[frozenset[str]]) -> int:
    """Slow ends that pass although they lose more than would have been seen, and one more if the fleet passes
    with a low pair."""
    ends = judged.blame.ends
    passed = [end for end in fleet.slow if ends[end].verdict is Verdict.PASS]
    blind = sum(fleet.slow[end] > (ends[end].seen or 0.0) for end in passed)
    return blind + (bool(low) and judged.verdict in (Verdict.PASS, Verdict.WARN))


def _between(fleet: Fleet, judged: Judged) -> set[frozenset[str]]:
    """Measured pairs over slow uplinks: of many ways between leaves, a campaign may have no pair over one."""
    low = set()
    for sample in judged.samples:
        ours, theirs = sorted(fleet.leaf[name] for name in sample.nodes)
        over = fleet.slow_leaves.keys() & {ours, theirs} if ours != theirs else set()
        if over or (ours, theirs) in fleet.slow_links:
            low.add(frozenset(sample.nodes))
    return low


def _nodes(pair: tuple[End, End]) -> frozenset[str]:
    return frozenset(name for name, _rail in pair)


def _paths(fleet: Fleet) -> set[frozenset[str]]:
    """Those between nodes without a fault: the others are low for another reason."""
    slow = {name for name, _rail in fleet.slow}
    return {frozenset(pair) for pair in fleet.bad if slow.isdisjoint(pair)}


def _uplinks(fleet: Fleet) -> set[tuple[tuple[str, ...], int]]:
    """Leaves whose uplinks are slow, and pairs of leaves with a slow way, on each rail."""
    rails = range(fleet.world.rails)
    leaves: list[tuple[str, ...]] = [(name,) for name in fleet.slow_leaves]
    return {(where, rail) for where in [*leaves, *fleet.slow_links] for rail in rails}


def _reference(ends: list[End], stages: list[Stage]) -> set[End]:
    numbers = {end: number for number, end in enumerate(ends)}
    readings = [
        (numbers[one], numbers[other], math.log(max(gbits, GBITS / 100) / GBITS))
        for stage in stages
        for one, other, gbits in _readings(stage)
    ]
    return {ends[number] for number in reference.slow(len(ends), readings)}


def _readings(stage: Stage) -> Iterator[tuple[End, End, float]]:
    """Sender, receiver, Gb/s."""
    for name, text in stage.answers.items():
        peers = {slot["round"]: slot["peer"] for slot in stage.slots[name]}
        for slot in json.loads(text)["slots"]:
            if "forward_gbits" in slot:
                one, other = (name, slot["rail"]), (peers[slot["round"]], slot["rail"])
                yield one, other, slot["forward_gbits"]
                yield other, one, slot["backward_gbits"]


#: Measurements of the usual world; smaller ones are tried up to so many times as often.
_USUAL, _MOST = 256 * 8, 20


def cheapness(world: World) -> int:
    """How many campaigns of a world cost as much as the usual one."""
    return max(1, min(_MOST, _USUAL // (world.nodes * min(world.rounds, world.nodes) * world.rails)))
