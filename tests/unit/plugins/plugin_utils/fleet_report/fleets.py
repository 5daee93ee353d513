# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fleets for tests: what modules would have told."""

from __future__ import annotations

import random
from typing import Any

from ansible_collections.mlnode.tuning.plugins.plugin_utils.fleet_report.model import (
    Deviation,
    Fleet,
    Job,
    Pair,
    Pairs,
    Part,
)

#: What may stand in a name or a value and break out of where it is shown
HOSTILE = (
    "</script><script>document.title='broken'</script>",
    "<!--<script>",
    '"><img src=x onerror="document.title=\'broken\'">',
    "' onclick='x' \"",
    "&lt;b&gt; &amp; ]]> <b>",
    "a\x00b\x07\x1b[31mred\x1b[0m\r\n\t\x7f\x85",
    "\u202egpj.exe\u2066 \u2028 \u2029 \ufeff\u200b",
    "\ud800 lone",
    "\ufffe\uffff",
    "${7*7} {{ 7*7 }} {% raw %} `id`",
    "日本語 ελ 🚀",
    "../../../etc/passwd",
)


#: As a row has it
CAUSE = {"layer": "runtime", "code": "", "file": "", "line": 0, "text": ""}


def setting(key: str = "vm.swappiness", **more: Any) -> dict[str, Any]:
    """As node_drift returns one."""
    return {
        "kind": "sysctl",
        "key": key,
        "path": f"/proc/sys/{key.replace('.', '/')}",
        "declared": "1",
        "want": "1",
        "runtime": "1",
        "boot": "1",
        "boot_source": "/etc/sysctl.d/zz-mlnode-node.conf:3",
        "origin": "60",
        "status": "ok",
        "severity": "medium",
        "reason": "",
        "causes": [],
        **more,
    }


def differs(runtime: str, why: str = "") -> dict[str, Any]:
    """What a drifted row says of its value. why: the rest of the reason."""
    texts = {"differs": f"runtime is {runtime}", **({"drifted": why} if why else {})}
    causes = [{**CAUSE, "code": code, "text": text} for code, text in texts.items()]
    return {"runtime": runtime, "reason": "; ".join(texts.values()), "causes": causes}


def drifted(key: str = "vm.swappiness", runtime: str = "60", why: str = "", **more: Any) -> dict[str, Any]:
    return setting(key, **{"status": "drifted", "severity": "high", **differs(runtime, why), **more})


def check(name: str = "rate", target: str = "mlx5_0/1", verdict: str = "fail", **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "target": target,
        "verdict": verdict,
        "expected": "400 Gb/s (NDR)",
        "found": "200 Gb/sec (2X NDR)",
        "source": "/sys/class/infiniband/mlx5_0/ports/1/rate",
        "advice": "look at the cable",
        **more,
    }


def empty() -> Fleet:
    return Fleet(playbook="drift.yml", started="2026-01-31T10:00:00Z", ended="2026-01-31T10:00:20Z")


def mixed() -> Fleet:
    """One host in every state."""
    fleet = empty()
    fleet.take(fleet.host("gpu001", ["training"]), {"settings": [setting(), setting("vm.b")]}, "node_drift")
    fleet.take(fleet.host("gpu002", ["training"]), {"settings": [drifted(), setting("vm.b")]}, "node_drift")
    fleet.take(fleet.host("gpu003", ["fabric"]), {"checks": [check()]}, "rdma_check")
    fleet.host("gpu004").unreachable = "Connection timed out"
    fleet.host("gpu005").failures.append("Declare kernel settings: EINVAL")
    fleet.host("gpu006")
    return fleet


def link_and_governors() -> Fleet:
    """Forty hosts whose governor is another one, and after them one whose link is slow."""
    fleet = empty()
    for at in range(1, 51):
        host = fleet.host(f"gpu{at:03d}", ["fabric", "training"])
        slow = {"status": "drifted", **differs("powersave")} if at <= 40 else {}
        governor = setting("cpu.governor", kind="cpu", severity="high", **slow)
        fleet.take(host, {"settings": [governor]}, "node_drift")
        fleet.take(host, {"checks": [check(verdict="fail" if at == 45 else "pass")]}, "rdma_check")
    return fleet


def synthetic(hosts: int, knobs: int = 80, drift: float = 0.0005) -> Fleet:
    """A large fleet with two values that differ on each host, as CPUs of interrupts do, and one host with a
    value that nobody else has."""
    chance = random.Random(1)  # the same fleet each time
    fleet = empty()
    for at in range(1, hosts + 1):
        found = []
        for number in range(knobs):
            key = f"net.area{number // 10}.knob_{number}"
            own = f"eth0: {at % 128}, eth1: {at}" if number in (7, 8) else "1"
            found.append(drifted(key) if chance.random() < drift else setting(key, runtime=own, boot=own))
        if at == hosts // 2 and knobs > 5:
            found[5] = drifted("net.area0.knob_5", runtime="planted")
        groups = ["training", f"rack{at // 40:02d}"]
        fleet.take(fleet.host(f"gpu{at:04d}", groups), {"settings": found}, "node_drift")
    return fleet


def hostile() -> Fleet:
    """Every place that a host, a module or an inventory writes to holds what may break out of it."""
    fleet = empty()
    fleet.playbook = HOSTILE[0]
    for text in HOSTILE:
        host = fleet.host(f"host {text}", [text])
        texts = dict.fromkeys(
            ("path", "declared", "want", "runtime", "boot", "boot_source", "origin", "reason"), text
        )
        fleet.take(host, {"settings": [drifted(f"key {text}", **texts, kind=text)]}, "node_drift")
        fleet.take(host, {"settings": [drifted("vm.b", ignored=text)]}, "node_drift")
        texts = dict.fromkeys(("name", "target", "expected", "found", "source", "advice"), text)
        fleet.take(host, {"checks": [check(**texts)]}, text)
        host.failures.append(text)
        fleet.host(f"gone {text}").unreachable = text
        fleet.merged.append(Part(text, text, fleet.started, fleet.ended, 1, (text,), (text,)))
    names = [*fleet.hosts]
    pairs = [Pair(*ends, 0, 0.5, "fail", text, text) for *ends, text in zip(names, names[1:], HOSTILE)]
    fleet.campaigns.append(Pairs(HOSTILE[0], HOSTILE[2], dict(zip(names, HOSTILE)), tuple(pairs)))
    bad = tuple(Deviation("fail", "high", text, text, (name,)) for name, text in zip(names, HOSTILE))
    fleet.jobs += [Job(text, tuple(names), text, "fail", 1, bad) for text in HOSTILE]
    return fleet
