# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of the area cpu."""

from __future__ import annotations

import re

from ...model.record import regex
from ...model.schema import Form, Option, Table, cpus, word_or_number
from ...model.setting import Severity

#: The kernel reads no more letters (cpufreq.c: store_scaling_governor)
_GOVERNOR = Form(regex(r"[a-z_]{1,15}\Z", re.ASCII), "a word such as performance")

#: The kernel reads no more letters, and 8 bits of the register (intel_pstate.c). Two numbers have the same
#: name on every server processor, so that either may be declared; others differ by model (intel_epp_default).
_PREFERENCE = word_or_number(
    r"(?!default\Z)[a-z_]{1,20}",
    "a word such as balance_performance (default is the firmware's choice, and the kernel never shows it)",
    255,
    {"0": "performance", "255": "power"},
)

#: Names the kernel takes for the 4 bits of the bias, but never prints (arch/x86/kernel/cpu/intel_epb.c,
#: asm/msr-index.h)
_BIASES = {"performance": "0", "balance-performance": "4", "normal": "6", "balance-power": "8", "power": "15"}
_BIAS = word_or_number("|".join(_BIASES), f"one of {', '.join(_BIASES)}", 15, _BIASES)

UNLIMITED = "unlimited"
#: The greatest number is the kernel's own word for no limit (include/linux/pm_qos.h)
_LATENCY = word_or_number(UNLIMITED, UNLIMITED, 2**31 - 2)

#: All CPUs of the machine
ALL = "all"

#: In the order that makes them stick: a change of governor moves the preference, and switching boost off
#: moves min_perf_pct (drivers/cpufreq/intel_pstate.c). Files are below /sys/devices/system/cpu.
OPTIONS: Table = {
    "governor": Option(
        "str",
        """
        One of the words in C(scaling_available_governors) of every policy, such as V(performance).

        With the drivers C(intel_pstate) and C(amd-pstate-epp) there are two, V(performance) and
        V(powersave). The latter follows the load there, as O(energy_performance_preference) says.

        A governor that is a kernel module is offered once C(cpufreq_NAME) is loaded.

        Unset leaves it untouched, as with all other options.
        """,
        form=_GOVERNOR,
        file="cpufreq/policy*/scaling_governor",
        severity=Severity.MEDIUM,
        reason="a clock that follows the load is always late for the short bursts between two kernel "
        "launches",
        source="cpufreq.rst",
    ),
    "energy_performance_preference": Option(
        "str",
        """
        Preference of the processor itself: a word in C(energy_performance_available_preferences) or a number
        from V(0) (performance) to V(255) (power).

        The kernel prints a word for each number that has one. The numbers of C(balance_performance) and
        C(balance_power) depend on the processor, so declare the word if there is one. If a number reads back
        as a word, the old value is restored and an error reported. On many kernels C(amd-pstate-epp) takes
        only words.

        Under the governor V(performance) those two drivers take nothing but V(performance), and answer
        EBUSY. This is refused before anything is written.
        """,
        form=_PREFERENCE,
        file="cpufreq/policy*/energy_performance_preference",
        severity=Severity.MEDIUM,
        reason="how soon the processor itself raises its clock; below performance it saves energy while "
        "ranks wait",
        source="intel_pstate.rst, amd-pstate.rst",
    ),
    "energy_perf_bias": Option(
        "str",
        """
        Another hint to Intel processors, a number from V(0) to V(15), or one of V(performance) (0),
        V(balance-performance) (4), V(normal) (6), V(balance-power) (8), V(power) (15).
        """,
        form=_BIAS,
        file="cpu*/power/energy_perf_bias",
        reason="above 0 the processor saves power at the cost of speed, and no governor changes it",
        source="intel_epb.rst; x86_energy_perf_policy(8)",
    ),
    "boost": Option(
        "bool",
        """
        Whether CPUs may run above their base frequency.

        It is written to C(intel_pstate/no_turbo) (inverted), or to C(cpufreq/boost) and the file C(boost)
        of each policy. With O(cpus) only the latter can do it, since Linux 6.7.
        """,
        file="cpufreq/boost",
        severity=Severity.MEDIUM,
        reason="the one thread that launches kernels needs the highest clock; off makes nodes alike, "
        "and slower",
        source="cpufreq.rst, intel_pstate.rst",
    ),
    "min_perf_pct": Option(
        "int",
        """
        The least performance in percent of the greatest, from V(0) to V(100), for C(intel_pstate) only.
        There is one for the whole machine, so it goes without O(cpus).

        The kernel takes no less than the lowest frequency of the processor. A number below it does not read
        back, is put back and reported as an error.
        """,
        least=0,
        most=100,
        file="intel_pstate/min_perf_pct",
        reason="keeps the clock up under a dynamic governor; with performance it adds nothing",
        source="intel_pstate.rst",
    ),
    "max_latency_us": Option(
        "str",
        """
        The longest time in microseconds that a CPU may take to wake up. Deeper idle states are not used.
        V(0) excludes all that take any time, V(unlimited) allows all of them.

        The kernel's C(pm_qos_resume_latency_us) is inverted. It shows C(n/a) for V(0), and 0 for
        V(unlimited).

        CPUs that never sleep take power and heat from those that could boost.
        """,
        form=_LATENCY,
        file="cpu*/power/pm_qos_resume_latency_us",
        severity=Severity.MEDIUM,
        reason="waking from a deep idle state takes more than 100 microseconds; no sleep leaves less "
        "for boost",
        source="cpuidle.rst, ABI sysfs-devices-power, drivers/idle/intel_idle.c",
    ),
    "cpus": Option(
        "str",
        """
        The CPUs, as a list such as V(0-3,8), or V(all), which is the default.

        A policy that sets several CPUs together cannot be set for some of them only, which is refused. CPUs
        that the machine does not have are an error.

        For another list use another O(name). Two names may not declare one option for the same CPU, nor
        O(governor) and O(energy_performance_preference), or O(boost) and O(min_perf_pct), as one moves the
        other.
        """,
        declares=False,
        form=cpus(ALL),
    ),
}
