# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A declaration of interrupts read and checked: everything that can be wrong before a machine is asked."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Mapping, Sequence

from .. import cpulist
from ..errors import DeclarationError
from ..setting import Setting
from . import rules, selection
from .selection import ALL, Selection

KIND = "irq"

STRATEGIES = ("spread", "housekeeping", "list")
IRQBALANCE = ("agree", "leave", "disable")
BALANCE_KEY = f"{KIND}.irqbalance"

#: What can be allowed, and what it lets through
GUARDS = {"isolated_cpus": "interrupts on CPUs that isolcpus or nohz_full keep free"}

#: The kernel rounds both tables up to a power of two and takes no more than this for the global one
#: (net/core/sysctl_net_core.c: rps_sock_flow_sysctl)
MAX_FLOWS = 1 << 29


_RULE = ("name", "nics", "strategy", "cpus", "rps", "xps", "rfs_entries")


@dataclass(frozen=True)
class Steering:
    """What is wanted of RPS or XPS: word is `off`, `auto` or `cpus`, and only the last has any."""

    word: str
    cpus: tuple[int, ...] = ()

    def __str__(self) -> str:
        return cpulist.render(self.cpus) if self.cpus else self.word


@dataclass(frozen=True)
class Rule:
    """One rule as declared. None and "" stand for what is left untouched.

    cpus: of strategy list all there are, of strategy housekeeping those instead of the default.
    rfs_entries: flows of one NIC; 0 switches RFS off.
    """

    name: str = ""
    nics: Selection = ALL
    strategy: str = ""
    cpus: tuple[int, ...] = ()
    rps: Steering | None = None
    xps: Steering | None = None
    rfs_entries: int | None = None


@dataclass(frozen=True)
class RuleSetting(Setting):
    """A setting with the rule it comes from. topic: `irq`, `rps`, `xps` or `rfs`."""

    rule: Rule = Rule()
    topic: str = ""


#: Topic → where its files are, for people
PATHS = {
    "irq": "/proc/irq/*/smp_affinity_list",
    "rps": "/sys/class/net/*/queues/rx-*/rps_cpus",
    "xps": "/sys/class/net/*/queues/tx-*/xps_cpus",
    "rfs": "/sys/class/net/*/queues/rx-*/rps_flow_cnt",
}


def parse(spec: Mapping[str, Any]) -> list[Setting]:
    """Settings in the order in which they are applied. Raises DeclarationError."""
    raw_rules = rules.raw_rules(KIND, spec, GUARDS, "irqbalance")
    parsed = [_rule(raw, number) for number, raw in enumerate(raw_rules)]
    found = rules.unique(setting for rule in parsed for setting in _settings(rule))
    balance = spec.get("irqbalance")
    if balance is not None:
        _choice(f"{KIND}.irqbalance", balance, IRQBALANCE)
        found.append(Setting(KIND, BALANCE_KEY, "/etc/default/irqbalance", balance, balance))
    return found


def _settings(rule: Rule) -> list[Setting]:
    wants: list[tuple[str, str]] = []
    if rule.strategy:
        wants.append(("irq", f"{rule.strategy} {cpulist.render(rule.cpus)}".rstrip()))
    if rule.rps is not None:
        wants.append(("rps", str(rule.rps)))
    if rule.xps is not None:
        wants.append(("xps", str(rule.xps)))
    if rule.rfs_entries is not None:
        wants.append(("rfs", str(rule.rfs_entries)))
    if not wants:
        raise DeclarationError(f"{KIND}.{rule.name}: give it a strategy, rps, xps or rfs_entries")
    return [
        RuleSetting(
            kind=KIND,
            key=f"{KIND}.{rule.name}" + ("" if topic == "irq" else f".{topic}"),
            path=PATHS[topic],
            want=None,
            claim=f"{words} ({rule.nics})",
            rule=rule,
            topic=topic,
        )
        for topic, words in wants
    ]


def _rule(raw: Any, number: int) -> Rule:
    where = f"{KIND}.rules[{number}]"
    raw = rules.fields(where, raw, _RULE)
    name = rules.name(where, raw.get("name"))
    if name == "irqbalance":
        raise DeclarationError(f"{where}.name: irqbalance is the key of the program; take another name")
    where = f"{KIND}.{name}"
    strategy = raw.get("strategy") or ""
    if strategy:
        _choice(f"{where}.strategy", strategy, STRATEGIES)
    cpus = _cpus(f"{where}.cpus", raw.get("cpus"))
    if strategy == "list" and not cpus:
        raise DeclarationError(f"{where}.cpus: strategy list wants a list of CPUs such as 0-3,8")
    if cpus and strategy not in ("list", "housekeeping"):
        raise DeclarationError(f"{where}.cpus: only the strategies list and housekeeping take CPUs")
    return Rule(
        name=name,
        nics=selection.parse(f"{where}.nics", raw.get("nics")),
        strategy=strategy,
        cpus=cpus,
        rps=_steering(f"{where}.rps", raw.get("rps"), ("off", "auto")),
        xps=_steering(f"{where}.xps", raw.get("xps"), ("off", "auto")),
        rfs_entries=_flows(f"{where}.rfs_entries", raw.get("rfs_entries")),
    )


def _cpus(where: str, raw: Any) -> tuple[int, ...]:
    if raw is None:
        return ()
    if isinstance(raw, bool) or not isinstance(raw, (int, str)):
        raise DeclarationError(f"{where}: {raw!r} is no list of CPUs such as 0-3,8")
    try:
        found = cpulist.parse(str(raw))
    except ValueError as error:
        raise DeclarationError(f"{where}: {error}") from error
    if not found:
        raise DeclarationError(f"{where}: an empty list names no CPU; leave the option out instead")
    return found


def _steering(where: str, raw: Any, words: tuple[str, ...]) -> Steering | None:
    if raw is None:
        return None
    if raw is False:  # what YAML makes of an unquoted off
        return Steering("off")
    if raw in words:
        return Steering(str(raw))
    try:
        return Steering("cpus", _cpus(where, raw))
    except DeclarationError as error:
        raise DeclarationError(f"{error}, nor {' or '.join(words)}") from error


def _flows(where: str, raw: Any) -> int | None:
    if raw is None:
        return None
    text = str(raw)
    valid = not isinstance(raw, bool) and bool(re.match(r"[0-9]{1,10}\Z", text, re.ASCII))
    number = int(text) if valid else -1
    if not 0 <= number <= MAX_FLOWS or number & (number - 1):
        raise DeclarationError(f"{where}: {raw!r} is no power of two up to {MAX_FLOWS}, nor 0 for none")
    return number


def _choice(where: str, value: Any, words: Sequence[str]) -> None:
    if value not in words:
        raise DeclarationError(f"{where}: {value!r} is none of {', '.join(words)}")
