# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Results of path_mtu on all nodes of a fleet: first groups of nodes, then single nodes, then single
paths."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ..module_utils._mlnode.checks import path_mtu
from ..module_utils._mlnode.checks.model import Verdict
from ..module_utils._mlnode.model.errors import DeclarationError, printable
from ..module_utils._mlnode.model.values import by_key
from . import agent_answer, preflight
from .campaign import model
from .campaign.table import aligned
from .fleet_report.names import few, natural

#: As many lines as people read; one switch fails thousands of paths
MOST = 100

#: A node is named if it is low towards more than this part of its peers, and towards two of them at least:
#: with three nodes, one bad path is half of the paths of two nodes
_PART, _LEAST = 0.5, 2

#: Not proven, from the worst on
_LOW = (Verdict.FAIL, Verdict.UNKNOWN, Verdict.WARN)


class Way(NamedTuple):
    """From one node to an address of another one. found: with advice."""

    sender: str
    receiver: str
    address: str
    verdict: Verdict
    found: str

    @property
    def pair(self) -> frozenset[str]:
        return frozenset((self.sender, self.receiver))


class Report(NamedTuple):
    """verdict: of all paths. success: all nodes have sent, and no path fails or is unknown. table: lines for
    a terminal; the last one is a summary."""

    verdict: str
    success: bool
    table: list[str]


class _Row(NamedTuple):
    verdict: Verdict
    what: str
    why: str


def report(nodes: Mapping[str, Any], results: Mapping[str, Any]) -> Report:
    """nodes: name → its address, or a list with one address per rail. results: name → result of path_mtu, or
    the failure in its place. Raises ValueError."""
    ways: list[Way] = []
    missing: dict[str, str] = {}
    for sender, result in results.items():
        answer = agent_answer.of_task("look", result)
        checks = answer.get("checks") or []
        peers = _peers(nodes, sender)
        if len(checks) == len(peers):
            ways += [_way(sender, receiver, check) for receiver, check in zip(peers, checks, strict=True)]
        else:
            missing[sender] = _why_not(answer, len(checks), len(peers))
    rows = sorted([*_unsent(missing), *_rows(ways)], key=lambda row: _LOW.index(row.verdict))
    verdict = model.worst((*(row.verdict for row in rows), *([Verdict.PASS] if ways else [])))
    success = verdict in (Verdict.PASS, Verdict.WARN)
    low = sum(way.verdict in _LOW for way in ways)
    senders = f"{len(results) - len(missing)} of {len(results)} node{'' if len(results) == 1 else 's'}"
    summary = f"{verdict}: {senders} sent packets, {len(ways) - low} of {len(ways)} ways are as expected"
    return Report(str(verdict), success, [printable(line) for line in (*aligned(rows, most=MOST), summary)])


def _peers(nodes: Mapping[str, Any], sender: str) -> list[str]:
    """Receivers in the order of the module's checks. Raises ValueError."""
    given = [
        (name, address)
        for name, addresses in nodes.items()
        if name != sender
        for address in (addresses if isinstance(addresses, list) else [addresses])
    ]
    owner: dict[Any, str] = {}
    for name, address in given:
        try:
            [peer] = path_mtu.parse_peers([address])
        except DeclarationError as error:
            raise ValueError(f"{name}: {error}") from error
        owner.setdefault(peer, name)
    return [*owner.values()]


def _why_not(answer: Mapping[str, Any], had: int, wanted: int) -> str:
    if had:
        return f"it has {had} results for {wanted} peers"
    return preflight.no_answer(answer)


def _way(sender: str, receiver: str, check: Mapping[str, Any]) -> Way:
    advice = f"; {check['advice']}" if check["advice"] else ""
    verdict = model.verdict(check["verdict"])
    return Way(sender, receiver, str(check["target"]), verdict, f"{check['found']}{advice}")


# -- blame -----------------------------------------------------------------------------------------


def _rows(ways: Sequence[Way]) -> list[_Row]:
    low = [way for way in ways if way.verdict in _LOW]
    if not low:
        return []
    rows: list[_Row] = []
    groups = [group for group in _groups(ways) if len(group) >= _LEAST]
    if len(groups) > 1:
        group_of = {name: number for number, group in enumerate(groups) for name in group}
        across = [way for way in low if len({group_of.get(name, -1) for name in way.pair} - {-1}) > 1]
        rows.append(_group_row(groups, across))
        low = [way for way in low if way not in {*across}]
    blamed = _nodes(ways, low)
    rows += [_node_row(name, ways, low) for name in blamed]
    rest = [way for way in low if not way.pair & {*blamed}]
    return [*rows, *(_path_row(way) for way in sorted(rest, key=_order))]


def _order(way: Way) -> tuple[Any, ...]:
    return _LOW.index(way.verdict), natural(way.sender), natural(way.receiver), natural(way.address)


def _groups(ways: Sequence[Way]) -> list[list[str]]:
    """Nodes between which packets arrive, directly or through others. One switch or uplink makes two
    groups."""
    low = {way.pair for way in ways if way.verdict in _LOW}
    root = {name: name for way in ways for name in way.pair}

    def top(name: str) -> str:
        while root[name] != name:
            root[name] = root[root[name]]
            name = root[name]
        return name

    for way in ways:
        if way.pair not in low:
            root[top(way.sender)] = top(way.receiver)
    groups = by_key((top(name), name) for name in root)
    return [*groups.values()]


def _nodes(ways: Sequence[Way], low: Sequence[Way]) -> list[str]:
    """Nodes that are low towards most of their peers, the worst first. A path to one of them says nothing
    about its other end."""
    peers: dict[str, set[str]] = {}
    bad: dict[str, set[str]] = {}
    for partners, some in ((peers, ways), (bad, low)):
        for way in some:
            partners.setdefault(way.sender, set()).add(way.receiver)
            partners.setdefault(way.receiver, set()).add(way.sender)
    blamed: list[str] = []
    while bad:
        name = max(bad, key=lambda node: (len(bad[node]) / len(peers[node]), len(bad[node])))
        if len(bad[name]) < _LEAST or len(bad[name]) <= _PART * len(peers[name]):
            break
        blamed.append(name)
        for other in peers[name]:
            peers[other].discard(name)
            bad.get(other, set()).discard(name)
        del bad[name]
        bad = {node: others for node, others in bad.items() if others}
    return blamed


# -- words -----------------------------------------------------------------------------------------


def _group_row(groups: Sequence[Sequence[str]], across: Sequence[Way]) -> _Row:
    named = "; ".join(few(sorted(group, key=natural)) for group in groups)
    return _Row(_worst(across), f"between {len(groups)} groups: {named}", _commonest(across))


def _node_row(name: str, ways: Sequence[Way], low: Sequence[Way]) -> _Row:
    own = [way for way in low if name in way.pair]
    to, sent = ({way.receiver for way in some if way.sender == name} for some in (own, ways))
    back, heard = ({way.sender for way in some if way.receiver == name} for some in (own, ways))
    reach = [f"to {len(to)} of {len(sent)} others"] if sent else []
    reach += [f"from {len(back)} of {len(heard)}"] if heard else []
    return _Row(_worst(own), f"node {name}", f"{', '.join(reach)}: {_commonest(own)}")


def _path_row(way: Way) -> _Row:
    return _Row(way.verdict, f"path {way.sender} -> {way.receiver}", f"{way.address}: {way.found}")


def _unsent(missing: Mapping[str, str]) -> list[_Row]:
    """Nodes that have not sent, those with the same reason in one line."""
    alike = by_key((why, name) for name, why in missing.items())
    return [
        _Row(
            Verdict.UNKNOWN,
            f"node{'s' if names[1:] else ''} {few(sorted(names, key=natural))}",
            f"not checked: {why}",
        )
        for why, names in alike.items()
    ]


def _worst(ways: Iterable[Way]) -> Verdict:
    return model.worst(way.verdict for way in ways)


def _commonest(ways: Sequence[Way]) -> str:
    """The reason that most of the worst ways have."""
    worst = _worst(ways)
    words, number = Counter(way.found for way in ways if way.verdict is worst).most_common(1)[0]
    return f"{words} (and {len(ways) - number} more ways)" if len(ways) > number else words
