# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine with services that tune, and a systemd that starts and stops them as their conditions say."""

from __future__ import annotations

import os

from ansible_collections.mlnode.tuning.tests.unit.systemd_machine import SystemdMachine
from mlnode.host.host import Host
from mlnode.host.system import Finished

UNITS = "/usr/lib/systemd/system"
WANTS = "/etc/systemd/system/multi-user.target.wants"
GROUPS = "/sys/fs/cgroup/system.slice"


class ServiceMachine(SystemdMachine):
    """told: what systemctl was told to do. refuses: units whose start or stop fails."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.told: list[tuple[str, str]] = []
        self.refuses: set[str] = set()

    def write_kernel(self, path: str, value: str) -> None:
        if not path.startswith(("/service/", "/gpu/")):
            super().write_kernel(path, value)
            return
        self.writes.append((path, value))
        Host.write_kernel(self, path, value)

    def install(self, unit: str, enabled: bool = True, runs: bool = True, text: str = "") -> None:
        """As its package does."""
        self.put("/run/systemd/system/.keep", "")
        self.put(f"{UNITS}/{unit}", text or "[Service]\nExecStart=/usr/sbin/daemon\n")
        if enabled:
            self.link(f"{WANTS}/{unit}", f"{UNITS}/{unit}")
        if runs:
            self.put(f"{GROUPS}/{unit}/cgroup.procs", "77\n")

    def tuned(self, profile: str = "throughput-performance") -> None:
        """tuned, which runs a profile."""
        self.install("tuned.service")
        self.put("/etc/tuned/active_profile", f"{profile}\n")

    def runs(self, unit: str) -> bool:
        return self.exists(f"{GROUPS}/{unit}/cgroup.procs") and bool(
            self.read(f"{GROUPS}/{unit}/cgroup.procs")
        )

    def boot(self) -> None:
        """What systemd starts then."""
        for name in self.names(WANTS):
            if self.exists(f"{UNITS}/{name}"):
                self.put(f"{GROUPS}/{name}/cgroup.procs", "")
                self._begin(name)

    def _begin(self, unit: str) -> None:
        if not unit.endswith(".service"):  # a path unit has no processes
            return
        folder = f"/etc/systemd/system/{unit}.d"
        texts = [self.read(f"{folder}/{name}") for name in self.names(folder)]
        conditions = [line.partition("=!")[2] for text in texts for line in text.splitlines() if "=!" in line]
        if not any(self.exists(path) for path in conditions):
            self.put(f"{GROUPS}/{unit}/cgroup.procs", "78\n")

    def _systemctl(self, verb: str, unit: str) -> Finished:
        if verb != "show":
            self.told.append((verb, unit))
        if unit in self.refuses:
            return Finished(1, "", f"Job for {unit} failed.\n")
        if verb == "start":
            self._begin(unit)
        if verb == "stop" and self.exists(f"{GROUPS}/{unit}"):
            self.put(f"{GROUPS}/{unit}/cgroup.procs", "")
        return super()._systemctl(verb, unit)


def made(root: str) -> ServiceMachine:
    """With the agent, and no service yet."""
    machine = ServiceMachine.debian(root)
    assert isinstance(machine, ServiceMachine)
    machine.enable_agent()
    os.makedirs(machine.root + "/run", exist_ok=True)
    return machine
