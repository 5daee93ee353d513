# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Answers of nodes after a campaign, and the parts of its result."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ...module_utils._mlnode.checks.campaign.kind import Kind
from ...module_utils._mlnode.checks.model import BAD, Verdict
from ...module_utils._mlnode.model import strict_json
from ..answer_forms import (
    Maybe,
    Table,
    amount,
    count,
    entries,
    fields,
    flag,
    list_of,
    made,
    names,
    or_null,
    text_of,
    tuple_of,
)

#: A node on one rail, counted from 0: one of the two ends of a measurement
End = tuple[str, int]

#: From the worst on. A campaign without any result is unknown, too.
ORDER = (*BAD, Verdict.PASS)


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """Worst of several verdicts. unknown is worse than pass, and no verdict at all is unknown."""
    there = {*verdicts}
    return next((candidate for candidate in ORDER if candidate in there), Verdict.UNKNOWN)


def verdict(word: object) -> Verdict:
    """A word of another version is unknown, and no success."""
    return Verdict(word) if word in {*Verdict} else Verdict.UNKNOWN


class Link(NamedTuple):
    """A PCIe link on the way to the CPU: transfers in GT/s of one lane, and the number of lanes."""

    address: str = ""
    gigatransfers: float = 0.0
    lanes: int = 0


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
    """Description of a node by itself. declarations: name → digest of its content."""

    kernel: str = ""
    declarations: Mapping[str, str] = {}
    rails: tuple[Facts, ...] = ()


class Probe(NamedTuple):
    """Pings over a path without a result. mtu: the greatest packet that passed, if it is less than the MTU of
    the interface."""

    sent: int
    lost: int
    mtu: int | None = None


class Reading(NamedTuple):
    """One measurement, as recorded by the node that began it.

    value: the judged amount, the worse of two directions, as a NIC may be good in one and bad in the other.
    None without a result; `reason` then has the cause. amounts: everything that its kind measures. cpu_bound:
    the cores were the limit. lost: share of retransmitted packets, forward and backward; None if unknown.
    failed: one of FAILED for a slot without a result; probe: the path as pings then found it.
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
    """Value that a measurement must reach, or must not exceed, in its unit, with the source of the limit."""

    name: str
    value: float
    source: str


class Sample(NamedTuple):
    """Measurement between two ends in one round, with its limits.

    ends: the end that sent first, then the other. broke: names of the violated limits. again: part of the
    second look.
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

#: Characters of one text from a node
_LONGEST = 400

_text = text_of(_LONGEST)
_any_text = Maybe(_text)


def _positive(where: str, value: Any) -> int | None:
    return None if value is None else count(where, value) or None


_LINK: Table = {"address": _any_text, "gigatransfers": Maybe(amount), "lanes": count}
_FACTS: Table = {
    **dict.fromkeys(("interface", "device", "driver", "firmware"), _any_text),
    **dict.fromkeys(("speed_mbit", "mtu"), Maybe(_positive)),
    "pcie": tuple_of(made(Link, _LINK)),
}
_NODE: Table = {
    "kernel": _any_text,
    "declarations": Maybe(names(_text, _text)),
    "rails": tuple_of(made(Facts, _FACTS)),
}
_PLACE: Table = {"round": count, "rail": count, "reason": _any_text}
_PROBE: Table = {"sent": count, "lost": count, "mtu": Maybe(_positive)}
_SLOT: Table = {
    **_PLACE,
    "failed": _any_text,
    "evidence": Maybe(entries),
    "cpu_bound": Maybe(flag),
    "loss": Maybe(or_null(list_of(or_null(amount)))),
    "probe": Maybe(or_null(made(Probe, _PROBE))),
}


class Answer(NamedTuple):
    """Answer of a node. readings: (round, rail) → of its slots. refusals: (round, rail) → reason why its
    served result is not trusted."""

    node: Node
    readings: Mapping[tuple[int, int], Reading]
    refusals: Mapping[tuple[int, int], str]


def answer(kind: Kind, given: Any) -> Answer:
    """Parse the answer of a node. Raises ValueError if it is malformed, as a node may send anything."""
    slot_form = {**_SLOT, **dict.fromkeys(kind.FIELDS, Maybe(or_null(amount)))}
    node = made(Node, _NODE)("", given)
    parts = fields({"slots": list_of(fields(slot_form)), "served": list_of(fields(_PLACE))})("", given)
    readings: dict[tuple[int, int], Reading] = {}
    for slot in parts["slots"]:
        place = slot["round"], slot["rail"]
        if place in readings:
            raise ValueError(f"round {place[0]} of rail {place[1]} is there twice")
        readings[place] = _reading(kind, slot)
    refused = {
        (served["round"], served["rail"]): served["reason"]
        for served in parts["served"]
        if served.get("reason")
    }
    return Answer(node, readings, refused)


def _reading(kind: Kind, slot: Mapping[str, Any]) -> Reading:
    evidence = slot.get("evidence", {})
    if slot.get("reason"):
        failed, probe = slot.get("failed", ""), slot.get("probe")
        return Reading(reason=slot["reason"], evidence=evidence, failed=failed, probe=probe)
    amounts = {name: slot[name] for name in kind.FIELDS if slot.get(name) is not None}
    if len(amounts) < len(kind.FIELDS):
        raise ValueError("a slot has neither a result nor a reason for its absence")
    judged = [amounts[name] for name in kind.JUDGED]
    value = max(judged) if kind.UNIT.lower else min(judged)
    lost = slot.get("loss") or (None, None)
    if len(lost) != 2:
        raise ValueError(f"loss is {strict_json.shown(lost)}, expected a share for each of two directions")
    forward, backward = lost
    return Reading(value, amounts, slot.get("cpu_bound", False), evidence=evidence, lost=(forward, backward))
