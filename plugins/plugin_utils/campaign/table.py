# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Result of a campaign as lines for a terminal: its extent, and all findings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...module_utils._mlnode.checks.campaign import kinds
from ...module_utils._mlnode.checks.model import Verdict
from ...module_utils._mlnode.model.errors import printable
from ...module_utils._mlnode.report.grid import grid
from ..fleet_report.names import few
from . import document as document_of
from . import model
from .model import End, Sample

#: As many findings as people read; the document has all of them
MOST = 40

#: Verdict, subject and reason
Row = tuple[str, str, str]

_TITLES = ("VERDICT", "WHAT", "WHY")


def lines(document: Mapping[str, Any], samples: Sequence[Sample]) -> list[str]:
    """A table of all nodes and paths that are not pass, then the fleet and the coverage."""
    rows = [*_fleet(document), *_groups(document), *_nodes(document), *_uplinks(document)]
    rows += [*_paths(document, samples), *_losing(document), *_doubtful(document, samples)]
    return [*aligned(rows), *(printable(line) for line in _sums(document))]


def aligned(rows: Sequence[Sequence[str]], titles: Sequence[str] = _TITLES, most: int = MOST) -> list[str]:
    """Rows below their titles, as many as people read; nothing without rows."""
    table = grid(titles, rows[:most], None) if rows else []
    return [*table, *([f"and {len(rows) - most} more"] if rows[most:] else [])]


def _fleet(document: Mapping[str, Any]) -> Iterator[Row]:
    for finding in document["fleet"]:
        yield finding["verdict"], "all pairs of a class", finding["reason"]


def _groups(document: Mapping[str, Any]) -> Iterator[Row]:
    for group in document["groups"]:
        names = few([*dict.fromkeys(end["node"] for end in group["ends"])])
        common = f", all of {group['common']}" if group["common"] else ""
        many = "rails" if _has_rails(document) else "nodes"
        reason = f": {group['reason']}" if group["reason"] else ""
        why = f"at {1 - group['loss_percent'] / 100:.2f} of the others{common}{reason}"
        yield group["verdict"], f"{len(group['ends'])} of {group['of']} {many}: {names}", why


def _has_rails(document: Mapping[str, Any]) -> bool:
    return any(len(node["rails"]) > 1 for node in document["nodes"])


def _nodes(document: Mapping[str, Any]) -> Iterator[Row]:
    """The worst first. Nodes with the same finding share a line; nodes of a group are in the group's line."""
    grouped = {(end["node"], end["rail"]) for group in document["groups"] for end in group["ends"]}
    many = _has_rails(document)
    alike: dict[tuple[str, str, str], list[str]] = {}
    unseen: dict[str, list[tuple[str, float]]] = {}
    for node in document["nodes"]:
        for rail in node["rails"]:
            if rail["verdict"] == "pass" or (node["name"], rail["rail"]) in grouped:
                continue
            where = f" rail {rail['rail']}" if many else ""
            if _is_unseen(node, rail):
                unseen.setdefault(where, []).append((node["name"], rail["would_have_seen_percent"]))
            else:
                why = node["reason"] or rail["reason"]
                alike.setdefault((_word(rail), where, why), []).append(node["name"])
    rows = [(word, _nouns(names) + where, why) for (word, where, why), names in alike.items()]
    for where, nodes in unseen.items():
        least, most = min(seen for _name, seen in nodes), max(seen for _name, seen in nodes)
        why = document_of.unseen(least, most)
        rows.append(("unknown", _nouns([name for name, _seen in nodes]) + where, why))
    return iter(sorted(rows, key=lambda row: _rank(row[0])))


def _is_unseen(node: Mapping[str, Any], rail: Mapping[str, Any]) -> bool:
    """unknown for its noise alone"""
    seen = rail["would_have_seen_percent"]
    return not node["reason"] and seen is not None and rail["reason"] == document_of.unseen(seen)


def _nouns(names: Sequence[str]) -> str:
    return f"{'node' if len(names) == 1 else 'nodes'} {few(names)}"


def _rank(word: str) -> int:
    return model.ORDER.index(Verdict(word.partition(",")[0]))


def _uplinks(document: Mapping[str, Any]) -> Iterator[Row]:
    many = _has_rails(document)
    for way in document["uplinks"]:
        rail = f" rail {way['rail']}" if many else ""
        leaves = way["leaves"]
        what = (
            f"uplinks of leaf {leaves[0]}" if len(leaves) == 1 else f"between leaves {' and '.join(leaves)}"
        )
        low = f"{way['low']} of {way['measured']} measurements are low"
        why = f"{way['loss_percent']:.0f}% under the level of other pairs, {way['direction']}: {low}"
        if way["verdict"] == "unknown":
            why += "; suspects: " + ", ".join(
                f"{it['what']} {it['probability']:.0%}" for it in way["suspects"]
            )
        yield _word(way), what + rail, why


def _paths(document: Mapping[str, Any], samples: Sequence[Sample]) -> Iterator[Row]:
    reasons: dict[Any, str] = {}
    for sample in samples:
        if sample.verdict is Verdict.FAIL:
            reasons.setdefault(_key(sample.ends), sample.reason)
    many = _has_rails(document)
    for path in document["paths"]:
        end, partner = path["ends"]
        rail = f" rail {end['rail']}" if many else ""
        own = f"{path['loss_percent']:.0f}% under its level"
        why = reasons.get(_key([(end["node"], end["rail"]) for end in path["ends"]]), own)
        yield _word(path), f"path {end['node']} - {partner['node']}{rail}", why


def _losing(document: Mapping[str, Any]) -> Iterator[Row]:
    many = _has_rails(document)
    for finding in document["losing"]:
        names = [end["node"] for end in finding["ends"]]
        rail = f" rail {finding['ends'][0]['rail']}" if many else ""
        what = f"node {names[0]}" if len(names) == 1 else f"path {' -> '.join(names)}"
        yield _word(finding), what + rail, finding["reason"]


def _doubtful(document: Mapping[str, Any], samples: Sequence[Sample]) -> Iterator[Row]:
    """Pairs without a result, and pairs with a warning: one line for each reason, as many may share it. Pairs
    of nodes that did not take part are in the node's line."""
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
    kind = kinds.kind(document["campaign"]["kind"])
    key, words = kind.UNIT.key, kind.UNIT.words
    for pair_class in document["classes"]:
        rate = "rate unknown" if pair_class["rate_gbits"] is None else f"{pair_class['rate_gbits']:g} Gb/s"
        leaf = {True: ", same leaf", False: ", other leaf", None: ""}[pair_class["same_leaf"]]
        pairs = "1 pair" if pair_class["pairs"] == 1 else f"{pair_class['pairs']} pairs"
        limit = f", limit {pair_class['limit'][key]:.4g} {words}" if pair_class["limit"] else ""
        yield (
            f"{pairs} of {rate}, MTU {pair_class['mtu_bytes'] or 'unknown'}{leaf}: median "
            f"{pair_class[f'median_{key}']:.4g} {words}{limit}"
        )
    yield (
        f"coverage: {seen['pairs_measured']} of {seen['pairs_planned']} planned pairs measured, of "
        f"{seen['pairs_possible']} that there are"
    )
    yield from _power(document["power"])
    if seen["nodes_never_measured"]:
        yield f"never measured: {few(seen['nodes_never_measured'], MOST)}"
    for rail in seen["rails_never_measured"][:MOST]:
        yield f"never measured: rail {rail['rail']} of {rail['node']}"
    counts = document["counts"]["nodes"]
    nodes = ", ".join(f"{number} {verdict}" for verdict, number in sorted(counts.items()))
    yield f"{document['verdict']}: {len(document['nodes'])} nodes: {nodes}"


def _power(power: Mapping[str, Any]) -> Iterator[str]:
    """Least losses that would have been seen, and the rounds to see more."""
    node, path, asked = power["node_percent"], power["path_percent"], power["asked_percent"]
    parts = [f"a node that loses {node:g}% or more"] if node is not None else []
    parts += [f"a path that loses {path:g}% or more"] if path is not None else []
    if parts:
        yield f"would have been seen with 95%: {', '.join(parts)}"
    more = power["rounds_more"]
    if more:
        rounds = "1 more round" if more == 1 else f"{more} more rounds"
        yield f"a loss of {asked:g}% at all nodes takes {rounds} (campaign_rounds)"
