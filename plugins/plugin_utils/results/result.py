# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the results of campaigns of any kind back from files on the controller.

Only fields that all kinds share are read: `campaign` with `id`, `kind`, `started` and `unit`; `nodes` with
the conditions of their measurement; `classes` with the noise; and `pairs`, each with its value and its limits
in fields with the name of the unit.
"""

from __future__ import annotations

import pathlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ...module_utils._mlnode.checks.model import Verdict
from ...module_utils._mlnode.model import strict_json
from ...module_utils._mlnode.model.errors import MlnodeError
from ..campaign import limits
from ..campaign.document import FORMAT
from ..campaign.limits import Class
from ..campaign.model import End, Facts
from ..fleet_report import files
from ..fleet_report.merge import utc

#: Characters of a file. A pair takes 1 KB, and a campaign of 1,024 nodes, 8 rails and 8 rounds has 32,768.
MOST = 1 << 27


class Unit(NamedTuple):
    """words: as people write it. better: 1 where more is, -1 where less is."""

    words: str
    better: int


#: Name of a unit, as fields of a document have it
UNITS = {"gbits": Unit("Gb/s", 1), "usec": Unit("usec", -1)}


class Spread(NamedTuple):
    """Median of similar pairs, and their median absolute deviation from it."""

    median: float
    mad: float


class Pair(NamedTuple):
    """One measurement. value: None without a result. limit: the strictest of its limits. like: the class of
    comparable pairs. spread: of this class; None if it has too few pairs.
    """

    ends: tuple[End, End]
    verdict: Verdict
    reason: str
    value: float | None
    limit: float | None
    like: Class
    spread: Spread | None

    @property
    def noise(self) -> float | None:
        """The deviation as a part of the median."""
        return self.spread.mad / self.spread.median if self.spread and self.spread.median else None

    @property
    def key(self) -> tuple[End, End]:
        """The same whichever of the two has sent first."""
        end, partner = sorted(self.ends)
        return end, partner


class Rail(NamedTuple):
    """Verdict on a node on one rail."""

    number: int
    verdict: Verdict
    reason: str


class Node(NamedTuple):
    """under: conditions of its measurement, such as `kernel` or `firmware of rail 0` → the value."""

    leaf: str
    rails: tuple[Rail, ...]
    under: Mapping[str, str]


class Result(NamedTuple):
    """A campaign. file: for messages. about: how it was measured, such as `duration_seconds`. of_node: the
    pairs of a node that have a value."""

    file: str
    name: str
    kind: str
    unit: Unit
    started: str
    ended: str
    verdict: Verdict
    about: Mapping[str, str]
    nodes: Mapping[str, Node]
    pairs: Mapping[tuple[End, End], Pair]
    of_node: Mapping[str, Sequence[Pair]]

    @property
    def under(self) -> dict[str, Mapping[str, str]]:
        return {name: node.under for name, node in self.nodes.items()}


#: Of a pair: two thirds of the text about it, which no report shows
_FOR_PEOPLE = (
    *("evidence", "round", "broke", "source", "least_second_of_median"),
    *("forward_gbits", "backward_gbits", "host_forward_gbits", "host_backward_gbits"),
)


def brief(path: pathlib.Path) -> dict[str, Any]:
    """The document in a file, of whatever kind, without texts that no report shows. Raises MlnodeError."""
    return load(path, without=_FOR_PEOPLE)


def written(path: pathlib.Path) -> dict[str, Any]:
    """As brief(), for a file that this run has written: a link in its place was not made by this run."""
    return load(path, without=_FOR_PEOPLE, follow=False)


def load(path: pathlib.Path, without: Collection[str] = (), follow: bool = True) -> dict[str, Any]:
    """The document in a file, of whatever kind, without the fields of these names. Raises MlnodeError."""
    try:
        fields = strict_json.loads(files.read(path, MOST, follow), str(path), most=MOST, without=without)
    except OSError as error:
        raise MlnodeError(f"cannot read {path}: {error.strerror}") from error
    if not isinstance(fields, dict):
        raise MlnodeError(f"{path} holds {strict_json.shown(fields)}, and not a result")
    return fields


def read(fields: Mapping[str, Any], file: str) -> Result:
    """A document of campaign.schema.json. Raises MlnodeError that names the file and the place."""
    try:
        return _result(fields, file)
    except ValueError as error:
        raise MlnodeError(f"{file} is not the result of a campaign: {error}") from error


def _result(fields: Mapping[str, Any], file: str) -> Result:
    if fields.get("format") != FORMAT or fields["format"] is True:
        raise ValueError(
            f"its format is {strict_json.shown(fields.get('format'))}, and {FORMAT} is read here"
        )
    campaign, verdict, nodes, pairs, classes = strict_json.typed(
        fields, {"campaign": dict, "verdict": str, "nodes": list, "pairs": list, "classes": list}
    )
    names = ("id", "kind", "unit", "started", "ended")
    name, kind, unit, *times = strict_json.typed(campaign, dict.fromkeys(names, str))
    started, ended = map(utc, times)
    if unit not in UNITS:
        raise ValueError(f"its unit is {strict_json.shown(unit)}, and known are {', '.join(UNITS)}")
    known: dict[str, Node] = {}
    facts: dict[End, Facts] = {}
    for item in nodes:
        _node(item, known, facts)
    spreads = dict(_spread(item, unit) for item in classes)
    measured = (_pair(item, unit, known, facts, spreads) for item in _counting(pairs))
    by_key = {pair.key: pair for pair in measured}
    return Result(
        file=file,
        name=name,
        kind=kind,
        unit=UNITS[unit],
        started=started,
        ended=ended,
        verdict=Verdict(verdict),
        about={key: str(value) for key, value in campaign.items() if key not in _OWN},
        nodes=known,
        pairs=by_key,
        of_node=_by_node(by_key),
    )


#: Fields that differ between campaigns without any effect on the measurement
_OWN = ("id", "kind", "started", "ended", "second_look_rounds")


# -- nodes ----------------------------------------------------------------------------------------


def _node(item: Any, known: dict[str, Node], facts: dict[End, Facts]) -> None:
    name, leaf, reason, kernel, declarations, rails = strict_json.typed(
        item,
        {"name": str, "leaf": str, "reason": str, "kernel": str, "declarations": dict, "rails": list},
    )
    if name in known:
        raise ValueError(f"the node {strict_json.shown(name)} is there twice")
    under = {
        "kernel": kernel,
        **{f"declaration {declaration}": str(digest) for declaration, digest in declarations.items()},
    }
    judged_rails = []
    for rail in rails:
        number, verdict, why = strict_json.typed(rail, {"rail": int, "verdict": str, "reason": str})
        rate, mtu = _amount(rail, "rate_gbits"), _amount(rail, "mtu_bytes")
        facts[name, number] = Facts(
            speed_mbit=None if rate is None else round(rate * 1000), mtu=None if mtu is None else int(mtu)
        )
        under.update({f"{words} of rail {number}": text for words, text in _under(rail)})
        judged_rails.append(Rail(number, Verdict(verdict), reason or why))
    known[name] = Node(leaf, tuple(judged_rails), {what: text for what, text in under.items() if text})


def _under(rail: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for field, words in (
        ("driver", "driver"),
        ("firmware", "firmware"),
        ("interface", "interface"),
        ("rate_gbits", "rate in Gb/s"),
        ("mtu_bytes", "MTU"),
    ):
        value = rail.get(field)
        yield words, "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
    links = [link for link in rail.get("pcie") or () if isinstance(link, Mapping)]
    texts = [f"{link.get('gigatransfers_per_second')} GT/s x{link.get('lanes')}" for link in links]
    yield "PCIe links", ", ".join(texts)


# -- pairs ----------------------------------------------------------------------------------------


def _spread(item: Any, unit: str) -> tuple[Class, Spread | None]:
    rate, mtu = _amount(item, "rate_gbits"), _amount(item, "mtu_bytes")
    median, mad = _amount(item, f"median_{unit}"), _amount(item, f"mad_{unit}")
    like = Class(
        None if rate is None else round(rate * 1000), None if mtu is None else int(mtu), item.get("same_leaf")
    )
    return like, None if median is None or mad is None else Spread(median, mad)


def _counting(pairs: Sequence[Any]) -> list[Mapping[str, Any]]:
    """Pairs of the first look. A pair without a result there has its result of the second look."""
    first: dict[Any, Mapping[str, Any]] = {}
    second: dict[Any, Mapping[str, Any]] = {}
    for item in pairs:
        again, verdict, _there = strict_json.typed(item, {"second_look": bool, "verdict": str, "ends": list})
        key = tuple(sorted(_ends(item)))
        if again and verdict != str(Verdict.UNKNOWN):
            second[key] = item
        elif not again and key in first:
            raise ValueError(f"the pair {' - '.join(end[0] for end in key)} is there twice")
        elif not again:
            first[key] = item
    return [
        second.get(key, item) if item["verdict"] == str(Verdict.UNKNOWN) else item
        for key, item in first.items()
    ]


def _pair(
    item: Mapping[str, Any],
    unit: str,
    nodes: Mapping[str, Node],
    facts: Mapping[End, Facts],
    spreads: Mapping[Class, Spread | None],
) -> Pair:
    ends = _ends(item)
    for end in ends:
        if end not in facts:
            raise ValueError(f"a pair is of rail {end[1]} of {strict_json.shown(end[0])}, which is missing")
    verdict, reason = strict_json.typed(item, {"verdict": str, "reason": str})
    leaf, other_leaf = (nodes[name].leaf for name, _rail in ends)
    like = limits.class_of(
        facts[ends[0]], facts[ends[1]], leaf == other_leaf if leaf and other_leaf else None
    )
    asked = [_amount(limit, unit) for limit in _limits(item)]
    hard = [limit for limit in asked if limit is not None]
    better = UNITS[unit].better
    hardest = max(hard, key=lambda limit: limit * better, default=None)
    return Pair(ends, Verdict(verdict), reason, _amount(item, unit), hardest, like, spreads.get(like))


def _limits(item: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Limits that count: if the cores were the limit, the hardware's limit does not."""
    [asked] = strict_json.typed(item, {"limits": list})
    cores = item.get("cpu_bound") is True
    return [
        limit for limit in asked if not cores or strict_json.typed(limit, {"name": str}) == [limits.FLEET]
    ]


def _by_node(pairs: Mapping[tuple[End, End], Pair]) -> dict[str, list[Pair]]:
    by_node: dict[str, list[Pair]] = {}
    for pair in pairs.values():
        for name in {pair.ends[0][0], pair.ends[1][0]} if pair.value is not None else ():
            by_node.setdefault(name, []).append(pair)
    return by_node


def _ends(item: Mapping[str, Any]) -> tuple[End, End]:
    ends = [strict_json.typed(end, {"node": str, "rail": int}) for end in item["ends"]]
    if len(ends) != 2 or ends[0][0] == ends[1][0]:
        raise ValueError(f"a pair has the ends {strict_json.shown(item['ends'])}, and not two nodes")
    (name, rail), (partner, other_rail) = ends
    return (name, rail), (partner, other_rail)


def _amount(fields: Any, name: str) -> float | None:
    if not isinstance(fields, Mapping) or name not in fields:
        raise ValueError(f"{name} is missing in {strict_json.shown(fields)}")
    value = fields[name]
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value < 0:
        raise ValueError(f"{name} is {strict_json.shown(value)}, and not an amount from 0 on")
    return float(value)
