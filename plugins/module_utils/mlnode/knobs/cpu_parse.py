# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""From a declaration to settings of the kind cpu: names, ranges and CPU lists; no hardware is read."""

from __future__ import annotations

import re
from typing import Any

from .. import cpulist, options
from ..errors import DeclarationError
from ..kind import Spec
from ..setting import Setting

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

#: The kernel reads no more letters of either (cpufreq.c: store_scaling_governor; intel_pstate.c)
_GOVERNOR = re.compile(r"[a-z_]{1,15}\Z", re.ASCII)
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
    options.refuse_unknown(KIND, spec, (*PATHS, "cpus"))
    cpus = _cpus(spec.get("cpus"))
    if cpus is not None and spec.get("min_perf_pct") is not None:
        raise DeclarationError(
            "cpu.min_perf_pct: there is one for the whole machine; declare it under a name without cpus"
        )
    wanted = {
        "governor": _governor(spec.get("governor")),
        "energy_performance_preference": _preference(spec.get("energy_performance_preference")),
        "energy_perf_bias": _bias(spec.get("energy_perf_bias")),
        "boost": _boost(spec.get("boost")),
        "min_perf_pct": _percent(spec.get("min_perf_pct")),
        "max_latency_us": _latency(spec.get("max_latency_us")),
    }
    return [
        Setting(KIND, _key(name, cpus), path, want, want)
        for name, path in PATHS.items()
        for want in [wanted[name]]
        if want is not None
    ]


def split(key: str) -> tuple[str, tuple[int, ...] | None]:
    """Name and CPUs of a key as parse() makes them; None for all CPUs."""
    name, bracket, cpus = key[len("cpu.") :].partition("[")
    return name, cpulist.parse(cpus.rstrip("]")) if bracket else None


def _key(name: str, cpus: tuple[int, ...] | None) -> str:
    return f"cpu.{name}" if cpus is None else f"cpu.{name}[{cpulist.render(cpus)}]"


def _cpus(value: Any) -> tuple[int, ...] | None:
    if value is None or value == "all":
        return None
    if isinstance(value, bool) or not isinstance(value, (int, str)) or value == "":
        raise DeclarationError(f"cpu.cpus: {value!r} is no list of CPUs such as 0-3,8, and not all")
    try:
        return cpulist.parse(str(value))
    except ValueError as error:
        raise DeclarationError(f"cpu.cpus: {error}") from error


def _refuse_boolean(name: str, value: Any) -> None:
    if isinstance(value, bool):
        raise DeclarationError(f"cpu.{name}: YAML boolean {str(value).lower()}; if a word is meant, quote it")


def _governor(value: Any) -> str | None:
    _refuse_boolean("governor", value)
    if value is None:
        return None
    if not isinstance(value, str) or not _GOVERNOR.match(value):
        raise DeclarationError(f"cpu.governor: {value!r} is no word such as performance")
    return value


def _preference(value: Any) -> str | None:
    name = "energy_performance_preference"
    _refuse_boolean(name, value)
    if isinstance(value, str) and _PREFERENCE.match(value):
        if value == "default":
            raise DeclarationError(
                f"cpu.{name}: default is what the firmware chose, and the kernel never shows that word; "
                "declare nothing, or what the kernel shows"
            )
        return value
    number = _number(name, value, _PREFERENCE_MAX, "a word such as balance_performance or ")
    return number if number is None else _PREFERENCE_NAMES.get(number, number)


def _bias(value: Any) -> str | None:
    if isinstance(value, str) and value in BIAS:
        return str(BIAS[value])
    return _number("energy_perf_bias", value, _BIAS_MAX, f"one of {', '.join(BIAS)} or ")


def _boost(value: Any) -> str | None:
    if value is None:
        return None
    if not isinstance(value, bool):
        raise DeclarationError(f"cpu.boost: {value!r} is neither true nor false")
    return "on" if value else "off"


def _percent(value: Any) -> str | None:
    return _number("min_perf_pct", value, 100, "")


def _latency(value: Any) -> str | None:
    if value == UNLIMITED:
        return UNLIMITED
    return _number("max_latency_us", value, _LATENCY_MAX, f"{UNLIMITED}, or in microseconds ")


def _number(name: str, value: Any, most: int, other: str) -> str | None:
    """A number in one spelling. other: what else may stand there, for the message."""
    if value is None:
        return None
    _refuse_boolean(name, value)
    text = str(value)
    if isinstance(value, (int, str)) and _NUMBER.match(text) and int(text) <= most:
        return str(int(text))
    raise DeclarationError(f"cpu.{name}: {value!r} is not {other}a number from 0 to {most}")
