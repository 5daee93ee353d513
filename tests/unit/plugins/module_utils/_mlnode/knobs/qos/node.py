# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The machine of nic_node.py, whose NICs of the fabric have data center bridging and the vendor's files.

eth2 (mlx5_0) and eth3 (mlx5_1) are the fabric; eth4 is virtio without any of it, and carries the default
route.
"""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from typing import Any

from ansible_collections.mlnode.tuning.tests.fixtures import build
from ansible_collections.mlnode.tuning.tests.unit import door
from ansible_collections.mlnode.tuning.tests.unit.dcb_machine import Bridge, DcbMachine
from ansible_collections.mlnode.tuning.tests.unit.nic_machine import Nic
from mlnode.engine import engine
from mlnode.engine.engine import Outcome, Plan, Request
from mlnode.engine.kind import Row
from mlnode.knobs.qos.kind import kind as qos
from mlnode.model.setting import BOTH_LAYERS, Layer

from ..irq.node import HARDWARE
from ..nic.node import NicNode, virtio

#: What a RoCE fabric is usually declared to be
ROCE: dict[str, Any] = {
    "name": "roce",
    "nics": {"management": False},
    "global_pause": False,
    "trust": "dscp",
    "dscp": {"26": 3, "48": 6},
    "ets": {
        "prio_tc": [0, 0, 0, 1, 0, 0, 2, 0],
        "tc_tsa": ["ets", "ets", *["strict"] * 6],
        "tc_bw": [50, 50, 0, 0, 0, 0, 0, 0],
    },
    "pfc": [3],
    "buffer": {"prio_buffer": [0, 0, 0, 1, 0, 0, 0, 0], "buffer_size": [65536, 131072, 0, 0, 0, 0, 0, 0]},
    "ecn": [3],
    "cnp": {"dscp": 48, "priority": 6},
    "rdma_cm_tos": 106,
    "traffic_class": 106,
}


class QosNode(DcbMachine, NicNode):
    """eth2 and eth3 stand for what the test may change."""

    @classmethod
    def made(cls, folder: pathlib.Path) -> QosNode:
        build.build(HARDWARE, str(folder))
        node = cls(str(folder))
        node.nics = {"eth2": Nic(), "eth3": Nic(), "eth4": virtio()}
        node.bridges = {"eth2": Bridge(), "eth3": Bridge(), "eth4": Bridge.bare()}
        node.carry("eth4")
        node.enable_agent()
        node.put("/run/.keep", "")
        node.put("/var/lib/.keep", "")
        node.install("dcb")
        node.with_rdma_cm(mlx5_0=[1], mlx5_1=[1])
        for number, name in enumerate(("eth2", "eth3")):
            node.put(f"/sys/class/net/{name}/carrier", "1\n")
            node.vendor(name, f"mlx5_{number}")
        return node

    def vendor(self, nic: str, device: str) -> None:
        """The files of the vendor's driver."""
        for end in ("roce_np", "roce_rp"):
            for priority in range(8):
                self.put(f"/sys/class/net/{nic}/ecn/{end}/enable/{priority}", "0\n")
        self.put(f"/sys/class/net/{nic}/ecn/roce_np/cnp_dscp", "0\n")
        self.put(f"/sys/class/net/{nic}/ecn/roce_np/cnp_802p_prio", "0\n")
        self.put(f"/sys/class/infiniband/{device}/tc/1/traffic_class", "")

    @property
    def bridge(self) -> Bridge:
        return self.bridges["eth2"]


def request(
    *rules: Mapping[str, Any], name: str = "default", layers: tuple[Layer, ...] = BOTH_LAYERS, **more: Any
) -> Request:
    return Request(name, qos, qos.checked({"rules": list(rules), **more}), layers)


def rule(**groups: Any) -> dict[str, Any]:
    return {"name": "roce", "nics": {"names": ["eth2"]}, **groups}


def plan(host: QosNode, *rules: Mapping[str, Any], **more: Any) -> Plan:
    """Of the running kernel, as nothing is declared on the node yet."""
    return engine.evaluate(host, request(*rules, layers=(Layer.RUNTIME,), **more))


def apply(host: QosNode, *rules: Mapping[str, Any], **more: Any) -> Outcome:
    return door.apply(host, request(*rules, **more))


def rows(host: QosNode, *rules: Mapping[str, Any], **more: Any) -> dict[str, Row]:
    return {row.setting.key.partition("qos.roce.")[2]: row for row in plan(host, *rules, **more).rows}


def row(host: QosNode, **groups: Any) -> Row:
    (found,) = rows(host, rule(**groups)).values()
    return found
