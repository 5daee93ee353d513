# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kind rail: NICs of one node in the same networks. Each answers for its own addresses only, and what
comes from an address leaves through its NIC (Documentation/networking/ip-sysctl.rst, ip-rule(8)).

A NIC that arrives has the kernel's defaults, and routes go with its addresses: the agent re-applies the
rules, at boot, once the network is up, and when a NIC arrives.
"""

from __future__ import annotations

from typing import Callable, Mapping, Sequence

from .. import sysctl_d
from ..errors import HostError
from ..facts import Facts
from ..host import Host
from ..kind import Context, Info, Row, Spec
from ..policy_routes.tables import NONE
from ..setting import Boot, BootFile, Part, Reading, Setting, Value
from ..status import Severity
from . import rail_files, rail_parse, rail_places, rail_routes, rules
from .nic_files import Files
from .rail_parse import KIND, ROUTING, VALUES, RailSetting, path_of
from .together import Together

__all__ = ["KIND", "boot_files", "info", "mentions", "parse", "read", "rivals"]


def parse(spec: Spec, facts: Facts | None) -> list[Setting]:
    """Settings in the order in which they are applied. Raises DeclarationError."""
    del facts  # a rule is read against the interfaces in read(), whatever becomes of it
    return rail_parse.parse(spec)


def read(settings: Sequence[Setting], context: Context) -> list[Reading]:
    """One reading per setting. Raises DeclarationError where two rules want one file to be different."""
    mine = [item for item in settings if isinstance(item, RailSetting)]
    if not context.runtime:
        return [Reading(item.path, Value(), context.boot_by_agent(item, None)) for item in mine]
    readings = [_read(item, context) for item in mine]
    rules.refuse_overlap(
        context,
        [
            *((context.name, item, reading) for item, reading in zip(mine, readings)),
            *(
                (name, item, _read(item, there))
                for name, item, there in rules.of_others(context, KIND, rail_parse.parse)
                if isinstance(item, RailSetting)
            ),
        ],
    )
    return readings


# -- one setting ---------------------------------------------------------------------------


def _read(setting: RailSetting, context: Context) -> Reading:
    host = context.host
    places = rail_places.find(host, setting.rule.nics)
    if not places.targets:
        return Reading(setting.path, places.problem, context.boot_by_agent(setting, None))
    alone = len(places.targets) == 1
    found = [rail_files.of(host, setting, target, alone, context.allow) for target in places.targets]
    together = Together(found, _text)
    boot, hints = _boot(setting, context, found, together.target)
    notes = [*together.notes, *places.notes, *hints]
    return together.reading(setting.path, boot, context.origins, notes, [_shared(found)])


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


def _shared(found: Sequence[Files]) -> str:
    """Two interfaces with one table would take each other's way."""
    users: dict[int, list[str]] = {}
    for one in found:
        for number in sorted({part.number for part in one.parts if part.number and part.want != NONE}):
            users.setdefault(number, []).append(one.label)
    for number, labels in users.items():
        if len(labels) > 1:
            return f"{', '.join(labels)} are of one rail, and would share the table {number}: name only one"
    return ""


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


# -- the rest of a kind --------------------------------------------------------------------


def boot_files(name: str, rows: Sequence[Row], context: Context) -> list[BootFile]:
    """None: a line for an interface says nothing of one that is called otherwise after a change of cards."""
    del name, rows, context
    return []


def rivals(key: str, other: str) -> bool:
    """Never by their names alone: read() compares the files that two rules want."""
    del key, other
    return False


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
