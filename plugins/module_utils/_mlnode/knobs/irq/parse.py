# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parse and check a declaration of interrupts, as far as that is possible without a machine."""

from __future__ import annotations

from typing import Any, Mapping

from ...model import cpulist
from ...model.errors import DeclarationError
from ...model.record import NamedTuple, dataclass
from ...model.schema import Checked, Option
from ...model.setting import Setting
from .. import rules
from ..nics import selection
from ..nics.selection import ALL, Selection
from .schema import OPTIONS

KIND = "irq"

BALANCE_KEY = f"{KIND}.irqbalance"


class Steering(NamedTuple):
    """Target of RPS or XPS: word is `off`, `auto` or `cpus`, and only the last has any."""

    word: str
    cpus: tuple[int, ...] = ()

    def __str__(self) -> str:
        return cpulist.render(self.cpus) if self.cpus else self.word


class Rule(NamedTuple):
    """One declared rule. None and "" leave a value untouched.

    cpus: for strategy list all CPUs, for strategy housekeeping those that replace the default. rfs_entries:
    flows of one NIC; 0 switches RFS off.
    """

    name: str = ""
    nics: Selection = ALL
    strategy: str = ""
    cpus: tuple[int, ...] = ()
    rps: Steering | None = None
    xps: Steering | None = None
    rfs_entries: int | None = None


_NO_RULE = Rule()


@dataclass(frozen=True)
class RuleSetting(Setting):
    """A setting with the rule it comes from. topic: `irq`, `rps`, `xps` or `rfs`."""

    rule: Rule = _NO_RULE
    topic: str = ""


def parse(given: Checked) -> list[Setting]:
    """Settings in the order in which they are applied. Raises DeclarationError."""
    parsed = [_rule(raw, f"{KIND}.rules[{place}]") for place, raw in enumerate(given.get("rules", ()))]
    settings = rules.unique(setting for rule in parsed for setting in _settings(rule))
    if "irqbalance" in given:
        balance = given["irqbalance"]
        settings.append(Setting(KIND, BALANCE_KEY, "/etc/default/irqbalance", balance, balance))
    return settings


def _settings(rule: Rule) -> list[Setting]:
    return [
        _setting(rule, name, option)
        for name, option in OPTIONS["rules"].suboptions.items()
        if option.file and getattr(rule, name) not in (None, "")
    ]


def _setting(rule: Rule, name: str, option: Option) -> Setting:
    """Setting of an option. Keys without a third word set the interrupts themselves."""
    text, topic, key = str(getattr(rule, name)), option.key or name, f"{KIND}.{rule.name}"
    if name == "strategy":
        text, topic = f"{text} {cpulist.render(rule.cpus)}".rstrip(), "irq"
    else:
        key += f".{topic}"
    return RuleSetting(KIND, key, option.file, None, f"{text} ({rule.nics})", rule=rule, topic=topic)


def _rule(given: Mapping[str, Any], where: str) -> Rule:
    name = given["name"]
    if name == "irqbalance":
        raise DeclarationError(f"{where}.name: irqbalance is the key of the program; take another name")
    where = f"{KIND}.{name}"
    strategy = given.get("strategy", "")
    cpus = cpulist.parse(given.get("cpus", ""))
    if strategy == "list" and not cpus:
        raise DeclarationError(f"{where}.cpus: strategy list wants a list of CPUs such as 0-3,8")
    if cpus and strategy not in ("list", "housekeeping"):
        raise DeclarationError(f"{where}.cpus: only the strategies list and housekeeping take CPUs")
    return Rule(
        name=name,
        nics=selection.parse(f"{where}.nics", given.get("nics", {})),
        strategy=strategy,
        cpus=cpus,
        rps=_steering(given.get("rps")),
        xps=_steering(given.get("xps")),
        rfs_entries=_flows(f"{where}.rfs_entries", given.get("rfs_entries")),
    )


def _steering(text: str | None) -> Steering | None:
    if text is None:
        return None
    return Steering(text) if text in ("off", "auto") else Steering("cpus", cpulist.parse(text))


def _flows(where: str, number: int | None) -> int | None:
    if number and number & (number - 1):
        raise DeclarationError(f"{where}: {number} is not a power of two")
    return number
