# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The report as one HTML page that needs nothing but itself.

The page's script makes the heat map out of data, and only of what is in sight. Without it, there are tables
of what is not as expected. Nothing that a host reported ever stands where a browser looks for tags or script.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

from ...module_utils._mlnode.model.version import VERSION
from . import repair
from .model import BAD, NEITHER, SEVERITIES, STATES, STATUSES, Finding, Fleet, Host, Pairs, causes
from .names import few, folded
from .table import headline, merged

_FOLDER = pathlib.Path(__file__).parent

#: Words for hosts in a line of the tables, which have no search; a browser wraps them
_NAMES = 200

#: Characters; what is longer may be broken anywhere, as it may have no blanks
_LONG = 24


def lines(fleet: Fleet) -> Iterator[str]:
    """The page, in pieces."""
    style, script, body = (
        (_FOLDER / name).read_text(encoding="utf-8") for name in ("page.css", "page.js", "page.html")
    )
    title = html.escape(_shown(f"Fleet report: {headline(fleet)}"))
    # Nothing is fetched, and nothing is run but this script: the browser itself sees to it.
    policy = f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'"
    head, _place, tail = body.partition("<!-- tables -->")
    yield '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
    yield f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
    yield f"<title>{title}</title>\n<style>{style}</style>\n</head>\n"
    yield head
    yield from _tables(fleet)
    yield tail
    yield '<script type="application/json" id="data">'
    yield embedded(data(fleet))
    yield f"</script>\n<script>{script}</script>\n</body>\n</html>\n"


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def embedded(value: Any) -> str:
    """JSON inside a script element, which ends at its end tag wherever that stands."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text


def data(fleet: Fleet) -> dict[str, Any]:
    """Every text and every finding once; of a host, the number of its finding for each knob."""
    texts: dict[str, int] = {}
    rows: dict[Finding, int] = {}

    def text(value: str | None) -> int:
        return -1 if value is None else texts.setdefault(value, len(texts))

    knobs = fleet.knobs()
    hosts = []
    for host in fleet.ordered():
        cells = []
        for knob in knobs:
            finding = host.findings.get(knob)
            cells.append(-1 if finding is None else rows.setdefault(finding, len(rows)))
        groups = [text(group) for group in host.groups]
        messages = [text(word) for word in host.words]
        hosts.append([text(host.name), STATES.index(host.state), groups, messages, cells])
    at = {knob: number for number, knob in enumerate(knobs)}
    place = {host.name: number for number, host in enumerate(fleet.ranked())}
    outliers = [
        [
            [at[item.kind, item.key] for item in items],
            SEVERITIES.index(items[0].severity),
            len(items[0].hosts),
            items[0].of,
            text(items[0].why),
        ]
        for items in causes(fleet.outliers())
    ]
    return {
        "playbook": fleet.playbook,
        "check_mode": fleet.check_mode,
        "ended": fleet.ended,
        "version": VERSION,
        "states": STATES,
        "statuses": STATUSES,
        "bad": [STATUSES.index(status) for status in BAD],
        "neither": [STATUSES.index(status) for status in NEITHER],
        "severities": SEVERITIES,
        "knobs": [[text(kind), text(key)] for kind, key in knobs],
        "rows": [
            [
                STATUSES.index(finding.status),
                SEVERITIES.index(finding.severity),
                *(text(value) for value in (*finding[4:], finding.why, repair.template(finding))),
            ]
            for finding in rows
        ],
        "fields": (*Finding._fields[4:], "why", "repair"),
        "most_limited": repair.MOST,
        "hosts": hosts,
        "places": [place[host.name] for host in fleet.ordered()],
        "outliers": outliers,
        "merged": merged(fleet),
        "campaigns": [_campaign(one, fleet, text) for one in fleet.campaigns],
        "texts": [*texts],
    }


def _campaign(one: Pairs, fleet: Fleet, text: Callable[[str | None], int]) -> dict[str, Any]:
    """Of a pair: the numbers of its hosts, rail, share of the limit, verdict, value and reason."""
    at = {host.name: number for number, host in enumerate(fleet.ordered())}
    return {
        "title": f"{one.kind}, campaign {one.name}",
        "leaves": {at[name]: leaf for name, leaf in one.leaves.items()},
        "pairs": [
            [
                at[pair.one],
                at[pair.other],
                pair.rail,
                None if pair.share is None else round(pair.share, 3),
                STATUSES.index(pair.verdict),
                text(pair.value),
                text(pair.reason),
            ]
            for pair in one.pairs
        ],
    }


# -- without JavaScript ---------------------------------------------------------------------------------


def _tables(fleet: Fleet) -> Iterator[str]:
    yield f"<p>{html.escape(_shown(headline(fleet)))}</p>\n"
    same: dict[tuple[str, ...], list[str]] = {}
    for host in fleet.ranked():
        same.setdefault((host.state, host.worst, _keys(host), "; ".join(host.words)), []).append(host.name)
    yield from _table(
        "Hosts that are not ok",
        ("hosts", "state", "worst", "what is not as expected", "why"),
        [(_hosts(names), *alike) for alike, names in same.items() if alike[0] != "ok"],
    )
    yield from _table(
        "What is not as expected",
        ("setting or check", "status", "severity", "want", "runtime", "boot", "why", "repair", "hosts"),
        [
            (
                finding.key,
                f"{finding.status}, ignored {finding.ignored}" if finding.ignored else finding.status,
                finding.severity,
                finding.want,
                finding.runtime,
                f"{finding.boot} ({finding.boot_source})" if finding.boot_source else finding.boot,
                finding.reason,
                repair.command(finding, names, len(fleet.hosts)),
                _hosts(names),
            )
            for finding, names in fleet.alike(lambda finding: finding.status in BAD)
        ],
    )
    for campaign in fleet.campaigns:
        low = [pair for pair in campaign.pairs if pair.verdict in BAD]
        low.sort(key=lambda pair: -1.0 if pair.share is None else pair.share)
        yield from _table(
            f"Pairs that are not right ({len(low)}): {campaign.kind}, campaign {campaign.name}",
            ("pair", "rail", "verdict", "measured", "why"),
            [
                (f"{pair.one} - {pair.other}", str(pair.rail), pair.verdict, pair.value, pair.reason)
                for pair in low[:_NAMES]
            ],
        )
    if fleet.merged:
        yield from _table("Merged", ("report",), [(line,) for line in merged(fleet)])
    fine = [host.name for host in fleet.hosts.values() if host.state == "ok"]
    if fine:
        yield f"<h2>Hosts that are ok</h2>\n<p>{html.escape(_shown(', '.join(folded(fine))))}</p>\n"


def _keys(host: Host) -> str:
    return ", ".join(dict.fromkeys(finding.key for finding in host.bad))


def _hosts(names: list[str]) -> str:
    return f"{len(names)}: {few(names, _NAMES)}"


def _table(title: str, head: tuple[str, ...], rows: list[tuple[str | None, ...]]) -> Iterator[str]:
    yield f"<h2>{html.escape(title)}</h2>\n"
    if not rows:
        yield "<p>none</p>\n"
        return
    yield "<table>\n<thead><tr>" + "".join(f'<th scope="col">{name}</th>' for name in head)
    yield "</tr></thead>\n<tbody>\n"
    for row in rows:
        cells = "".join(_cell(cell or "") for cell in row)
        yield f"<tr>{cells}</tr>\n"
    yield "</tbody>\n</table>\n"


def _cell(text: str) -> str:
    kind = ' class="value"' if len(text) > _LONG else ""
    return f"<td{kind}>{html.escape(_shown(text))}</td>"


def _shown(text: str) -> str:
    """Without what a browser would not show, or that turns the direction of what follows."""
    return "".join(char if char.isprintable() or char in "\n\t" else f"\\u{ord(char):04x}" for char in text)
