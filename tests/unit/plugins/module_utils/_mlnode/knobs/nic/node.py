# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The machine of irq_node.py with drivers behind its NICs that answer ioctls.

eth2 (mlx5_0) is on node 0, eth3 (mlx5_1) on node 1, each with four cores; eth4 is virtio, and carries the
default route.
"""

from __future__ import annotations

import json
import pathlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ansible_collections.mlnode.tuning.tests.fixtures import build
from ansible_collections.mlnode.tuning.tests.fixtures.hardware import Machine as Hardware
from ansible_collections.mlnode.tuning.tests.unit import door
from ansible_collections.mlnode.tuning.tests.unit.nic_machine import BARE, Nic, NicMachine
from mlnode.engine import engine
from mlnode.engine.engine import Outcome, Plan, Request
from mlnode.engine.kind import Row
from mlnode.host.system import Finished
from mlnode.knobs.nic.kind import kind as nic
from mlnode.model.setting import BOTH_LAYERS, Layer

from ..irq.node import ETH2, ETH3, HARDWARE, igb

#: Rings, queues, coalescing and the rest of every NIC but that of the management
FULL: dict[str, Any] = {
    "rules": [
        {
            "name": "fabric",
            "nics": {"management": False},
            "channels": "auto",
            "rings": 2048,
            "coalesce": {"adaptive-rx": False, "rx-usecs": 8},
            "features": {"lro": True},
            "fec": "rs",
            "mtu": 9000,
        }
    ]
}

#: The same machine with igb in the places of mlx5, and so without RDMA
WITHOUT_RDMA = replace(
    HARDWARE,
    roots=(
        HARDWARE.roots[0],
        replace(HARDWARE.roots[1], functions=(igb("eth2", ETH2, "eth2-TxRx-0"),)),
        replace(HARDWARE.roots[2], functions=(igb("eth3", ETH3, "eth3-TxRx-0"),)),
    ),
)

ROUTES = "/proc/net/route"
_HEADER = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"


def virtio() -> Nic:
    """Four queues, and nothing of what hardware has."""
    most = {"ring": {"rx": 256, "tx": 256}, "channels": {"combined": 4}}
    return Nic(
        "virtio_net", **{**BARE, **most, "ring_max": dict(most["ring"]), "channels_max": {"combined": 8}}
    )


class NicNode(NicMachine):
    """eth2, eth3 and eth4 stand for what the test may change. mtus: the largest that ip(8) shows of each."""

    mtus: dict[str, int] = {}

    @classmethod
    def made(cls, folder: pathlib.Path, hardware: Hardware = HARDWARE) -> NicNode:
        build.build(hardware, str(folder))
        node = cls(str(folder))
        driver = "mlx5_core" if hardware is HARDWARE else "igb"
        node.nics = {"eth2": Nic(driver), "eth3": Nic(driver), "eth4": virtio()}
        node.mtus = {"eth2": 9978, "eth3": 9978, "eth4": 65535}
        node.carry("eth4")
        node.enable_agent()
        for name in node.nics:
            node.put(f"/sys/class/net/{name}/carrier", "1\n")
        return node

    def run(self, command: Sequence[str], seconds: float = 60) -> Finished:
        if [*command] != ["ip", "-j", "-d", "link", "show"]:
            return super().run(command, seconds)
        shown = [{"ifname": name, "min_mtu": 68, "max_mtu": most} for name, most in self.mtus.items()]
        return Finished(0, json.dumps([{"ifname": "lo", "min_mtu": 0, "max_mtu": 0}, *shown]), "")

    def has(self, kibibytes: int) -> None:
        """As much memory."""
        self.put("/proc/meminfo", f"MemTotal: {kibibytes} kB\nHugepagesize: 2048 kB\n")
        self.forget()

    def carry(self, *names: str) -> None:
        """These have a default route, and no other."""
        rows = [f"{name}\t00000000\t0102A8C0\t0003\t0\t0\t100\t00000000\t0\t0\t0\n" for name in names]
        self.put(ROUTES, _HEADER + "".join(rows))

    @property
    def eth2(self) -> Nic:
        return self.nics["eth2"]

    @property
    def eth3(self) -> Nic:
        return self.nics["eth3"]

    @property
    def eth4(self) -> Nic:
        return self.nics["eth4"]


def request(
    *rules: Mapping[str, Any], name: str = "default", layers: tuple[Layer, ...] = BOTH_LAYERS, **more: Any
) -> Request:
    return Request(name, nic, {"rules": list(rules), **more}, layers)


def plan(host: NicNode, *rules: Mapping[str, Any], **more: Any) -> Plan:
    """Of the running kernel, as nothing is declared on the node yet."""
    return engine.evaluate(host, request(*rules, layers=(Layer.RUNTIME,), **more))


def apply(host: NicNode, *rules: Mapping[str, Any], **more: Any) -> Outcome:
    return door.apply(host, request(*rules, **more))


def rows(host: NicNode, *rules: Mapping[str, Any], **more: Any) -> dict[str, Row]:
    return {row.setting.key: row for row in plan(host, *rules, **more).rows}


def row(host: NicNode, *rules: Mapping[str, Any], **more: Any) -> Row:
    (found,) = rows(host, *rules, **more).values()
    return found
