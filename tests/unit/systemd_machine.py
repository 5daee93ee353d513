# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine whose systemd goes by the drop-ins it has read, until it is told to read them again."""

from __future__ import annotations

from mlnode.host.system import Finished

from .machine import Machine

_UNITS = "/etc/systemd/system"


class SystemdMachine(Machine):
    """sees_new: False for the versions that overlook a drop-in in a new folder. masked: as systemctl says."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.read_units: dict[str, bytes] = {}
        self.sees_new = True
        self.masked: set[str] = set()

    def _systemctl(self, verb: str, unit: str) -> Finished:
        if verb == "show" and unit.endswith(".service"):
            return self._shown(unit)
        if verb == "daemon-reload":
            self.read_units = self._drop_ins("*")
        return super()._systemctl(verb, unit)

    def _drop_ins(self, unit: str) -> dict[str, bytes]:
        return {path: self.read_bytes(path) for path in self.matching(f"{_UNITS}/{unit}.d/*.conf")}

    def _shown(self, unit: str) -> Finished:
        folder = f"{_UNITS}/{unit}.d/"
        now = self._drop_ins(unit)
        read = {path: text for path, text in self.read_units.items() if path.startswith(folder)}
        known = {path: text for path, text in now.items() if path in read}
        stale = (now if self.sees_new else known) != read or (unit in self.masked and bool(now))
        lines = {
            "LoadState": "masked" if unit in self.masked else "loaded",
            "NeedDaemonReload": "yes" if stale else "no",
            "DropInPaths": " ".join(read),
        }
        return Finished(0, "".join(f"{name}={text}\n" for name, text in lines.items()), "")
