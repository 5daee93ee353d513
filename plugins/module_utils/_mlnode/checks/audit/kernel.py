# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kernel version and settings that cost speed, even if they match the declaration."""

from __future__ import annotations

import re
from typing import Iterator

from ...host.host import Host
from ...knobs.sysctl import cgroup1
from ...knobs.sysctl import info as sysctl
from ...knobs.thp import kind as thp
from ...model import values
from ...model.record import regex, replace
from ...model.setting import Severity, Value
from ...topology import numa
from ...topology.model import Topology
from ..model import Check, Nothing, Subject, Verdict, content
from .model import Looks, topic

KERNEL = topic(
    "kernel",
    Severity.MEDIUM,
    "a kernel before 5.15 lacks features for NIC and GPU drivers, such as DMA-BUF between them (5.12)",
    "kernelnewbies.org, Linux_5.12, Linux_5.19 and Linux_6.1",
    "boot a kernel of 5.15 or newer",
    "/proc/sys/kernel/osrelease",
)
THP = topic(
    "thp",
    *thp.cost(Value("madvise"), Value("madvise")),
    "set enabled and defrag to madvise: the module thp",
    f"{thp.BASE}/enabled",
)
SWAPPINESS = topic(
    "swappiness",
    *sysctl.info("vm.swappiness", Value(str(sysctl.SWAPPINESS_HIGH + 1))),
    "set vm.swappiness to 1: the module sysctl_ml",
    "/proc/sys/vm/swappiness",
)
SWAP = topic(
    "swap",
    Severity.LOW,
    "a process that was swapped out answers after milliseconds, and memory that leaks is seen late",
    "mkswap(8), swapoff(8)",
    "leave it only if something needs it, with vm.swappiness 1",
    "/proc/swaps",
)
BALANCING = topic(
    "numa_balancing",
    *sysctl.info("kernel.numa_balancing", Value("1")),
    "set kernel.numa_balancing to 0: the module sysctl_ml",
    "/proc/sys/kernel/numa_balancing",
)
RECLAIM = topic(
    "zone_reclaim",
    *sysctl.info("vm.zone_reclaim_mode", Value("1")),
    "set vm.zone_reclaim_mode to 0: the module sysctl_ml",
    "/proc/sys/vm/zone_reclaim_mode",
)
CLOCK = topic(
    "clocksource",
    Severity.HIGH,
    "each look at the clock is a system call and a slow register: a microsecond, not 20 ns",
    "timers/timekeeping.rst, kernel-parameters.txt (tsc)",
    "look in dmesg for why tsc was given up (firmware, sockets out of step), and update the firmware",
    "/sys/devices/system/clocksource/clocksource0/current_clocksource",
)
MITIGATIONS = topic(
    "mitigations",
    Severity.LOW,
    "they cost some percent of system calls, and keep one user's memory from another",
    "admin-guide/hw-vuln/index.rst",
    source="/sys/devices/system/cpu/vulnerabilities",
)

_DEFRAG = f"{thp.BASE}/defrag"

_LEAST = (5, 15)
#: Benefits of newer kernels for such nodes
_BRINGS = (
    ((5, 19), "5.19 brings packets of more than 64 kB over IPv6 (BIG TCP)"),
    ((6, 1), "6.1 brings the multi-generational LRU, which finds what to reclaim with less work"),
)
#: Vendors of these kernels backport newer features to old version numbers
_BACKPORTS = regex(r"\.(el[0-9]|fbk|lp[0-9])|-default\Z")

#: Sources that need a bus access for each reading, or cannot be read (drivers/clocksource, kernel/time)
_SLOW = ("hpet", "acpi_pm", "pit", "jiffies", "refined-jiffies")


def _kernel(host: Host, _topology: Topology) -> Check:
    release = content(host, KERNEL.source)
    version = values.kernel_version(release)
    if version is None:
        return KERNEL.unknown(f"{release[:60]!r} is not a kernel version")
    more = "; ".join(feature for since, feature in _BRINGS if version < since)
    evidence = f"{release.strip()[:80]}{f' ({more})' if more else ''}"
    if version < _LEAST and _BACKPORTS.search(release):
        return KERNEL.skip(
            f"{release.strip()[:80]}: its vendor takes new features back, see the release notes"
        )
    return KERNEL.judged(version >= _LEAST, evidence, expected="at least 5.15")


def _thp(host: Host, _topology: Topology) -> Check:
    now, defrag = values.chosen(content(host, THP.source)), host.value(_DEFRAG)
    if defrag.text is not None:
        defrag = Value(values.chosen(defrag.text))
    severity, reason, reference = thp.cost(Value(now), defrag)
    subject = replace(THP, severity=severity, reason=reason, reference=reference)
    good = now in ("madvise", "never")
    return subject.judged(good, f"{now}, defrag {defrag}", expected="madvise or never")


def _swap(host: Host, _topology: Topology) -> Iterator[Check]:
    lines = content(host, SWAP.source).splitlines()[1:]
    areas = [line.split()[0] for line in lines if line.split()]
    yield SWAP.judged(not areas, ", ".join(areas) or "none", expected="none")
    if not areas:
        raise Nothing("there is no swap", SWAPPINESS.source)
    yield _swappiness(host)


def _swappiness(host: Host) -> Check:
    """Swappiness of the node and, with cgroup v1, of its slices and services, which are independent."""
    most = sysctl.SWAPPINESS_HIGH
    values_of = {file: host.value(file).text or "" for file in cgroup1.files(host)}
    check = _at_most(host, SWAPPINESS, most)
    high = [file for file, text in values_of.items() if (values.number(text) or 0) > most]
    if not high or check.verdict is not Verdict.PASS:
        return check
    evidence = cgroup1.others(host.value(SWAPPINESS.source).text or "", values_of)
    return SWAPPINESS.judged(False, evidence, source=high[0], expected=f"at most {most}")


def _at_most(host: Host, subject: Subject, most: int) -> Check:
    text = content(host, subject.source).strip()
    if not re.match(r"[0-9]{1,20}\Z", text, re.ASCII):
        return subject.unknown(f"{text[:60]!r} is not a number")
    return subject.judged(int(text) <= most, text, expected=f"at most {most}" if most else "0")


def _balancing(host: Host, topology: Topology) -> Check:
    if len(numa.with_cpus(topology.nodes)) < 2:
        raise Nothing("there is one NUMA node, and nothing to balance", BALANCING.source)
    return _at_most(host, BALANCING, 0)


def _reclaim(host: Host, _topology: Topology) -> Check:
    return _at_most(host, RECLAIM, 0)


def _clock(host: Host, topology: Topology) -> Check:
    now = content(host, CLOCK.source).strip()[:60]
    metal = topology.machine.kind == "bare metal"
    x86 = "flags" in (host.value("/proc/cpuinfo").text or "")
    if now in _SLOW or (metal and x86):
        return CLOCK.judged(now == "tsc", now, expected="tsc" if x86 else "the CPU's own")
    return CLOCK.skip(now)


def _mitigations(host: Host, _topology: Topology) -> Check:
    """Reported only: their cost is the price of security, and no advice is given against it."""
    folder = MITIGATIONS.source
    texts = {name: host.value(f"{folder}/{name}").text or "" for name in host.names(folder)}
    if not texts:
        return MITIGATIONS.skip(f"{folder} does not exist")
    open_ones = [name for name, text in texts.items() if text.startswith("Vulnerable")]
    active = sum(text.startswith("Mitigation") for text in texts.values())
    exposed = f"; open to {', '.join(open_ones)}" if open_ones else ""
    return MITIGATIONS.skip(f"{active} active of {len(texts)} known{exposed}")


LOOKS: Looks = (
    ((KERNEL,), _kernel),
    ((THP,), _thp),
    ((SWAP, SWAPPINESS), _swap),
    ((BALANCING,), _balancing),
    ((RECLAIM,), _reclaim),
    ((CLOCK,), _clock),
    ((MITIGATIONS,), _mitigations),
)
