# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Balance of the uplinks of leaves, from two readings of their counters.

Each direction is judged separately: a leaf's own routes spread the traffic it sends up, and the routes of
other leaves spread the traffic it receives. A direction with an unknown part is unknown, unless the rest
proves it uneven.
"""

from __future__ import annotations

from typing import Mapping, Sequence

from ...model.errors import listed
from ...model.record import replace
from ..model import Check, Subject, Verdict
from . import traffic
from .reports import SUBNET
from .traffic import Reading, Sent

NAME = "balance"
_SUBJECT = Subject(NAME, SUBNET, "perfquery")

#: Least load of the least used uplink as a share of the busiest one, each relative to its rate. Routing by
#: destination easily differs by a fifth; with more, other links wait for one link
LEAST = 0.8

#: Seconds at full rate that the uplinks of a direction must have carried to be judged. With less, the
#: counters show management, or a few connections that may share one uplink
ENOUGH_SECONDS = 1.0

_NAMED = 4

_UNEVEN_ADVICE = (
    "look at links that were lost, at the routes (ibroute LID of the leaf; routing engine and log of the "
    "subnet manager), and whether adaptive routing is on; few large flows need more connections "
    "(NCCL_IB_QPS_PER_CONNECTION): docs/guide/slow-job.md"
)
_QUIET_ADVICE = "read the counters while a job or nccl-tests uses nodes of several leaves, and for longer"
_UNREAD_ADVICE = "run perfquery -x LID PORT by hand as root; a switch may ask for a key, or refuse this node"
_COUNTER_ADVICE = (
    "let nothing clear counters meanwhile (ibclearcounters, perfquery -r, a monitor), and repeat"
)
_ALONE_ADVICE = "look at ports of this leaf that are down, and at cables that were pulled (baseline, uplinks)"
_FLAP_ADVICE = "clean, reseat or replace the cable or transceiver, and look at the log of the subnet manager"


def checks(before: Mapping[str, Reading], after: Mapping[str, Reading]) -> list[Check]:
    """Checks of the leaves in the first reading. A leaf that is missing in one reading is unknown."""
    if not any(len(reading.cables) > 1 or reading.why for reading in before.values()):
        return [_SUBJECT.skip(f"leaves: {len(before)}, none with two ways up")]
    deviations: list[Check] = []
    judged, spans, apart = 0, [], 0.0
    for guid, first in before.items():
        last = after.get(guid)
        why = first.why or (last.why if last else "it is in the subnet no more")
        if last is None or why:
            deviations.append(_SUBJECT.unknown(why, target=first.name, advice=_UNREAD_ADVICE))
        elif len(first.cables) > 1:
            seconds = last.ended - first.begun
            bad, part = _leaf(first, last, seconds)
            deviations += bad
            judged, apart = judged + 1, max(apart, part)
            spans.append(last.begun - first.begun)
    cables = sum(len(reading.cables) for reading in before.values())
    good = f"leaves: {judged}; uplinks: {cables}, at most {apart:.0%} below the busiest of their leaf"
    good += f" in {max(spans, default=0):.1f} s"
    return deviations or [_SUBJECT.judged(True, good)]


def alone(uplinks: Mapping[str, int], most: int) -> list[Check]:
    """Leaves without two uplinks to compare, in a fabric whose other leaves have several.

    A down link shows no other end, so it is unknown whether the leaf was built this way. uplinks: number by
    name of the leaf; most: of any leaf.
    """
    alone = {name: number for name, number in uplinks.items() if number < 2 <= most}
    return [
        Subject(NAME, name, "iblinkinfo").unknown(
            f"uplinks that are up: {number}; other leaves have up to {most}", advice=_ALONE_ADVICE
        )
        for name, number in alone.items()
    ]


def _leaf(before: Reading, after: Reading, seconds: float) -> tuple[list[Check], float]:
    """Checks that deviate, and the difference between the uplinks as a share."""
    subject = replace(_SUBJECT, target=before.name)
    if seconds <= 0:
        why = "the first reading is not of this node since its boot"
        return [subject.unknown(why, advice="take both readings on one node")], 0.0
    results = []
    for words, field in (("up", "sent"), ("down", "received")):
        parts = [
            traffic.sent(cable, field, first, after.cables[cable], seconds)
            if cable in after.cables
            else Sent(cable, None, "it was not read again")
            for cable, first in before.cables.items()
        ]
        results.append(_direction(words, parts, seconds))
    lost = _lost(before, after)
    worst = Verdict.FAIL if any(direction[0] is Verdict.FAIL for direction in results) else Verdict.UNKNOWN
    bad = [direction for direction in results if direction[0] is not Verdict.PASS]
    if bad:
        evidence = "; ".join([*(words for _verdict, words, _advice, _apart in bad), *lost])
        advice = next(advice for verdict, _words, advice, _apart in bad if verdict is worst)
        expected = f"each at least {LEAST:.0%} of the busiest" if worst is Verdict.FAIL else ""
        return [subject.made(worst, evidence, expected=expected, advice=advice)], 0.0
    apart = max(apart for *_words, apart in results)
    if lost:
        return [subject.made(Verdict.WARN, "; ".join(lost), advice=_FLAP_ADVICE)], apart
    return [], apart


def _lost(before: Reading, after: Reading) -> list[str]:
    """Links that went down between the readings, as far as this is counted."""
    losses = []
    for cable, first in before.cables.items():
        last = after.cables.get(cable)
        if last and first.downed is not None and last.downed is not None and last.downed > first.downed:
            losses.append(f"{cable.label} - {cable.other_label} was lost {last.downed - first.downed} times")
    return [f"links: {listed(losses, _NAMED)}"] if losses else []


def _direction(words: str, parts: Sequence[Sent], seconds: float) -> tuple[Verdict, str, str, float]:
    """Verdict, finding, advice, and the gap between busiest and least used uplink, as a share."""
    known = [(part.number / part.cable.gbits, part) for part in parts if part.number is not None]
    unread = [part for part in parts if part.number is None]
    enough = sum(part.cable.gbits for _use, part in known) * 1e9 / 8 * ENOUGH_SECONDS
    total = sum(part.number or 0 for _use, part in known)
    busiest = max(known, key=lambda pair: pair[0], default=None)
    if busiest is not None and total >= enough:
        idle = [part for use, part in known if use < busiest[0] * LEAST]
        if idle:
            each = [_shown(part, seconds) for part in sorted(idle, key=lambda part: part.number or 0)]
            text = (
                f"{words}: the busiest is {_shown(busiest[1], seconds)}, and {len(idle)} of {len(parts)} are "
                f"more than {1 - LEAST:.0%} below: {listed(each, _NAMED)}"
            )
            return Verdict.FAIL, text, _UNEVEN_ADVICE, 1.0
        if not unread:
            return Verdict.PASS, "", "", 1 - min(use for use, _part in known) / busiest[0]
    if unread:
        each = [f"{part.cable.label} - {part.cable.other_label}: {part.why}" for part in unread]
        return Verdict.UNKNOWN, f"{words}: {listed(each, _NAMED)}", _COUNTER_ADVICE, 0.0
    text = (
        f"{words}: {total / 1e9:.3g} GB in {seconds:.1f} s, too little to judge (from {enough / 1e9:.3g} GB)"
    )
    return Verdict.UNKNOWN, text, _QUIET_ADVICE, 0.0


def _shown(part: Sent, seconds: float) -> str:
    cable, rate = part.cable, (part.number or 0) * 8 / 1e9 / seconds
    return f"{cable.label} - {cable.other_label} {rate:.3g} of {cable.gbits:g} Gb/s"
