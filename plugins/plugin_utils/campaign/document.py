# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The result of a campaign as one document; docs/schema/campaign.schema.json describes it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

from ...module_utils._mlnode.checks.campaign.kind import GBITS, Kind
from ...module_utils._mlnode.checks.model import Verdict
from ...module_utils._mlnode.model.version import VERSION
from . import model
from .blame import Certainty, Finding, Tally
from .judge import Judged, LeafPath, counting, path_verdict
from .limits import Class, Spread
from .model import End, Facts, Limit, Node, Sample

#: Raised when a field changes its meaning or goes; new fields do not raise it.
FORMAT = 1

#: Amounts that have a field in all documents
_OWN_NAMES = ("forward_gbits", "backward_gbits", "hole", "usec")

#: Digits after the point of Gb/s: a thousandth is what a link of 100 Mb/s is measured to in a percent
_DIGITS = 4


def of(judged: Judged, about: Mapping[str, Any]) -> dict[str, Any]:
    """All but the pairs. about: what the campaign was: id, started, ended, rounds, seed, duration_seconds and
    streams."""
    return {
        "format": FORMAT,
        "mlnode": VERSION,
        "campaign": {**about, "kind": judged.kind.NAME, "unit": judged.kind.UNIT.key},
        "verdict": str(judged.verdict),
        "counts": _counts(judged),
        "coverage": _coverage(judged),
        "classes": [_class(one, spread) for one, spread in judged.classes.items()],
        "nodes": [_node(judged, name) for name in judged.leaves],
        "paths": [_path(pair, certainty) for pair, certainty in judged.paths],
        "leaf_paths": [_leaf_path(one) for one in judged.leaf_paths],
    }


def text(document: Mapping[str, Any], judged: Judged) -> str:
    """The whole as JSON. Of a large fleet the pairs are most of it, and take ten times as much as
    dictionaries, so that there is one at a time."""
    parts = [_json(document)[:-1], ',"pairs":[']
    for sample in judged.samples:
        parts += [_json(_pair(judged.kind, sample)), ","]
    if judged.samples:
        parts.pop()
    return "".join([*parts, "]}"])


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, separators=(",", ":"))


def _counts(judged: Judged) -> dict[str, dict[str, int]]:
    nodes = Counter(str(judged.node(name)) for name in judged.leaves)
    paths = Counter(str(path_verdict(certainty)) for _pair, certainty in judged.paths)
    pairs = Counter(str(sample.verdict) for sample in counting(judged.samples))
    return {"nodes": dict(nodes), "paths": dict(paths), "pairs": dict(pairs)}


def _coverage(judged: Judged) -> dict[str, Any]:
    seen = judged.coverage
    return {
        "verdict": str(seen.verdict),
        "pairs_measured": seen.measured,
        "pairs_planned": seen.planned,
        "pairs_possible": seen.possible,
        "nodes_never_measured": [*seen.nodes],
        "rails_never_measured": [_end(end) for end in seen.rails],
    }


def _class(one: Class, spread: Spread) -> dict[str, Any]:
    return {
        "rate_gbits": None if one.rate is None else one.rate / 1000,
        "mtu_bytes": one.mtu,
        "same_leaf": one.near,
        "pairs": spread.pairs,
        **_amount(spread.kind, "median_{}", spread.median),
        **_amount(spread.kind, "mad_{}", spread.mad),
        "limit": _limit(spread.kind, spread.limit),
    }


def _node(judged: Judged, name: str) -> dict[str, Any]:
    known = judged.nodes.get(name, Node())
    findings = [(end, found) for end, found in judged.blame.ends.items() if end[0] == name]
    return {
        "name": name,
        "leaf": judged.leaves[name],
        "verdict": str(judged.node(name)),
        "reason": judged.problems.get(name, ""),
        "kernel": known.kernel,
        "declarations": dict(known.digests),
        "rails": [
            {
                "rail": end[1],
                **_facts(known.rails[end[1]] if end[1] < len(known.rails) else Facts()),
                **_found(one),
            }
            for end, one in findings
        ],
    }


def _facts(facts: Facts) -> dict[str, Any]:
    return {
        "interface": facts.interface,
        "device": facts.device,
        "rate_gbits": None if facts.speed_mbit is None else facts.speed_mbit / 1000,
        "mtu_bytes": facts.mtu,
        "driver": facts.driver,
        "firmware": facts.firmware,
        "pcie": [
            {"address": link.address, "gigatransfers_per_second": link.gigatransfers, "lanes": link.lanes}
            for link in facts.pcie
        ],
    }


def _found(one: Finding) -> dict[str, Any]:
    return {
        "verdict": str(one.verdict),
        "certainty": None if one.certainty is None else str(one.certainty),
        "reason": words(one),
        "partners": _tally(one.tally),
        "second_look": None if one.again is None else _tally(one.again),
    }


def _tally(tally: Tally) -> dict[str, int]:
    return {
        "planned": tally.planned,
        "measured": tally.measured,
        "low": tally.low,
        "slow_themselves": tally.explained,
    }


def words(one: Finding) -> str:
    """Reason for a finding about a node on a rail, for people."""
    tally = one.tally
    low = f"low with {tally.low} of {tally.measured} partners"
    if one.verdict is Verdict.UNKNOWN:
        if tally.measured == 0:
            return f"none of its {tally.planned} pairs could be judged"
        return f"{low}, of {tally.planned} planned and {tally.explained} slow: too few to be known good"
    if one.certainty is None:
        return low if tally.low else ""
    again = one.again
    second = (
        f"with {again.low} of {again.measured} good ones when tried again" if again else "not tried again"
    )
    return f"{low}, {second}"


def _path(pair: tuple[End, End], certainty: Certainty) -> dict[str, Any]:
    return {
        "ends": [_end(end) for end in pair],
        "verdict": str(path_verdict(certainty)),
        "certainty": str(certainty),
    }


def _leaf_path(one: LeafPath) -> dict[str, Any]:
    return {
        "leaves": [*one.leaves],
        "rail": one.rail,
        "verdict": str(path_verdict(one.certainty)),
        "certainty": str(one.certainty),
        "low": one.low,
        "measured": one.measured,
    }


def _pair(kind: Kind, sample: Sample) -> dict[str, Any]:
    reading = sample.reading
    amounts = {name: _rounded(reading.amounts.get(name)) for name in kind.FIELDS if name not in _OWN_NAMES}
    return {
        "round": sample.round,
        "second_look": sample.again,
        "ends": [_end(end) for end in sample.ends],
        "verdict": str(sample.verdict),
        "broke": [*sample.broke],
        "reason": sample.reason,
        **_amount(kind, "{}", reading.value),
        "forward_gbits": _rounded(reading.amounts.get("forward_gbits")),
        "backward_gbits": _rounded(reading.amounts.get("backward_gbits")),
        **amounts,
        "least_second_of_median": _rounded(reading.amounts.get("hole")),
        "cpu_bound": reading.cpu_bound,
        "limits": [_limit(kind, one) for one in sample.limits],
        "evidence": dict(reading.evidence),
    }


def _end(end: End) -> dict[str, Any]:
    return {"node": end[0], "rail": end[1]}


def _limit(kind: Kind, one: Limit) -> dict[str, Any]:
    return {"name": one.name, **_amount(kind, "{}", one.value), "source": one.source}


def _amount(kind: Kind, name: str, value: float | None) -> dict[str, float | None]:
    """A number under a name with its unit. That of a bandwidth is there in all documents: null for what has
    another unit."""
    key = kind.UNIT.key
    return {name.format(GBITS.key): None, name.format(key): _rounded(value)}


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, _DIGITS)


def is_success(document: Mapping[str, Any]) -> bool:
    """pass, or a warning: nothing fails, and nothing is unknown."""
    return model.ORDER.index(Verdict(document["verdict"])) > model.ORDER.index(Verdict.UNKNOWN)
