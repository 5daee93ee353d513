# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pairs of a campaign on the page: a matrix of hosts or, of many, of leaves; and the worst pairs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from xml.etree.ElementTree import Element

from ...module_utils._mlnode.model.values import by_key
from .elements import make, table
from .finding import BAD
from .model import Pair, Pairs
from .names import few, natural

#: Rows of a matrix, as many as a screen has. With more hosts, a row is a leaf, or hosts with adjacent names.
_ROWS = 64

#: Pairs that are listed; the result of the campaign has all of them
_LISTED = 1000

#: Least shares of the limit for the two milder colours
_MILD, _FAIR = 0.95, 0.8

#: Numbers of hosts, as the page's script reads them
Places = Callable[[Iterable[str]], str]


def sections(campaign: Pairs, places: Places) -> Iterator[Element]:
    title = f"{campaign.kind}, campaign {campaign.name}"
    ranked = sorted(campaign.pairs, key=_badness)
    low = sum(pair.verdict in BAD for pair in ranked)
    note = f"{len(ranked):,} pairs, {low:,} not right. A cell shows the worst pair in percent of its limit."
    rows = [_row(pair, campaign, places) for pair in ranked[:_LISTED]]
    rest = len(ranked) - _LISTED
    yield make(
        "section",
        make("h2", f"Pairs: {title}"),
        make("p", note, class_="faint"),
        make("div", _matrix(campaign, ranked), class_="wide", tabindex=0, role="region", aria_label=title),
        make(
            "details",
            make("summary", "Pairs, the worst first"),
            table(("pair", "rail", "verdict", "measured", "why"), rows),
            make("p", f"and {rest:,} more: see the result of the campaign") if rest > 0 else None,
            class_="more",
        ),
    )


def _badness(pair: Pair) -> tuple[bool, float]:
    """A pair without a result may be as bad as any."""
    share = -1.0 if pair.share is None or pair.verdict == "unknown" else pair.share
    return pair.verdict not in BAD, share


def _look(pair: Pair) -> tuple[str, str]:
    """Name of a cell's colour, and the text in the cell."""
    if pair.verdict not in BAD:
        return "ok", ""
    if pair.share is None or pair.verdict == "unknown":
        return "none", "?"
    if pair.share >= 1:
        return "medium", "!"
    look = "high" if pair.share < _FAIR else "medium" if pair.share < _MILD else "low"
    return look, str(math.floor(100 * pair.share))


def _row(pair: Pair, campaign: Pairs, places: Places) -> Element:
    percent = "" if pair.share is None else f", {math.floor(100 * pair.share)} % of the limit"
    leaves = " – ".join(filter(None, (campaign.leaves.get(name, "") for name in (pair.first, pair.second))))
    return make(
        "tr",
        make("td", f"{pair.first} – {pair.second}", make("div", leaves, class_="faint") if leaves else None),
        make("td", str(pair.rail)),
        make("td", make("span", pair.verdict, class_=f"tag {_look(pair)[0]}")),
        make("td", f"{pair.value}{percent}"),
        make("td", pair.reason),
        data_hosts=places((pair.first, pair.second)),
        data_rank=0 if pair.verdict in BAD else 6,
        data_status=pair.verdict,
    )


def _matrix(campaign: Pairs, ranked: Sequence[Pair]) -> Element:
    names = dict.fromkeys(name for pair in ranked for name in (pair.first, pair.second))
    groups = _grouped(sorted(names, key=natural), campaign.leaves)
    row_of = {name: at for at, (_title, members) in enumerate(groups) for name in members}
    worst: dict[tuple[int, int], Pair] = {}
    for pair in ranked:
        for node, partner in ((pair.first, pair.second), (pair.second, pair.first)):
            worst.setdefault((row_of[node], row_of[partner]), pair)
    titles = [title for title, _members in groups]
    rows = [
        make("tr", make("th", title, scope="row"), *(_cell(worst.get((at, to))) for to in range(len(titles))))
        for at, title in enumerate(titles)
    ]
    head = (make("th", make("span", title), scope="col") for title in titles)
    return make("table", make("thead", make("tr", make("td"), *head)), make("tbody", *rows), class_="matrix")


def _cell(pair: Pair | None) -> Element:
    if pair is None:
        return make("td")
    look, sign = _look(pair)
    about = f"{pair.first} – {pair.second}, rail {pair.rail}: {pair.verdict}, {pair.value}"
    return make("td", sign, class_=look, title=about)


def _grouped(names: Sequence[str], leaves: Mapping[str, str]) -> list[tuple[str, Sequence[str]]]:
    """Title and hosts of each row."""
    if len(names) <= _ROWS:
        return [(name, [name]) for name in names]
    of_leaf = by_key((leaves.get(name, ""), name) for name in names)
    if 1 < len(of_leaf) <= _ROWS:
        return [(leaf or "no leaf", of_leaf[leaf]) for leaf in sorted(of_leaf, key=natural)]
    size = math.ceil(len(names) / _ROWS)
    runs = [names[at : at + size] for at in range(0, len(names), size)]
    return [(few(run, 1), run) for run in runs]
