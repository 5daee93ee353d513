# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The machine of nic_node.py with IPv4.

eth2 (rail 0) is 10.1.0.5/24 and eth3 (rail 1) 10.1.0.6/24: two rails in one subnet. eth4 is no rail, and
carries the default route.
"""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from typing import Any

from ansible_collections.mlnode.tuning.tests.fixtures import build
from ansible_collections.mlnode.tuning.tests.unit import door
from ansible_collections.mlnode.tuning.tests.unit.nic_machine import Nic
from ansible_collections.mlnode.tuning.tests.unit.rail_machine import RailMachine
from mlnode.engine import engine
from mlnode.engine.engine import Outcome, Plan, Request
from mlnode.engine.kind import Row
from mlnode.knobs.rail.kind import kind as rail
from mlnode.model.setting import BOTH_LAYERS, Layer

from ..irq.node import HARDWARE
from ..nic.node import NicNode, virtio

#: What rails are usually declared to be
RAILS: dict[str, Any] = {
    "name": "rails",
    "nics": {"rails": True},
    "arp_ignore": 1,
    "arp_announce": 2,
    "rp_filter": 2,
}


class RailNode(RailMachine, NicNode):
    """eth2 and eth3 stand for what the test may change."""

    @classmethod
    def made(cls, folder: pathlib.Path) -> RailNode:
        build.build(HARDWARE, str(folder))
        node = cls(str(folder))
        node.nics = {"eth2": Nic(), "eth3": Nic(), "eth4": virtio()}
        node.carry("eth4")
        node.enable_agent()
        node.put("/run/.keep", "")
        node.put("/var/lib/.keep", "")
        node.wire()
        for name, address in (("eth2", "10.1.0.5/24"), ("eth3", "10.1.0.6/24"), ("eth4", "192.0.2.7/24")):
            node.knobs(name)
            node.address(name, address)
        return node

    def above(self, name: str, kind: str, *lower: str) -> None:
        """An interface in software on others, as the kernel shows it."""
        folder = f"/sys/devices/virtual/net/{name}"
        self.put(f"{folder}/uevent", f"DEVTYPE={kind}\nINTERFACE={name}\n")
        self.put(f"{folder}/operstate", "up\n")
        self.link(f"/sys/class/net/{name}", f"../../devices/virtual/net/{name}")
        for below in lower:
            self.link(f"/sys/class/net/{name}/lower_{below}", f"../../../../class/net/{below}")
            self.link(f"/sys/class/net/{below}/upper_{name}", folder)
        self.knobs(name)
        self.forget()


def request(
    *rules: Mapping[str, Any], name: str = "default", layers: tuple[Layer, ...] = BOTH_LAYERS, **more: Any
) -> Request:
    return Request(name, rail, {"rules": list(rules), **more}, layers)


def rule(*names: str, **groups: Any) -> dict[str, Any]:
    return {"name": "rails", "nics": {"names": list(names or ("eth2",))}, **groups}


def plan(host: RailNode, *rules: Mapping[str, Any], **more: Any) -> Plan:
    """Of the running kernel, as nothing is declared on the node yet."""
    host.forget()
    return engine.evaluate(host, request(*rules, layers=(Layer.RUNTIME,), **more))


def apply(host: RailNode, *rules: Mapping[str, Any], **more: Any) -> Outcome:
    host.forget()
    return door.apply(host, request(*rules, **more))


def rows(host: RailNode, *rules: Mapping[str, Any], **more: Any) -> dict[str, Row]:
    return {row.setting.key.partition("rail.rails.")[2]: row for row in plan(host, *rules, **more).rows}


def row(host: RailNode, *names: str, allow: tuple[str, ...] = (), **groups: Any) -> Row:
    (found,) = rows(host, rule(*names, **groups), allow=list(allow)).values()
    return found
