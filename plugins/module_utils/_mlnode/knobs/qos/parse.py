# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parse and check a declaration of priorities on NICs, as far as that is possible without a machine."""

from __future__ import annotations

from typing import Any, Callable, Iterator, Mapping, Sequence

from ...drivers.dcb import answers
from ...drivers.dcb.device import CLASSES
from ...drivers.ethtool import words
from ...model import schema
from ...model.errors import DeclarationError
from ...model.record import dataclass, field, replace
from ...model.schema import Checked, Option
from ...model.setting import Setting
from .. import rules
from ..nics import selection
from ..nics.selection import ALL, Selection
from .schema import OPTIONS, dscps

KIND = "qos"

#: Groups of a rule in the order of application
GROUPS = [name for name, option in OPTIONS["rules"].suboptions.items() if option.reason]

_CNP = ("dscp", "priority")


@dataclass(frozen=True)
class Rule:
    """Data shared by a rule's settings. given: declared groups, as parsed."""

    name: str = ""
    nics: Selection = ALL
    given: Mapping[str, Any] = field(default_factory=dict)


_NO_RULE = Rule()


@dataclass(frozen=True)
class QosSetting(Setting):
    """One knob of a rule. group: of GROUPS, and cnp_dscp and cnp_priority for cnp.

    value: as parsed; numbers of priorities for pfc and ecn, a map of both numbers for dscp. text: wanted text
    of each file, if it is the same for all.
    """

    rule: Rule = _NO_RULE
    group: str = ""
    value: Any = None
    text: str = ""


def parse(given: Checked) -> list[Setting]:
    """Settings in the order in which they are applied. Raises DeclarationError."""
    settings = [setting for rule in given.get("rules", ()) for setting in _settings(rule)]
    settings.sort(key=lambda setting: [*_FILES].index(setting.group))
    return rules.unique(settings)


def _settings(given: Mapping[str, Any]) -> list[QosSetting]:
    where = f"{KIND}.{given['name']}"
    wanted = _values(where, given)
    rule = Rule(given["name"], selection.parse(f"{where}.nics", given.get("nics", {})), wanted)
    return [setting for group in wanted for setting in _of_group(rule, group)]


def _values(where: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Values of the given groups. Raises DeclarationError, also for contradictions."""
    values = {
        group: _READERS.get(group, _same)(f"{where}.{group}", given[group])
        for group in GROUPS
        if group in given
    }
    _refuse_contradictions(where, values)
    return values


#: Expected values of a port, for checks
EXPECTED = Option(
    "dict",
    fields={
        name: OPTIONS["rules"].suboptions[name]
        for name in ("trust", "dscp", "pfc", "global_pause", "ecn", "cnp")
    },
)


def expected(where: str, raw: Any) -> dict[str, Any]:
    """Values expected of a port, in the words of a rule. Raises DeclarationError."""
    return _values(where, schema.value(where, EXPECTED, raw))


# -- settings ------------------------------------------------------------------------------


def _files() -> Iterator[tuple[str, str]]:
    for group in GROUPS:
        option = OPTIONS["rules"].suboptions[group]
        if option.file:
            yield group, option.file
        else:
            yield from ((f"{group}_{name}", inner.file) for name, inner in option.names.items())


#: Group of a setting, in the order of application → path of its file
_FILES = dict(_files())


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
        path=_FILES[group],
        want=None,
        claim=f"{text} ({rule.nics})",
        rule=rule,
        group=group,
        value=value,
        text=text,
    )


def mapped(priorities: Mapping[int, int]) -> str:
    """`26:3 48:6`"""
    return " ".join(f"{dscp}:{priorities[dscp]}" for dscp in sorted(priorities))


# -- groups --------------------------------------------------------------------------------


def _same(_where: str, given: Any) -> Any:
    return given


def _global_pause(_where: str, given: bool) -> str:
    return words.switch(given)


def _dscp(where: str, given: Mapping[str, int]) -> dict[int, int]:
    """DSCPs one by one, from ranges such as 24-31."""
    priorities: dict[int, int] = {}
    for listed, priority in given.items():
        for dscp in dscps(listed):
            if dscp in priorities:
                raise DeclarationError(f"{where}: DSCP {dscp} is there twice")
            priorities[dscp] = priority
    return dict(sorted(priorities.items()))


def _priorities(_where: str, given: Sequence[int]) -> tuple[int, ...]:
    return tuple(sorted({*given}))


def _ets(where: str, given: Mapping[str, Sequence[Any]]) -> tuple[Sequence[object], ...]:
    tsas, shares = given["tc_tsa"], given["tc_bw"]
    for number in CLASSES:
        if shares[number] and tsas[number] != "ets":
            raise DeclarationError(
                f"{where}: traffic class {number} is {tsas[number]} and has {shares[number]} % of the "
                "bandwidth; only classes with ets share it"
            )
    wanted = 100 if "ets" in tsas else 0
    if sum(shares) != wanted:  # IEEE 802.1Q, and dcb/dcb_ets.c: dcb_ets_validate_bw
        raise DeclarationError(f"{where}.tc_bw: the shares are {sum(shares)} % together, and not {wanted} %")
    return given["prio_tc"], tsas, shares


def _buffer(_where: str, given: Mapping[str, Sequence[Any]]) -> tuple[Sequence[object], ...]:
    return given["prio_buffer"], given["buffer_size"]


#: Parsers of groups; the values of all others are used as given
_READERS: Mapping[str, Callable[[str, Any], Any]] = {
    "global_pause": _global_pause,
    "dscp": _dscp,
    "ets": _ets,
    "pfc": _priorities,
    "buffer": _buffer,
    "ecn": _priorities,
}


def _refuse_contradictions(where: str, values: Mapping[str, Any]) -> None:
    """Refuse values that contradict each other on the NIC itself: no switch could match them."""
    pfc = values.get("pfc", ())
    if pfc and values.get("global_pause") == "on":
        raise DeclarationError(
            f"{where}: PFC and global pause exclude each other (IEEE 802.1Q): a port that pauses all of its "
            "traffic pauses priorities that must not wait, too"
        )
    priorities = values.get("dscp", {})
    if priorities and values.get("trust") == "pcp":
        raise DeclarationError(f"{where}: with trust: pcp DSCPs are ignored, so dscp would do nothing")
    cnp = values.get("cnp", {})
    theirs = priorities.get(cnp.get("dscp"))
    if theirs is not None and cnp.get("priority", theirs) != theirs:
        raise DeclarationError(
            f"{where}: CNPs have DSCP {cnp['dscp']}, which has priority {theirs} by dscp and "
            f"{cnp['priority']} by cnp.priority"
        )
    for group in ("rdma_cm_tos", "traffic_class"):
        dscp = values.get(group, 0) >> 2
        if group in values and pfc and priorities.get(dscp, pfc[0]) not in pfc:
            raise DeclarationError(
                f"{where}.{group}: {values[group]} is DSCP {dscp}, which has priority {priorities[dscp]} by "
                f"dscp, and PFC is for {answers.numbers(pfc)}"
            )
