# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Answers of nodes after a campaign, and the parts of what is made of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ...module_utils._mlnode.checks.campaign.kind import Kind
from ...module_utils._mlnode.checks.model import BAD, Verdict
from ...module_utils._mlnode.model import strict_json
from ..answer_forms import GREATEST

#: A node on one rail, counted from 0: what a measurement has two of
End = tuple[str, int]

#: From the worst on. A campaign without any result is unknown, too.
ORDER = (*BAD, Verdict.PASS)


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """Verdict on several things: that of the worst. unknown is worse than pass, and nothing at all is
    unknown.
    """
    there = {*verdicts}
    return next((one for one in ORDER if one in there), Verdict.UNKNOWN)


class Link(NamedTuple):
    """A PCIe link on the way to the CPU: transfers in GT/s of one lane, and the number of lanes."""

    address: str
    gigatransfers: float
    lanes: int


class Facts(NamedTuple):
    """One end as the node describes it; None and "" are unknown.

    device: RDMA device and port. speed_mbit: rate of the port. pcie: the links of the device, its own first.
    """

    interface: str = ""
    speed_mbit: int | None = None
    mtu: int | None = None
    driver: str = ""
    firmware: str = ""
    pcie: tuple[Link, ...] = ()
    device: str = ""


class Node(NamedTuple):
    """Description of a node by itself. digests: name of a declaration → that of its content."""

    kernel: str = ""
    digests: Mapping[str, str] = {}
    rails: tuple[Facts, ...] = ()


class Probe(NamedTuple):
    """Pings over a path without a result. mtu: the greatest packet that passed, if it is less than the MTU of
    the interface."""

    sent: int
    lost: int
    mtu: int | None = None


class Reading(NamedTuple):
    """One measurement as the node that began it took it.

    value: what is judged, of two directions the worse one: a NIC may be well in one and bad in the other.
    None where there is none, and reason then has why. amounts: all that its kind has. cpu_bound: the cores
    were the limit. lost: share of the packets that were sent again, forward and backward; None where that is
    not known. failed: one of FAILED for a slot without a result; probe: what pings then said of the path.
    """

    value: float | None = None
    amounts: Mapping[str, float] = {}
    cpu_bound: bool = False
    reason: str = ""
    evidence: Mapping[str, Any] = {}
    lost: tuple[float | None, float | None] = (None, None)
    failed: str = ""
    probe: Probe | None = None


class Limit(NamedTuple):
    """Value that a measurement has to reach, or not to exceed, in its unit, and where that is from."""

    name: str
    value: float
    source: str


class Sample(NamedTuple):
    """Measurement between two ends in one round, and what it had to be.

    ends: the one that sent first. broke: names of the limits that it breaks. again: it is of the second
    look.
    """

    round: int
    ends: tuple[End, End]
    reading: Reading
    again: bool = False
    limits: tuple[Limit, ...] = ()
    broke: tuple[str, ...] = ()
    verdict: Verdict = Verdict.UNKNOWN
    reason: str = ""

    @property
    def rail(self) -> int:
        return self.ends[0][1]

    @property
    def nodes(self) -> tuple[str, str]:
        return self.ends[0][0], self.ends[1][0]


# -- answers of nodes -----------------------------------------------------------------------------

#: Why a slot may have no result, as far as a network can be the cause
UNREACHABLE, TIMEOUT, NOTHING, REFUSED = "unreachable", "timeout", "nothing", "refused"

#: Of one text of a node, in characters
_LONGEST = 400


def node(answer: Any) -> Node:
    """Raises ValueError for what is not a description of a node: it is a node that wrote it."""
    fields = _fields(answer, "the node")
    declared = _fields(fields.get("declarations", {}), "declarations")
    return Node(
        kernel=_text(fields, "kernel"),
        digests={_short(name): _short(digest) for name, digest in declared.items()},
        rails=tuple(_facts(one) for one in _list(fields, "rails")),
    )


def _short(value: Any) -> str:
    return str(value)[:_LONGEST]


def readings(kind: Kind, answer: Any) -> dict[tuple[int, int], Reading]:
    """(round, rail) → reading, of a node's slots. Raises ValueError."""
    found = {}
    for one in _list(_fields(answer, "the node"), "slots"):
        fields = _fields(one, "a slot")
        place = (_number(fields, "round"), _number(fields, "rail"))
        if place in found:
            raise ValueError(f"round {place[0]} of rail {place[1]} is there twice")
        found[place] = _reading(kind, fields)
    return found


def refusals(answer: Any) -> dict[tuple[int, int], str]:
    """(round, rail) → reason why what a node has served is not to be believed. Raises ValueError."""
    served = [_fields(one, "what was served") for one in _list(_fields(answer, "the node"), "served")]
    return {
        (_number(one, "round"), _number(one, "rail")): _text(one, "reason")
        for one in served
        if one.get("reason")
    }


def _reading(kind: Kind, fields: Mapping[str, Any]) -> Reading:
    found = {name: _amount(fields, name) for name in kind.FIELDS}
    amounts = {name: value for name, value in found.items() if value is not None}
    reason = _text(fields, "reason")
    evidence = _fields(fields.get("evidence", {}), "evidence")
    if reason:
        failed = _text(fields, "failed")
        return Reading(reason=reason, evidence=evidence, failed=failed, probe=_probe(fields.get("probe")))
    if len(amounts) < len(kind.FIELDS):
        raise ValueError("a slot has neither a result nor a reason for its absence")
    judged = [amounts[name] for name in kind.JUDGED]
    value = max(judged) if kind.UNIT.lower else min(judged)
    return Reading(value, amounts, fields.get("cpu_bound") is True, evidence=evidence, lost=_lost(fields))


def _lost(fields: Mapping[str, Any]) -> tuple[float | None, float | None]:
    if fields.get("loss") is None:
        return None, None
    shares = _list(fields, "loss")
    if len(shares) != 2:
        raise ValueError(f"loss is {strict_json.shown(shares)}, expected a share for each of two directions")
    one, other = (_amount({"loss": share}, "loss") for share in shares)
    return one, other


def _probe(answer: Any) -> Probe | None:
    if answer is None:
        return None
    fields = _fields(answer, "a probe")
    return Probe(_number(fields, "sent"), _number(fields, "lost"), _positive(fields, "mtu"))


def _facts(answer: Any) -> Facts:
    fields = _fields(answer, "a rail")
    return Facts(
        interface=_text(fields, "interface"),
        device=_text(fields, "device"),
        speed_mbit=_positive(fields, "speed_mbit"),
        mtu=_positive(fields, "mtu"),
        driver=_text(fields, "driver"),
        firmware=_text(fields, "firmware"),
        pcie=tuple(_link(one) for one in _list(fields, "pcie")),
    )


def _link(answer: Any) -> Link:
    fields = _fields(answer, "a PCIe link")
    speed = _amount(fields, "gigatransfers")
    return Link(_text(fields, "address"), speed or 0.0, _number(fields, "lanes"))


def _fields(value: Any, what: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ValueError(f"{what} is {strict_json.shown(value)}, and not a dictionary")
    return value


def _list(fields: Mapping[str, Any], name: str) -> Sequence[Any]:
    value = fields.get(name)
    if not isinstance(value, (list, tuple)):
        raise ValueError(f"{name} is {strict_json.shown(value)}, and not a list")
    return value


def _text(fields: Mapping[str, Any], name: str) -> str:
    value = fields.get(name, "")
    if not isinstance(value, str):
        raise ValueError(f"{name} is {strict_json.shown(value)}, and not a text")
    return value[:_LONGEST]


def _number(fields: Mapping[str, Any], name: str) -> int:
    value = fields.get(name)
    if not strict_json.is_of(value, int) or int(value or 0) < 0:
        raise ValueError(f"{name} is {strict_json.shown(value)}, and not a number from 0 on")
    return int(value or 0)


def _positive(fields: Mapping[str, Any], name: str) -> int | None:
    return (_number(fields, name) or None) if fields.get(name) is not None else None


def _amount(fields: Mapping[str, Any], name: str) -> float | None:
    value = fields.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= GREATEST:
        raise ValueError(f"{name} is {strict_json.shown(value)}, and not an amount from 0 to {GREATEST:g}")
    return float(value)
