# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Findings about the kernel and its settings that cost speed, whatever is declared."""

from __future__ import annotations

import re
from typing import Iterator

from ...host.host import Host
from ...knobs.sysctl import cgroup1
from ...knobs.sysctl import info as sysctl
from ...knobs.thp import kind as thp
from ...model import values
from ...model.errors import HostError
from ...model.record import regex, replace
from ...model.setting import Severity, Value
from ...topology import numa
from ...topology.model import Topology
from ..model import Verdict
from . import model
from .model import AuditCheck, Topic

KERNEL = Topic(
    "kernel",
    Severity.MEDIUM,
    "a kernel before 5.15 lacks what drivers of NICs and GPUs build on, such as DMA-BUF between them (5.12)",
    "kernelnewbies.org, Linux_5.12, Linux_5.19 and Linux_6.1",
    "boot a kernel of 5.15 or newer",
)
THP = Topic(
    "thp",
    *thp.cost(Value("madvise"), Value("madvise")),
    "set enabled and defrag to madvise: the module thp",
)
SWAPPINESS = Topic(
    "swappiness",
    *sysctl.info("vm.swappiness", Value(str(sysctl.SWAPPINESS_HIGH + 1))),
    "set vm.swappiness to 1: the module sysctl_ml",
)
SWAP = Topic(
    "swap",
    Severity.LOW,
    "a process that was swapped out answers after milliseconds, and memory that leaks is seen late",
    "mkswap(8), swapoff(8)",
    "leave it only if something needs it, with vm.swappiness 1",
)
BALANCING = Topic(
    "numa_balancing",
    *sysctl.info("kernel.numa_balancing", Value("1")),
    "set kernel.numa_balancing to 0: the module sysctl_ml",
)
RECLAIM = Topic(
    "zone_reclaim",
    *sysctl.info("vm.zone_reclaim_mode", Value("1")),
    "set vm.zone_reclaim_mode to 0: the module sysctl_ml",
)
CLOCK = Topic(
    "clocksource",
    Severity.HIGH,
    "each look at the clock is a system call and a slow register: a microsecond, not 20 ns",
    "timers/timekeeping.rst, kernel-parameters.txt (tsc)",
    "look in dmesg for why tsc was given up (firmware, sockets out of step), and update the firmware",
)
MITIGATIONS = Topic(
    "mitigations",
    Severity.LOW,
    "they take some percent of system calls, and are what keeps one user's memory from another",
    "admin-guide/hw-vuln/index.rst",
)

_TOPICS = (KERNEL, THP, SWAPPINESS, SWAP, BALANCING, RECLAIM, CLOCK, MITIGATIONS)
NAMES = tuple(topic.name for topic in _TOPICS)

_RELEASE = "/proc/sys/kernel/osrelease"
_ENABLED, _DEFRAG = f"{thp.BASE}/enabled", f"{thp.BASE}/defrag"
_SWAPS = "/proc/swaps"
_SOURCE = "/sys/devices/system/clocksource/clocksource0/current_clocksource"
_HOLES = "/sys/devices/system/cpu/vulnerabilities"

_LEAST = (5, 15)
#: What newer ones bring to nodes like these
_BRINGS = (
    ((5, 19), "5.19 brings packets of more than 64 kB over IPv6 (BIG TCP)"),
    ((6, 1), "6.1 brings the multi-generational LRU, which finds what to reclaim with less work"),
)
#: Vendors of such kernels take features of newer ones into old numbers
_BACKPORTS = regex(r"\.(el[0-9]|fbk|lp[0-9])|-default\Z")

#: Sources that are read from a register on the bus, or not at all (drivers/clocksource, kernel/time)
_SLOW = ("hpet", "acpi_pm", "pit", "jiffies", "refined-jiffies")


def checks(host: Host, topology: Topology) -> Iterator[AuditCheck]:
    yield _kernel(host)
    yield _thp(host)
    yield from _swap(host)
    yield _balancing(host, topology)
    yield _number(host, RECLAIM, "/proc/sys/vm/zone_reclaim_mode", 0)
    yield _clock(host, topology)
    yield _mitigations(host)


def _kernel(host: Host) -> AuditCheck:
    value = host.value(_RELEASE)
    if value.text is None:
        return model.missing(KERNEL, value, _RELEASE)
    version = values.kernel_version(value.text)
    if version is None:
        return model.unknown(KERNEL, f"{value.text[:60]!r} is not a kernel version", _RELEASE)
    more = "; ".join(feature for since, feature in _BRINGS if version < since)
    found = f"{value.text.strip()[:80]}{f' ({more})' if more else ''}"
    if version < _LEAST and _BACKPORTS.search(value.text):
        release = f"{value.text.strip()[:80]}: its vendor takes new features back, see the release notes"
        return model.told(KERNEL, release, _RELEASE)
    return model.judged(KERNEL, version >= _LEAST, found, _RELEASE, "at least 5.15")


def _thp(host: Host) -> AuditCheck:
    value = host.value(_ENABLED)
    if value.text is None:
        return model.missing(THP, value, _ENABLED)
    now, defrag = values.chosen(value.text), host.value(_DEFRAG)
    if defrag.text is not None:
        defrag = Value(values.chosen(defrag.text))
    severity, reason, reference = thp.cost(Value(now), defrag)
    topic = replace(THP, severity=severity, reason=reason, reference=reference)
    found = f"{now}, defrag {defrag}"
    return model.judged(topic, now in ("madvise", "never"), found, _ENABLED, "madvise or never")


def _swap(host: Host) -> Iterator[AuditCheck]:
    value = host.value(_SWAPS)
    if value.text is None:
        yield model.missing(SWAP, value, _SWAPS)
        yield model.missing(SWAPPINESS, value, _SWAPS)
        return
    areas = [line.split()[0] for line in value.text.splitlines()[1:] if line.split()]
    yield model.judged(SWAP, not areas, ", ".join(areas) or "none", _SWAPS, "none")
    path = "/proc/sys/vm/swappiness"
    if not areas:
        yield model.told(SWAPPINESS, "there is no swap", path)
    else:
        yield _swappiness(host, path)


def _swappiness(host: Host, path: str) -> AuditCheck:
    """Of the node, and with cgroup v1 of its slices and services, which do not go by it."""
    check = _number(host, SWAPPINESS, path, sysctl.SWAPPINESS_HIGH)
    try:
        values_of = {file: host.value(file).text or "" for file in cgroup1.files(host)}
    except HostError as error:
        return model.unknown(SWAPPINESS, str(error), path)
    most = sysctl.SWAPPINESS_HIGH
    high = [file for file, text in values_of.items() if (values.number(text) or 0) > most]
    if not high or check.verdict is not Verdict.PASS:
        return check
    found = cgroup1.others(host.value(path).text or "", values_of)
    return model.judged(SWAPPINESS, False, found, high[0], f"at most {most}")


def _number(host: Host, topic: Topic, path: str, most: int) -> AuditCheck:
    value = host.value(path)
    if value.text is None:
        return model.missing(topic, value, path)
    text = value.text.strip()
    if not re.match(r"[0-9]{1,20}\Z", text, re.ASCII):
        return model.unknown(topic, f"{text[:60]!r} is not a number", path)
    expected = f"at most {most}" if most else "0"
    return model.judged(topic, int(text) <= most, text, path, expected)


def _balancing(host: Host, topology: Topology) -> AuditCheck:
    path = "/proc/sys/kernel/numa_balancing"
    if len(numa.with_cpus(topology.nodes)) < 2:
        return model.told(BALANCING, "there is one NUMA node, and nothing to balance", path)
    return _number(host, BALANCING, path, 0)


def _clock(host: Host, topology: Topology) -> AuditCheck:
    value = host.value(_SOURCE)
    if value.text is None:
        return model.missing(CLOCK, value, _SOURCE)
    now = value.text.strip()[:60]
    metal = topology.machine.kind == "bare metal"
    x86 = "flags" in (host.value("/proc/cpuinfo").text or "")
    if now in _SLOW or (metal and x86):
        return model.judged(CLOCK, now == "tsc", now, _SOURCE, "tsc" if x86 else "the CPU's own")
    return model.told(CLOCK, now, _SOURCE)


def _mitigations(host: Host) -> AuditCheck:
    """Reported and not judged: their cost is the price of security, and no advice is given against it."""
    try:
        texts = {name: host.value(f"{_HOLES}/{name}").text or "" for name in host.names(_HOLES)}
    except HostError as error:
        return model.unknown(MITIGATIONS, str(error), _HOLES)
    if not texts:
        return model.told(MITIGATIONS, f"{_HOLES} does not exist", _HOLES)
    open_ones = [name for name, text in texts.items() if text.startswith("Vulnerable")]
    active = sum(text.startswith("Mitigation") for text in texts.values())
    exposed = f"; open to {', '.join(open_ones)}" if open_ones else ""
    return model.told(MITIGATIONS, f"{active} active of {len(texts)} known{exposed}", _HOLES)
