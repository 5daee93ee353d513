# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Shape of a fabric: each leaf serves one rail, and all leaves have the same uplinks.

In a rail-optimized fabric, rail n of all nodes of a pod ends at one leaf, so its collectives pass one switch.
A cable in another rail's leaf works, but sends that node's traffic over the spines.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from typing import Iterable, Mapping, Sequence

from ...model.errors import listed
from ...model.record import NamedTuple, replace
from ..model import Check, Subject, Verdict
from .reports import Port

RAILS, UPLINKS = "leaf_rails", "uplinks"

_RAIL_ADVICE = "move the cable to the leaf of its rail, or name the device after its rail: names are compared"
_UPLINK_ADVICE = "look at the cables and ports between this leaf and the switches above"
_UNREAD_ADVICE = "look at the links of this leaf (links), and at the version of infiniband-diags"
_SILENT_ADVICE = "look at what is behind the silent ports of this leaf (links)"
_RATIO_ADVICE = (
    "add cables to the switches above, bring back those that are down or slow, or declare the ratio that "
    "this fabric was built with (oversubscription)"
)

#: Ratios of down to up for a leaf of a training fabric. A randomly placed ring or tree over all nodes crosses
#: the leaves with most of its links and gets 1/ratio of a NIC's rate. Overlap with computation may hide a
#: half, at 2:1, but not a quarter, at 4:1
USUAL, NEVER = 2.0, 4.0
#: Least share of the others' bandwidth, as for the traffic of uplinks (balance.LEAST): routing differs by a
#: fifth as well
LEAST = 0.8
#: As LEAST, for a leaf whose ratio is good because it has fewer nodes as well: one for storage may be built
#: with half of the others' cables
HALF = 0.5
#: Several leaves that are alike count as damage up to this share of all; more of them are another kind by
#: design, such as a storage block
FEW = 0.25
_NAMED = 4


class End(NamedTuple):
    """Port of a node, by its device, at a port of a leaf. port: its GUID and number, if known."""

    leaf: str
    node: str
    device: str
    port: Port | None = None

    def __str__(self) -> str:
        name = f"{self.node} {self.device}".strip()
        return f"{name} 0x{self.port.guid}/{self.port.number}".strip() if self.port else name


def rails(ends: Iterable[End], target: str, source: str) -> list[Check]:
    """Ports that are cabled to the leaf of another rail, judged by the other ports of that leaf."""
    subject = Subject(RAILS, target, source, bad=Verdict.WARN)
    leaves: dict[str, list[End]] = {}
    for end in ends:
        leaves.setdefault(end.leaf, []).append(end)
    devices = {end.device for several in leaves.values() for end in several}
    if len(devices) < 2 or len(leaves) < 2:
        evidence = f"leaves: {len(leaves)}, devices of a node: {len(devices)}: no rails to compare"
        return [subject.skip(evidence)]
    main = {leaf: _main(several) for leaf, several in leaves.items()}
    by_rail = [leaf for leaf, device in main.items() if device]
    if len(by_rail) * 2 <= len(leaves):
        mixed = len(leaves) - len(by_rail)
        evidence = f"{mixed} of {len(leaves)} leaves serve several rails alike: not built by rails"
        return [subject.skip(evidence)]
    checks = []
    for leaf in by_rail:
        astray = [str(end) for end in leaves[leaf] if end.device != main[leaf]]
        if astray:
            evidence = f"{len(leaves[leaf]) - len(astray)} of {main[leaf]}, and {listed(astray, _NAMED)}"
            about = replace(subject, target=leaf, expected=f"{main[leaf]} alone", advice=_RAIL_ADVICE)
            checks.append(about.judged(False, evidence))
    return checks or [subject.judged(True, f"{len(by_rail)} of {len(leaves)} leaves serve one rail each")]


def _main(ends: Sequence[End]) -> str:
    """The device of more than half of a leaf's ports; "" if there is none."""
    device, number = Counter(end.device for end in ends).most_common(1)[0]
    return device if number * 2 > len(ends) else ""


class Leaf(NamedTuple):
    """A switch with nodes: Gb/s down to them, and up by the switch at the other end, for each cable.

    unread: texts of the links whose speed is not known. silent: Gb/s of ports without an answer, to nodes or
    to switches. above: the part of them that is taken for cables to switches.
    """

    name: str
    down: float
    up: Mapping[str, Sequence[float]]
    unread: Sequence[str] = ()
    silent: float = 0.0
    above: float = 0.0

    @property
    def gbits_up(self) -> float:
        return sum(sum(several) for several in self.up.values()) + self.above

    @property
    def ratio(self) -> float:
        """Ratio of down to up, rounded as it is shown."""
        return round(self.down / self.gbits_up, 2) if self.gbits_up else math.inf

    def __str__(self) -> str:
        return f"{self.down:g} Gb/s down, {self.gbits_up:g} up ({self.ratio:g}:1)"


def uplinks(leaves: Sequence[Leaf], subject: Subject, intended: float | None = None) -> list[Check]:
    """Leaves with a high ratio of bandwidth down to bandwidth up, and leaves with unevenly spread cables.

    The ratio must not exceed the limit, nor the ratio of the others (_others). intended: the declared limit;
    without one USUAL and NEVER apply. A leaf with a link of unknown speed is unknown.
    """
    if not any(leaf.up or leaf.unread or leaf.silent for leaf in leaves):
        return [subject.skip(f"leaves: {len(leaves)}, and no switch above")]
    known = [leaf for leaf in leaves if not leaf.unread]
    usual = _others(known)
    checks = []
    for leaf in known:
        judged = _judged(leaf, usual.get(leaf.name, ""), subject, intended)
        checks += _silent(leaf, known, subject, intended) if leaf.silent else judged
    for leaf in leaves:
        if leaf.unread:
            evidence = f"{len(leaf.unread)} links: {listed(leaf.unread, 1)}"
            checks.append(subject.unknown(evidence, target=leaf.name, advice=_UNREAD_ADVICE))
    ratios = sorted({leaf.ratio for leaf in known})
    evidence = f"leaves: {len(leaves)}, down to up {listed([f'{ratio:g}:1' for ratio in ratios], _NAMED)}"
    worst = _worst(known)
    evidence += "".join(f", {words}" for words in worst.values())
    if checks and worst.keys() - {check.target for check in checks}:
        checks.append(subject.skip(evidence))
    return checks or [subject.judged(True, evidence, expected=_limit(intended)[1])]


def _worst(leaves: Sequence[Leaf]) -> dict[str, str]:
    """Name of the leaf with the highest ratio, and of one with fewer uplinks → words; none if alike."""
    worst = {}
    least = min(leaves, key=lambda leaf: leaf.gbits_up, default=None)
    if least and least.gbits_up < LEAST * statistics.median(leaf.gbits_up for leaf in leaves):
        worst[least.name] = f"the least up at {least.name}: {least}"
    highest = max(leaves, key=lambda leaf: leaf.ratio, default=None)
    if highest and any(leaf.ratio != highest.ratio for leaf in leaves):
        worst[highest.name] = f"the highest at {highest.name}: {highest}"
    return worst


def _few_up(leaves: Sequence[Leaf]) -> dict[str, str]:
    """Expected bandwidth up of a few leaves with less than HALF of the others' (median), as text."""
    expected = {}
    for leaf in leaves:
        up = statistics.median([other.gbits_up for other in leaves if other is not leaf] or [0.0])
        if leaf.gbits_up < up * HALF:
            expected[leaf.name] = f"half of {up:g} Gb/s up or more, the median of the others, unless built so"
    return expected if len(expected) == 1 or len(expected) <= len(leaves) * FEW else {}


def _others(leaves: Sequence[Leaf]) -> dict[str, str]:
    """Expected ratio, or bandwidth up (_few_up), of each leaf that stands out from the others, as text.

    If most leaves have one ratio, any higher one stands out. Without a majority, leaves differ by design or
    by lost links, and only a few stand out: a leaf with less than LEAST of both the bandwidth up and the
    share per node that the others have (medians), unless more than FEW of the leaves are as bad.
    """
    ratio, votes = Counter(leaf.ratio for leaf in leaves).most_common(1)[0] if leaves else (0.0, 0)
    if votes * 2 > len(leaves):
        words = f"{ratio:g}:1, as {votes} of {len(leaves)} leaves have"
        return {**_few_up(leaves), **{leaf.name: words for leaf in leaves if leaf.ratio > ratio}}
    expected = _few_up(leaves)
    for leaf in leaves:
        others = [other for other in leaves if other is not leaf]
        usual = statistics.median(other.ratio for other in others)
        up = statistics.median(other.gbits_up for other in others)
        alike = sum(other.ratio >= leaf.ratio * LEAST for other in others)
        low = usual < leaf.ratio * LEAST and leaf.gbits_up < up * LEAST
        if low and (not alike or alike + 1 <= len(leaves) * FEW):
            expected[leaf.name] = f"{usual:g}:1 and {up:g} Gb/s up, the medians of the other leaves"
    return expected


def _silent(leaf: Leaf, leaves: Sequence[Leaf], subject: Subject, intended: float | None) -> list[Check]:
    """Check of a leaf with silent ports to nodes or to switches; unknown if that changes the verdict."""
    both = []
    for seen in (leaf._replace(down=leaf.down + leaf.silent), leaf._replace(above=leaf.silent)):
        usual = _others([seen if other is leaf else other for other in leaves])
        both.append(_judged(seen, usual.get(leaf.name, ""), subject, intended))
    verdicts = [[check.verdict for check in judged] for judged in both]
    if verdicts[0] == verdicts[1]:
        return both[0]
    evidence = f"{leaf}, without ports of {leaf.silent:g} Gb/s that do not answer"
    return [subject.unknown(evidence, target=leaf.name, advice=_SILENT_ADVICE)]


def _limit(intended: float | None) -> tuple[float, str]:
    """The highest accepted ratio, and its text."""
    return (USUAL, f"at most {USUAL:g}:1") if intended is None else (intended, f"{intended:g}:1, as declared")


def _judged(leaf: Leaf, usual: str, subject: Subject, intended: float | None) -> list[Check]:
    """One check of a leaf, with all its deviations. usual: ratio of the others, if the leaf stands out."""
    limit, words = _limit(intended)
    evidence, expected, advice = str(leaf), [], ""
    verdict = Verdict.WARN
    if leaf.ratio > limit:
        expected.append(words)
        advice = _RATIO_ADVICE
        if intended is not None or leaf.ratio >= NEVER:
            verdict = Verdict.FAIL
    cables = {spine: len(several) for spine, several in sorted(leaf.up.items())}
    if usual:
        expected.append(usual)
        advice = _UPLINK_ADVICE
    # A difference of one is even: seven cables to two spines are split four to three.
    elif cables and max(cables.values()) - min(cables.values()) > 1:
        expected.append("as many cables to each")
        evidence += "; " + ", ".join(f"{count} to {spine}" for spine, count in cables.items())
        advice = advice or _UPLINK_ADVICE
    if not expected:
        return []
    return [subject.made(verdict, evidence, target=leaf.name, expected="; ".join(expected), advice=advice)]
