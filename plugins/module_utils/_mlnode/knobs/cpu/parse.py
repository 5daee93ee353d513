# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""From a declaration to settings of the kind cpu: names, ranges and CPU lists; no hardware is read."""

from __future__ import annotations

from ...model import cpulist
from ...model.errors import DeclarationError
from ...model.schema import Checked
from ...model.setting import Setting
from .schema import ALL, OPTIONS

KIND = "cpu"

CPU = "/sys/devices/system/cpu"
CPUFREQ = f"{CPU}/cpufreq"
PSTATE = f"{CPU}/intel_pstate"


def parse(given: Checked) -> list[Setting]:
    """Settings in the order in which they are applied. Raises DeclarationError."""
    listed = given.get("cpus", ALL)
    if listed != ALL and "min_perf_pct" in given:
        raise DeclarationError(
            "cpu.min_perf_pct: there is one for the whole machine; declare it under a name without cpus"
        )
    bracket = "" if listed == ALL else f"[{listed}]"
    settings = []
    for name, option in OPTIONS.items():
        if option.file and name in given:
            value = given[name]
            want = str(value) if name != "boost" else "on" if value else "off"
            path = f"{CPU}/{option.file}"
            settings.append(Setting(KIND, f"{KIND}.{name}{bracket}", path, want, want))
    return settings


def split(key: str) -> tuple[str, tuple[int, ...] | None]:
    """Name and CPUs of a key as parse() makes them; None for all CPUs."""
    name, bracket, cpus = key[len("cpu.") :].partition("[")
    return name, cpulist.parse(cpus.rstrip("]")) if bracket else None
