# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The hardware as far as a formula asks for it; each fact is read once, and only when asked."""

from __future__ import annotations

import re

from . import values
from .errors import HostError
from .host import Host


class Facts:
    """Lazy facts of one node."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._memory: dict[str, int] | None = None
        self._rate: int | None = None
        self._command_line: str | None = None

    def memory_kbytes(self, name: str = "MemTotal") -> int:
        """A row of /proc/meminfo in KiB. Raises HostError where it is not there."""
        if self._memory is None:
            text = self._host.read("/proc/meminfo")
            rows = re.findall(r"^(\w+):\s+([0-9]{1,20}) kB$", text, re.MULTILINE | re.ASCII)
            self._memory = {key: int(number) for key, number in rows}
        if name not in self._memory:
            raise HostError("find", f"{name} in /proc/meminfo", None, "no such row")
        return self._memory[name]

    def memory_bytes(self) -> int:
        return self.memory_kbytes() * 1024

    def hugepage_kbytes(self) -> int:
        """The default huge page size in KiB; 0 for a kernel without huge pages."""
        try:
            return self.memory_kbytes("Hugepagesize")
        except HostError as error:
            if error.errno is None:
                return 0
            raise

    def fastest_link_bit_per_s(self) -> int:
        """Rate of the fastest physical interface that is up; 0 where none tells (virtio, WiFi)."""
        if self._rate is None:
            names = self._host.names("/sys/class/net")
            self._rate = max((self._link_rate(name) for name in names), default=0)
        return self._rate

    def _link_rate(self, name: str) -> int:
        base = f"/sys/class/net/{name}"
        if not self._host.exists(f"{base}/device"):
            return 0
        if self._host.value(f"{base}/operstate").text != "up":
            return 0
        # Unreadable (EINVAL) and -1 both mean that the driver knows no speed: sysfs-class-net.
        return (values.number(self._host.value(f"{base}/speed").text) or 0) * 1_000_000

    def kernel_release(self) -> str:
        """As `uname -r`; empty where it cannot be read."""
        return self._host.value("/proc/sys/kernel/osrelease").text or ""

    def command_line(self, name: str) -> list[str]:
        """The values of a parameter on the running kernel's command line, in their order."""
        if self._command_line is None:
            self._command_line = self._host.read("/proc/cmdline")
        found = []
        for word in self._command_line.split():
            key, equals, value = word.partition("=")
            if key == "--":  # what follows is for init, not for the kernel
                break
            if key == name and equals:
                found.append(value)
        return found
