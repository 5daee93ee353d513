# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Limits that systemd's files give to services, and the limits of their running processes."""

from __future__ import annotations

import re
from typing import Sequence

from ...host.host import Host
from ...linux import daemons, systemd_conf, systemd_show
from ...linux.systemd_conf import Line
from ...model.errors import HostError
from ...model.record import NamedTuple, regex
from ...model.setting import Value
from .parse import SERVICE_NAMES, UNLIMITED, Amount, Limit
from .schema import AUTO

#: Written in Go, whose runtime raises the soft limit of files to the hard one (Go's syscall/rlimit.go)
_RAISING = ("containerd", "dockerd", "kubelet", "crio")

#: Suffixes of systemd.syntax(7), to base 1024
_SUFFIXES = " KMGTPE"
_SIZE = regex(r"([0-9]{1,20})(?:\.([0-9]{1,20}))? *([KMGTPE]?|B)(?: +|\Z)", re.ASCII)
_NUMBER = regex(r"[0-9]{1,20}\Z", re.ASCII)
#: A leading 0 is octal, 0x hexadecimal (basic/parse-util.c: safe_atou64)
_OTHER_BASE = regex(r"0([0-7]{0,22})\Z|0[xX]([0-9a-fA-F]{1,16})\Z", re.ASCII)
_INFINITY = (1 << 64) - 1


class Service(NamedTuple):
    """An installed service. names: names of its unit, its own first."""

    names: tuple[str, ...]
    process: str

    @property
    def unit(self) -> str:
        return self.names[0]


def installed(host: Host, wanted: Sequence[str]) -> tuple[list[Service], list[str]]:
    """Wanted services that are installed, each once, and declared units that are not.

    A masked unit does not count as installed. Raises HostError.
    """
    services: dict[str, Service] = {}
    missing: list[str] = []
    for name in SERVICE_NAMES:
        if wanted != (AUTO,) and name not in wanted:
            continue
        unit = f"{name}.service"
        path = systemd_conf.fragment(host, unit)
        own = systemd_conf.alias_of(host, path) if path else ""
        if not path or (own and not systemd_conf.fragment(host, own)):
            missing.append(unit)
            continue
        known = services.get(own or unit, Service((own or unit,), SERVICE_NAMES[name]))
        names = tuple(dict.fromkeys([*known.names, unit]))
        services[own or unit] = Service(names, known.process)
    return list(services.values()), [] if wanted == (AUTO,) else missing


def amount(limit: Limit, text: str) -> Amount | None:
    """The value as systemd reads it; None if systemd would ignore it (basic/rlimit-util.c: rlimit_parse)."""
    soft, colon, hard = text.partition(":")
    numbers = [_number(limit, part) for part in (soft, hard if colon else soft)]
    if any(number is None for number in numbers):
        return None
    low, high = (None if number == _INFINITY else number for number in numbers)
    fits = high is None or (low is not None and low <= high)
    return Amount(low, high) if fits else None


def _number(limit: Limit, text: str) -> int | None:
    if text == "infinity":
        return _INFINITY
    number = _size(text) if limit.in_bytes else _count(text)
    return number if number is not None and number < _INFINITY else None


def _count(text: str) -> int | None:
    other = _OTHER_BASE.match(text)
    if other:
        return int(other.group(2), 16) if other.group(2) else int(other.group(1) or "0", 8)
    return int(text) if _NUMBER.match(text) and not text.startswith("0") else None


def _size(text: str) -> int | None:
    """Size such as 64M, 1.5G or `1G 512M`."""
    place, total = 0, 0
    while place < len(text):
        match = _SIZE.match(text, place)
        if not match:
            return None
        whole, digits, suffix = match.group(1), match.group(2) or "", match.group(3).strip("B") or " "
        unit = 1 << 10 * _SUFFIXES.index(suffix)
        total += int(whole) * unit + int(digits or "0") * unit // 10 ** len(digits)
        place = match.end()
    return total if text else None


class Assigned(NamedTuple):
    """The assignment in force, with its amount and place; empty if nothing assigns the limit."""

    amount: Amount | None = None
    file: str = ""
    where: str = ""


def effective(limit: Limit, assignments: Sequence[Line]) -> Assigned:
    """The last assignment that systemd accepts; it ignores any that it does not understand."""
    for assignment in reversed(assignments):
        value = amount(limit, assignment.value)
        if value is not None:
            return Assigned(value, assignment.file, assignment.where)
    return Assigned()


# -- what runs -----------------------------------------------------------------------------


def of_processes(
    host: Host, limit: Limit, service: Service, seen: daemons.Running
) -> list[tuple[Amount, bool]]:
    """The limit of each process of a service, and whether its soft one is irrelevant. Raises HostError."""
    amounts: list[tuple[Amount, bool]] = []
    for daemon in seen.named(service.process):
        # A container may have its own dockerd with its own limits.
        if not daemons.belongs(host, daemon.pid, service.names):
            continue
        now = of_process(host, limit, daemon.limits)
        if now is not None:
            raising = limit.name == "nofile" and service.process in _RAISING and now.soft == now.hard
            amounts.append((now, raising))
    return amounts


def of_process(host: Host, limit: Limit, path: str) -> Amount | None:
    """The limit in /proc/PID/limits; None for a process that is gone. Raises HostError."""
    value = host.value(path)
    if value.absent is not None:
        return None
    pair = daemons.limit(value.text, limit.row, limit.unit) if value.text is not None else None
    if pair is None:
        raise HostError("find", f"{limit.row!r} in {path}", None, value.problem or "no row with two limits")
    soft, hard = (_kernel_number(path, text) for text in pair)
    return Amount(soft, hard)


def _kernel_number(path: str, text: str) -> int | None:
    if text == UNLIMITED:
        return None
    if not _NUMBER.match(text):
        raise HostError("read", path, None, f"{text!r} is not a number")
    return int(text)


def alike(now: Amount, want: Amount, raising: bool) -> bool:
    """True if both mean the same limit. raising: as in of_processes()."""
    return now.hard == want.hard if raising else now == want


def manager_now(host: Host, limit: Limit) -> Value:
    """systemd's present default for services, in the manager itself. Neither text nor problem for a captured
    tree.
    """
    shown = systemd_show.units(host).get(systemd_show.ROOT_MOUNT, {})
    if not shown:
        return Value(unreadable="systemctl does not show the limits of services") if host.live else Value()
    # Older versions print the number for infinity.
    names = (limit.key, f"{limit.key}Soft")
    texts = [" ".join(shown.get(name, ())).replace(str(_INFINITY), "infinity") for name in names]
    hard, soft = (_number(limit, text) for text in texts)
    if hard is None or soft is None:
        return Value(unreadable=f"systemctl does not show {limit.key} of {systemd_show.ROOT_MOUNT}")
    low, high = (None if number == _INFINITY else number for number in (soft, hard))
    return Value(text=str(Amount(low, high)))
