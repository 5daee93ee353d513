# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines with cpufreq drivers: what each of them refuses, prints and moves along, as its source says."""

from __future__ import annotations

import errno
from collections.abc import Sequence

from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from mlnode.model import cpulist
from mlnode.model.errors import HostError

CPU = "/sys/devices/system/cpu"
CPUFREQ = f"{CPU}/cpufreq"
PSTATE = f"{CPU}/intel_pstate"

#: Word → number of the preference, as on an Intel server up to Ice Lake (intel_pstate.c: epp_values)
PREFERENCES = {"performance": "0", "balance_performance": "128", "balance_power": "192", "power": "255"}
#: What switching turbo off leaves of min_perf_pct: base frequency over turbo frequency
BASE_PCT = 74
#: The lowest frequency over the turbo frequency (intel_pstate.c: min_perf_pct_min)
FLOOR_PCT = 22

GENERIC = "conservative ondemand userspace powersave performance schedutil "
ACTIVE = "performance powersave"


class CpuMachine(Machine):
    """A node whose kernel knows CPUs. Made by one of intel(), amd() and acpi()."""

    driver = ""
    firmware_turbo = True

    @classmethod
    def bare(cls, root: str, online: str, present: str = "") -> CpuMachine:
        """CPUs, and no cpufreq driver."""
        machine = cls(root)
        machine.put("/proc/cmdline", "ro quiet\n")
        machine.put(f"{CPU}/present", f"{present or online}\n")
        machine.put(f"{CPU}/online", f"{online}\n")
        for cpu in cpulist.parse(present or online):
            machine.put(f"{CPU}/cpu{cpu}/power/pm_qos_resume_latency_us", "0\n")
        for folder in ("/etc/systemd/system", "/run", "/var/lib"):
            machine.put(f"{folder}/.keep", "")
        return machine

    def policy(self, number: int, cpus: Sequence[int], governor: str, governors: str, **more: str) -> None:
        base = f"{CPUFREQ}/policy{number}"
        files = {
            "affected_cpus": " ".join(map(str, cpus)),
            "scaling_driver": self.driver,
            "scaling_governor": governor,
            "scaling_available_governors": governors,
            **more,
        }
        for name, text in files.items():
            self.put(f"{base}/{name}", f"{text}\n")

    @classmethod
    def intel(cls, root: str, online: str = "0-3", present: str = "", passive: bool = False) -> CpuMachine:
        """intel_pstate with HWP, as on a server: powersave and balance_performance, turbo on."""
        machine = cls.bare(root, online, present)
        machine.driver = "intel_cpufreq" if passive else "intel_pstate"
        governor, governors = ("schedutil", GENERIC) if passive else ("powersave", ACTIVE)
        words = "default performance balance_performance balance_power power "
        for cpu in cpulist.parse(online):
            machine.policy(
                cpu, [cpu], governor, governors,
                energy_performance_preference="balance_performance",
                energy_performance_available_preferences=words,
            )  # fmt: skip
            machine.put(f"{CPU}/cpu{cpu}/power/energy_perf_bias", "6\n")
        machine.put(f"{PSTATE}/no_turbo", "0\n")
        machine.put(f"{PSTATE}/min_perf_pct", f"{FLOOR_PCT}\n")
        machine.put(f"{PSTATE}/max_perf_pct", "100\n")
        machine.put("/proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu ida arat epb hwp hwp_epp\n")
        machine.put(f"{CPU}/cpuidle/current_driver", "intel_idle\n")
        return machine

    @classmethod
    def amd(cls, root: str, online: str = "0-3") -> CpuMachine:
        """amd-pstate-epp as on a server: performance, with the switch of boost and those of the policies."""
        machine = cls.bare(root, online)
        machine.driver = "amd-pstate-epp"
        for cpu in cpulist.parse(online):
            machine.policy(
                cpu, [cpu], "performance", ACTIVE,
                energy_performance_preference="performance",
                energy_performance_available_preferences="performance",
                boost="1",
            )  # fmt: skip
        machine.put(f"{CPUFREQ}/boost", "1\n")
        return machine

    @classmethod
    def acpi(cls, root: str, online: str = "0-3", together: int = 2) -> CpuMachine:
        """acpi-cpufreq, two CPUs to a policy, boost for all of them only."""
        machine = cls.bare(root, online)
        machine.driver = "acpi-cpufreq"
        known = cpulist.parse(online)
        for first in known[::together]:
            cpus = [cpu for cpu in known if first <= cpu < first + together]
            machine.policy(first, cpus, "schedutil", GENERIC)
        machine.put(f"{CPUFREQ}/boost", "1\n")
        return machine

    # -- the kernel --------------------------------------------------------------------

    def write_kernel(self, path: str, value: str) -> None:
        super().write_kernel(path, value)
        if path in self.ignores:
            return
        name = path.rpartition("/")[2]
        if name == "scaling_governor" and self.driver in ("intel_pstate", "amd-pstate-epp"):
            self._rule(path.rpartition("/")[0], value)
        if (
            path == f"{PSTATE}/no_turbo"
            and value == "1"
            and int(self.now(f"{PSTATE}/min_perf_pct")) > BASE_PCT
        ):
            self._store(f"{PSTATE}/min_perf_pct", str(BASE_PCT))
        if path == f"{CPUFREQ}/boost":
            for policy in self.matching(f"{CPUFREQ}/policy*/boost"):
                self._store(policy, value)

    def _rule(self, policy: str, governor: str) -> None:
        """What a change of governor makes of the preference."""
        preference = f"{policy}/energy_performance_preference"
        words = f"{policy}/energy_performance_available_preferences"
        if governor == "performance":
            self._store(preference, "performance")
        elif self.now(preference) == "performance":
            self._store(preference, "balance_performance")
        if self.driver == "amd-pstate-epp":
            every = "default performance balance_performance balance_power power "
            self._store(words, "performance" if governor == "performance" else every)

    def _accepted(self, path: str, value: str, old: str) -> str:
        folder, _slash, name = path.rpartition("/")
        if not path.startswith(CPU):
            return super()._accepted(path, value, old)
        accepted = {
            "scaling_governor": self._governor,
            "energy_performance_preference": self._preference,
            "energy_perf_bias": self._bias,
            "pm_qos_resume_latency_us": self._latency,
            "min_perf_pct": self._percent,
            "no_turbo": self._no_turbo,
            "boost": self._boost,
        }[name](folder, value)
        if isinstance(accepted, int):
            raise HostError(f"write {value!r} to", path, accepted)
        return accepted

    def _governor(self, policy: str, value: str) -> str | int:
        return value if value in self.now(f"{policy}/scaling_available_governors").split() else errno.EINVAL

    def _preference(self, policy: str, value: str) -> str | int:
        number = PREFERENCES.get(value, value)
        if not number.isdecimal() or int(number) > 255 or (value == number and self.driver.startswith("amd")):
            return errno.EINVAL
        active = self.driver in ("intel_pstate", "amd-pstate-epp")
        if number != "0" and active and self.now(f"{policy}/scaling_governor") == "performance":
            return errno.EBUSY
        return {number: word for word, number in PREFERENCES.items()}.get(number, number)

    def _bias(self, _folder: str, value: str) -> str | int:
        return value if value.isdecimal() and int(value) <= 15 else errno.EINVAL

    def _latency(self, _folder: str, value: str) -> str | int:
        return value if value == "n/a" or (value.isdecimal() and int(value) < 2**31 - 1) else errno.EINVAL

    def _percent(self, _folder: str, value: str) -> str | int:
        return str(min(max(int(value), FLOOR_PCT), int(self.now(f"{PSTATE}/max_perf_pct"))))

    def _no_turbo(self, _folder: str, value: str) -> str | int:
        return value if self.firmware_turbo or value == "1" else errno.EPERM

    def _boost(self, folder: str, value: str) -> str | int:
        if folder != CPUFREQ and self.now(f"{CPUFREQ}/boost") == "0":
            return errno.EINVAL
        return value if value in ("0", "1") else errno.EINVAL
