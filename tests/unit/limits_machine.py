# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node with logins, systemd and services, whose limits are as systemd and PAM would make them."""

from __future__ import annotations

from mlnode.host.system import Finished
from mlnode.linux import systemd_show

from .machine import Machine
from .systemd_machine import SystemdMachine

_ROWS = (
    ("Max stack size", "8388608", "unlimited", "bytes"),
    ("Max core file size", "0", "unlimited", "bytes"),
    ("Max processes", "257000", "257000", "processes"),
    ("Max open files", "1024", "524288", "files"),
    ("Max locked memory", "8388608", "8388608", "bytes"),
    ("Max realtime timeout", "unlimited", "unlimited", "us"),
)
_NAMES = {"nofile": "Max open files", "memlock": "Max locked memory", "stack": "Max stack size"}

#: As Debian has it
LIMITS_CONF = (
    "# /etc/security/limits.conf\n#*               soft    core            0\n#root hard core 100000\n"
)


class LimitsMachine(SystemdMachine):
    """defaults: what systemd has read, key → (soft, hard). It reads its own files anew when it is told to."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.defaults = {
            "NOFILE": ("1024", "524288"),
            "MEMLOCK": ("8388608", "8388608"),
            "STACK": ("8388608", "infinity"),
            "CORE": ("0", "18446744073709551615"),
            "NPROC": ("257000", "257000"),
        }

    @classmethod
    def node(cls, root: str) -> LimitsMachine:
        """PAM, systemd, and nothing that starts jobs."""
        Machine.debian(root)
        machine = cls(root)
        machine.put("/proc/sys/fs/nr_open", "1048576\n")
        machine.put("/etc/security/limits.conf", LIMITS_CONF)
        machine.put("/etc/security/limits.d/.keep", "")
        machine.put("/etc/pam.d/login", "auth include common-auth\nsession    required   pam_limits.so\n")
        machine.put("/run/systemd/system/.keep", "")
        machine.put("/etc/systemd/system.conf", "[Manager]\n#DefaultLimitNOFILE=1024:524288\n")
        machine.process(1, "systemd", parent=0)
        return machine

    def unit(self, name: str, text: str = "[Service]\nExecStart=/x\n") -> None:
        self.put(f"/usr/lib/systemd/system/{name}.service", text)

    def process(
        self, pid: int, name: str, parent: int = 1, user: int = 0, caps: str = "000001ffffffffff", **own: str
    ) -> None:
        """own: limits by name, as SOFT:HARD or one for both."""
        self.put(
            f"/proc/{pid}/status",
            f"Name:\t{name}\nPid:\t{pid}\nPPid:\t{parent}\nUid:\t{user}\t{user}\t{user}\t{user}\n"
            f"CapBnd:\t{caps}\n",
        )
        given = {
            _NAMES[item]: (text.partition(":")[0], text.rpartition(":")[2]) for item, text in own.items()
        }
        rows = [("Limit", "Soft Limit", "Hard Limit", "Units")]
        rows += [(row, *given.get(row, (soft, hard)), unit) for row, soft, hard, unit in _ROWS]
        self.put(
            f"/proc/{pid}/limits",
            "".join(f"{row:<26}{soft:<21}{hard:<21}{unit:<10}\n" for row, soft, hard, unit in rows),
        )

    def _systemctl(self, verb: str, unit: str) -> Finished:
        if verb == "daemon-reload":
            self._read_defaults()
        if verb != "show" or unit != systemd_show.ROOT_MOUNT:
            return super()._systemctl(verb, unit)
        lines = [f"Limit{key}={hard}\nLimit{key}Soft={soft}\n" for key, (soft, hard) in self.defaults.items()]
        return Finished(0, "".join(lines), "")

    def _read_defaults(self) -> None:
        folder = "/etc/systemd/system.conf.d"
        for name in self.names(folder):
            for line in self.read(f"{folder}/{name}").splitlines():
                key, equals, value = line.partition("=")
                if equals and key.startswith("DefaultLimit"):
                    soft, _colon, hard = value.partition(":")
                    self.defaults[key[len("DefaultLimit") :]] = (soft, hard or soft)
