# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A made-up fleet that reports as much as a real one: all settings of the profile `training`, and all checks
of a captured node with RoCE rails, with the drift that a fleet has on a bad day."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Any

from ansible_collections.mlnode.tuning.plugins.plugin_utils import profile
from ansible_collections.mlnode.tuning.plugins.plugin_utils.fleet_report.model import Fleet
from ansible_collections.mlnode.tuning.tests.fixtures.build import tree
from ansible_collections.mlnode.tuning.tests.unit.plugins.plugin_utils.fleet_report import fleets
from mlnode.checks import expect
from mlnode.checks.rdma import run
from mlnode.host.host import Host

#: Everything of the profile that is no sysctl: kind, key, value
_OTHERS = (
    *(
        ("services", f"service.{name}", "stopped")
        for name in ("tuned-ppd", "auto-cpufreq", "tlp", "ondemand")
    ),
    ("thp", "thp.enabled", "madvise"),
    ("thp", "thp.defrag", "madvise"),
    *(("limits", f"limits.{who}.nofile", "65536:1048576") for who in ("login.*", "login.root", "systemd")),
    *(("limits", f"limits.{who}.memlock", "unlimited") for who in ("login.*", "services")),
    ("cpu", "cpu.governor", "performance"),
    ("gpu", "gpu.persistence", "on"),
    ("storage", "storage.dataset.read_ahead_kb", "nvme0n1: 4096, nvme1n1: 4096"),
    *(("nic", f"nic.fabric.{what}", "8192 (8 NICs)") for what in ("channels", "ring.rx", "ring.tx")),
    *(
        ("nic", f"nic.fabric.feature.{what}", "on (8 NICs)")
        for what in ("rx", "tx", "sg", "tso", "gso", "gro")
    ),
    ("qos", "qos.rails.pfc", "3"),
    ("qos", "qos.rails.trust", "dscp"),
    ("irq", "irq.nics", "eth0: 0-15 x16; rails: 0-7 x8, 8-15 x8, 16-23 x8, 24-31 x8"),
    ("irq", "irq.irqbalance", "agree"),
    ("boot", "boot.transparent_hugepage", "transparent_hugepage=madvise"),
    ("boot", "boot.numa_balancing", "numa_balancing=disable"),
)

#: What differs from node to node although all is well: addresses, identifiers, serial numbers
_OWN = re.compile(r"[0-9a-f]{4}:[0-9a-f]{4}:[0-9a-f]{4}|::[0-9a-f:]+|\b10\.[0-9.]+")

_AGENT = "boot: nothing brings it back, as mlnode-apply.service is not enabled (install the agent)"

_NO_FILE = "boot: no file in sysctl.d sets it: the kernel's default comes back"


@functools.lru_cache(maxsize=None)
def _checks() -> tuple[dict[str, str], ...]:
    found = run.all_checks(
        Host(tree("roce8"), run.MOUNTS), expect.parse({"rails": {"count": 8, "rate": 400}})
    )
    # The captured tree has faults of its own, and this fleet has those that are planted below.
    return tuple({**one.document(), "verdict": _fine(str(one.verdict))} for one in found)


def _fine(verdict: str) -> str:
    return verdict if verdict == "skip" else "pass"


@functools.lru_cache(maxsize=None)
def _settings() -> dict[str, dict[str, Any]]:
    found = {}
    for kind, key, value in _OTHERS:
        source = "mlnode-apply.service"
        texts = dict.fromkeys(("declared", "want", "runtime", "boot"), value)
        path = f"/sys/{kind}/{key.replace('.', '/')}"
        found[key] = fleets.setting(key, kind=kind, path=path, boot_source=source, **texts)
    for key, value in profile.load("training")["sysctl"]["settings"].items():
        number = next(iter(value.values())) if isinstance(value, Mapping) else value
        texts = dict.fromkeys(("declared", "want", "runtime", "boot"), str(number))
        found[key] = fleets.setting(key, **texts)
    return found


def _drift(at: int, hosts: int, untuned: bool) -> dict[str, dict[str, Any]]:
    """What differs on host number `at`: a rack with another governor, a node with a file in its way, one on
    which the agent does not run, and one in a hundred with something of its own."""
    found: dict[str, dict[str, Any]] = {}
    if at <= 40:
        found["cpu.governor"] = {"status": "drifted", "severity": "high", **fleets.differs("powersave")}
    if at % 16 == 3:
        zzz = {"status": "overridden", "boot": "60", "boot_source": "/etc/sysctl.d/zzz-site.conf:2"}
        zzz.update(severity="medium", reason="boot: /etc/sysctl.d/zzz-site.conf:2 sets 60")
        found["vm.swappiness"] = zzz
    if untuned or hosts - 4 < at <= hosts - 2:
        for key, setting in _settings().items():
            reason = _NO_FILE if setting["kind"] == "sysctl" else _AGENT
            gone = {"status": "drifted", "boot": None, "boot_source": None, "reason": reason}
            found[key] = gone if setting["kind"] != "boot" else {}
    if at % 5 == 0:
        own = f"eth0: 0-15 x16; rails: {at % 97}-{at % 97 + 7} x64"
        found["irq.nics"] = {"status": "drifted", **fleets.differs(own)}
    if at % 100 == 61:
        found["gpu.persistence"] = {
            "status": "unknown",
            "runtime": None,
            "reason": "nvidia-smi: no answer in 60 s",
        }
    return found


def fleet(hosts: int, checks: bool = True, untuned: bool = False) -> Fleet:
    """The last has a link at half its rate, the last but one is unreachable. untuned: nothing is as declared
    on any of them, as before the first run."""
    made = fleets.empty()
    for at in range(1, hosts + 1):
        host = made.host(f"gpu{at:03d}.hall2.example", ["fabric", f"rack{(at - 1) // 40:03d}", "training"])
        if at == hosts - 1:
            host.unreachable = "Failed to connect to the host via ssh: Connection timed out"
            continue
        drift = _drift(at, hosts, untuned)
        settings = [{**setting, **drift.get(key, {})} for key, setting in _settings().items()]
        made.take(host, {"settings": settings}, "node_drift")
        if checks:
            made.take(host, {"checks": [_check(one, at, hosts) for one in _checks()]}, "rdma_check")
    return made


def _check(one: dict[str, str], at: int, hosts: int) -> dict[str, str]:
    if at == hosts and one["name"] == "rate" and one["target"] == "mlx5_5/1":
        advice = (
            "the link trained down: look at cable and transceiver (mlxlink), and at the switch port's speed"
        )
        return {**one, "verdict": "fail", "found": "200 Gb/sec (2X NDR)", "advice": advice}
    return {**one, "found": _OWN.sub(lambda match: f"{match[0]}{at:04x}", one["found"])}
