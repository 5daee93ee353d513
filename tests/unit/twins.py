# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines of several vendors, with the answers of their tools: what is judged of each."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Iterable, Mapping, Sequence

from ansible_collections.mlnode.tuning.plugins.plugin_utils import profile
from ansible_collections.mlnode.tuning.tests.unit import nvidia_smi, plans
from mlnode.checks.audit import run as audit
from mlnode.checks.expect import Expectations
from mlnode.checks.model import Check, Verdict
from mlnode.checks.preflight import run as preflight
from mlnode.checks.rdma import mlxlink
from mlnode.checks.rdma import run as rdma
from mlnode.host.system import Finished

#: Of the audit and of checks: known to be right or wrong
_JUDGED = {Verdict.PASS, Verdict.WARN, Verdict.FAIL, Verdict.PENDING}
_UPTIME = "/proc/uptime"
#: Of settings
_UNJUDGED = ("unsupported", "unknown")


class Twin(plans.Installed):
    """A machine without an error, whose kernel's log can be read since its boot."""

    def __init__(self, name: str, system: pathlib.Path) -> None:
        super().__init__(name, system)
        self.name = name
        self._lay(_UPTIME, "3600.00 900.00")

    def real(self, path: str, follow: bool = True) -> str:
        return f"{self._system}{path}" if path == _UPTIME else super().real(path, follow)

    def run(self, command: Sequence[str], seconds: float = 60) -> Finished:
        if command[0] == "dmesg":
            return Finished(0, "[    0.000000] Linux version 6.12.0\n", "")
        if command[0] != "nvidia-smi":
            return super().run(command, seconds)
        gpus = [gpu.address for gpu in self.topology.gpus]
        if tuple(command[1:]) == ("-q", "-x"):
            return Finished(0, nvidia_smi.answer({address: dict(nvidia_smi.WELL) for address in gpus}), "")
        assert "ecc" in command[1]
        return Finished(0, "".join(f"{at}, 0000{gpu}, Enabled, 0, 0\n" for at, gpu in enumerate(gpus)), "")


def of_audit(host: Twin) -> dict[str, bool]:
    return _topics(audit.all_checks(host))


def of_rdma(host: Twin) -> dict[str, bool]:
    """With a declared scheme of priorities, if the machine has rails for one."""
    if host.name in plans.PRESETS:
        host.declare("fabric", profile.combined(("fabric", plans.PRESETS[host.name]), {}).areas)
    return _topics(rdma.all_checks(host, Expectations(), mlxlink.NAMES, writable=False))


def of_preflight(host: Twin) -> dict[str, bool]:
    return _topics(preflight.all_checks(host, preflight.parse([], None, 18590, {}), writable=False))


def of_plan(host: Twin) -> dict[str, bool]:
    """By the keys of settings."""
    judged: dict[str, bool] = {}
    for section in plans.sections(host, host.name).values():
        for key, words in section.items():
            known = not any(f": {status}" in words for status in _UNJUDGED)
            judged[key] = judged.get(key, False) or known
    return judged


def _topics(checks: Iterable[Check]) -> dict[str, bool]:
    """Topic → whether one of its checks is judged."""
    judged: dict[str, bool] = {}
    for check in checks:
        judged[check.name] = judged.get(check.name, False) or check.verdict in _JUDGED
    return judged


def missing(twin: Mapping[str, bool], other: Mapping[str, bool]) -> set[str]:
    """Judged on the twin, and not on the other machine."""
    return {topic for topic, judged in twin.items() if judged and not other.get(topic, False)}


#: Name of a look → topic or setting → whether it is judged
LOOKS: dict[str, Callable[[Twin], dict[str, bool]]] = {
    "audit": of_audit,
    "preflight": of_preflight,
    "rdma_check": of_rdma,
    "plan": of_plan,
}
