# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node with container runtimes, and runs of the kind containers on it."""

from __future__ import annotations

import json
import pathlib
import time
from collections.abc import Sequence
from typing import Any

from ansible_collections.mlnode.tuning.tests.unit import door
from ansible_collections.mlnode.tuning.tests.unit.limits_machine import LimitsMachine
from mlnode.engine import engine
from mlnode.engine.kind import Row
from mlnode.host.system import Finished

PODMAN = "/etc/containers/containers.conf.d/zz-mlnode-site.conf"
CRIO = "/etc/crio/crio.conf.d/zz-mlnode-site.conf"
KUBELET = "/etc/kubernetes/kubelet.conf.d/zz-mlnode-site.conf"
DOCKER = "/etc/docker/daemon.json"


class Engines(LimitsMachine):
    """versions: what programs print for --version."""

    versions: dict[str, str]

    @classmethod
    def made(cls, folder: pathlib.Path, *programs: str) -> Engines:
        machine = cls.node(str(folder / "node"))
        assert isinstance(machine, cls)
        machine.versions = {"podman": "podman version 4.3.1", "kubelet": "Kubernetes v1.34.1"}
        for program in programs:
            machine.put(f"/usr/bin/{program}", "", 0o755)
        return machine

    def run(self, command: Sequence[str], seconds: float = 60) -> Finished:
        if list(command[1:]) == ["--version"] and command[0] in self.versions:
            return Finished(0, f"{self.versions[command[0]]}\n", "")
        return super().run(command, seconds)

    def starts(self, name: str, command: str) -> None:
        """The unit of a daemon, with this command."""
        self.unit(name, f"[Service]\nExecStart={command}\n")

    def daemon(self, name: str, age: int, pid: int = 800) -> None:
        """A running daemon. age: seconds since its start; negative after all files were changed."""
        self.put("/proc/stat", "cpu 1\nbtime 1000\n")
        self.process(pid, name)
        ticks = (int(time.time()) - age - 1000) * 100
        self.put(f"/proc/{pid}/stat", f"{pid} ({name} ) 1) S {'0 ' * 18}{ticks} 0\n")

    def json(self) -> Any:
        return json.loads(self.read(DOCKER))


def apply(machine: Engines, name: str = "site", **spec: Any) -> dict[str, Row]:
    """Rows after a run, by runtime and topic; without those that are not installed."""
    return _rows(door.apply(machine, door.request(name, "containers", spec)), machine)


def look(machine: Engines, name: str = "site", **spec: Any) -> dict[str, Row]:
    seen = engine.preview(machine, [door.request(name, "containers", spec)])
    [outcome] = seen.outcomes
    return _rows(outcome, machine)


def declare(machine: Engines, area: str, spec: dict[str, Any]) -> None:
    """Another area of the same declaration."""
    door.apply(machine, door.request("site", area, spec))
    machine.forget()


def _rows(outcome: engine.Outcome, machine: Engines) -> dict[str, Row]:
    machine.forget()
    return {
        row.setting.key.partition(".")[2]: row
        for row in outcome.rows
        if row.reading.runtime.text != "not installed"
    }


def told(rows: dict[str, Row]) -> dict[str, str]:
    return {key: str(row.status) for key, row in rows.items()}
