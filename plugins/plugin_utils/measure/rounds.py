# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rounds of one plan: nodes are prepared, given the start when all have answered or had their time,
waited for, and collected."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from ..campaign import addresses, schedule
from .nodes import Call, Fleet, MeasureError, say

MODULE = "mlnode.tuning.campaign"

#: Variables of a node
NODE: Mapping[str, Mapping[str, Any]] = {
    "ansible_host": {"type": "str"},
    "campaign_addresses": {"type": "list", "elements": "str"},
    "campaign_devices": {"type": "list", "elements": "str"},
    "campaign_leaf": {"type": "str", "default": ""},
}

#: Seconds that Ansible itself needs for a call to one node on a busy controller
_EACH = 0.05

#: Seconds in addition to the wait for answers, until the first call of a start is on its way
_SPARE = 2.0


class Ran(NamedTuple):
    """begin: of the first round, in seconds since 1970. started, collected: node → its last answer."""

    begin: float
    started: dict[str, dict[str, Any]]
    collected: dict[str, dict[str, Any]]


def plan(fleet: Fleet, given: Mapping[str, Any], kind: str, rounds: int) -> dict[str, Any]:
    """The plan of campaign.schedule for all nodes. rounds: 0 for all. Raises MeasureError."""
    known = fleet.variables(NODE)
    of_rails = {
        name: own["campaign_addresses"] or [own["ansible_host"] or name] for name, own in known.items()
    }
    resolved, problem = addresses.resolved(of_rails)
    if problem:
        raise MeasureError(problem)
    leaves = {name: own["campaign_leaf"] for name, own in known.items()}
    devices = {name: own["campaign_devices"] for name, own in known.items() if own["campaign_devices"]}
    # With an odd number of nodes, one rests in each round.
    least = 2 if rounds == 1 and len(known) % 2 else rounds
    try:
        seed, duration = given["campaign_seed"], given["campaign_duration"]
        return schedule.plan(resolved, leaves, devices, kind, least, seed, duration)
    except ValueError as error:
        raise MeasureError(str(error)) from error


def prepare(
    fleet: Fleet, given: Mapping[str, Any], plan: Mapping[str, Any], name: str, check: bool = False
) -> dict[str, dict[str, Any]]:
    """Answers of the nodes to their part of a plan, with `shift` if a node is ready. Those that are not are
    named. name: of the campaign on the nodes. check: ask whether they could begin, as in check mode."""
    patience = given["campaign_timeout"]
    about = {
        "state": "started",
        "id": name,
        "kind": plan["kind"],
        # Until all nodes were asked twice, each time in batches that take as long as their slowest node
        "wait": (2 * fleet.batches + 1) * patience + 60,
        "rounds": plan["rounds"],
        "duration": given["campaign_duration"],
        "streams": given["campaign_streams"],
        "tcp_port": given["campaign_tcp_port"],
        "allow": given["campaign_allow"],
    }
    calls = {}
    for node, slots in plan["slots"].items():
        own = plan["nodes"][node]
        devices = {"devices": own["devices"]} if "devices" in own else {}
        part = {**about, "addresses": own["addresses"], "slots": slots, **devices}
        if slots:
            calls[node] = Call(MODULE, part, patience, {"check_mode": True} if check else {})
    answers = fleet.ask(calls, "shift")
    notes = {
        node: answer.get("clock_note") or ("" if "shift" in answer else answer.get("msg") or "no answer")
        for node, answer in answers.items()
    }
    lines = [f"{node}: {' '.join(str(note).split())}" for node, note in notes.items() if note]
    if lines:
        say("\n".join(lines))
    return answers


def run(fleet: Fleet, given: Mapping[str, Any], plan: Mapping[str, Any], name: str) -> Ran:
    """All rounds of a plan."""
    patience = given["campaign_timeout"]
    prepared = prepare(fleet, given, plan, name)
    ready = {node: answer for node, answer in prepared.items() if "shift" in answer}
    begin = time.time() + (_lead(fleet, ready) if given["campaign_lead"] is None else given["campaign_lead"])
    begun = fleet.ask(
        {
            node: Call(MODULE, {"state": "begun", "id": name, "start": begin + answer["shift"]}, patience)
            for node, answer in ready.items()
        },
        "ends",
    )
    running = [node for node, answer in begun.items() if "ends" in answer]
    if running:
        _wait(fleet, plan, begin)
    collect = Call(MODULE, {"state": "collected", "id": name}, patience)
    collected = fleet.ask(dict.fromkeys(running, collect), "answer")
    return Ran(begin, {**prepared, **begun}, collected)


def _lead(fleet: Fleet, ready: Mapping[str, Mapping[str, Any]]) -> float:
    """Seconds in which all nodes get the start: a call takes no longer than the one before."""
    took = [float(answer["took"]) for answer in ready.values()]
    return _SPARE + max(took, default=0.0) + sum(took) / fleet.forks + _EACH * len(took)


def _wait(fleet: Fleet, plan: Mapping[str, Any], begin: float) -> None:
    rounds, seconds = plan["rounds"], plan["round_seconds"]
    for number in range(rounds):
        left = (rounds - number) * seconds + max(0.0, begin - time.time()) * (number == 0)
        say(f"round {number + 1} of {rounds}, {left:.0f} s left")
        fleet.sleep(begin + (number + 1) * seconds)
