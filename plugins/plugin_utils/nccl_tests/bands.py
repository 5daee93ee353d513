# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Limits of each size: by the links of the nodes, by the fleet, and by the neighbouring sizes.

Small messages measure latency, large ones bandwidth, and those in between the algorithms that NCCL switches
there. The overall average that nccl-tests prints describes none of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ...module_utils._mlnode.checks.campaign import tcp
from ...module_utils._mlnode.checks.model import Verdict
from ..campaign import limits, model
from ..campaign.model import Limit
from . import algorithms, facts, presets
from .algorithms import Choice, Log
from .read import Measure, Row, factor

_KIB, _MIB, _GIB = 1 << 10, 1 << 20, 1 << 30

#: Sizes of a band in bytes, from and to; BETWEEN is the rest. NCCL sends small messages by low-latency
#: protocols (LL, LL128), and at 1 GiB the bandwidth does not grow any more.
BANDS = {
    "latency": (0, 64 * _KIB),
    "middle": (_MIB, 64 * _MIB),
    "bandwidth": (_GIB, 1 << 62),
}
BETWEEN = "between"

#: Part of the capacity of a node's rails that large messages must reach. RDMA headers take 2 to 6 %, and an
#: all-reduce over many nodes does not keep all links full at all times.
SHARE = 0.8
#: More than the rails carry, by as much as times and rates are rounded: then the rates are not right.
ABOVE = 1.02
LINKS, FLEET, HOLE, WRONG = "links", limits.FLEET, "hole", "wrong"

#: From so many nodes on, the busiest node of NCCL's double binary tree sends twice the message, as in a ring
#: (src/graph/trees.cc). With two nodes it sends it once, and the bus bandwidth exceeds the rails.
TREE_NODES = 4

#: Number of nodes, of GPUs, bytes, and Log.compared(): what can be compared
Key = tuple[int, int, int, str]
Past = Mapping[Key, Sequence[float]]


class Size(NamedTuple):
    """gbits: bus bandwidth of the slower of both measurements. broke: names of limits; hole: less than half
    of a smaller size, or of its other measurement; wrong: results are wrong. proven: one of its limits is so
    near to a healthy bandwidth that to keep it proves something. choices: algorithms that NCCL took."""

    row: Row
    gbits: float
    limits: tuple[Limit, ...]
    broke: tuple[str, ...]
    verdict: Verdict
    reason: str
    proven: bool
    choices: tuple[Choice, ...] = ()

    @property
    def low(self) -> bool:
        return bool({*self.broke} - {WRONG})

    @property
    def right(self) -> bool:
        """All elements were checked, and are right."""
        return self.row.out_of_place.wrong == self.row.in_place.wrong == 0


class Band(NamedTuple):
    name: str
    verdict: Verdict
    reason: str
    sizes: tuple[Size, ...]


class Links(NamedTuple):
    """Rate of all rails of the slowest node, in Gb/s. source: for people."""

    carried: float
    source: str


class Group(NamedTuple):
    """A run to be judged. asked: requested sizes. links: None if unknown, or if the traffic crosses no links.
    presets: limits that the site declares. sharp: it may reduce in the network."""

    ranks: int
    nodes: int
    asked: Sequence[int]
    links: Links | None
    log: Log
    past: Past
    presets: Sequence[presets.Bound] = ()
    sharp: bool = False


def name_of(size: int) -> str:
    return next((name for name, (least, most) in BANDS.items() if least <= size <= most), BETWEEN)


def gbits(measure: Measure, size: int, ranks: int) -> float:
    """Bus bandwidth: bytes by µs are MB/s."""
    return size * 8 / measure.time / 1000 * factor(ranks)


def of_links(nodes: Iterable[facts.Node], gpus: int) -> Links | None:
    """The node whose rails carry the least is the limit of all. None where rails of one are not known."""
    carried = [(facts.carried(node.rails, gpus), node) for node in nodes]
    known = [(rate, node) for rate, node in carried if rate is not None]
    if not known or len(known) < len(carried):
        return None
    rate, node = min(known, key=lambda rate_and_node: rate_and_node[0])
    used = min(gpus, len(node.rails))
    return Links(rate, f"{rate:.4g} Gb/s, {used} rails of {node.name}")


def judge(rows: Sequence[Row], group: Group) -> list[Band]:
    sizes: dict[str, list[Size]] = {name: [] for name in (*BANDS, BETWEEN)}
    best = 0.0
    for row in sorted(rows):
        rates = [gbits(measure, row.size, group.ranks) for measure in (row.out_of_place, row.in_place)]
        sizes[name_of(row.size)].append(_size(row, rates, max(best, *rates), group))
        best = max(best, min(rates))
    missing = {*group.asked} - {row.size for row in rows}
    return [
        _band(name, own, [size for size in sorted(missing) if name_of(size) == name])
        for name, own in sizes.items()
        if own or name != BETWEEN
    ]


class _Compared(NamedTuple):
    """limits: must be kept. hints: a result below them is a warning. proves: names of the limits that prove a
    healthy size. lacking: what would make a limit prove it; empty if one does."""

    limits: tuple[Limit, ...]
    hints: tuple[Limit, ...]
    proves: tuple[str, ...]
    lacking: str


def _compared(row: Row, slower: float, group: Group) -> _Compared:
    name = name_of(row.size)
    own: list[tuple[Limit | None, str]] = []
    if group.links and name == "bandwidth":
        own.append(_of_links(group.links, group, row.size, slower))
    own += [_of_fleet(group.past.get((group.nodes, group.ranks, row.size, group.log.compared(row.size)), ()))]
    at = [bound for bound in group.presets if bound.least <= row.size <= bound.most]
    own += [_of_site(bound, group, row.size) for bound in at if not bound.warns]
    known = [(limit, lack) for limit, lack in own if limit is not None]
    lacks = [lack for _limit, lack in own if lack]
    if group.links is None and group.nodes > 1 and name == "bandwidth":
        lacks.append("the rates of all rails (nccl_rails_gbits)")
    proves = tuple(limit.name for limit, lack in known if not lack)
    hints = tuple(bound.limit(row.size) for bound in at if bound.warns)
    limits_here = tuple(limit for limit, _lack in known)
    return _Compared(limits_here, hints, proves, "" if proves else ", or ".join(lacks))


def _of_links(links: Links, group: Group, size: int, slower: float) -> tuple[Limit, str]:
    """The limit, and the reason why it proves nothing; empty if it does."""
    limit = Limit(LINKS, SHARE * links.carried, f"{SHARE:g} of {links.source}")
    if bounded(group, size):
        share = slower / links.carried
        return (
            limit,
            f"rates of the rails that are right ({share:.0%} of them is too much)" if share > ABOVE else "",
        )
    words = group.log.algorithm(size) or "an algorithm that the log does not name"
    return limit, f"rings (NCCL_ALGO=RING): {words} may send more than the rails of {group.nodes} nodes carry"


def _of_site(bound: presets.Bound, group: Group, size: int) -> tuple[Limit, str]:
    """As of the links, where the limit is a part of them."""
    lacking = bound.name == presets.INFINIBAND and not bounded(group, size)
    return bound.limit(size), "rings (NCCL_ALGO=RING)" if lacking else ""


def bounded(group: Group, size: int) -> bool:
    """True if the bus bandwidth cannot exceed the rates of the rails: in rings each node sends 2(n - 1)/n of
    the message, in trees of four and more nodes twice the message. Switches that reduce have it sent once."""
    names = {choice.algorithm for choice in group.log.choices.get(size, ())} or {group.log.forced}
    if names <= {algorithms.RING}:
        return True
    if group.nodes < TREE_NODES or algorithms.in_network(group.log, size):
        return False
    return names <= {algorithms.RING, *algorithms.TREES} or (names == {""} and not group.sharp)


def _of_fleet(values: Sequence[float]) -> tuple[Limit | None, str]:
    """As the bandwidths of a campaign are compared, whose kind tcp has the unit and the margin."""
    spread = limits.spread(tcp, values)
    if spread is None:
        need = max(1, limits.LEAST_PAIRS - len(values))
        return None, f"{need} more results like it ({len(values)} of {limits.LEAST_PAIRS})"
    low = spread.limit.value
    source = (
        f"median {spread.median:.4g} Gb/s of {len(values)} other results, less {1 - low / spread.median:.0%}"
    )
    far = low < SHARE * spread.median
    return Limit(FLEET, low, source), "other results that scatter less" if far else ""


def _size(row: Row, rates: Sequence[float], best: float, group: Group) -> Size:
    slower = min(rates)
    compared = _compared(row, slower, group)
    broken = [limit for limit in compared.limits if slower < limit.value]
    broke = [limit.name for limit in broken]
    reasons = [_under(limit, row) for limit in broken]
    if slower < limits.HOLE * best:
        broke.append(HOLE)
        reasons.append(
            f"{slower / best:.0%} of {best:.4g} Gb/s, which a smaller size or its other measurement has"
        )
    wrong = [measure.wrong for measure in (row.out_of_place, row.in_place)]
    if any(wrong):
        broke.append(WRONG)
        reasons.append(f"{sum(count or 0 for count in wrong):g} elements are wrong")
    hints = [_under(limit, row) for limit in compared.hints if slower < limit.value]
    verdict, why = Verdict.PASS, ""
    if broke:
        verdict, why = Verdict.FAIL, "; ".join(reasons)
    elif None in wrong:
        verdict, why = Verdict.UNKNOWN, "its results were not checked (N/A)"
    elif not compared.proves and name_of(row.size) != BETWEEN:
        verdict, why = Verdict.UNKNOWN, f"unproven; it needs {compared.lacking}"
    elif hints:
        verdict, why = Verdict.WARN, "; ".join(hints)
    reason = f"{row.size} bytes: {slower:.4g} Gb/s: {why}" if why else ""
    choices = group.log.choices.get(row.size, ())
    every = (*compared.limits, *compared.hints)
    return Size(row, slower, every, tuple(broke), verdict, reason, bool(compared.proves), choices)


def _under(limit: Limit, row: Row) -> str:
    if limit.name == presets.LATENCY:
        return f"{max(row.out_of_place.time, row.in_place.time):.4g} µs, over {limit.source}"
    return f"under {limit.value:.4g} Gb/s, {limit.source}"


def _band(name: str, sizes: Sequence[Size], missing: Sequence[int]) -> Band:
    verdict = model.worst([*(size.verdict for size in sizes), *([Verdict.UNKNOWN] if missing else [])])
    reasons = [size.reason for size in sizes if size.verdict is verdict and size.reason]
    if missing and verdict is Verdict.UNKNOWN:
        reasons = [f"{len(missing)} sizes were not measured, {missing[0]} bytes the first", *reasons]
    if not sizes and not missing:
        reasons = ["no size of this band was asked for"]
    return Band(name, verdict, _few(reasons), tuple(sizes))


def _few(reasons: Sequence[str]) -> str:
    return "; ".join([*reasons[:1], *([f"and {len(reasons) - 1} sizes more"] if reasons[1:] else [])])
