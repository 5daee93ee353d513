# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Absolute limits that a site may declare by name (nccl_limits). Without a declaration none is in force.

They are rules of thumb of acceptance tests, and no vendor guarantees them: each has its reason below. A site
that knows better gives its own number in the place of `true`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ...module_utils._mlnode.model import strict_json
from ..campaign.model import Limit
from .read import factor

_MIB, _GIB = 1 << 20, 1 << 30
_ALL = 1 << 62

NVLINK, INFINIBAND, LATENCY, CONNECT = "nvlink", "infiniband", "latency", "connect"
NAMES = (NVLINK, INFINIBAND, LATENCY, CONNECT)

#: Part of NVLink's rate in one direction that an all-reduce inside of a node has to reach from 1 GiB on. 85
#: to 90 % is the usual rule. NVLink SHARP exceeds the rate (H100: 480 of 450 GB/s); rings reach 370 (NCCL's
#: author in nccl-tests, issue 212), and A100 230 to 250 of 300 GB/s (docs.alayanew.com, "NCCL-tests in
#: practice"): both need their own number.
_NVLINK_FAIL, _NVLINK_WARN = 0.85, 0.9

#: From a size on, the part of the line rate of all rails: 70 to 85 % is the usual rule. Headers of RDMA take
#: 2 to 6 %; the smaller a message, the more of its time are the 2(n - 1) steps of a ring.
_INFINIBAND = ((256 * _MIB, 0.7), (_GIB, 0.8), (4 * _GIB, 0.85))

#: µs of an all-reduce of two ranks up to 1 KiB: inside of a node by NVLink, and between nodes by RDMA. Two
#: nodes of GH200 are published at 16 to 19 µs (nccl-tests, issue 369).
_LATENCY_NODE, _LATENCY_NODES = 5.0, 20.0
_SMALL = 1 << 10


class Bound(NamedTuple):
    """A least bus bandwidth for sizes from `least` to `most` bytes. gbits: Gb/s; usec: µs instead, which is a
    different bandwidth at each size. warns: a miss is a warning. ranks: of the run."""

    name: str
    least: int
    most: int
    source: str
    ranks: int
    gbits: float = 0.0
    usec: float = 0.0
    warns: bool = False

    def limit(self, size: int) -> Limit:
        rate = size * 8 / self.usec / 1000 * factor(self.ranks) if self.usec else self.gbits
        return Limit(self.name, rate, self.source)


class Shape(NamedTuple):
    """A run. rails, nvlink: rates in Gb/s; None if unknown."""

    nodes: int
    ranks: int
    rails: float | None
    nvlink: float | None


Declared = Mapping[str, float | None]


def declared(given: Any) -> Declared:
    """Preset → a number of the site's own, or None. Raises ValueError."""
    if not isinstance(given, Mapping):
        raise ValueError(
            f"nccl_limits: expected a dictionary such as {{{LATENCY}: true}}, got {strict_json.shown(given)}"
        )
    return {str(name): _number(str(name), value) for name, value in given.items() if value is not False}


def _number(name: str, value: Any) -> float | None:
    if name not in NAMES:
        raise ValueError(f"nccl_limits: expected {', '.join(NAMES)}, got {strict_json.shown(name)}")
    if value is True and name == CONNECT:
        raise ValueError(f"nccl_limits: {CONNECT}: expected seconds, got true; no source has a number for it")
    if value is True:
        return None
    most = 1.0 if name in (NVLINK, INFINIBAND) else 1e6
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= most:
        expected = f"true or a number above 0, up to {most:g}"
        raise ValueError(f"nccl_limits: {name}: expected {expected}, got {strict_json.shown(value)}")
    return float(value)


def bounds(asked: Declared, shape: Shape) -> list[Bound]:
    """Those that apply to a run. See missing() for those that do not."""
    applicable: list[Bound] = []
    for name, number in asked.items():
        if name == NVLINK and shape.nodes == 1 and shape.ranks > 1 and shape.nvlink:
            applicable += _nvlink(number, shape.nvlink, shape.ranks)
        elif name == INFINIBAND and shape.nodes > 1 and shape.rails:
            applicable += _infiniband(number, shape.rails, shape.ranks)
        elif name == LATENCY and shape.ranks == 2:
            usec = number or (_LATENCY_NODE if shape.nodes == 1 else _LATENCY_NODES)
            source = f"{usec:g} µs for two ranks {'in one node' if shape.nodes == 1 else 'on two nodes'}"
            applicable.append(Bound(name, 0, _SMALL, source, 2, usec=usec))
    return applicable


def _nvlink(number: float | None, rate: float, ranks: int) -> list[Bound]:
    parts = [(number, False)] if number else [(_NVLINK_FAIL, False), (_NVLINK_WARN, True)]
    return [
        Bound(NVLINK, _GIB, _ALL, f"{part:.0%} of {rate:.4g} Gb/s of NVLink", ranks, part * rate, warns=warns)
        for part, warns in parts
    ]


def _infiniband(number: float | None, rate: float, ranks: int) -> list[Bound]:
    classes = ((_GIB, number),) if number else _INFINIBAND
    ends = [least - 1 for least, _part in classes[1:]] + [_ALL]
    return [
        Bound(INFINIBAND, least, most, f"{part:.0%} of {rate:.4g} Gb/s of the rails", ranks, part * rate)
        for (least, part), most in zip(classes, ends)
    ]


def missing(name: str) -> str:
    """Conditions under which a declared preset applies, for a preset that applied to no run."""
    return {
        NVLINK: "it takes runs of several GPUs of one node (nccl_launcher: ssh) with sizes of 1 GiB, and "
        "nccl_nvlink_gbits",
        INFINIBAND: "it takes runs of several nodes with sizes of 1 GiB, and the rates of all rails",
        LATENCY: f"it takes runs of two ranks (nccl_gpus: 1 on two nodes) with sizes up to {_SMALL} bytes",
        CONNECT: "it takes NCCL 2.22, which logs how long a communicator took",
    }[name]
