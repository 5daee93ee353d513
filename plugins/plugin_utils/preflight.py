# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A preflight of a fleet: who looks at whom, and what all nodes found in one table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ..module_utils._mlnode.checks.model import BAD, FAIL_ON, Verdict
from ..module_utils._mlnode.model.errors import printable
from . import agent_answer
from .campaign import model
from .campaign.table import aligned
from .fleet_report.names import few, natural

#: Words of Ansible for a task that has exceeded its `timeout`, and what to do then
_TIMED_OUT = "Timed out after"
_HUNG = (
    "The node or its connection hangs: look at its load, and at the MTU of the way from the controller "
    "(ping -M do -s 1472)"
)

#: Verdicts of a line of the table, from the worst on
_ORDER = (*BAD, Verdict.SKIP)

_TITLES = ("VERDICT", "CHECK", "NODES", "FOUND")

#: A node without a result: never a success, with any limit
_MISSING = "not checked"


def peers(addresses: Mapping[str, Any], at_once: int) -> dict[str, list[dict[str, str]]]:
    """Node → its two neighbours in a ring, on each rail. addresses: of a node, the one by which it is
    managed, or a list with one for each rail, from which it then connects, too.

    at_once: how many nodes Ansible works on at a time, in their order. As many are a ring, since nodes wait
    for their neighbours while they take that place.
    """
    neighbours: dict[str, list[dict[str, str]]] = {}
    for ring in _rings([*addresses], max(2, at_once)):
        for at, name in enumerate(ring):
            others = dict.fromkeys((ring[at - 1], ring[(at + 1) % len(ring)]))
            others.pop(name, None)
            neighbours[name] = [way for other in others for way in _ways(addresses[name], addresses[other])]
    return neighbours


def _rings(names: Sequence[str], size: int) -> list[list[str]]:
    """Rings of neighbours, at most two places apart: Ansible starts one node after the other. A single node
    that would be left over joins the ring before it."""
    blocks = [[*names[at : at + size]] for at in range(0, len(names), size)]
    if len(blocks) > 1 and len(blocks[-1]) == 1:
        alone = blocks.pop()
        blocks[-1] += alone
    return [[*block[::2], *reversed(block[1::2])] for block in blocks]


def _ways(own: Any, others: Any) -> list[dict[str, str]]:
    theirs = [others] if isinstance(others, str) else [*others]
    if isinstance(own, str):
        return [{"address": theirs[0]}]
    return [{"address": there, "source": here} for here, there in zip(own, theirs)]


class Report(NamedTuple):
    """verdict: of the fleet. success: no node fails, and all were checked. nodes: verdict by node. table:
    lines for a terminal; the last one is a summary."""

    verdict: str
    success: bool
    nodes: dict[str, str]
    table: list[str]


def report(results: Mapping[str, Any], fail_on: str = "unknown", accepted: Sequence[str] = ()) -> Report:
    """results: name → result of node_preflight, or what came instead of one. accepted: names of checks that
    may be unknown, and count for no verdict then. Raises ValueError."""
    if not isinstance(accepted, (list, tuple)) or not all(
        isinstance(check_name, str) for check_name in accepted
    ):
        raise ValueError(f"accept_unknown: expected a list of names of checks, got {accepted!r}")
    by_node = {name: _checks(result) for name, result in results.items()}
    nodes = {
        name: _verdict([check for check in checks if not _is_accepted(check, accepted)])
        for name, checks in by_node.items()
    }
    fatal = {*map(str, FAIL_ON[fail_on])}
    looked = bool(nodes) and all(checks[0]["name"] != _MISSING for checks in by_node.values())
    worst = next(
        (str(verdict) for verdict in BAD if str(verdict) in nodes.values()), "pass" if nodes else "unknown"
    )
    counts = Counter(nodes.values())
    words = ", ".join(
        f"{counts[str(verdict)]} {verdict}" for verdict in (*BAD, Verdict.PASS) if counts[str(verdict)]
    )
    summary = f"{worst}: {len(nodes)} node{'' if len(nodes) == 1 else 's'}: {words or 'none'}"
    success = looked and fatal.isdisjoint(nodes.values())
    names = {str(check["name"]) for checks in by_node.values() for check in checks}
    unmet = [
        f"accepted, and no node has such a check: {check_name}"
        for check_name in accepted
        if check_name not in names
    ]
    lines = (*table(by_node, accepted), *unmet, summary)
    return Report(worst, success, nodes, [printable(line) for line in lines])


def _is_accepted(check: Mapping[str, Any], accepted: Sequence[str]) -> bool:
    is_unknown = model.verdict(check["verdict"]) is Verdict.UNKNOWN
    return is_unknown and check["name"] in accepted and check["name"] != _MISSING


def _checks(result: Any) -> Sequence[Mapping[str, Any]]:
    """Checks of one node. A node without checks counts as unchecked."""
    answer = agent_answer.of_task("look", result)
    checks: Sequence[Mapping[str, Any]] = answer.get("checks") or ()
    if checks:
        return checks
    return [{"name": _MISSING, "target": "node", "verdict": "unknown", "found": no_answer(answer)}]


def no_answer(answer: Mapping[str, Any]) -> str:
    """Reason why a node has no result."""
    said = " ".join(str(answer.get("msg") or "no result").split())
    if answer.get("unreachable"):
        return f"not reachable: {said}"
    return f"{said} {_HUNG}" if _TIMED_OUT in said else said


def _verdict(checks: Sequence[Mapping[str, Any]]) -> str:
    """Worst verdict. A node without any pass is unproven, and an unknown word is never a success."""
    seen = {model.verdict(check["verdict"]) for check in checks}
    return next(
        (str(verdict) for verdict in BAD if verdict in seen), "pass" if Verdict.PASS in seen else "unknown"
    )


def table(by_node: Mapping[str, Sequence[Mapping[str, Any]]], accepted: Sequence[str] = ()) -> list[str]:
    """Lines of the checks of each node, with the worst first, then the rarest. Nodes with the same finding
    share a line."""
    alike: dict[tuple[Verdict, str, str], dict[str, list[str]]] = {}
    for node, checks in by_node.items():
        for check in checks:
            verdict = model.verdict(check["verdict"])
            if verdict in _ORDER:
                why = check.get("advice") or ("" if verdict is Verdict.SKIP else check["found"])
                nodes = alike.setdefault((verdict, str(check["name"]), str(why)), {})
                note = " (accepted)" if _is_accepted(check, accepted) else ""
                nodes.setdefault(node, []).append(_line(check) + note)
    ranked = sorted(alike.items(), key=lambda entry: (_ORDER.index(entry[0][0]), len(entry[1]), entry[0]))
    rows = [_row(len(by_node), verdict, name, nodes) for (verdict, name, _why), nodes in ranked]
    return aligned(rows, _TITLES)


def _row(
    total: int, verdict: Verdict, name: str, nodes: Mapping[str, Sequence[str]]
) -> tuple[str, str, str, str]:
    names = sorted(nodes, key=natural)
    lines = [line for node in names for line in nodes[node]]
    more = f" (and {len(lines) - 1} more)" if len({*lines}) > 1 else ""
    return str(verdict), name, f"{len(names)} of {total}: {few(names)}", f"{lines[0]}{more}"


def _line(check: Mapping[str, Any]) -> str:
    about = "" if check["target"] == "node" else f"{check['target']}: "
    advice = check.get("advice")
    return f"{about}{check['found']}" + (f"; {advice}" if advice else "")
