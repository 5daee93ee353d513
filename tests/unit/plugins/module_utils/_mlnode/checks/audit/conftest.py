# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pathlib
import shutil

import pytest
from ansible_collections.mlnode.tuning.tests.unit.gpu_machine import GpuMachine

from .looking import CLOCK, CPU, ECC_OK, EDAC, LIMITS, NETSTAT, NODES, SNMP, memory


@pytest.fixture
def node(tmp_path: pathlib.Path) -> GpuMachine:
    """As it should be: two NUMA nodes, two GPUs."""
    machine = GpuMachine.of(str(tmp_path / "node"), 2)
    for address in machine.modes:
        machine.modes[address] = "Enabled"
        machine.ecc[address] = ECC_OK
    for path, text in {
        "/proc/cpuinfo": "processor\t: 0\nflags\t\t: fpu tsc",
        "/proc/swaps": "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority",
        "/proc/sys/kernel/numa_balancing": "0",
        "/sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never",
        "/sys/class/dmi/id/sys_vendor": "Maker",
        CLOCK: "tsc",
        f"{CPU}/online": "0-3",
        f"{CPU}/present": "0-3",
        f"{CPU}/possible": "0-3",
        f"{CPU}/smt/control": "on",
        f"{CPU}/vulnerabilities/meltdown": "Mitigation: PTI",
        f"{CPU}/vulnerabilities/srbds": "Not affected",
        f"{CPU}/cpufreq/policy0/scaling_governor": "performance",
        f"{CPU}/cpufreq/policy2/scaling_governor": "performance",
        f"{NODES}/online": "0-1",
        "/run/systemd/timesync/synchronized": "",
        f"{EDAC}/mc0/ce_count": "0",
        f"{EDAC}/mc0/ue_count": "0",
        f"{EDAC}/power/control": "auto",
        "/proc/1/status": "Name:\tsystemd\nPPid:\t0\nUid:\t0\t0\t0\t0",
        "/proc/9/status": "Name:\tslurmd\nPPid:\t1\nUid:\t0\t0\t0\t0",
        "/proc/cmdline": "root=/dev/vda1 ro default_hugepagesz=1G hugepagesz=1G hugepages=2 preempt=full",
        "/sys/kernel/debug/sched/preempt": "(full) lazy",
        "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages": "0",
        "/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages": "0",
        "/proc/net/snmp": SNMP.format(overflows=0, sent_again=0),
        "/proc/net/netstat": NETSTAT.format(0),
        f"{CPU}/cpufreq/policy0/scaling_max_freq": "3800000",
        f"{CPU}/cpufreq/policy0/cpuinfo_max_freq": "3800000",
        "/proc/9/limits": LIMITS.format("1048576", "1048576"),
    }.items():
        machine.put(path, f"{text}\n")
    shutil.rmtree(f"{machine.root}/sys/class/net")  # folders, which the kernel's are not
    for number in range(4):
        machine.put(f"{CPU}/cpu{number}/power/energy_perf_bias", "0\n")
    for number, cpus in enumerate(("0-1", "2-3")):
        machine.put(f"{NODES}/node{number}/cpulist", f"{cpus}\n")
        machine.put(f"{NODES}/node{number}/distance", "10 21\n")
        memory(machine, number, 1 << 20)
    return machine
