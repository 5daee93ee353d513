# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A declaration of interrupts read and checked: everything that can be wrong before a machine is asked."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Mapping, Sequence

from .. import cpulist, options
from ..errors import DeclarationError
from ..setting import Setting

KIND = "irq"

STRATEGIES = ("spread", "housekeeping", "list")
IRQBALANCE = ("agree", "leave", "disable")
BALANCE_KEY = f"{KIND}.irqbalance"

#: What can be allowed, and what it lets through
GUARDS = {"isolated_cpus": "interrupts on CPUs that isolcpus or nohz_full keep free"}

#: The kernel rounds both tables up to a power of two and takes no more than this for the global one
#: (net/core/sysctl_net_core.c: rps_sock_flow_sysctl)
MAX_FLOWS = 1 << 29

_WORD = re.compile(r"[a-z][a-z0-9_]{0,30}\Z", re.ASCII)
#: What the kernel takes for an interface (net/core/dev.c: dev_valid_name), without the marks of a shell
_INTERFACE = re.compile(r"[A-Za-z0-9_.@-]{1,15}\Z", re.ASCII)
_DEVICE = re.compile(r"[A-Za-z0-9_.-]{1,63}\Z", re.ASCII)
#: Vendor tools write eight digits of the domain where sysfs writes four or more
_ADDRESS = re.compile(r"([0-9a-f]{4,8}):([0-9a-f]{2}):([01][0-9a-f])\.([0-7])\Z", re.ASCII | re.IGNORECASE)

_RULE = ("name", "nics", "strategy", "cpus", "rps", "xps", "rfs_entries")
_NICS = ("names", "drivers", "addresses", "rdma", "rails", "nodes")


@dataclass(frozen=True)
class Selection:
    """Which NICs: one of each list that is given. rails: None does not ask, an empty tuple takes them all."""

    names: tuple[str, ...] = ()
    drivers: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()
    rdma: tuple[str, ...] = ()
    rails: tuple[int, ...] | None = None
    nodes: tuple[int, ...] = ()

    def __str__(self) -> str:
        words = [
            f"{kind} {', '.join(found)}"
            for kind, found in (
                ("names", self.names),
                ("drivers", self.drivers),
                ("addresses", self.addresses),
                ("rdma", self.rdma),
            )
            if found
        ]
        if self.rails is not None:
            words.append(f"rails {cpulist.render(self.rails)}" if self.rails else "all rails")
        if self.nodes:
            words.append(f"nodes {cpulist.render(self.nodes)}")
        return "; ".join(words) or "all NICs"


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
    nics: Selection = Selection()
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
    options.refuse_unknown(KIND, spec, ("rules", "irqbalance", "allow"))
    options.check_allow(spec.get("allow"), GUARDS)
    rules = spec.get("rules") or []
    if not isinstance(rules, list):
        raise DeclarationError(f"{KIND}.rules: {rules!r} is no list")
    found: dict[str, Setting] = {}
    for number, raw in enumerate(rules):
        for setting in _settings(_rule(raw, number)):
            if setting.key in found:
                raise DeclarationError(f"{setting.key} is declared by two rules: give each its own name")
            found[setting.key] = setting
    balance = spec.get("irqbalance")
    if balance is not None:
        _choice(f"{KIND}.irqbalance", balance, IRQBALANCE)
        found[BALANCE_KEY] = Setting(KIND, BALANCE_KEY, "/etc/default/irqbalance", balance, balance)
    return list(found.values())


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
    if not isinstance(raw, Mapping):
        raise DeclarationError(f"{where}: {raw!r} is no dictionary")
    options.refuse_unknown(where, raw, _RULE)
    name = raw.get("name")
    if not isinstance(name, str) or not _WORD.match(name) or name == "irqbalance":
        raise DeclarationError(
            f"{where}.name: {name!r} is no name for a rule; use up to 31 of a-z, 0-9 and _, a letter first"
        )
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
        nics=_selection(f"{where}.nics", raw.get("nics")),
        strategy=strategy,
        cpus=cpus,
        rps=_steering(f"{where}.rps", raw.get("rps"), ("off", "auto")),
        xps=_steering(f"{where}.xps", raw.get("xps"), ("off", "auto")),
        rfs_entries=_flows(f"{where}.rfs_entries", raw.get("rfs_entries")),
    )


def _selection(where: str, raw: Any) -> Selection:
    if raw is None:
        return Selection()
    if not isinstance(raw, Mapping):
        raise DeclarationError(f"{where}: {raw!r} is no dictionary")
    options.refuse_unknown(where, raw, _NICS)
    return Selection(
        names=_texts(f"{where}.names", raw.get("names"), _INTERFACE, "an interface such as eth0"),
        drivers=_texts(f"{where}.drivers", raw.get("drivers"), _DEVICE, "a driver such as mlx5_core"),
        addresses=_addresses(f"{where}.addresses", raw.get("addresses")),
        rdma=_texts(f"{where}.rdma", raw.get("rdma"), _DEVICE, "an RDMA device such as mlx5_0"),
        rails=_rails(f"{where}.rails", raw.get("rails")),
        nodes=_numbers(f"{where}.nodes", raw.get("nodes"), "a NUMA node such as 0"),
    )


def _texts(where: str, raw: Any, pattern: re.Pattern[str], example: str) -> tuple[str, ...]:
    found = []
    for item in _list(where, raw):
        if not isinstance(item, str) or not pattern.match(item) or item in (".", ".."):
            raise DeclarationError(f"{where}: {item!r} is not {example}")
        found.append(item)
    return tuple(sorted(set(found)))


def _addresses(where: str, raw: Any) -> tuple[str, ...]:
    found = set()
    for item in _list(where, raw):
        match = _ADDRESS.match(item) if isinstance(item, str) else None
        if match is None:
            raise DeclarationError(f"{where}: {item!r} is not a PCI address such as 0000:41:00.0")
        domain, bus, slot, function = match.groups()
        found.add(f"{int(domain, 16):04x}:{bus}:{slot}.{function}".lower())
    return tuple(sorted(found))


def _rails(where: str, raw: Any) -> tuple[int, ...] | None:
    if raw is None or raw is False or raw == []:
        return None
    return () if raw is True else _numbers(where, raw, "true, or a rail such as 0")


def _numbers(where: str, raw: Any, example: str) -> tuple[int, ...]:
    found = set()
    for item in _list(where, raw):
        text = str(item)
        if isinstance(item, bool) or not re.match(r"[0-9]{1,4}\Z", text, re.ASCII):
            raise DeclarationError(f"{where}: {item!r} is not {example}")
        found.add(int(text))
    return tuple(sorted(found))


def _list(where: str, raw: Any) -> Sequence[Any]:
    if raw is None:
        return ()
    if not isinstance(raw, list):
        raise DeclarationError(f"{where}: {raw!r} is no list")
    return raw


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
