# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The result of a campaign as lines for a terminal: what was seen, and what is not as it should be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...module_utils._mlnode.checks.campaign import kinds
from ...module_utils._mlnode.checks.model import Verdict
from ...module_utils._mlnode.model.errors import printable
from ...module_utils._mlnode.report.grid import grid
from ..fleet_report.names import few
from . import model
from .model import End, Sample

#: As many findings as people read; the document has all of them
MOST = 40

#: Names in one line
_NAMED = 6

#: Verdict, what it is about, and why
Row = tuple[str, str, str]

_TITLES = ("VERDICT", "WHAT", "WHY")


def lines(document: Mapping[str, Any], samples: Sequence[Sample]) -> list[str]:
    """A table of all nodes and paths that are not pass, then the fleet and the coverage."""
    rows = [*_nodes(document), *_leaf_paths(document)]
    rows += [*_paths(document, samples), *_doubtful(document, samples)]
    return [*aligned(rows), *(printable(line) for line in _sums(document))]


def aligned(rows: Sequence[Row]) -> list[str]:
    """Rows below their titles, as many as people read; nothing without rows."""
    table = grid(_TITLES, rows[:MOST], None) if rows else []
    return [*table, *([f"and {len(rows) - MOST} more"] if rows[MOST:] else [])]


def _nodes(document: Mapping[str, Any]) -> Iterator[Row]:
    """The worst first. Nodes with the same to say share a line."""
    alike: dict[tuple[str, str, str], list[str]] = {}
    for node in document["nodes"]:
        many = len(node["rails"]) > 1
        for rail in node["rails"]:
            if rail["verdict"] != "pass":
                where = f" rail {rail['rail']}" if many else ""
                why = node["reason"] or rail["reason"]
                alike.setdefault((_word(rail), where, why), []).append(node["name"])
    for (word, where, why), names in sorted(alike.items(), key=lambda item: _rank(item[0][0])):
        noun = "node" if len(names) == 1 else "nodes"
        yield word, f"{noun} {few(names, _NAMED)}{where}", why


def _rank(word: str) -> int:
    return model.ORDER.index(Verdict(word.partition(",")[0]))


def _leaf_paths(document: Mapping[str, Any]) -> Iterator[Row]:
    many = any(len(node["rails"]) > 1 for node in document["nodes"])
    for way in document["leaf_paths"]:
        rail = f" rail {way['rail']}" if many else ""
        why = f"{way['low']} of {way['measured']} measured between nodes of these leaves are low"
        yield _word(way), f"paths {' - '.join(way['leaves'])}{rail}", why


def _paths(document: Mapping[str, Any], samples: Sequence[Sample]) -> Iterator[Row]:
    """Without those that a finding about two leaves has."""
    leaves = {node["name"]: node["leaf"] for node in document["nodes"]}
    told = {(frozenset(way["leaves"]), way["rail"], way["verdict"]) for way in document["leaf_paths"]}
    reasons: dict[Any, str] = {}
    for sample in samples:
        if sample.verdict is Verdict.FAIL:
            reasons.setdefault(_key(sample.ends), sample.reason)
    many = any(len(node["rails"]) > 1 for node in document["nodes"])
    for path in document["paths"]:
        one, other = path["ends"]
        between = frozenset(leaves[end["node"]] for end in path["ends"])
        if (between, one["rail"], path["verdict"]) in told:
            continue
        rail = f" rail {one['rail']}" if many else ""
        why = reasons.get(_key([(end["node"], end["rail"]) for end in path["ends"]]), "")
        yield _word(path), f"path {one['node']} - {other['node']}{rail}", why


def _doubtful(document: Mapping[str, Any], samples: Sequence[Sample]) -> Iterator[Row]:
    """Pairs without a result, and those with a warning: one line for each reason, of which many may have the
    same one. Those of nodes that have not taken part are said with the node."""
    names: dict[tuple[str, str], list[str]] = {}
    absent = {node["name"] for node in document["nodes"] if node["reason"]}
    known = {_key(sample.ends) for sample in samples if sample.verdict is not Verdict.UNKNOWN}
    for sample in samples:
        is_lost = absent.isdisjoint(sample.nodes) and _key(sample.ends) not in known
        if not sample.again and (is_lost or sample.verdict is Verdict.WARN):
            place = (str(sample.verdict), sample.reason)
            names.setdefault(place, []).append(" - ".join(sample.nodes))
    for (verdict, reason), pairs in names.items():
        yield verdict, f"pair {pairs[0]}" + (f" and {len(pairs) - 1} more" if pairs[1:] else ""), reason


def _word(finding: Mapping[str, Any]) -> str:
    return (
        f"{finding['verdict']}, {finding['certainty']}" if finding["certainty"] else str(finding["verdict"])
    )


def _key(ends: Sequence[End]) -> tuple[End, ...]:
    return tuple(sorted(ends))


def _sums(document: Mapping[str, Any]) -> Iterator[str]:
    seen = document["coverage"]
    kind = kinds.of(document["campaign"]["kind"])
    key, words = kind.UNIT.key, kind.UNIT.words
    for one in document["classes"]:
        rate = "rate unknown" if one["rate_gbits"] is None else f"{one['rate_gbits']:g} Gb/s"
        leaf = {True: ", same leaf", False: ", other leaf", None: ""}[one["same_leaf"]]
        yield (
            f"{one['pairs']} pairs of {rate}, MTU {one['mtu_bytes'] or 'unknown'}{leaf}: median "
            f"{one[f'median_{key}']:.4g} {words}, limit {one['limit'][key]:.4g} {words}"
        )
    yield (
        f"coverage: {seen['pairs_measured']} of {seen['pairs_planned']} planned pairs measured, of "
        f"{seen['pairs_possible']} that there are"
    )
    if seen["nodes_never_measured"]:
        yield f"never measured: {few(seen['nodes_never_measured'], MOST)}"
    for rail in seen["rails_never_measured"][:MOST]:
        yield f"never measured: rail {rail['rail']} of {rail['node']}"
    counts = document["counts"]["nodes"]
    nodes = ", ".join(f"{number} {verdict}" for verdict, number in sorted(counts.items()))
    yield f"{document['verdict']}: {len(document['nodes'])} nodes: {nodes}"
