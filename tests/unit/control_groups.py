# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Control groups of a node in a folder, of both versions, with the files that the kernel makes in each."""

from __future__ import annotations

from collections.abc import Mapping

from ansible_collections.mlnode.tuning.tests.unit.machine import Machine

TOP = "/sys/fs/cgroup"
CONTROLLERS = ("cpuset", "cpu", "io", "memory", "hugetlb", "pids")
#: Of version 1, each with a mount
OLD = ("cpuset", "cpu,cpuacct", "memory", "hugetlb", "devices")
#: Before the file systems of the table
_ROOT = "22 1 0:22 / / rw - ext4 /dev/vda1 rw\n23 22 0:23 / /sys rw - sysfs sysfs rw\n"
_UNLIMITED = "9223372036854771712"

_NEW_FILES = {
    "cgroup.controllers": " ".join(CONTROLLERS),
    "cgroup.type": "domain",
    "cpu.max": "max 100000",
    "cpu.stat": "usage_usec 9\nnr_periods 0\nnr_throttled 0\nthrottled_usec 0",
    "cpuset.cpus.effective": "0-7",
    "memory.max": "max",
    "memory.high": "max",
    "memory.current": "1048576",
    "memory.stat": "anon 1048576\ninactive_file 0",
    "memory.events": "low 0\nhigh 0\nmax 0\noom 0\noom_kill 0",
    "memory.events.local": "low 0\nhigh 0\nmax 0\noom 0\noom_kill 0",
    "memory.swap.max": "max",
    "memory.swap.current": "0",
    "hugetlb.2MB.max": "max",
    "hugetlb.2MB.rsvd.max": "max",
    "hugetlb.2MB.events.local": "max 0",
}
_OLD_FILES = {
    "cpuset": {"cpuset.effective_cpus": "0-7"},
    "cpu": {
        "cpu.cfs_quota_us": "-1",
        "cpu.cfs_period_us": "100000",
        "cpu.stat": "nr_periods 0\nnr_throttled 0\nthrottled_time 0",
    },
    "memory": {
        "memory.limit_in_bytes": _UNLIMITED,
        "memory.usage_in_bytes": "1048576",
        "memory.stat": "inactive_file 7\ntotal_inactive_file 0",
        "memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 0",
        "memory.swappiness": "60",
    },
    "hugetlb": {"hugetlb.2MB.limit_in_bytes": _UNLIMITED, "hugetlb.2MB.failcnt": "0"},
    "devices": {"devices.list": "a *:* rwm"},
}


def folder(path: str, controller: str = "") -> str:
    """Files of a group. controller: of version 1."""
    middle = f"/{controller}" if controller else ""
    return f"{TOP}{middle}{path if path != '/' else ''}"


def mount(machine: Machine, *old: str, top: str = "/") -> None:
    """Mount the tree of version 2, and these controllers of version 1. top: the group that the mount of
    version 2 shows as its top."""
    rows = [_ROOT]
    if old:
        rows.append(f"30 23 0:30 / {TOP} rw - tmpfs tmpfs rw\n")
    for number, controllers in enumerate(old, 31):
        point = folder("", controllers)
        rows.append(f"{number} 30 0:{number} / {point} rw - cgroup cgroup rw,{controllers}\n")
        machine.put(f"{point}/release_agent", "\n")
    taken = {name for controllers in old for name in controllers.split(",")}
    if not old:
        rows.append(f"50 23 0:50 {top} {TOP} rw - cgroup2 cgroup2 rw,nsdelegate\n")
        machine.put(f"{TOP}/cgroup.controllers", f"{' '.join(CONTROLLERS)}\n")
    else:
        rows.append(f"50 30 0:50 {top} {TOP}/unified rw - cgroup2 cgroup2 rw\n")
        left = [name for name in CONTROLLERS if name not in taken]
        machine.put(f"{TOP}/unified/cgroup.controllers", f"{' '.join(left)}\n")
    machine.put("/proc/self/mountinfo", "".join(rows))
    machine.put("/proc/swaps", "Filename\tType\tSize\tUsed\tPriority\n")


def group(machine: Machine, path: str, files: Mapping[str, str] | None = None) -> None:
    """A group of version 2 and its ancestors, without limits apart from these files of its own."""
    parts = [part for part in path.split("/") if part]
    for number in range(1, len(parts) + 1):
        here = folder("/" + "/".join(parts[:number]))
        for name, text in _NEW_FILES.items():
            if not machine.exists(f"{here}/{name}"):
                machine.put(f"{here}/{name}", f"{text}\n")
    for name, text in (files or {}).items():
        machine.put(f"{folder(path)}/{name}", f"{text}\n")


def hide(machine: Machine) -> None:
    """Make the mount show a group as its top, as in a container with its own namespace of them."""
    for name, text in _NEW_FILES.items():
        machine.put(f"{TOP}/{name}", f"{text}\n")


def old_group(machine: Machine, controllers: str, path: str, files: Mapping[str, str] | None = None) -> None:
    """The same for one hierarchy of version 1."""
    parts = [part for part in path.split("/") if part]
    own = {name: text for name in controllers.split(",") for name, text in _OLD_FILES.get(name, {}).items()}
    for number in range(1, len(parts) + 1):
        here = folder("/" + "/".join(parts[:number]), controllers)
        for name, text in own.items():
            if not machine.exists(f"{here}/{name}"):
                machine.put(f"{here}/{name}", f"{text}\n")
    for name, text in (files or {}).items():
        machine.put(f"{folder(path, controllers)}/{name}", f"{text}\n")
