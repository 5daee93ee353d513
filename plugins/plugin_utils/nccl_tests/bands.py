# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Limits of each size: by the links of the nodes, by the fleet, and by the sizes beside it.

Small messages measure latency, large ones bandwidth, and what is between them the algorithms that NCCL
changes there. An average over all, as nccl-tests prints it, says nothing of any.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ...module_utils._mlnode.checks.campaign import tcp
from ...module_utils._mlnode.checks.model import Verdict
from ..campaign import limits, model
from ..campaign.model import Limit
from . import facts
from .read import Measure, Row, factor

_KIB, _MIB, _GIB = 1 << 10, 1 << 20, 1 << 30

#: Sizes of a band in bytes, from and to; BETWEEN is the rest. NCCL sends what is small by protocols made for
#: latency (LL, LL128), and at 1 GiB the bandwidth does not grow any more.
BANDS = {
    "latency": (0, 64 * _KIB),
    "middle": (_MIB, 64 * _MIB),
    "bandwidth": (_GIB, 1 << 62),
}
BETWEEN = "between"

#: Part of what the rails of a node carry that large messages have to reach. Headers of RDMA take 2 to 6 %,
#: and an all-reduce over many nodes does not keep all links full at all times.
SHARE = 0.8
LINKS, FLEET, HOLE, WRONG = "links", limits.FLEET, "hole", "wrong"

#: Number of nodes, of GPUs, and bytes: what can be compared
Key = tuple[int, int, int]
Past = Mapping[Key, Sequence[float]]


class Size(NamedTuple):
    """gbits: bus bandwidth of the slower of both measurements. broke: names of limits; hole: less than half
    of a smaller size, or of its other measurement; wrong: results are wrong."""

    row: Row
    gbits: float
    limits: tuple[Limit, ...]
    broke: tuple[str, ...]
    verdict: Verdict
    reason: str

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


def name_of(size: int) -> str:
    return next((name for name, (least, most) in BANDS.items() if least <= size <= most), BETWEEN)


def gbits(measure: Measure, size: int, ranks: int) -> float:
    """Bus bandwidth: bytes by µs are MB/s."""
    return size * 8 / measure.time / 1000 * factor(ranks)


def of_links(nodes: Iterable[facts.Node], gpus: int) -> Limit | None:
    """The node whose rails carry the least is the limit of all. None where rails of one are not known."""
    carried = [(facts.carried(node.rails, gpus), node) for node in nodes]
    known = [(rate, node) for rate, node in carried if rate is not None]
    if not known or len(known) < len(carried):
        return None
    rate, node = min(known, key=lambda one: one[0])
    used = min(gpus, len(node.rails))
    return Limit(LINKS, SHARE * rate, f"{SHARE:g} of {rate:.4g} Gb/s, {used} rails of {node.name}")


def judge(
    rows: Sequence[Row], asked: Sequence[int], ranks: int, nodes: int, links: Limit | None, past: Past
) -> list[Band]:
    """asked: sizes that had to be measured. links: None where it is not known, or nothing crosses them."""
    sizes: dict[str, list[Size]] = {name: [] for name in (*BANDS, BETWEEN)}
    best = 0.0
    for row in sorted(rows):
        name = name_of(row.size)
        known = [links] if links and name == "bandwidth" else []
        known += _of_fleet(past.get((nodes, ranks, row.size), ()))
        rates = [gbits(one, row.size, ranks) for one in (row.out_of_place, row.in_place)]
        sizes[name].append(_size(row, rates, max(best, *rates), tuple(known), name, nodes > 1))
        best = max(best, min(rates))
    missing = {*asked} - {row.size for row in rows}
    return [
        _band(name, own, [size for size in sorted(missing) if name_of(size) == name])
        for name, own in sizes.items()
        if own or name != BETWEEN
    ]


def _of_fleet(values: Sequence[float]) -> list[Limit]:
    """As the bandwidths of a campaign are compared, whose kind tcp has the unit and the margin."""
    spread = limits.spread(tcp, values)
    if spread is None:
        return []
    low = spread.limit.value
    source = (
        f"median {spread.median:.4g} Gb/s of {len(values)} other results, less {1 - low / spread.median:.0%}"
    )
    return [Limit(FLEET, low, source)]


def _size(
    row: Row, rates: Sequence[float], best: float, known: tuple[Limit, ...], band: str, linked: bool
) -> Size:
    slower = min(rates)
    broke = [one.name for one in known if slower < one.value]
    reasons = [f"under {one.value:.4g} Gb/s, {one.source}" for one in known if slower < one.value]
    if slower < limits.HOLE * best:
        broke.append(HOLE)
        reasons.append(
            f"{slower / best:.0%} of {best:.4g} Gb/s, which a smaller size or its other measurement has"
        )
    wrong = [one.wrong for one in (row.out_of_place, row.in_place)]
    if any(wrong):
        broke.append(WRONG)
        reasons.append(f"{sum(one or 0 for one in wrong)} elements are wrong")
    at = f"{row.size} bytes: {slower:.4g} Gb/s"
    if broke:
        return Size(row, slower, known, tuple(broke), Verdict.FAIL, f"{at}: {'; '.join(reasons)}")
    if None in wrong:
        return Size(row, slower, known, (), Verdict.UNKNOWN, f"{at}: its results were not checked (N/A)")
    if not known and band != BETWEEN:
        lack = f"{at}: nothing to compare with: it takes {limits.LEAST_PAIRS} other results like it"
        rest = ", or the rates of all rails (nccl_rails_gbits)" if linked and band == "bandwidth" else ""
        return Size(row, slower, known, (), Verdict.UNKNOWN, lack + rest)
    return Size(row, slower, known, (), Verdict.PASS, "")


def _band(name: str, sizes: Sequence[Size], missing: Sequence[int]) -> Band:
    verdict = model.worst([*(one.verdict for one in sizes), *([Verdict.UNKNOWN] if missing else [])])
    reasons = [one.reason for one in sizes if one.verdict is verdict and one.reason]
    if missing and verdict is Verdict.UNKNOWN:
        reasons = [f"{len(missing)} sizes were not measured, {missing[0]} bytes the first", *reasons]
    if not sizes and not missing:
        reasons = ["no size of this band was asked for"]
    return Band(name, verdict, _few(reasons), tuple(sizes))


def _few(reasons: Sequence[str]) -> str:
    return "; ".join([*reasons[:1], *([f"and {len(reasons) - 1} sizes more"] if reasons[1:] else [])])
