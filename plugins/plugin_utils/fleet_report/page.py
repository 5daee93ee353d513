# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The report as a self-contained HTML page, with a script that only filters.

Findings with one cause on the same hosts are one group, in the order of the terminal's table.
"""

from __future__ import annotations

import base64
import hashlib
import html
import pathlib
import string
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple
from xml.etree.ElementTree import Element

from ...module_utils._mlnode.model.values import by_key
from ...module_utils._mlnode.model.version import VERSION
from . import effects, jobs, pairs, repair
from .elements import Child, embedded, make, shown, table, text
from .finding import BAD, NEITHER, SEVERITIES, Finding
from .model import SILENT, STATES, Fleet, causes
from .names import few
from .table import classes, headline, merged

_FOLDER = pathlib.Path(__file__).parent

#: Host names listed in the line of a group, in its details, and next to one of its values
_LINE, _NAMES, _BESIDE = 3, 200, 20

#: Values and settings that the details of one group list
_PARTS = 100

#: Ranks among the severities: a lost host comes before all of them, an unchecked one after everything that is
#: not right. Ignored, absent and correct settings come last, and are folded up.
_RANKS = {"unreachable": -3, "failed": -2, "never answered": -1, "not checked": 3}
_IGNORED, _ABSENT, _RIGHT = 4, 5, 6

_FOLDED = {
    _IGNORED: "Ignored until a date",
    _ABSENT: "Not there, or not applicable",
    _RIGHT: "As expected",
}

#: Signs next to a word, for readers who do not see colours
_SIGNS = {
    "warn": "!",
    "overridden": "↑",
    "pending": "↻",
    "pending_reboot": "↻",
    "refused": "⊘",
    "unknown": "?",
    "changed": "+",
}

#: Fields of a finding → their labels; the first ones are shown even if missing
_LAYERS = ("declared", "want", "runtime", "boot")
_MORE = {"boot_source": "boot from", "origin": "before us", "path": "path", "ignored": "ignored"}


class Group(NamedTuple):
    """One item of the page. tags: statuses with their look. findings: each with its hosts; none of a whole
    host. repair: the command for all of it."""

    rank: int
    tags: tuple[tuple[str, str], ...]
    title: str
    why: str
    hosts: Sequence[str]
    findings: Sequence[tuple[Finding, Sequence[str]]] = ()
    repair: str = ""


def lines(fleet: Fleet) -> Iterator[str]:
    """The page, in pieces."""
    style, script, body = (
        (_FOLDER / name).read_text(encoding="utf-8") for name in ("page.css", "page.js", "page.html")
    )
    places = _Places(fleet)
    groups = [*_lost(fleet), *_wrong(fleet), *_others(fleet)]
    groups.sort(key=lambda group: (group.rank, len(group.hosts)))
    title = shown(f"Fleet report: {headline(fleet)}")
    # Nothing is fetched, and nothing is run but this script: the browser itself sees to it.
    policy = f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'"
    yield string.Template(body).substitute(
        policy=policy,
        title=html.escape(title),
        headline=html.escape(shown(f"{headline(fleet)}, {fleet.ended}")),
        merged="".join(text(make("p", line, class_="faint")) for line in merged(fleet)),
        severities=_options((str(at), _worse(at)) for at in range(len(SEVERITIES))),
        statuses=_options((word, word) for word in {tag: 0 for group in groups for tag, _look in group.tags}),
        groups=_options((places.ranges(names), name) for name, names in _inventory(fleet).items()),
        found="".join(text(_element(group, places)) for group in groups if group.rank < _IGNORED),
        folded="".join(map(text, _folded(groups, places))),
        hosts=text(_hosts(fleet, places)),
        jobs="".join(map(text, jobs.sections(fleet.jobs, places.ranges, _tag))),
        pairs="".join(
            text(section)
            for campaign in fleet.campaigns
            for section in pairs.sections(campaign, places.ranges)
        ),
        effects="".join(text(effects.section(effect)) for effect in fleet.effects),
        version=VERSION,
        names=embedded([host.name for host in fleet.ordered()]),
        style=style,
        script=script,
    )


class _Places:
    """Numbers of hosts, in the order of their names, as the script reads them."""

    def __init__(self, fleet: Fleet) -> None:
        self._at = {host.name: at for at, host in enumerate(fleet.ordered())}
        self.total = len(self._at)

    def ranges(self, names: Iterable[str]) -> str:
        """Such as `0-39,44`."""
        runs: list[list[int]] = []
        for at in sorted(self._at[name] for name in names):
            if runs and at == runs[-1][-1] + 1:
                runs[-1][1:] = [at]
            else:
                runs.append([at])
        return ",".join("-".join(map(str, run)) for run in runs)


def _digest(content: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()


# -- what is shown ----------------------------------------------------------------------------------------


def _lost(fleet: Fleet) -> Iterator[Group]:
    """Hosts about which nothing is known."""
    for (state, words), names in fleet.troubles().items():
        rank = _RANKS[state]
        tag = (state, "high" if rank < 0 else "none")
        yield Group(rank, (tag,), "the whole host", words or SILENT.get(state, "no reason was given"), names)


def _wrong(fleet: Fleet) -> Iterator[Group]:
    """A group for each cause."""
    by_setting: dict[tuple[str, str], list[tuple[Finding, list[str]]]] = {}
    for finding, names in fleet.alike(lambda finding: finding.bad):
        by_setting.setdefault((finding.kind, finding.key), []).append((finding, names))
    for items in causes(fleet.outliers()):
        findings = [pair for item in items for pair in by_setting[item.kind, item.key]]
        first, more = items[0], len(items) - 1
        whys = {finding.why for finding, _names in findings}
        yield Group(
            SEVERITIES.index(min((item.severity for item in items), key=SEVERITIES.index)),
            _tags(finding for finding, _names in findings),
            f"{first.key} and {more} more" if more else first.key,
            whys.pop() if len(whys) == 1 else f"{len(whys)} reasons",
            first.hosts,
            findings,
            repair.together([finding for finding, _names in findings], first.hosts, len(fleet.hosts)),
        )


def _others(fleet: Fleet) -> Iterator[Group]:
    """A group for each setting and status that needs no repair."""
    by_state: dict[tuple[str, str, str], list[tuple[Finding, list[str]]]] = {}
    for finding, names in fleet.alike(lambda finding: not finding.bad):
        by_state.setdefault((finding.kind, finding.key, finding.state), []).append((finding, names))
    for (_kind, key, _state), findings in by_state.items():
        hosts = [name for _finding, names in findings for name in names]
        whys = {finding.why for finding, _names in findings}
        tags = _tags(finding for finding, _names in findings)
        yield Group(_rank(findings[0][0]), tags, key, whys.pop() if len(whys) == 1 else "", hosts, findings)


def _rank(finding: Finding) -> int:
    if finding.bad:
        return SEVERITIES.index(finding.severity)
    if finding.state == "ignored":
        return _IGNORED
    return _ABSENT if finding.status in NEITHER else _RIGHT


def _tags(findings: Iterable[Finding]) -> tuple[tuple[str, str], ...]:
    """Each status once, in the look of the first finding that has it."""
    looks = {_IGNORED: "ignored", _ABSENT: "none", _RIGHT: "ok"}
    tags: dict[str, str] = {}
    for finding in findings:
        tags.setdefault(finding.state, looks.get(_rank(finding), finding.severity))
    return tuple(tags.items())


def _inventory(fleet: Fleet) -> dict[str, list[str]]:
    """Group of the inventory → its hosts."""
    members = by_key((group, host.name) for host in fleet.ordered() for group in host.groups)
    return dict(sorted(members.items()))


def _worse(at: int) -> str:
    return f"{SEVERITIES[at]} and worse" if at else SEVERITIES[at]


def _options(pairs: Iterable[tuple[str, str]]) -> str:
    return "".join(text(make("option", title, value=value)) for value, title in pairs)


# -- how it is shown --------------------------------------------------------------------------------------


def _element(group: Group, places: _Places) -> Element:
    severity = SEVERITIES[group.rank] if group.rank in range(len(SEVERITIES)) else ""
    said = [_values(group.findings[0][0])] if len(group.findings) == 1 else []
    summary = make(
        "summary",
        make("span", *(_tag(word, look) for word, look in group.tags), severity, class_="tags"),
        make("span", group.title, class_="title"),
        make("span", f"{len(group.hosts):,} of {places.total:,}", class_="count"),
        make("span", few(group.hosts, _LINE), class_="hosts"),
        make("span", "; ".join(filter(None, [*said, group.why])), class_="why"),
    )
    return make(
        "details",
        summary,
        _details(group),
        _parts(group, places),
        class_="group",
        data_rank=group.rank,
        data_status="|".join(word for word, _look in group.tags),
        data_hosts=places.ranges(group.hosts),
    )


def _tag(word: str, look: str) -> Element:
    sign = _SIGNS.get(word, "≠" if word in BAD else "")
    return make("span", f"{sign} {word}".strip(), class_=f"tag {look}")


def _details(group: Group) -> Element:
    """Host names and values. A group with a single finding has its values."""
    pairs: list[tuple[str, str | None]] = []
    if len(group.findings) == 1:
        [(finding, _names)] = group.findings
        if finding.declared is not None:  # a setting: a missing layer is information too
            pairs += [(name, _said(getattr(finding, name))) for name in _LAYERS]
        else:
            pairs += [(name, getattr(finding, name)) for name in _LAYERS]
        pairs += [(title, getattr(finding, name)) for name, title in _MORE.items()]
    pairs += [("why", group.why), ("repair", group.repair), ("hosts", few(group.hosts, _NAMES))]
    children: list[Child] = []
    for name, value in pairs:
        if value:
            children += [make("dt", name), make("dd", value, class_=name.partition(" ")[0])]
    return make("dl", *children)


def _said(value: str | None) -> str:
    return "–" if value is None else value or '""'


def _values(finding: Finding) -> str:
    """Such as `want 1, runtime 60`; the boot layer, if it brings something else."""
    values = [(name, getattr(finding, name)) for name in ("want", "runtime")]
    values += [("boot", finding.boot)] if finding.boot != finding.want else []
    return ", ".join(f"{name} {_said(value)}" for name, value in values if value is not None)


def _parts(group: Group, places: _Places) -> Element | None:
    """Each finding of several with its values, and with its setting, hosts and reason if they differ."""
    if len(group.findings) < 2:
        return None
    keys = {finding.key for finding, _names in group.findings}
    whys = {finding.why for finding, _names in group.findings}
    parts = []
    for finding, names in group.findings[:_PARTS]:
        key = make("strong", finding.key, " ") if len(keys) > 1 else None
        hosts = f"{few(names, _BESIDE)} " if len(names) < len(group.hosts) else ""
        said = "; ".join(filter(None, [_values(finding), finding.why if len(whys) > 1 else ""]))
        about = make("strong", hosts, class_="hosts") if hosts else None
        parts.append(make("li", key, about, said, data_hosts=places.ranges(names)))
    rest = len(group.findings) - _PARTS
    return make("ul", *parts, make("li", f"and {rest:,} more") if rest > 0 else None)


def _folded(groups: Sequence[Group], places: _Places) -> Iterator[Element]:
    for rank, title in _FOLDED.items():
        elements = [_element(group, places) for group in groups if group.rank == rank]
        if elements:
            yield make("details", make("summary", f"{title} ({len(elements):,})"), *elements, class_="more")


def _hosts(fleet: Fleet, places: _Places) -> Element:
    """Hosts that are alike share a row, as in the terminal's table."""
    areas, rows = classes(fleet.ranked())
    elements = []
    for (state, worst, *cells), names in rows.items():
        look = worst or ("ok" if state == "ok" else "high" if state in STATES[:3] else "none")
        elements.append(
            make(
                "tr",
                make("td", f"{len(names):,}"),
                make("td", _tag(state, look)),
                *(make("td", str(cell), class_=cell.look(worst)) for cell in cells),
                make("td", few(names, _NAMES), class_="hosts"),
                data_hosts=places.ranges(names),
                class_="alike",
            )
        )
    return table(("hosts", "state", *areas, "names"), elements)
