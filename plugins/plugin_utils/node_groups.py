# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The groups of an inventory: which hosts are nodes, and which would be left alone by mistake."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ..module_utils._mlnode.model.schema import nearest
from .fleet_report.names import few, natural

#: Groups that each inventory has
_ALWAYS = ("all", "ungrouped")

#: The default is that a group of this name may be there or not.
_USUAL = ("training", "inference", "fabric")

#: Names in one message
_NAMED = 12


class Found(NamedTuple):
    """faults: each a message that stops the run. left_alone: host that no play is about → its groups."""

    faults: list[str]
    left_alone: dict[str, str]


def check(
    groups: Mapping[str, Sequence[str]],
    known: Sequence[str],
    chosen: Sequence[str],
    options: Mapping[str, Any],
) -> Found:
    """known: the groups of nodes. chosen: hosts that --limit leaves. options: see filter/node_groups.py."""
    own = {name: [*hosts] for name, hosts in groups.items() if name not in _ALWAYS}
    grouped = [host for name in known for host in own.get(name, ())]
    nodes = grouped or ([*groups.get("all", ())] if options.get("all") else [])
    single = bool(options.get("option"))
    faults = [] if single else _missing(own, known) or _misspelt(own, known, options.get("others", ()))
    faults = faults or _too_few(own, known, nodes, options)
    faults = faults or ([] if single else _both(own, options))
    faults = faults or _too_few_chosen(nodes, chosen, options)
    faults = faults or [
        f"The chosen tags are about hosts of the group `{name}` only, and it has none in this run."
        for name in options.get("needed", ())
        if not {*own.get(name, ())} & {*chosen}
    ]
    limited = options.get("limit")
    treated = {*nodes, *(host for name in options.get("also", ()) for host in own.get(name, ()))}
    strangers = [] if options.get("strangers") else [host for host in chosen if host not in treated]
    if limited and strangers and not faults:
        faults = _not_meant(str(limited), strangers, len(chosen), own, known)
    # With one selected group, all others are left alone on purpose.
    foreign = [] if single else [host for host in strangers if host != "localhost"]
    left = {host: ", ".join(_groups_of(host, own)) or "no group" for host in foreign}
    aside = {host for name in options.get("others", ()) for host in own.get(name, ())}
    return Found(faults, {host: left[host] for host in sorted(left, key=natural) if host not in aside})


def _groups_of(host: str, own: Mapping[str, Sequence[str]]) -> list[str]:
    return sorted(name for name, hosts in own.items() if host in hosts)


def _missing(own: Mapping[str, Sequence[str]], known: Sequence[str]) -> list[str]:
    missing = [name for name in known if name not in own and name not in _USUAL]
    if not missing:
        return []
    fault = (
        f"The inventory has no group {', '.join(missing)}, which mlnode_training, mlnode_inference or "
        f"mlnode_fabric names; each takes the name of one group. Groups of this inventory: {_names(own)}."
    )
    return [fault]


def _misspelt(own: Mapping[str, Sequence[str]], known: Sequence[str], others: Sequence[str]) -> list[str]:
    """Groups that nearly have the name of a known one, with hosts that are not in it."""
    likely = {
        name: near
        for name in sorted(own)
        if name not in known and name not in others and (near := nearest(name, known))
        # training_new is a different name; trainings may be a mistake.
        if not (name.startswith(near) and len(name) > len(near) + 1)
        if {*own[name]} - {*own.get(near, ())}
    }
    return [
        f"The group `{name}` ({few(sorted(own[name], key=natural), _NAMED)}) is not known here; did you mean "
        f"`{near}`? Its hosts would be left alone. If it is another group on purpose, list it in "
        f"mlnode_other_groups: [{name}]."
        for name, near in likely.items()
    ]


def _too_few(
    own: Mapping[str, Sequence[str]], known: Sequence[str], nodes: Sequence[str], options: Mapping[str, Any]
) -> list[str]:
    least, option = int(options.get("least", 1)), str(options.get("option", ""))
    if len({*nodes}) >= least:
        return []
    if option:
        near = nearest(known[0], own)
        guess = f" Did you mean `{near}`?" if near and near not in known else ""
        count = "1 host" if len({*nodes}) == 1 else f"{len({*nodes}) or 'no'} hosts"
        fault = (
            f"The group `{known[0]}` has {count} in this inventory, expected {least} or more.{guess} Give "
            f"another one with -e {option}=NAME, or another inventory with -i. Groups of this inventory: "
            f"{_names(own)}."
        )
        return [fault]
    where = "" if options.get("all") else f" in the groups that are known here ({', '.join(known)})"
    fault = (
        f"The inventory has no host{where}. Its own groups: {_names(own)}. Name one of them, as in "
        "-e mlnode_training=NAME (mlnode_inference, mlnode_fabric), or give another inventory with -i, such "
        "as inventory/example, or INVENTORY=... with make."
    )
    return [fault]


def _too_few_chosen(nodes: Sequence[str], chosen: Sequence[str], options: Mapping[str, Any]) -> list[str]:
    """Message if --limit leaves too few nodes for a measurement between nodes."""
    left, least = {*nodes} & {*chosen}, int(options.get("least", 1))
    if not options.get("limit") or not options.get("within") or not left or len(left) >= least:
        return []
    return [f"--limit {options['limit']} leaves {', '.join(left)} alone, expected {least} nodes or more."]


def _both(own: Mapping[str, Sequence[str]], options: Mapping[str, Any]) -> list[str]:
    exclusive = [*options.get("exclusive", ())]
    if not exclusive:
        return []
    group, other = exclusive
    both = [host for host in own.get(group, ()) if host in own.get(other, ())]
    fault = (
        f"In the group `{group}` and in `{other}`: {few(both, _NAMED)}. Each would undo the other's "
        "declaration. Take each host out of one of them."
    )
    return [fault] if both else []


def _not_meant(
    limit: str,
    strangers: Sequence[str],
    chosen: int,
    own: Mapping[str, Sequence[str]],
    known: Sequence[str],
) -> list[str]:
    """Hosts that --limit asks for by name, or all that it leaves, and that no play would be about."""
    parts = limit.replace(",", ":").split(":")
    named = [host for host in strangers if host in parts or len(strangers) == chosen]
    hosts = [
        f"{host} ({', '.join(_groups_of(host, own)) or 'no group'})" for host in sorted(named, key=natural)
    ]
    if not hosts:
        return []
    verb = "is" if len(hosts) == 1 else "are"
    return [
        f"--limit {limit}: {few(hosts, _NAMED)} {verb} in no group that is known here: {', '.join(known)}."
    ]


def _names(own: Mapping[str, Sequence[str]]) -> str:
    return ", ".join(sorted(own)) or "none"
