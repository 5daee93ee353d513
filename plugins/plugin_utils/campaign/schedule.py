# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each node's part of a plan: whom it meets in which round, on which addresses, and which of the two
serves.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from ipaddress import ip_address
from typing import Any

from ...module_utils._mlnode.checks.campaign import kinds
from ...module_utils._mlnode.checks.campaign.kind import round_seconds
from ...module_utils._mlnode.checks.model import Verdict
from . import plan as circle
from .blame import Certainty
from .judge import Judged
from .plan import Pair, Plan

#: Rounds of a campaign unless it is given. A node is slow if it is low with half of its partners, and of
#: eight a healthy one has four bad paths once in 10^5 nodes where one path in a hundred is bad.
ROUNDS = 8

Nodes = Mapping[str, Mapping[str, Any]]
Slots = dict[str, list[dict[str, Any]]]


def nodes(
    addresses: Any, leaves: Mapping[str, Any], devices: Mapping[str, Any] | None = None, kind: str = "tcp"
) -> Nodes:
    """Nodes of a plan: name → `addresses`, one for each rail, `leaf`, and for a kind of RDMA `devices`, where
    they are given. Raises ValueError."""
    if not isinstance(addresses, Mapping):
        raise ValueError("the input must be a dictionary with a list of addresses of each node")
    known: dict[str, dict[str, Any]] = {
        str(name): {"addresses": _addresses(str(name), own), "leaf": str(leaves.get(name) or "")}
        for name, own in addresses.items()
    }
    for name, own in (devices or {}).items() if kinds.of(kind).RDMA else ():
        if own and name in known:
            known[name].update(_with_devices(name, known[name]["addresses"], own))
    owner: dict[str, str] = {}
    for name, about in known.items():
        for address in about["addresses"]:
            # One machine under two names would measure its own memory.
            if owner.setdefault(address, name) != name:
                raise ValueError(
                    f"{address} is an address of {owner[address]} and of {name}: is it one machine?"
                )
    return known


def _addresses(name: str, own: Any) -> list[str]:
    if not isinstance(own, (list, tuple)) or not own:
        raise ValueError(
            f"{name}: there is no list of its addresses, one for each rail: give campaign_addresses"
        )
    try:
        return [str(ip_address(one)) for one in own]
    except ValueError as error:
        raise ValueError(f"{name}: {error}: give campaign_addresses") from error


def _with_devices(name: str, addresses: Sequence[str], own: Any) -> dict[str, Any]:
    """A single address, over which the two sides agree, is that of all devices."""
    if not isinstance(own, (list, tuple)) or not all(isinstance(one, str) for one in own):
        raise ValueError(f"{name}: campaign_devices is {own!r}, and not a list of RDMA devices")
    all_addresses = [*addresses] * len(own) if len(addresses) == 1 else [*addresses]
    if len(all_addresses) != len(own):
        raise ValueError(
            f"{name}: there are {len(own)} campaign_devices and {len(addresses)} campaign_addresses: give as "
            "many, or one address"
        )
    return {"addresses": all_addresses, "devices": [*own]}


def document(nodes: Nodes, kind: str, rounds: int | None, seed: int, duration: int) -> dict[str, Any]:
    """Plan of all nodes. Raises ValueError."""
    names = circle.ordered({name: str(about.get("leaf") or "") for name, about in nodes.items()})
    plan = circle.of(len(names), rounds, seed)
    slots: Slots = {name: [] for name in names}
    for number in range(plan.rounds):
        for one, other in plan.pairs(number):
            _meet(slots, nodes, number, names, (one, other), plan)
    about = {"kind": kind, "seed": seed, "round_seconds": round_seconds(kinds.of(kind), duration)}
    return {**about, "rounds": plan.rounds, "nodes": dict(nodes), "slots": slots}


def as_texts(plan: Mapping[str, Any]) -> dict[str, Any]:
    """A plan as a controller keeps it until the end of a play: the slots of each node are JSON."""
    slots = {name: json.dumps(own, separators=(",", ":")) for name, own in plan["slots"].items()}
    return {**plan, "slots": slots}


def second(first: Mapping[str, Any], judged: Judged) -> dict[str, Any]:
    """Plan of a second look at suspects, paths in question, and pairs without a result although both nodes
    have answered; without any, it has no rounds."""
    ends = judged.blame.ends
    suspects = sorted({name for (name, _rail), one in ends.items() if one.verdict is Verdict.FAIL})
    good = [name for name in first["slots"] if name not in suspects and judged.node(name) is Verdict.PASS]
    paths = {
        (pair[0][0], pair[1][0]) for pair, certainty in judged.paths if certainty is not Certainty.CLEARED
    }
    lost = {
        sample.nodes
        for sample in judged.samples
        if sample.reading.value is None and judged.problems.keys().isdisjoint(sample.nodes)
    }
    met = [sample.nodes for sample in judged.samples]
    rounds = circle.again(
        suspects, sorted(paths | lost), good, met, max(int(first["rounds"]), circle.WITNESSES)
    )
    slots: Slots = {}
    for number, pairs in enumerate(rounds):
        for pair in pairs:
            _agree(slots, first["nodes"], number, pair)
    return {**first, "rounds": len(rounds), "slots": slots}


def _meet(
    slots: Slots, nodes: Nodes, number: int, names: Sequence[str], pair: tuple[int, int], plan: Plan
) -> None:
    one, other = pair
    if plan.serves(one, other, number):
        one, other = other, one
    _agree(slots, nodes, number, (names[one], names[other]))


def _agree(slots: Slots, nodes: Nodes, number: int, pair: Pair) -> None:
    """The first one measures, and the other one serves, on all rails that both have at the same time."""
    one, other = pair
    rails = [*zip(nodes[one]["addresses"], nodes[other]["addresses"])]
    for name, peer, serves in ((one, other, False), (other, one, True)):
        own = [[there, here] if serves else [here, there] for here, there in rails]
        slots.setdefault(name, []).append({"round": number, "peer": peer, "serves": serves, "rails": own})
