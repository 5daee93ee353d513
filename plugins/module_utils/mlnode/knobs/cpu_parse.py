# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""From a declaration to settings of the kind cpu: names, ranges and CPU lists; no hardware is read."""

from __future__ import annotations

import re
from typing import Any, Callable, Mapping

from .. import cpulist, schema
from ..errors import DeclarationError
from ..kind import Spec
from ..setting import Setting
from .cpu_schema import OPTIONS

KIND = "cpu"

CPU = "/sys/devices/system/cpu"
CPUFREQ = f"{CPU}/cpufreq"
PSTATE = f"{CPU}/intel_pstate"

#: What can be declared → its files, in the order that makes them stick: a change of governor moves the
#: preference, and switching boost off moves min_perf_pct (drivers/cpufreq/intel_pstate.c)
PATHS = {
    "governor": f"{CPUFREQ}/policy*/scaling_governor",
    "energy_performance_preference": f"{CPUFREQ}/policy*/energy_performance_preference",
    "energy_perf_bias": f"{CPU}/cpu*/power/energy_perf_bias",
    "boost": f"{CPUFREQ}/boost",
    "min_perf_pct": f"{PSTATE}/min_perf_pct",
    "max_latency_us": f"{CPU}/cpu*/power/pm_qos_resume_latency_us",
}

#: The kernel reads no more letters (intel_pstate.c)
_PREFERENCE = re.compile(r"[a-z_]{1,20}\Z", re.ASCII)
_NUMBER = re.compile(r"[0-9]{1,10}\Z", re.ASCII)

#: Preferences whose number is the same on every server processor, so that either may be declared;
#: the numbers between them have other names on other models (intel_pstate.c: intel_epp_default)
_PREFERENCE_NAMES = {"0": "performance", "255": "power"}
_PREFERENCE_MAX = 255  # 8 bits of the register

#: Names the kernel takes for the bias, but never prints (arch/x86/kernel/cpu/intel_epb.c, asm/msr-index.h)
BIAS = {"performance": 0, "balance-performance": 4, "normal": 6, "balance-power": 8, "power": 15}
_BIAS_MAX = 15  # 4 bits of the register

UNLIMITED = "unlimited"
#: The greatest number is the kernel's own word for no limit (include/linux/pm_qos.h)
_LATENCY_MAX = 2**31 - 2


def parse(spec: Spec) -> list[Setting]:
    """Settings in the order in which they are applied. Raises DeclarationError."""
    given = schema.checked(KIND, spec, OPTIONS)
    cpus = _cpus(given.get("cpus", "all"))
    if cpus is not None and "min_perf_pct" in given:
        raise DeclarationError(
            "cpu.min_perf_pct: there is one for the whole machine; declare it under a name without cpus"
        )
    wanted = {name: _SPELLED.get(name, str)(value) for name, value in given.items()}
    return [
        Setting(KIND, _key(name, cpus), path, wanted[name], wanted[name])
        for name, path in PATHS.items()
        if name in wanted
    ]


def split(key: str) -> tuple[str, tuple[int, ...] | None]:
    """Name and CPUs of a key as parse() makes them; None for all CPUs."""
    name, bracket, cpus = key[len("cpu.") :].partition("[")
    return name, cpulist.parse(cpus.rstrip("]")) if bracket else None


def _key(name: str, cpus: tuple[int, ...] | None) -> str:
    return f"cpu.{name}" if cpus is None else f"cpu.{name}[{cpulist.render(cpus)}]"


def _cpus(text: str) -> tuple[int, ...] | None:
    if text == "all":
        return None
    try:
        if not text:
            raise ValueError("an empty list names no CPU; write all, or leave the option out")
        return cpulist.parse(text)
    except ValueError as error:
        raise DeclarationError(f"cpu.cpus: {error}") from error


def _preference(text: str) -> str:
    name = "energy_performance_preference"
    if text == "default":
        raise DeclarationError(
            f"cpu.{name}: default is what the firmware chose, and the kernel never shows that word; "
            "declare nothing, or what the kernel shows"
        )
    if _PREFERENCE.match(text):
        return text
    number = _number(name, text, _PREFERENCE_MAX, "a word such as balance_performance or ")
    return _PREFERENCE_NAMES.get(number, number)


def _bias(text: str) -> str:
    if text in BIAS:
        return str(BIAS[text])
    return _number("energy_perf_bias", text, _BIAS_MAX, f"one of {', '.join(BIAS)} or ")


def _boost(wanted: bool) -> str:
    return "on" if wanted else "off"


def _latency(text: str) -> str:
    if text == UNLIMITED:
        return UNLIMITED
    return _number("max_latency_us", text, _LATENCY_MAX, f"{UNLIMITED}, or in microseconds ")


def _number(name: str, text: str, most: int, other: str) -> str:
    """A number in one spelling. other: what else may stand there, for the message."""
    if _NUMBER.match(text) and int(text) <= most:
        return str(int(text))
    raise DeclarationError(f"cpu.{name}: {text!r} is not {other}a number from 0 to {most}")


#: Option → its value as the kernel's file has it
_SPELLED: Mapping[str, Callable[[Any], str]] = {
    "energy_performance_preference": _preference,
    "energy_perf_bias": _bias,
    "boost": _boost,
    "max_latency_us": _latency,
}
