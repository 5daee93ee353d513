# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare two campaigns of one kind: changes of each node and each pair, and of their conditions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ...module_utils._mlnode.model.errors import MlnodeError
from ...module_utils._mlnode.model.version import VERSION
from ...module_utils._mlnode.report.grid import grid, wrapped
from ..campaign.model import End
from ..fleet_report.names import few, natural
from .change import (
    BETTER,
    ONLY_A,
    ONLY_B,
    SAME,
    UNKNOWN,
    WORDS,
    WORSE,
    Change,
    change,
    measure,
    percent,
    rounded,
    sums,
    worst,
)  # fmt: skip
from .result import Pair, Result, Unit

#: Raised when a field changes its meaning or goes; new fields do not raise it.
FORMAT = 1

#: As many lines of a part as people read; the JSON has all of them
MOST = 40
#: Difference of a node without known conditions
_ALL = "kernel, declarations and rails"


class Difference(NamedTuple):
    """Something under which nodes were measured that has changed, and on which of them."""

    what: str
    before: str
    after: str
    nodes: tuple[str, ...]


class Comparison(NamedTuple):
    before: Result
    after: Result
    nodes: Mapping[str, Change]
    pairs: Mapping[tuple[End, End], Change]
    about: tuple[Difference, ...]
    under: tuple[Difference, ...]

    @property
    def verdict(self) -> str:
        """The worst of the nodes. A pair was measured once in each, and says nothing alone."""
        return worst(outcome.word for outcome in self.nodes.values())


def compare(before: Result, after: Result) -> Comparison:
    """Raises MlnodeError for results that are not of one kind."""
    for what, earlier, later in (
        ("kind", before.kind, after.kind),
        ("unit", before.unit.words, after.unit.words),
    ):
        if earlier != later:
            raise MlnodeError(
                f"{before.file} has the {what} {earlier}, and {after.file} {later}: they cannot be compared"
            )
    names = sorted({*before.nodes, *after.nodes}, key=natural)
    keys = sorted({*before.pairs, *after.pairs}, key=lambda key: [natural(name) for name, _rail in key])
    return Comparison(
        before,
        after,
        {name: _node(name, before, after) for name in names},
        {key: _pair(before.pairs.get(key), after.pairs.get(key), before.unit) for key in keys},
        tuple(of_all(before.about, after.about)),
        differences(before.under, after.under),
    )


#: Node → conditions of its measurement, such as `kernel` → the value
Under = Mapping[str, Mapping[str, str]]


def differences(before: Under, after: Under) -> tuple[Difference, ...]:
    """Changed conditions of the nodes, each with all nodes that have the same change."""
    alike: dict[tuple[str, str, str], list[str]] = {}
    for name in sorted({*before} & {*after}, key=natural):
        earlier, later = before[name], after[name]
        if bool(earlier) != bool(later):  # a node that did not answer: no part of it has changed
            earlier, later = ({_ALL: "known" if under else "unknown"} for under in (earlier, later))
        for changed in of_all(earlier, later):
            alike.setdefault(changed[:3], []).append(name)
    return tuple(Difference(*key, tuple(names)) for key, names in alike.items())


def of_all(before: Mapping[str, str], after: Mapping[str, str]) -> list[Difference]:
    """The same of a result as a whole."""
    return [
        Difference(what, before.get(what, ""), after.get(what, ""), ())
        for what in {**before, **after}
        if before.get(what) != after.get(what)
    ]


def _node(name: str, before: Result, after: Result) -> Change:
    """Change of a node, by the pairs that both campaigns measured. If plans differ and there are no such
    pairs, all pairs of the node count, provided they are of one class."""
    first, second = (run.of_node.get(name, ()) for run in (before, after))
    if not first or not second:
        return _lone(first, second)
    common = {pair.key for pair in first} & {pair.key for pair in second}
    if common:
        first, second = ([pair for pair in pairs if pair.key in common] for pairs in (first, second))
    elif len({(pair.like.rate, pair.like.near) for pair in (*first, *second)}) > 1:
        return Change(UNKNOWN, reason="measured with other partners, over links of other rates or leaves")
    return change(measure(first), measure(second), before.unit)


def _pair(first: Pair | None, second: Pair | None, unit: Unit) -> Change:
    earlier, later = ([pair] if pair and pair.value is not None else [] for pair in (first, second))
    return change(measure(earlier), measure(later), unit) if earlier and later else _lone(earlier, later)


def _lone(first: Sequence[Pair], second: Sequence[Pair]) -> Change:
    if first:
        return Change(ONLY_A, before=measure(first).value)
    if second:
        return Change(ONLY_B, after=measure(second).value)
    return Change(UNKNOWN, reason="measured in neither")


# -- as JSON and as a table -----------------------------------------------------------------------


def document(comparison: Comparison) -> dict[str, Any]:
    """docs/schema/comparison.schema.json describes it."""
    return {
        "format": FORMAT,
        "mlnode": VERSION,
        "kind": comparison.before.kind,
        "unit": comparison.before.unit.words,
        "a": side(comparison.before),
        "b": side(comparison.after),
        "verdict": comparison.verdict,
        "counts": {
            "nodes": dict(Counter(outcome.word for outcome in comparison.nodes.values())),
            "pairs": dict(Counter(outcome.word for outcome in comparison.pairs.values())),
        },
        "about": [_difference(difference) for difference in comparison.about],
        "under": [stated(difference) for difference in comparison.under],
        "nodes": [{"name": name, **_change(outcome)} for name, outcome in comparison.nodes.items()],
        "pairs": [
            {"ends": [{"node": name, "rail": rail} for name, rail in key], **_change(outcome)}
            for key, outcome in comparison.pairs.items()
        ],
    }


def side(run: Any) -> dict[str, Any]:
    """One of two results, of whatever measurement."""
    return {"file": run.file, "id": run.name, "started": run.started, "verdict": str(run.verdict)}


def _difference(difference: Difference) -> dict[str, Any]:
    return {"what": difference.what, "a": difference.before, "b": difference.after}


def stated(difference: Difference) -> dict[str, Any]:
    """A difference with its nodes."""
    return {**_difference(difference), "nodes": [*difference.nodes]}


def _change(outcome: Change) -> dict[str, Any]:
    return {
        "result": outcome.word,
        "a": outcome.before,
        "b": outcome.after,
        **percents(outcome),
        "reason": outcome.reason,
    }


def percents(outcome: Change) -> dict[str, float | None]:
    return {"change_percent": rounded(outcome.part), "noise_percent": rounded(outcome.noise)}


def lines(comparison: Comparison, width: int | None) -> list[str]:
    """Table of changes, the worst first; then under what, and the sums. A pair that has changed with one of
    its nodes is not named."""
    before = comparison.before
    rails = len({key[0][1] for key in comparison.pairs}) > 1
    nodes = {name: outcome for name, outcome in comparison.nodes.items() if outcome.word != SAME}
    pairs = {
        _ends(key, rails): outcome
        for key, outcome in comparison.pairs.items()
        if outcome.word in (WORSE, BETTER)
        and all(comparison.nodes[name].word != outcome.word for name, _rail in key)
    }
    unit = before.unit.words
    counts = sums(outcome.word for outcome in comparison.nodes.values())
    return [
        *sides(before.kind, before, comparison.after),
        *_table("NODE", nodes, unit, width),
        *_table("PAIR", pairs, unit, width),
        *under(
            "Not measured under the same, which may be the cause:",
            (*comparison.about, *comparison.under),
            width,
        ),
        "",
        f"{len(comparison.pairs)} pairs: {sums(outcome.word for outcome in comparison.pairs.values())}",
        f"{comparison.verdict}: {len(comparison.nodes)} nodes: {counts}",
    ]


def sides(kind: str, *runs: Any) -> list[str]:
    """Both results, of whatever measurement."""
    return [
        f"{letter}: {run.file}: {kind} {run.name}, {run.started}, {run.verdict}"
        for letter, run in zip("AB", runs)
    ]


def more(rows: Sequence[Any]) -> list[str]:
    """The number of rows that are not shown."""
    return [f"and {len(rows) - MOST} more: see --json"] if rows[MOST:] else []


def _ends(key: tuple[End, End], rails: bool) -> str:
    names = " - ".join(name for name, _rail in key)
    return f"{names} rail {key[0][1]}" if rails else names


def _table(title: str, changes: Mapping[str, Change], unit: str, width: int | None) -> list[str]:
    """The worst first; among equals, the largest change."""
    if not changes:
        return []
    order = sorted(changes.items(), key=lambda item: (WORDS.index(item[1].word), -abs(item[1].part or 0.0)))
    rows = [
        (
            name,
            *("" if value is None else f"{value:.4g}" for value in (outcome.before, outcome.after)),
            percent(outcome.part),
            "" if outcome.noise is None else f"{100 * outcome.noise:.1f} %",
            f"{outcome.word}: {outcome.reason}" if outcome.reason else outcome.word,
        )
        for name, outcome in order[:MOST]
    ]
    header = (title, f"A {unit}", f"B {unit}", "CHANGE", "NOISE", "RESULT")
    return ["", *grid(header, rows, width), *more(order)]


def under(title: str, conditions: Sequence[Difference], width: int | None) -> list[str]:
    """Lines for what else is another one."""
    if not conditions:
        return []
    texts = [
        f"{difference.what} {difference.before or '-'} -> {difference.after or '-'}"
        + (f": {few(difference.nodes)}" if difference.nodes else "")
        for difference in conditions[:MOST]
    ]
    room = None if width is None else width - 4
    first_and_rest = (wrapped(text, room) for text in texts)
    return [
        "",
        title,
        *(
            line
            for first, *rest in first_and_rest
            for line in (f"  {first}", *(f"    {continued}" for continued in rest))
        ),
        *(f"  {line}" for line in more(conditions)),
    ]
