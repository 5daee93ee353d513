# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A declaration of priorities on NICs read and checked: all that can be wrong before a machine is asked."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Any, Callable, Collection, Mapping, Sequence

from .. import options
from ..dcb import answers
from ..dcb.device import CLASSES, DSCPS
from ..errors import DeclarationError
from ..ethtool import words
from ..setting import Setting
from ..values import number_ranges
from . import nic_parse, rules, selection
from .selection import ALL, Selection

KIND = "qos"

#: What can be allowed, and what it lets through
GUARDS = {
    **nic_parse.GUARDS,
    "pfc_priorities": "PFC on more than one priority",
}

#: Groups of a rule in the order in which they are applied. Global pause goes before PFC comes; trust before
#: the map that it makes valid; a driver that sizes its buffers for PFC has done so before they are set.
GROUPS = (
    "global_pause",
    "trust",
    "dscp",
    "ets",
    "pfc",
    "buffer",
    "ecn",
    "cnp",
    "rdma_cm_tos",
    "traffic_class",
)

TRUSTS = ("dscp", "pcp")
_CNP = ("dscp", "priority")
ETS = ("prio_tc", "tc_tsa", "tc_bw")
BUFFER = ("prio_buffer", "buffer_size")

#: One byte of an IPv4 or IPv6 header: six bits of DSCP above two of ECN (RFC 2474, RFC 3168)
_BYTE = range(256)
#: struct dcbnl_buffer has 32 bits for a size
_SIZES = range(1 << 32)

_NUMBER = re.compile(r"[0-9]{1,10}\Z", re.ASCII)
_RULE = ("name", "nics", *GROUPS)


@dataclass(frozen=True)
class Rule:
    """What all settings of a rule share. given: the groups that it declares, as parsed."""

    name: str = ""
    nics: Selection = ALL
    given: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class QosSetting(Setting):
    """One knob of a rule. group: of GROUPS, and cnp_dscp and cnp_priority for cnp.

    value: as parsed; numbers of priorities for pfc and ecn, a map of both numbers for dscp. text: what is
    wanted of each file, where all of them want the same.
    """

    rule: Rule = Rule()
    group: str = ""
    value: Any = None
    text: str = ""


def parse(spec: Mapping[str, Any]) -> list[Setting]:
    """Settings in the order in which they are applied. Raises DeclarationError."""
    raw = rules.raw_rules(KIND, spec, GUARDS, "max_disruption")
    level = spec.get("max_disruption")
    if level is not None and level not in nic_parse.DISRUPTIONS:
        raise DeclarationError(
            f"{KIND}.max_disruption: {level!r} is none of {_listed(nic_parse.DISRUPTIONS)}"
        )
    found = [setting for number, rule in enumerate(raw) for setting in _settings(rule, number)]
    found.sort(key=_place)
    return rules.unique(found)


def _place(setting: QosSetting) -> int:
    return _ORDER[setting.group]


def _settings(raw: Any, number: int) -> list[QosSetting]:
    where = f"{KIND}.rules[{number}]"
    given = rules.fields(where, raw, _RULE)
    name = rules.name(where, given.get("name"))
    where = f"{KIND}.{name}"
    wanted = values(where, given)
    if not wanted:
        raise DeclarationError(f"{where}: give it at least one of {_listed(GROUPS)}")
    rule = Rule(name, selection.parse(f"{where}.nics", given.get("nics")), wanted)
    return [setting for group in GROUPS if group in wanted for setting in _of_group(rule, group)]


def values(where: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The groups that are given, as values. Raises DeclarationError, also for what contradicts itself."""
    found = {
        group: _READERS[group](f"{where}.{group}", given[group])
        for group in GROUPS
        if given.get(group) is not None
    }
    _refuse_contradictions(where, found)
    return found


#: What a check can expect of a port
EXPECTED = ("trust", "dscp", "pfc", "global_pause", "ecn", "cnp")


def expected(where: str, raw: Any) -> dict[str, Any]:
    """What is expected of a port, in the words of a rule. Raises DeclarationError."""
    given = _section(where, raw)
    options.refuse_unknown(where, given, EXPECTED)
    return values(where, given)


# -- settings ------------------------------------------------------------------------------


#: Group of a setting → its place
_ORDER = {
    name: place
    for place, group in enumerate(GROUPS)
    for name in ((group,) if group != "cnp" else ("cnp_dscp", "cnp_priority"))
}

#: Where a file of the group is; of several kinds of file the first that can be there
PATHS = {
    "global_pause": "/ethtool/*/pause/rx,tx",
    "trust": "/dcb/*/trust/state",
    "dscp": "/dcb/*/dscp-prio/*",
    "ets": "/dcb/*/ets/prio-tc,tc-tsa,tc-bw",
    "pfc": "/dcb/*/pfc/prio-pfc",
    "buffer": "/dcb/*/buffer/prio-buffer,buffer-size",
    "ecn": "/sys/class/net/*/ecn/roce_*/enable/*",
    "cnp_dscp": "/sys/class/net/*/ecn/roce_np/cnp_dscp",
    "cnp_priority": "/sys/class/net/*/ecn/roce_np/cnp_802p_prio",
    "rdma_cm_tos": "/roce/*/*/cm-tos",
    "traffic_class": "/roce/*/*/traffic-class",
}


def _of_group(rule: Rule, group: str) -> list[QosSetting]:
    value = rule.given[group]
    if group == "cnp":
        return [
            _setting(rule, f"cnp_{name}", value[name], str(value[name])) for name in _CNP if name in value
        ]
    if group == "dscp":
        return [_setting(rule, group, value, mapped(value))]
    if group == "ecn":
        return [replace(_setting(rule, group, value, answers.numbers(value)), text="1")]
    if group == "pfc":
        return [_setting(rule, group, value, answers.numbers(value))]
    if group in ("ets", "buffer"):
        return [_setting(rule, group, value, " ".join(answers.row(part) for part in value))]
    return [_setting(rule, group, value, str(value))]


def _setting(rule: Rule, group: str, value: Any, text: str) -> QosSetting:
    return QosSetting(
        kind=KIND,
        key=f"{KIND}.{rule.name}.{group}",
        path=PATHS[group],
        want=None,
        claim=f"{text} ({rule.nics})",
        rule=rule,
        group=group,
        value=value,
        text=text,
    )


def mapped(found: Mapping[int, int]) -> str:
    """`26:3 48:6`"""
    return " ".join(f"{dscp}:{found[dscp]}" for dscp in sorted(found))


# -- groups --------------------------------------------------------------------------------


def _global_pause(where: str, raw: Any) -> str:
    if isinstance(raw, bool):
        return words.switch(raw)
    if raw not in ("on", "off"):
        raise DeclarationError(f"{where}: {raw!r} is neither on nor off")
    return str(raw)


def _trust(where: str, raw: Any) -> str:
    return _word(where, raw, TRUSTS)


def _dscp(where: str, raw: Any) -> dict[int, int]:
    """DSCPs by number, or several such as 24-31; a JSON document has all of them as text."""
    found: dict[int, int] = {}
    for listed, priority in _section(where, raw).items():
        for dscp in _dscps(where, listed):
            if dscp in found:
                raise DeclarationError(f"{where}: DSCP {dscp} is there twice")
            found[dscp] = _number(f"{where}.{listed}", priority, CLASSES)
    if not found:
        raise DeclarationError(f"{where}: name at least one DSCP with its priority, such as 26: 3")
    return dict(sorted(found.items()))


def _dscps(where: str, raw: Any) -> list[int]:
    ranges = None if isinstance(raw, bool) else number_ranges(str(raw))
    if not ranges or ranges[-1][1] not in DSCPS:
        raise DeclarationError(f"{where}: {raw!r} is no DSCP from 0 to 63, nor a range such as 24-31")
    return [dscp for low, high in ranges for dscp in range(low, high + 1)]


def _priorities(where: str, raw: Any) -> tuple[int, ...]:
    if not isinstance(raw, list):
        raise DeclarationError(f"{where}: {raw!r} is no list of priorities such as [3]")
    found = {_number(where, item, CLASSES) for item in raw}
    return tuple(sorted(found))


def _ecn(where: str, raw: Any) -> tuple[int, ...]:
    found = _priorities(where, raw)
    if not found:
        raise DeclarationError(f"{where}: name at least one priority; the others are left as they are")
    return found


def _ets(where: str, raw: Any) -> tuple[Sequence[object], ...]:
    given = _whole(where, raw, ETS)
    classes = _eight(f"{where}.prio_tc", given["prio_tc"], lambda at, item: _number(at, item, CLASSES))
    tsas = _eight(f"{where}.tc_tsa", given["tc_tsa"], lambda at, item: _word(at, item, answers.TSAS))
    shares = _eight(f"{where}.tc_bw", given["tc_bw"], lambda at, item: _number(at, item, range(101)))
    for number in CLASSES:
        if shares[number] and tsas[number] != "ets":
            raise DeclarationError(
                f"{where}: traffic class {number} is {tsas[number]} and has {shares[number]} % of the "
                "bandwidth; only classes with ets share it"
            )
    wanted = 100 if "ets" in tsas else 0
    if sum(shares) != wanted:  # IEEE 802.1Q, and dcb/dcb_ets.c: dcb_ets_validate_bw
        raise DeclarationError(f"{where}.tc_bw: the shares are {sum(shares)} % together, and not {wanted} %")
    return classes, tsas, shares


def _buffer(where: str, raw: Any) -> tuple[Sequence[object], ...]:
    given = _whole(where, raw, BUFFER)
    return (
        _eight(f"{where}.prio_buffer", given["prio_buffer"], lambda at, item: _number(at, item, CLASSES)),
        _eight(f"{where}.buffer_size", given["buffer_size"], lambda at, item: _number(at, item, _SIZES)),
    )


def _cnp(where: str, raw: Any) -> dict[str, int]:
    given = _section(where, raw)
    options.refuse_unknown(where, given, _CNP)
    allowed = {"dscp": DSCPS, "priority": CLASSES}
    found = {
        name: _number(f"{where}.{name}", given[name], allowed[name])
        for name in _CNP
        if given.get(name) is not None
    }
    if not found:
        raise DeclarationError(f"{where}: give it dscp, priority or both")
    return found


def _byte(where: str, raw: Any) -> int:
    return _number(where, raw, _BYTE)


_READERS: Mapping[str, Callable[[str, Any], Any]] = {
    "global_pause": _global_pause,
    "trust": _trust,
    "dscp": _dscp,
    "ets": _ets,
    "pfc": _priorities,
    "buffer": _buffer,
    "ecn": _ecn,
    "cnp": _cnp,
    "rdma_cm_tos": _byte,
    "traffic_class": _byte,
}


def _refuse_contradictions(where: str, found: Mapping[str, Any]) -> None:
    """What no switch could match, as it does not fit together on the NIC itself."""
    pfc = found.get("pfc", ())
    if pfc and found.get("global_pause") == "on":
        raise DeclarationError(
            f"{where}: PFC and global pause exclude each other (IEEE 802.1Q): a port that pauses all of its "
            "traffic pauses priorities that must not wait, too"
        )
    priorities = found.get("dscp", {})
    if priorities and found.get("trust") == "pcp":
        raise DeclarationError(f"{where}: with trust: pcp nobody looks at DSCPs, so dscp would do nothing")
    cnp = found.get("cnp", {})
    theirs = priorities.get(cnp.get("dscp"))
    if theirs is not None and cnp.get("priority", theirs) != theirs:
        raise DeclarationError(
            f"{where}: CNPs have DSCP {cnp['dscp']}, which has priority {theirs} by dscp and "
            f"{cnp['priority']} by cnp.priority"
        )
    for group in ("rdma_cm_tos", "traffic_class"):
        dscp = found.get(group, 0) >> 2
        if group in found and pfc and priorities.get(dscp, pfc[0]) not in pfc:
            raise DeclarationError(
                f"{where}.{group}: {found[group]} is DSCP {dscp}, which has priority {priorities[dscp]} by "
                f"dscp, and PFC is for {answers.numbers(pfc)}"
            )


# -- values --------------------------------------------------------------------------------


def _section(where: str, raw: Any) -> Mapping[Any, Any]:
    if not isinstance(raw, Mapping):
        raise DeclarationError(f"{where}: {raw!r} is no dictionary")
    return raw


def _whole(where: str, raw: Any, names: Sequence[str]) -> Mapping[Any, Any]:
    """A dictionary of all these names: what is one object for the driver is declared as one."""
    given = _section(where, raw)
    options.refuse_unknown(where, given, names)
    missing = [name for name in names if given.get(name) is None]
    if missing:
        raise DeclarationError(f"{where}: {_listed(missing)} is missing; it is set together with the others")
    return given


def _eight(where: str, raw: Any, one: Callable[[str, Any], Any]) -> list[Any]:
    if not isinstance(raw, list) or len(raw) != len(CLASSES):
        raise DeclarationError(f"{where}: {raw!r} is no list of eight values, for 0 to 7")
    return [one(where, item) for item in raw]


def _number(where: str, raw: Any, allowed: range) -> int:
    text = str(raw)
    if isinstance(raw, bool) or not isinstance(raw, (int, str)) or not _NUMBER.match(text):
        raise DeclarationError(f"{where}: {raw!r} is no whole number")
    if int(text) not in allowed:
        raise DeclarationError(f"{where}: {text} is not between {allowed.start} and {allowed.stop - 1}")
    return int(text)


def _word(where: str, raw: Any, known: Collection[str]) -> str:
    if not isinstance(raw, str) or raw not in known:
        raise DeclarationError(f"{where}: {raw!r} is none of {_listed(known)}")
    return raw


def _listed(names: Collection[str]) -> str:
    return ", ".join(names)
