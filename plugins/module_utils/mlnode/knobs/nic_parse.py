# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A declaration of NICs read and checked: everything that can be wrong before a machine is asked."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Mapping, Sequence

from .. import options
from ..errors import DeclarationError
from ..ethtool import words
from ..ethtool.structs import TABLES
from ..setting import Setting
from . import rules, selection
from .nic_disruption import Disruption
from .selection import ALL, Selection

KIND = "nic"

#: What can be allowed, and what it lets through
GUARDS = {
    "management": "changes that interrupt the interface over which this node is managed",
    "busy": "changes that interrupt a NIC while jobs run",
}

#: What a rule may do to the traffic of its NICs, see nic_disruption.py
DISRUPTIONS = tuple(str(level) for level in Disruption)

#: Where a device has less than what is asked for
BEYOND = ("clamp", "fail")

#: Groups of a rule in the order in which they are applied: a driver that makes new queues gives them default
#: rings and moderation, and a driver that is re-initialized by a private flag forgets all of them.
GROUPS = (
    "private_flags",
    "channels",
    "rings",
    "coalesce",
    "pause",
    "fec",
    "features",
    "tx_queue_len",
    "mtu",
)

RINGS = ("rx", "tx", "rx-mini", "rx-jumbo")
CHANNELS = ("combined", "rx", "tx")
COALESCE = TABLES["coalesce"].fields
PAUSE = ("autoneg", "rx", "tx")
_SWITCHES = TABLES["coalesce"].switches

#: While a NIC adapts, it chooses these by itself
_ADAPTED = {"adaptive-rx": ("rx-usecs", "rx-frames"), "adaptive-tx": ("tx-usecs", "tx-frames")}

#: Below 1280 (RFC 8200) the kernel takes IPv6 off an interface with all its addresses and routes, and no
#: larger MTU brings them back (net/ipv6/addrconf.c: addrconf_notify). 65536 is the loopback's own.
_MTU = range(1280, 65537)

_FEATURE = re.compile(r"[a-z0-9][a-z0-9_-]{0,30}\Z", re.ASCII)
#: The kernel gives 31 bytes for the name of a private flag (ETH_GSTRING_LEN)
_FLAG = re.compile(r"[A-Za-z0-9][A-Za-z0-9_+. -]{0,30}\Z", re.ASCII)
_NUMBER = re.compile(r"[0-9]{1,10}\Z", re.ASCII)

_RULE = ("name", "nics", *GROUPS, "beyond_max")


@dataclass(frozen=True)
class Amount:
    """A number of things that a device has: word is `number`, `at_most`, `auto` or `max`."""

    word: str
    number: int = 0

    def __str__(self) -> str:
        return {"number": f"{self.number}", "at_most": f"at most {self.number}"}.get(self.word, self.word)


@dataclass(frozen=True)
class Rule:
    """What all settings of a rule share. beyond_max: one of BEYOND."""

    name: str = ""
    nics: Selection = ALL
    beyond_max: str = "clamp"


@dataclass(frozen=True)
class NicSetting(Setting):
    """One knob of a rule. group, field: as in ethtool/files.py; group `mtu` and `tx_queue_len` are files of
    sysfs, and channels without a field are of the kind that the NIC has. text: of all that is no amount."""

    rule: Rule = Rule()
    group: str = ""
    field: str = ""
    amount: Amount | None = None
    text: str = ""


#: Group of a rule → group of files
_FILES = {"rings": "ring", "features": "feature", "private_flags": "private-flag"}

#: Groups that are files of sysfs
SYSFS = ("tx_queue_len", "mtu")


def path_of(interface: str, group: str, field: str) -> str:
    """The file of a knob."""
    if group in SYSFS:
        return f"/sys/class/net/{interface}/{group}"
    return f"/ethtool/{interface}/{group}/{field}"


def parse(spec: Mapping[str, Any]) -> list[Setting]:
    """Settings in the order in which they are applied. Raises DeclarationError."""
    raw = rules.raw_rules(KIND, spec, GUARDS, "max_disruption")
    limit = spec.get("max_disruption")
    if limit is not None and limit not in DISRUPTIONS:
        raise DeclarationError(f"{KIND}.max_disruption: {limit!r} is none of {', '.join(DISRUPTIONS)}")
    found = [setting for number, rule in enumerate(raw) for setting in _settings(rule, number)]
    ordered: list[NicSetting] = sorted(found, key=_place)
    return rules.unique(ordered)


def _place(setting: NicSetting) -> int:
    return _ORDER[setting.group]


_ORDER = {_FILES.get(group, group): place for place, group in enumerate(GROUPS)}


def limit(spec: Mapping[str, Any]) -> Disruption:
    """What a declaration lets happen to NICs that nobody manages the node over."""
    return Disruption[str(spec.get("max_disruption") or Disruption.LINK_RESET).upper()]


def _settings(raw: Any, number: int) -> list[NicSetting]:
    where = f"{KIND}.rules[{number}]"
    given = rules.fields(where, raw, _RULE)
    name = rules.name(where, given.get("name"))
    where = f"{KIND}.{name}"
    beyond = given.get("beyond_max") or BEYOND[0]
    if beyond not in BEYOND:
        raise DeclarationError(f"{where}.beyond_max: {beyond!r} is none of {', '.join(BEYOND)}")
    rule = Rule(name, selection.parse(f"{where}.nics", given.get("nics")), beyond)
    found = [
        setting
        for group in GROUPS
        if given.get(group) is not None
        for setting in _READERS[group](rule, f"{where}.{group}", given[group])
    ]
    if not found:
        raise DeclarationError(f"{where}: give it at least one of {', '.join(GROUPS)}")
    return found


def _setting(rule: Rule, group: str, field: str, amount: Amount | None = None, text: str = "") -> NicSetting:
    named = _FILES.get(group, group)
    # The one field of fec is the thing itself.
    words_ = (KIND, rule.name, named, "" if group == "fec" else field)
    claim = str(amount) if amount else text
    if amount and rule.beyond_max != BEYOND[0]:
        claim += ", or an error"
    return NicSetting(
        kind=KIND,
        key=".".join(word for word in words_ if word),
        path=path_of("*", named, field or "*"),
        want=None,
        claim=f"{claim} ({rule.nics})",
        rule=rule,
        group=named,
        field=field,
        amount=amount,
        text=text,
    )


# -- one group -----------------------------------------------------------------------------


def _rings(rule: Rule, where: str, raw: Any) -> list[NicSetting]:
    """A single value is that of both rings."""
    given = raw if _is_section(raw) else dict.fromkeys(("rx", "tx"), raw)
    return _amounts(rule, "rings", where, given, RINGS)


def _channels(rule: Rule, where: str, raw: Any) -> list[NicSetting]:
    """A single value is that of the kind of channel that the NIC has."""
    if _is_section(raw):
        return _amounts(rule, "channels", where, raw, CHANNELS)
    return [_setting(rule, "channels", "", _amount(where, raw))]


def _is_section(raw: Any) -> bool:
    return isinstance(raw, Mapping) and "at_most" not in raw


def _amounts(
    rule: Rule, group: str, where: str, raw: Mapping[str, Any], known: Sequence[str]
) -> list[NicSetting]:
    options.refuse_unknown(where, raw, known)
    return [
        _setting(rule, group, field, _amount(f"{where}.{field}", raw[field]))
        for field in known
        if raw.get(field) is not None
    ]


def _coalesce(rule: Rule, where: str, raw: Any) -> list[NicSetting]:
    given = _section(where, raw)
    options.refuse_unknown(where, given, COALESCE)
    found = {
        field: _switch(f"{where}.{field}", given[field])
        if field in _SWITCHES
        else str(_number(f"{where}.{field}", given[field], range(1 << 32)))
        for field in COALESCE
        if given.get(field) is not None
    }
    for adaptive, fields in _ADAPTED.items():
        idle = [field for field in fields if field in found]
        if found.get(adaptive) == "on" and idle:
            raise DeclarationError(
                f"{where}: {', '.join(idle)} would be ignored while {adaptive} is on; declare one of the "
                "two, or two rules for NICs of different drivers"
            )
    # Switches first: a NIC that has just stopped to adapt would not keep a number written before.
    ordered = sorted(found, key=lambda field: field not in _SWITCHES)
    return [_setting(rule, "coalesce", field, text=found[field]) for field in ordered]


def _switches(rule: Rule, where: str, raw: Any) -> list[NicSetting]:
    group = where.rpartition(".")[2]
    pattern, what = {
        "features": (_FEATURE, "a feature such as tso or rx-gro-hw, as ethtool -k prints it"),
        "private_flags": (_FLAG, "a private flag, as ethtool --show-priv-flags prints it"),
    }[group]
    found = []
    for name, value in _section(where, raw).items():
        if not isinstance(name, str) or not pattern.match(name):
            raise DeclarationError(f"{where}: {name!r} is not {what}")
        if value is not None:
            found.append(_setting(rule, group, name, text=_switch(f"{where}.{name}", value)))
    if group == "features":
        _refuse_aliases(where, [setting.field for setting in found])
        # What others build on comes first when it is switched on, and last when it is switched off.
        found.sort(key=lambda setting: (setting.text == "on") != (setting.field in _BASES))
    return found


#: What segmentation needs (netdev_fix_features in net/core/dev.c), by each of its names
_BASES = frozenset(
    name
    for family in words.FAMILIES
    if family.short in ("rx", "tx", "sg")
    for name in (family.short, family.long)
)


def _refuse_aliases(where: str, names: Sequence[str]) -> None:
    for family in words.FAMILIES:
        both = [name for name in names if name in (family.short, family.long)]
        if len(both) > 1:
            raise DeclarationError(f"{where}: {' and '.join(both)} are one and the same: keep one")


def _pause(rule: Rule, where: str, raw: Any) -> list[NicSetting]:
    given = _section(where, raw)
    options.refuse_unknown(where, given, PAUSE)
    return [
        _setting(rule, "pause", field, text=_switch(f"{where}.{field}", given[field]))
        for field in PAUSE
        if given.get(field) is not None
    ]


def _fec(rule: Rule, where: str, raw: Any) -> list[NicSetting]:
    text = "off" if raw is False else raw  # what YAML makes of an unquoted off
    try:
        if not isinstance(text, str):
            raise ValueError(f"a FEC encoding is one of {', '.join(words.FEC[1:])}, not {text!r}")
        return [_setting(rule, "fec", "encoding", text=words.fec(words.fec_mask(text)))]
    except ValueError as error:
        raise DeclarationError(f"{where}: {error}") from error


def _sysfs(rule: Rule, where: str, raw: Any) -> list[NicSetting]:
    group = where.rpartition(".")[2]
    number = _number(where, raw, _MTU if group == "mtu" else range(1, 1 << 31))
    return [_setting(rule, group, "", text=str(number))]


_READERS = {
    "private_flags": _switches,
    "channels": _channels,
    "rings": _rings,
    "coalesce": _coalesce,
    "pause": _pause,
    "fec": _fec,
    "features": _switches,
    "tx_queue_len": _sysfs,
    "mtu": _sysfs,
}


# -- values --------------------------------------------------------------------------------


def _section(where: str, raw: Any) -> Mapping[Any, Any]:
    if not isinstance(raw, Mapping):
        raise DeclarationError(f"{where}: {raw!r} is no dictionary")
    return raw


def _amount(where: str, raw: Any) -> Amount:
    if raw in ("max", "auto"):
        return Amount(raw)
    if isinstance(raw, Mapping) and {*raw} == {"at_most"}:
        return Amount("at_most", _number(f"{where}.at_most", raw["at_most"], range(1, 1 << 32)))
    try:
        return Amount("number", _number(where, raw, range(1 << 32)))
    except DeclarationError as error:
        raise DeclarationError(f"{error}, nor max, auto or {{at_most: NUMBER}}") from error


def _number(where: str, raw: Any, allowed: range) -> int:
    text = str(raw)
    if isinstance(raw, bool) or not isinstance(raw, (int, str)) or not _NUMBER.match(text):
        raise DeclarationError(f"{where}: {raw!r} is no whole number")
    if int(text) not in allowed:
        raise DeclarationError(f"{where}: {text} is not between {allowed.start} and {allowed.stop - 1}")
    return int(text)


def _switch(where: str, raw: Any) -> str:
    if isinstance(raw, bool):
        return words.switch(raw)
    if raw not in ("on", "off"):
        raise DeclarationError(f"{where}: {raw!r} is neither on nor off")
    return str(raw)
