# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each node's part of a plan: whom it meets in which round, on which addresses, and which of the two
serves.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from ipaddress import ip_address
from typing import Any

from ...module_utils._mlnode.checks.campaign import kinds
from ...module_utils._mlnode.checks.campaign.kind import round_seconds
from ...module_utils._mlnode.checks.model import Verdict
from ...module_utils._mlnode.model.values import by_key
from . import plan as circle
from .blame import Certainty
from .judge import Judged
from .plan import Pair

#: Rounds of a campaign unless it is given. A node is slow if it is low with half of its partners, and of
#: eight a healthy one has four bad paths once in 10^5 nodes where one path in a hundred is bad.
ROUNDS = 8

Nodes = Mapping[str, Mapping[str, Any]]
Slots = dict[str, list[dict[str, Any]]]


def plan(
    addresses: Any,
    leaves: Mapping[str, Any] | None = None,
    devices: Mapping[str, Any] | None = None,
    kind: str = "tcp",
    rounds: int = ROUNDS,
    seed: int = 0,
    duration: int = 4,
) -> dict[str, Any]:
    """Plan of all nodes. addresses, leaves, devices: of each node, as in nodes(). rounds: 0 for all.
    duration: in seconds, of each direction. Raises ValueError."""
    return document(nodes(addresses, leaves or {}, devices, kind), kind, rounds or None, seed, duration)


def nodes(
    addresses: Any, leaves: Mapping[str, Any], devices: Mapping[str, Any] | None = None, kind: str = "tcp"
) -> Nodes:
    """Nodes of a plan: name → `addresses`, one for each rail; `leaf` and, for RDMA kinds, `devices` if given.
    Raises ValueError."""
    if not isinstance(addresses, Mapping):
        raise ValueError("the input must be a dictionary with a list of addresses of each node")
    known: dict[str, dict[str, Any]] = {
        str(name): {"addresses": _addresses(str(name), own), "leaf": str(leaves.get(name) or "")}
        for name, own in addresses.items()
    }
    for name, own in (devices or {}).items() if kinds.kind(kind).RDMA else ():
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
        return [str(ip_address(address)) for address in own]
    except ValueError as error:
        raise ValueError(f"{name}: {error}: give campaign_addresses") from error


def _with_devices(name: str, addresses: Sequence[str], own: Any) -> dict[str, Any]:
    """`addresses` and `devices` of a node. A single address, for the control connection, serves all
    devices."""
    if not isinstance(own, (list, tuple)) or not all(isinstance(device, str) for device in own):
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
    leaf = {name: str(about.get("leaf") or "") for name, about in nodes.items()}
    planned = circle.rounds_of(leaf, rounds, seed)
    slots: Slots = {name: [] for name in circle.ordered(leaf)}
    for number, pairs in enumerate(planned):
        for serves, measures in pairs:
            _agree(slots, nodes, number, (measures, serves))
    about = {"kind": kind, "seed": seed, "round_seconds": round_seconds(kinds.kind(kind), duration)}
    return {**about, "rounds": len(planned), "nodes": dict(nodes), "slots": slots}


#: Standard errors by which a node is slower than its level from which it is near to slow ones: of healthy
#: nodes one in 40 is.
_NEARLY = 2.0

#: Part of the nodes that are measured again although nothing suspects them: those that the first look came
#: nearest to naming
_NEAR = 0.1


def second(first: Mapping[str, Any], judged: Judged) -> dict[str, Any]:
    """Plan of a second look at suspects, at paths and leaves in question, and at pairs without a result
    although both nodes have answered; without any, it has no rounds."""
    there = [name for name in first["slots"] if name not in judged.problems]
    asked = circle.Again(
        suspects=_suspects(judged, there),
        pairs=sorted({*_low(judged), *_lost(judged)}) + _between(judged, there),
        good=[name for name in there if judged.node(name) is Verdict.PASS],
        met=[sample.nodes for sample in judged.samples],
        leaf=judged.leaves,
    )
    slots: Slots = {}
    rounds = circle.again(asked, max(int(first["rounds"]), circle.WITNESSES))
    for number, pairs in enumerate(rounds):
        for pair in pairs:
            _agree(slots, first["nodes"], number, pair)
    return {**first, "rounds": len(rounds), "slots": slots}


def _suspects(judged: Judged, there: Sequence[str]) -> list[str]:
    """Slow nodes, then nodes with too few results while others pass, then the nodes closest to slow."""
    verdicts = {name: judged.node(name) for name in there}
    slow = [name for name in there if verdicts[name] is Verdict.FAIL]
    unknown = [name for name in there if verdicts[name] is Verdict.UNKNOWN]
    near = sorted(
        (name for name in there if verdicts[name] is Verdict.PASS and judged.nearness(name) > _NEARLY),
        key=lambda name: -judged.nearness(name),
    )
    return slow + unknown + near[: math.ceil(_NEAR * len(there))]


def _low(judged: Judged) -> set[Pair]:
    lossy_pairs = {(lossy.ends[0][0], lossy.ends[1][0]) for lossy in judged.lossy if len(lossy.ends) == 2}
    paths = {pair for pair, certainty in judged.paths if certainty is not Certainty.CLEARED}
    return {(end[0], partner[0]) for end, partner in paths} | lossy_pairs


def _lost(judged: Judged) -> set[Pair]:
    return {
        sample.nodes
        for sample in judged.samples
        if sample.reading.value is None and judged.problems.keys().isdisjoint(sample.nodes)
    }


def _between(judged: Judged, there: Sequence[str]) -> list[Pair]:
    """New pairs over the uplinks in question, and on their leaves."""
    by_leaf = by_key((judged.leaves.get(name, ""), name) for name in there)
    pairs: list[Pair] = []
    for uplink in judged.between:
        ours = by_leaf.get(uplink.leaves[0], [])
        others = [name for name in there if judged.leaves[name] not in ("", *uplink.leaves)]
        theirs = by_leaf.get(uplink.leaves[1], []) if len(uplink.leaves) > 1 else others
        pairs += [*zip(ours, theirs)][: circle.WITNESSES]
        pairs += [*zip(ours[::2], ours[1::2])][: circle.WITNESSES]
        pairs += [*zip(reversed(ours), others)][: circle.WITNESSES] if len(uplink.leaves) > 1 else []
    return pairs


def _agree(slots: Slots, nodes: Nodes, number: int, pair: Pair) -> None:
    """The first one measures, and the other one serves, on all rails that both have at the same time."""
    client, server = pair
    rails = [*zip(nodes[client]["addresses"], nodes[server]["addresses"])]
    for name, peer, serves in ((client, server, False), (server, client, True)):
        own = [[there, here] if serves else [here, there] for here, there in rails]
        slots.setdefault(name, []).append({"round": number, "peer": peer, "serves": serves, "rails": own})
