# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kind rail: NICs of one node in the same networks. Each answers for its own addresses only, and what
comes from an address leaves through its NIC (Documentation/networking/ip-sysctl.rst, ip-rule(8)).

A NIC that arrives has the kernel's defaults, and routes go with its addresses: the agent re-applies the
rules, at boot, once the network is up, and when a NIC arrives.
"""

from __future__ import annotations

from typing import Callable, Mapping, NamedTuple, Sequence

from .. import ethtool, policy_routes, sysctl_d
from ..errors import DeclarationError, HostError
from ..host import Host, Mounts
from ..kind import Context, Facts, Info, Spec, WayBack, no_facts, no_rivals
from ..policy_routes.tables import NONE
from ..setting import Boot, Part, Reading, Setting, Severity, Value
from . import rail_files, rail_parse, rail_places, rail_routes, rules
from .nic_files import Files
from .rail_parse import KIND, ROUTING, RailSetting, path_of
from .rail_places import Places
from .rail_schema import VALUES
from .together import Together

__all__ = [
    "KIND", "MOUNTS", "boot_files", "facts", "info", "mentions", "parse", "read", "rivals", "way_back",
]  # fmt: skip

MOUNTS: Mounts = {policy_routes.TOP: policy_routes.driver, ethtool.TOP: ethtool.driver}


def parse(spec: Spec, facts: Facts | None) -> list[Setting]:
    """Settings in the order in which they are applied. Raises DeclarationError."""
    del facts  # a rule is read against the interfaces in read(), whatever becomes of it
    return rail_parse.parse(spec)


def read(settings: Sequence[Setting], context: Context) -> list[Reading]:
    """One reading per setting. Raises DeclarationError where two rules want one file to be different."""
    mine = [item for item in settings if isinstance(item, RailSetting)]
    if not context.runtime:
        return [Reading(item.path, Value(), context.boot_by_agent(item, None)) for item in mine]
    others = [
        _look(name, item, there)
        for name, item, there in rules.of_others(context, KIND, rail_parse.parse)
        if isinstance(item, RailSetting)
    ]
    looks = [*(_look(context.name, item, context) for item in mine), *others]
    _refuse_two_tables(context, looks)
    _leave_to_new_owners(looks)
    reads = [(look.name, look.setting, _reading(look)) for look in looks]
    rules.refuse_overlap(context, reads)
    return rules.said_once(mine, [reading for _name, _setting, reading in reads[: len(mine)]], info)


# -- one setting ---------------------------------------------------------------------------


class _Look(NamedTuple):
    """A setting, who declares it, and what its interfaces bring."""

    name: str
    setting: RailSetting
    context: Context
    places: Places
    found: Sequence[Files]


def _look(name: str, setting: RailSetting, context: Context) -> _Look:
    host = context.host
    places = rail_places.find(host, setting.rule.nics)
    alone = len(places.targets) == 1
    found = [rail_files.of(host, setting, target, alone, context.allow) for target in places.targets]
    _tell_shared(found)
    return _Look(name, setting, context, places, found)


def _reading(look: _Look) -> Reading:
    setting, context, found = look.setting, look.context, look.found
    if not found:
        return rules.unread(setting, look.places, context)
    together = Together(found, _text)
    boot, hints = _boot(setting, context, found, together.target)
    return together.reading(
        setting.path, boot, context.origins, [*together.notes, *look.places.notes, *hints]
    )


def _boot(
    setting: RailSetting, context: Context, found: Sequence[Files], target: str
) -> tuple[Boot, list[str]]:
    """What the next boot brings, and what else is to be known of it."""
    boot = context.boot_by_agent(setting, target)
    try:
        if setting.group == ROUTING:
            words = rail_routes.note(context.host)
        else:
            names = [one.target.name for one in found]
            words, beats = rail_files.at_boot(context.host, setting, names)
            if beats is not None:
                boot = Boot(Value(text=f"{beats.text} and so overrules it"), beats.where, foreign=True)
    except HostError as error:  # files that are only looked at for a hint
        words = str(error)
    return boot, [words] if words else []


def _text(parts: Sequence[Part], value: Callable[[Part], str]) -> str:
    found: dict[int, dict[str, str]] = {}
    for part in parts:
        found.setdefault(part.number, {})[part.path.rpartition("/")[2]] = value(part)
    return ", ".join(_table(number, texts) for number, texts in found.items())


def _table(number: int, texts: Mapping[str, str]) -> str:
    if not number:  # of a knob
        return "".join(texts.values())
    if {*texts.values()} == {NONE}:
        return f"nothing in table {number}"
    return (
        f"table {number} {texts['rules'] if texts['rules'] != NONE else 'without a rule'}: {texts['routes']}"
    )


# -- who has which table -------------------------------------------------------------------


def _tables(one: Files) -> list[int]:
    """Those that are to have the routes of an interface."""
    return sorted({part.number for part in one.parts if part.number and part.want != NONE})


def _tell_shared(found: Sequence[Files]) -> None:
    """Two interfaces with one table would take each other's way: as it depends on their addresses, it is a
    problem of theirs, and of no other NIC."""
    users: dict[int, list[Files]] = {}
    for one in found:
        for number in _tables(one):
            users.setdefault(number, []).append(one)
    for number, those in users.items():
        if len(those) < 2:
            continue
        labels = ", ".join(one.label for one in those)
        for one in those:
            one.problems.append(
                f"{labels} are of one rail, and would share the table {number}: name only one"
            )
            one.parts = []


def _refuse_two_tables(context: Context, looks: Sequence[_Look]) -> None:
    """The paths of two tables are different, so nothing else sees that both are for one interface.
    Raises DeclarationError."""
    seen: dict[str, tuple[str, int]] = {}
    for look in looks:
        key = look.setting.key
        where = key if look.name == context.name else f"{key} (declared by {look.name})"
        for one in look.found:
            for number in [] if any(part.refusal for part in one.parts) else _tables(one):
                first, table = seen.setdefault(one.label, (where, number))
                if table != number:
                    raise DeclarationError(
                        f"{first} and {where} both rule {one.label}, and one wants the table {table}, the "
                        f"other {number}: let their nics not overlap"
                    )


def _leave_to_new_owners(looks: Sequence[_Look]) -> None:
    """A table that one interface leaves, and another one gets, as after a change of its number or of the
    base, is not to be emptied: what the new one writes takes the place of what is there."""
    got = {number for look in looks for one in look.found for number in _tables(one)}
    for look in looks:
        left: set[str] = set()
        for one in look.found:
            kept = []
            for part in one.parts:
                emptied = part.number > 0 and part.want == NONE
                if emptied and (part.number in got or part.path in left):
                    continue
                left.update([part.path] if emptied else ())
                kept.append(part)
            one.parts = kept


# -- the rest of a kind --------------------------------------------------------------------


#: No lines for interfaces, which say nothing of one that is called otherwise after a change of cards
boot_files = rules.management_file


#: Never by their names alone: read() compares the files that two rules want.
rivals = no_rivals
facts = no_facts


def way_back(key: str, path: str, value: str, context: Context) -> WayBack:
    """As with a declaration, nothing takes another way on the management path."""
    del key
    return WayBack(refusal=rail_files.back_refusal(context.host, path, value, context.allow))


def mentions(key: str, host: Host) -> list[str]:
    """Every line of sysctl.d that speaks of the knob, for whatever interface."""
    group = key.rpartition(".")[2]
    if group not in VALUES:
        try:
            words = rail_routes.note(host)
        except HostError as error:
            words = str(error)
        return [words] if words else []
    config = sysctl_d.load(host)
    try:
        here = host.names("/proc/sys/net/ipv4/conf")
    except HostError as error:
        return [str(error)]
    lines = {
        line.where: f"{line.where}: {line.text}"
        for name in ("all", "default", *here)
        for line in config.statements(path_of(name, group)[len("/proc/sys/") :])
    }
    return [*lines.values(), *config.unreadable]


_ARP = "Documentation/networking/ip-sysctl.rst, {}; RFC 1122, 3.3.4.2 (the weak ES model)"

_REASONS = {
    "arp_ignore": (
        Severity.HIGH,
        "with 0 a NIC answers for the addresses of all others, so that their traffic comes in on one rail",
        _ARP.format("arp_ignore"),
    ),
    "arp_announce": (
        Severity.HIGH,
        "with 0 a NIC asks with the address of another, so that peers send to the wrong rail",
        _ARP.format("arp_announce"),
    ),
    "rp_filter": (
        Severity.HIGH,
        "with 1 what comes in on one rail, and would be answered over another, is dropped without a word",
        "Documentation/networking/ip-sysctl.rst, rp_filter; RFC 3704",
    ),
    ROUTING: (
        Severity.HIGH,
        "with one table for all, answers of every rail leave through the one whose route is the first",
        "ip-rule(8), ip-route(8)",
    ),
}


def info(key: str, runtime: Value) -> Info:
    """By the group, which is the last word of the key."""
    del runtime
    return Info(*_REASONS[key.rpartition(".")[2]])
