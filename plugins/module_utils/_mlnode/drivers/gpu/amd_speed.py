# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Speed of AMD's GPUs: reasons for lower clocks, and the power cap.

Firmware counts cycles, and in how many of them it slowed the clocks for each reason. Two looks show whether
it does so now. The power limit slows every GPU at full load, and is normal.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Iterator, Mapping, Sequence

from ...host.host import Host
from ...model.check import Check, Subject
from ...model.errors import HostError
from ...model.record import replace
from . import amd_metrics, topics
from . import amd_smi as smi
from .amd_metrics import Metrics
from .amd_sysfs import number, path_of, required
from .driver import each
from .module import Card

CLOCKS = replace(
    topics.CLOCKS,
    reference="kgd_pp_interface.h (gpu_metrics); amd-smi metric --throttle",
    advice="look at temperatures, fans and power supplies: amd-smi metric; the BMC's log",
    source=f"/sys/bus/pci/devices/*/{amd_metrics.NAME}",
)
POWER_CAP = replace(
    topics.POWER_CAP,
    reference="hwmon/sysfs-interface.rst; gpu/amdgpu/thermal.rst (power1_cap)",
    advice="write power1_cap_default to power1_cap, or amd-smi reset --power-cap",
    source="/sys/bus/pci/devices/*/hwmon/*/power1_cap",
)

_HALVING, _COOLING = ("prochot",), ("thermal", "socket_thermal", "vr_thermal", "hbm_thermal")
#: Normal under load: limits of power and of current
_USUAL = ("ppt", "current_limit")
#: Seconds between two looks, as amd-smi takes (amd_smi.cc: amdsmi_get_violation_status)
_BETWEEN = 0.1
#: Counters are 32 bits wide in tables before 1.9, and start again at 0
_WRAP = 1 << 32
_WATT = 1_000_000


def clocks(host: Host, cards: Sequence[Card]) -> Iterator[Check]:
    first = {card.address: _read(host, card.address) for card in cards}
    asked = [address for address, metrics in first.items() if isinstance(metrics, Metrics) and _slow(metrics)]
    if asked and host.live:
        time.sleep(_BETWEEN)
    second = {address: _read(host, address) for address in asked}
    for address, metrics in first.items():
        subject = replace(CLOCKS, target=f"GPU {address}")
        if isinstance(metrics, HostError) or (metrics.cycles is None and metrics.active is None):
            yield _by_tool(host, subject, address, metrics)
        elif metrics.active is not None:
            yield _judged(subject, metrics.active)
        else:
            yield _changed(subject, metrics, second.get(address))


def _read(host: Host, address: str) -> Metrics | HostError:
    try:
        return amd_metrics.read(host, address)
    except HostError as error:
        return error


def _slow(metrics: Metrics) -> dict[str, int]:
    """Cycles with lower clocks since the driver was loaded, without the normal reasons."""
    return {name: count for name, count in metrics.slowed.items() if count and name not in _USUAL}


def _changed(subject: Subject, first: Metrics, second: Metrics | HostError | None) -> Check:
    if not _slow(first):
        return _judged(subject, (), "; never since the driver was loaded")
    if not isinstance(second, Metrics) or second.cycles is None or not first.cycles:
        why = second if isinstance(second, HostError) else "the firmware counts no cycles"
        return subject.unknown(f"two looks cannot be compared: {why}")
    passed = (second.cycles - first.cycles) % _WRAP
    share = ", ".join(f"{name} {count / first.cycles:.2%}" for name, count in _slow(first).items())
    before = f"; since the driver was loaded: {share} of the time"
    if not passed:
        return subject.unknown(f"the firmware counted nothing between two looks{before}")
    now = [name for name, count in second.slowed.items() if (count - first.slowed[name]) % _WRAP]
    return _judged(subject, now, before)


def _judged(subject: Subject, active: Sequence[str], before: str = "") -> Check:
    evidence = (f"active: {', '.join(active)}" if active else "none active") + before
    halved, cooled = ({*active}.intersection(names) for names in (_HALVING, _COOLING))
    strange = {*active}.difference(_HALVING, _COOLING, _USUAL)
    if strange and not halved and not cooled:
        return subject.unknown(f"{evidence}: not known here: {', '.join(sorted(strange))}")
    if cooled and not halved:
        subject = replace(subject, **topics.COOLED)
    return subject.judged(not halved and not cooled, evidence, expected="no slowdown")


def _by_tool(host: Host, subject: Subject, address: str, metrics: Metrics | HostError) -> Check:
    """From amd-smi, if the table is absent or has no reasons."""
    why = str(metrics) if isinstance(metrics, HostError) else f"gpu_metrics {metrics.version} has no reasons"
    try:
        throttle = smi.section(smi.metrics(host).get(address, {}), "throttle")
    except HostError as error:
        return subject.unknown(f"{why}; {smi.TOOL} is not installed" if error.absent else f"{why}; {error}")
    states = {name: _state(throttle, name) for name in amd_metrics.RESIDENCIES}
    if None in states.values():
        return subject.unknown(f"{why}; {smi.TOOL} reports none either")
    active = [name for name, is_active in states.items() if is_active]
    return _judged(replace(subject, source=" ".join(smi.METRIC)), active)


def _state(throttle: Mapping[str, object], name: str) -> bool | None:
    """True if active. The first versions write violation_active in place of violation_status."""
    words = {"ACTIVE": True, "NOT ACTIVE": False}
    given = throttle.get(f"{name}_violation_status", throttle.get(f"{name}_violation_active"))
    return words.get(given) if isinstance(given, str) else None


def power_cap(host: Host, cards: Sequence[Card]) -> Iterator[Check]:
    return each(POWER_CAP, cards, partial(_cap, host))


def _cap(host: Host, subject: Subject, address: str) -> Check:
    """Raises HostError."""
    folder = path_of(address, "hwmon")
    names = host.names(folder)
    if not names:
        raise HostError("list", folder, None, "no sensors are in it")
    path = f"{folder}/{names[0]}/power1_cap"
    cap, default = (number(name, required(host, name)) for name in (path, f"{path}_default"))
    evidence = f"{cap // _WATT} W; default {default // _WATT} W"
    if not default:
        return subject.unknown(f"{evidence}: the driver names no default")
    return subject.judged(cap >= default, evidence, expected=f"at least {default // _WATT} W")
