# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What has gone, come and moved in an InfiniBand subnet since it was kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Iterator, Mapping

from .checks.model import Verdict
from .subnet import End, Fabric, Link

_ACCEPT = "if it was meant, accept it with baseline: reset"

Label = Callable[[End], str]


@dataclass(frozen=True)
class Change:
    """verdict: gone and moved fail, new warns, as a fleet grows. was, now: in words."""

    target: str
    verdict: Verdict
    was: str
    now: str
    advice: str = _ACCEPT


def by_end(fabric: Fabric, links: Mapping[tuple[str, int], Link]) -> dict[End, Link] | None:
    """Each port of iblinkinfo by its node; None where it knows nothing of an end of a cable."""
    found = {End(fabric.owners.get(guid, guid), number): link for (guid, number), link in links.items()}
    return found if all(end in found for end in fabric.ends) else None


def changes(
    was: Fabric, now: Fabric, name: Callable[[str], str], ports: Mapping[End, Link]
) -> Iterator[Change]:
    """name: what people call a node. ports: as iblinkinfo sees them, empty if it could not look."""

    def label(end: End) -> str:
        return f"{name(end.node)}/{end.port}"

    for guid in sorted({*was.nodes} - {*now.nodes}):
        yield _gone(was, now, guid, name, label)
    for guid in sorted({*now.nodes} - {*was.nodes}):
        places = [label(other) for one, other in sorted(now.ends.items()) if one.node == guid]
        where = f"new, at {', '.join(places)}" if places else "new"
        yield Change(name(guid), Verdict.WARN, f"no such {now.nodes[guid].kind}", where)
    for one, other in was.cables:
        if one.node in now.nodes and other.node in now.nodes and now.ends.get(one) != other:
            yield _lost(one, other, now, label, ports)
    for one, other in now.cables:
        known = one.node in was.nodes and other.node in was.nodes
        if known and one not in was.ends and other not in was.ends:
            yield Change(f"{label(one)} - {label(other)}", Verdict.WARN, "no cable", "new")


def _gone(was: Fabric, now: Fabric, guid: str, name: Callable[[str], str], label: Label) -> Change:
    kind = was.nodes[guid].kind
    places = []
    for other in (other for one, other in sorted(was.ends.items()) if one.node == guid):
        here = now.ends.get(other)
        words = f", where {label(here)} is now" if here else ""
        places.append(f"{label(other)}{words}")
    where = f"the {kind} is gone from {'; '.join(places)}" if places else f"the {kind} is gone"
    advice = f"look whether it is powered and its cables are plugged; {_ACCEPT}"
    return Change(name(guid), Verdict.FAIL, "is there", where, advice)


def _lost(one: End, other: End, now: Fabric, label: Label, ports: Mapping[End, Link]) -> Change:
    target = f"{label(one)} - {label(other)}"
    others = [(end, now.ends.get(end)) for end in (one, other)]
    elsewhere = [f"{label(end)} goes to {label(there)}" for end, there in others if there is not None]
    if elsewhere:
        advice = f"put it back; {_ACCEPT}"
        return Change(target, Verdict.FAIL, "this cable", f"moved: {', '.join(elsewhere)}", advice)
    states = [
        f"{label(end)} is {ports[end].state}/{ports[end].physical}" for end in (one, other) if end in ports
    ]
    words = f"gone: {', '.join(states)}" if states else "gone"
    advice = f"look at the cable, and whether both ports are enabled (ibportstate); {_ACCEPT}"
    return Change(target, Verdict.FAIL, "this cable", words, advice)
