# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The result of a campaign as one document; docs/schema/campaign.schema.json describes it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ...module_utils._mlnode.checks.campaign.kind import GBITS, Kind
from ...module_utils._mlnode.checks.model import Verdict
from ...module_utils._mlnode.model.version import VERSION
from . import model, suspects
from .blame import Tally
from .findings import Alike, Between, Finding, Suspicion
from .judge import Judged, LowPath, Power, counting, path_verdict
from .limits import LEAST_PAIRS, Class, Spread
from .loss import Lossy
from .model import End, Facts, Limit, Node, Sample

#: Raised when a field changes its meaning or goes; new fields do not raise it.
FORMAT = 1

#: Amounts that have a field in all documents
_OWN_NAMES = ("forward_gbits", "backward_gbits", "hole", "usec")

#: Decimals of Gb/s. On a link of 100 Mb/s, one percent of the rate is a thousandth.
_DIGITS = 4


def result_without_pairs(judged: Judged, about: Mapping[str, Any]) -> dict[str, Any]:
    """Everything but the pairs. about: data of the campaign: id, started, ended, rounds, seed,
    duration_seconds and streams."""
    return {
        "format": FORMAT,
        "mlnode": VERSION,
        "campaign": {**about, "kind": judged.kind.NAME, "unit": judged.kind.UNIT.key},
        "verdict": str(judged.verdict),
        "counts": _counts(judged),
        "coverage": _coverage(judged),
        "classes": [_class(pair_class, spread) for pair_class, spread in judged.classes.items()],
        "nodes": [_node(judged, name) for name in judged.leaves],
        "paths": [_path(pair, path) for pair, path in judged.blame.paths.items()],
        "uplinks": [_between(uplink) for uplink in judged.between],
        "groups": [_alike(group) for group in judged.groups],
        "losing": [_lossy(lossy) for lossy in judged.lossy],
        "fleet": [{"verdict": str(verdict), "reason": why} for verdict, why in judged.fleet],
        "power": _power(judged.power),
    }


def text(document: Mapping[str, Any], judged: Judged) -> str:
    """The whole document as JSON. Pairs are most of it in a large fleet. As dictionaries they take ten times
    the memory, so they are converted one at a time."""
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


def _class(pair_class: Class, spread: Spread) -> dict[str, Any]:
    """A class. With few pairs it takes its noise from elsewhere, and has neither deviation nor limit here."""
    is_known = spread.pairs >= LEAST_PAIRS
    return {
        "rate_gbits": None if pair_class.rate is None else pair_class.rate / 1000,
        "mtu_bytes": pair_class.mtu,
        "same_leaf": pair_class.near,
        "pairs": spread.pairs,
        **_amount(spread.kind, "median_{}", spread.median),
        **_amount(spread.kind, "mad_{}", spread.mad if is_known else None),
        "limit": _limit(spread.kind, spread.limit) if is_known else None,
    }


def _node(judged: Judged, name: str) -> dict[str, Any]:
    known = judged.nodes.get(name, Node())
    findings = [(end, finding) for end, finding in judged.blame.ends.items() if end[0] == name]
    return {
        "name": name,
        "leaf": judged.leaves[name],
        "verdict": str(judged.node(name)),
        "reason": judged.problems.get(name, ""),
        "kernel": known.kernel,
        "declarations": dict(known.declarations),
        "rails": [
            {
                "rail": end[1],
                **_facts(known.rails[end[1]] if end[1] < len(known.rails) else Facts()),
                **_finding(finding),
            }
            for end, finding in findings
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


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "verdict": str(finding.verdict),
        "certainty": None if finding.certainty is None else str(finding.certainty),
        "reason": words(finding),
        "direction": finding.way or None,
        "loss_percent": _percent(finding.loss),
        "would_have_seen_percent": _percent(finding.seen),
        "suspects": [_suspicion(suspicion) for suspicion in finding.suspects],
        "partners": _tally(finding.tally),
        "second_look": None if finding.again is None else _tally(finding.again),
    }


def _percent(part: float | None) -> float | None:
    return None if part is None else round(100 * part, 1)


def _suspicion(suspicion: Suspicion) -> dict[str, Any]:
    return {"what": suspicion.what, "probability": round(suspicion.chance, 3)}


def _tally(tally: Tally) -> dict[str, int]:
    return {
        "planned": tally.planned,
        "measured": tally.measured,
        "low": tally.low,
        "slow_themselves": tally.explained,
    }


def words(finding: Finding) -> str:
    """Reason for a finding about a node on a rail, for people."""
    tally, parts = finding.tally, [finding.reason] if finding.reason else []
    if finding.loss is not None:
        again = finding.again
        tried = f", {again.low} of {again.measured} when tried again" if again else ", not tried again"
        low = f"low with {tally.low} of {tally.measured} partners{tried}"
        parts.append(f"{finding.loss:.0%} under its level in {_direction(finding.way)}, {low}")
        if finding.verdict is Verdict.UNKNOWN and not finding.reason:
            parts.append(f"suspects: {_named(finding.suspects)}")
    elif finding.verdict is Verdict.UNKNOWN and not parts:
        parts.append(_unseen(finding))
    return "; ".join(parts)


def _direction(way: str) -> str:
    return way if way == suspects.BOTH else f"one direction, {way}"


def _named(suspects: Sequence[Suspicion]) -> str:
    return ", ".join(f"{suspicion.what} {suspicion.chance:.0%}" for suspicion in suspects)


def _unseen(finding: Finding) -> str:
    tally = finding.tally
    if tally.measured == 0:
        return f"none of its {tally.planned} pairs has a result"
    seen = _percent(finding.seen)
    if seen is None:
        slow = f", {tally.explained} of them with slow ones" if tally.explained else ""
        return f"{tally.measured} of {tally.planned} pairs have a result{slow}: nothing to compare it with"
    return unseen(seen)


def unseen(least: float, most: float | None = None) -> str:
    """Reason for a node that is unknown for its noise alone. least, most: losses in percent."""
    upper = f"{least if most is None else most:.0f}"
    loss = upper if f"{least:.0f}" == upper else f"{least:.0f} to {upper}"
    return f"a loss of less than {loss}% would not have been seen"


def _path(pair: tuple[End, End], path: LowPath) -> dict[str, Any]:
    return {
        "ends": [_end(end) for end in pair],
        "verdict": str(path_verdict(path.certainty)),
        "certainty": str(path.certainty),
        "loss_percent": _percent(path.loss),
    }


def _between(uplink: Between) -> dict[str, Any]:
    return {
        "leaves": [*uplink.leaves],
        "rail": uplink.rail,
        "direction": uplink.way,
        "verdict": str(uplink.verdict),
        "certainty": str(uplink.certainty),
        "loss_percent": _percent(uplink.loss),
        "low": uplink.low,
        "measured": uplink.measured,
        "suspects": [_suspicion(suspicion) for suspicion in uplink.suspects],
    }


def _alike(group: Alike) -> dict[str, Any]:
    return {
        "ends": [_end(end) for end in group.ends],
        "of": group.of,
        "verdict": str(group.verdict),
        "loss_percent": _percent(group.loss),
        "common": group.common,
        "reason": group.reason,
    }


def _lossy(lossy: Lossy) -> dict[str, Any]:
    return {
        "ends": [_end(end) for end in lossy.ends],
        "verdict": str(lossy.verdict),
        "certainty": str(lossy.certainty),
        "sent_again_percent": None if lossy.share is None else round(100 * lossy.share, 3),
        "reason": lossy.reason,
    }


def _power(power: Power) -> dict[str, Any]:
    return {
        "asked_percent": _percent(power.asked),
        "node_percent": _percent(power.node),
        "path_percent": _percent(power.path),
        "rounds_more": power.rounds,
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
        "limits": [_limit(kind, limit) for limit in sample.limits],
        "evidence": dict(reading.evidence),
    }


def _end(end: End) -> dict[str, Any]:
    return {"node": end[0], "rail": end[1]}


def _limit(kind: Kind, limit: Limit) -> dict[str, Any]:
    return {"name": limit.name, **_amount(kind, "{}", limit.value), "source": limit.source}


def _amount(kind: Kind, name: str, value: float | None) -> dict[str, float | None]:
    """A number under a name with its unit. The name for bandwidth is in all documents, with null for other
    units."""
    key = kind.UNIT.key
    return {name.format(GBITS.key): None, name.format(key): _rounded(value)}


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, _DIGITS)


def is_success(document: Mapping[str, Any]) -> bool:
    """pass, or a warning: nothing fails, and nothing is unknown."""
    return model.ORDER.index(Verdict(document["verdict"])) > model.ORDER.index(Verdict.UNKNOWN)
