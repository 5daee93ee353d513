# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parse and check a declaration of NICs, as far as that is possible without a machine."""

from __future__ import annotations

from typing import Any, Callable, Mapping, Sequence

from ...drivers.ethtool import words
from ...drivers.nic.disruption import Disruption
from ...model import schema
from ...model.errors import DeclarationError
from ...model.record import NamedTuple, dataclass
from ...model.schema import Checked
from ...model.setting import Setting
from .. import rules
from ..nics import selection
from ..nics.selection import ALL, Selection
from ..nics.targets import SYSFS
from . import exclusive
from .schema import BEYOND, MTU, NUMBER, OPTIONS

KIND = "nic"

#: Groups of a rule in the order of application → the name in their settings and files
GROUPS = {name: option.key or name for name, option in OPTIONS["rules"].suboptions.items() if option.reason}

RINGS = ("rx", "tx", "rx-mini", "rx-jumbo")
CHANNELS = ("combined", "rx", "tx")
#: While a NIC adapts, it chooses these by itself
_ADAPTED = {"adaptive-rx": ("rx-usecs", "rx-frames"), "adaptive-tx": ("tx-usecs", "tx-frames")}


#: Amounts that leave a greater number as it is: an operator has deliberately given more memory to a longer
#: ring. Channels are not included, as more queues than cores only share the cores.
_RAISES = {"mtu": ("at_least",), "ring": ("auto",)}


class Amount(NamedTuple):
    """A number. word is `number`, `at_least`, `at_most`, `auto` or `max`."""

    word: str
    number: int = 0

    def __str__(self) -> str:
        if self.word in ("at_least", "at_most"):
            return f"{self.word.replace('_', ' ')} {self.number}"
        return str(self.number) if self.word == "number" else self.word


class Rule(NamedTuple):
    """Data shared by a rule's settings. beyond_max: one of BEYOND. channels: declared kinds by field, with
    their numbers.
    """

    name: str = ""
    nics: Selection = ALL
    beyond_max: str = "clamp"
    channels: tuple[tuple[str, Amount], ...] = ()


_NO_RULE = Rule()


@dataclass(frozen=True)
class NicSetting(Setting):
    """One knob of a rule.

    group, field: as in ethtool/files.py. Groups `mtu` and `tx_queue_len` are files of sysfs, and channels
    without a field are of the kind that the NIC has. text: value of all other groups.
    """

    rule: Rule = _NO_RULE
    group: str = ""
    field: str = ""
    amount: Amount | None = None
    text: str = ""


def path_of(interface: str, group: str, field: str) -> str:
    """The file of a knob."""
    if group in SYSFS:
        return f"/sys/class/net/{interface}/{group}"
    return f"/ethtool/{interface}/{group}/{field}"


def parse(given: Checked) -> list[Setting]:
    """Settings in the order in which they are applied. Raises DeclarationError."""
    settings = [setting for rule in given.get("rules", ()) for setting in _settings(rule)]
    order = [*GROUPS.values()]
    ordered: list[NicSetting] = sorted(settings, key=lambda setting: order.index(setting.group))
    return rules.unique(ordered)


def limit(spec: Mapping[str, Any]) -> Disruption:
    """The worst disruption that a declaration allows for NICs off the management path."""
    return Disruption[spec.get("max_disruption", str(Disruption.LINK_RESET)).upper()]


def _settings(given: Mapping[str, Any]) -> list[NicSetting]:
    where = f"{KIND}.{given['name']}"
    nics = selection.parse(f"{where}.nics", given.get("nics", {}))
    rule = Rule(given["name"], nics, given.get("beyond_max", BEYOND[0]))
    if "channels" in given:
        amounts = (
            (setting.field, setting.amount)
            for setting in _channels(rule, f"{where}.channels", given["channels"])
        )
        rule = rule._replace(channels=tuple((field, amount) for field, amount in amounts if amount))
    return [
        setting
        for group in GROUPS
        if group in given
        for setting in _READERS.get(group, _plain)(rule, f"{where}.{group}", given[group])
    ]


def _setting(rule: Rule, group: str, field: str, amount: Amount | None = None, text: str = "") -> NicSetting:
    named = GROUPS[group]
    # fec has a single field, which needs no word.
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
        raise_only=amount is not None and amount.word in _RAISES.get(named, ()),
        floor=str(amount.number) if amount is not None and amount.word == "at_least" else "",
        rule=rule,
        group=named,
        field=field,
        amount=amount,
        text=text,
    )


# -- one group -----------------------------------------------------------------------------


def _rings(rule: Rule, where: str, raw: Any) -> list[NicSetting]:
    """A single value applies to both rings."""
    given = raw if _is_section(raw) else dict.fromkeys(("rx", "tx"), raw)
    return _amounts(rule, "rings", where, given, RINGS)


def _channels(rule: Rule, where: str, raw: Any) -> list[NicSetting]:
    """A single value applies to the kind of channels that the NIC has."""
    if _is_section(raw):
        return _amounts(rule, "channels", where, raw, CHANNELS)
    return [_setting(rule, "channels", "", _amount(where, raw))]


def _is_section(raw: Any) -> bool:
    return isinstance(raw, Mapping) and "at_most" not in raw


def _amounts(
    rule: Rule, group: str, where: str, raw: Mapping[str, Any], known: Sequence[str]
) -> list[NicSetting]:
    schema.refuse_unknown(where, raw, known)
    return [
        _setting(rule, group, field, _amount(f"{where}.{field}", raw[field]))
        for field in known
        if field in raw
    ]


def _coalesce(rule: Rule, where: str, given: Mapping[str, Any]) -> list[NicSetting]:
    for adaptive, fields in _ADAPTED.items():
        idle = [field for field in fields if field in given]
        if given.get(adaptive) and idle:
            raise DeclarationError(
                f"{where}: {', '.join(idle)} would be ignored while {adaptive} is on; declare one of the "
                "two, or two rules for NICs of different drivers"
            )
    return _plain(rule, where, given)


def _plain(rule: Rule, where: str, given: Any) -> list[NicSetting]:
    """Settings of a value, or of one for each field in the order of the option."""
    group = where.rpartition(".")[2]
    if not isinstance(given, Mapping):
        return [_setting(rule, group, "encoding" if group == "fec" else "", text=_text(given))]
    names = OPTIONS["rules"].suboptions[group].fields or given
    return [_setting(rule, group, name, text=_text(given[name])) for name in names if name in given]


def _text(value: bool | int | str) -> str:
    return words.switch(value) if isinstance(value, bool) else str(value)


def _features(rule: Rule, where: str, given: Mapping[str, bool]) -> list[NicSetting]:
    for family in words.FAMILIES:
        both = [name for name in given if name in (family.short, family.long)]
        if len(both) > 1:
            raise DeclarationError(f"{where}: {' and '.join(both)} are one and the same: keep one")
    exclusive.refuse_features(where, given)
    # Features that others depend on come first if switched on, and last if switched off.
    ordered = sorted(given, key=lambda name: given[name] != (name in _BASES))
    return _plain(rule, where, {name: given[name] for name in ordered})


#: Features that segmentation needs (netdev_fix_features in net/core/dev.c), with all of their names
_BASES = frozenset(
    name
    for family in words.FAMILIES
    if family.short in ("rx", "tx", "sg")
    for name in (family.short, family.long)
)


def _mtu(rule: Rule, where: str, raw: Any) -> list[NicSetting]:
    word = "at_least" if isinstance(raw, Mapping) and {*raw} == {"at_least"} else "number"
    given = raw["at_least"] if word == "at_least" else raw
    try:
        number = schema.value(where, MTU, given)
    except DeclarationError as error:
        raise DeclarationError(f"{error}; or {{at_least: NUMBER}}") from error
    return [_setting(rule, "mtu", "", Amount(word, number))]


#: Parsers of groups; the values of all others are used as given
_READERS: Mapping[str, Callable[[Rule, str, Any], list[NicSetting]]] = {
    "channels": _channels,
    "rings": _rings,
    "coalesce": _coalesce,
    "features": _features,
    "mtu": _mtu,
}


# -- values --------------------------------------------------------------------------------


def _amount(where: str, raw: Any) -> Amount:
    if raw in ("max", "auto"):
        return Amount(raw)
    if isinstance(raw, Mapping) and {*raw} == {"at_most"}:
        return Amount("at_most", schema.value(f"{where}.at_most", _AT_MOST, raw["at_most"]))
    try:
        return Amount("number", schema.value(where, NUMBER, raw))
    except DeclarationError as error:
        raise DeclarationError(f"{error}; or max, auto or {{at_most: NUMBER}}") from error


_AT_MOST = NUMBER._replace(least=1)
