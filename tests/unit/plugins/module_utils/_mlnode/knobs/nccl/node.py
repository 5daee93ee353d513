# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A small node with RDMA rails and one other interface, and runs of the kind nccl on it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ansible_collections.mlnode.tuning.tests.fixtures.build import build
from ansible_collections.mlnode.tuning.tests.fixtures.clouds import small_vm
from ansible_collections.mlnode.tuning.tests.fixtures.hardware import Function, Nic, Rdma, Root
from ansible_collections.mlnode.tuning.tests.fixtures.parts import guid, mac, mlx5, port
from ansible_collections.mlnode.tuning.tests.unit import door
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from mlnode.engine import engine
from mlnode.engine.engine import Outcome, Plan, Request
from mlnode.engine.kind import Row
from mlnode.knobs.nccl.file import PATH
from mlnode.model.setting import BOTH_LAYERS, Layer

#: What `auto` is on a node of RoCE rails
HCAS = "=mlx5_0:1,mlx5_1:1"
EMPTY_GID = "0000:0000:0000:0000:0000:0000:0000:0000"


def rail(number: int, layer: str = "Ethernet", name: str = "") -> Function:
    """A NIC of its own; with InfiniBand without an interface."""
    interface = f"rail{number}" if layer == "Ethernet" else ""
    rdma = Rdma(name or f"mlx5_{number}", layer, "400 Gb/sec (4X NDR)", guid(number), interface)
    nics = (Nic(interface, mac(number), speed=400000),) if interface else ()
    card = mlx5(f"0000:{0x11 + number:02x}:00.0", "15b3:1021", rdma, *nics, queues=1)
    return port(f"0000:10:{number + 1:02x}.0", "8086:352a", card)


def node(folder: str, *rails: Function) -> Machine:
    """Rails beside eth0, which has the default route, and a /etc as on any node."""
    machine = small_vm()
    build(replace(machine, roots=(*machine.roots, Root("pci0000:10", -1, rails))), folder)
    found = Machine(folder)
    for path in ("/etc/systemd/system", "/var/lib", "/run"):
        os.makedirs(folder + path, exist_ok=True)
    return found


def roce(folder: str, count: int = 2) -> Machine:
    return node(folder, *(rail(number) for number in range(count)))


def give_addresses(machine: Machine, indexes: Mapping[str, Sequence[int]]) -> None:
    """RDMA device → the places at which it has an IPv4 address, for RoCE v1 just before each of them."""
    for device, places in indexes.items():
        at = f"/sys/class/infiniband/{device}/ports/1"
        for place in places:
            for index, kind in ((place - 1, "IB/RoCE v1"), (place, "RoCE v2")):
                machine.put(f"{at}/gids/{index}", "0000:0000:0000:0000:0000:ffff:c000:0201\n")
                machine.put(f"{at}/gid_attrs/types/{index}", f"{kind}\n")


def declare_class(machine: Machine, *classes: int, name: str = "fabric") -> None:
    """As roce_qos would."""
    rules = ", ".join(f'{{"name": "r{number}", "traffic_class": {number}}}' for number in classes)
    document = f'{{"format": 1, "name": "{name}", "kinds": {{"qos": {{"rules": [{rules}]}}}}}}\n'
    machine.put(f"/etc/mlnode/declared.d/{name}.json", document)


def request(
    name: str, layers: tuple[Layer, ...], allow: Sequence[str], variables: Mapping[str, Any]
) -> Request:
    spec: dict[str, Any] = {"variables": dict(variables)} if variables else {}
    if allow:
        spec["allow"] = [*allow]
    return door.request(name, "nccl", spec, layers)


def apply(
    machine: Machine,
    name: str = "jobs",
    layers: tuple[Layer, ...] = BOTH_LAYERS,
    allow: Sequence[str] = (),
    **variables: Any,
) -> Outcome:
    return door.apply(machine, request(name, layers, allow, variables))


def plan(
    machine: Machine,
    name: str = "jobs",
    layers: tuple[Layer, ...] = BOTH_LAYERS,
    allow: Sequence[str] = (),
    **variables: Any,
) -> Plan:
    return engine.evaluate(machine, request(name, layers, allow, variables))


def rows(found: Plan | Outcome) -> dict[str, Row]:
    return {row.setting.key[len("nccl.") :]: row for row in found.rows}


def row(found: Plan | Outcome) -> Row:
    (only,) = found.rows
    return only


def conf(machine: Machine) -> str:
    """The file; empty where there is none."""
    return machine.text(PATH)


def block(*lines: str, name: str = "jobs") -> str:
    """What a declaration has in it."""
    head = f"# BEGIN mlnode.tuning {name} (of several lines for a variable NCCL takes the first)\n"
    return head + "".join(f"{line}\n" for line in lines) + f"# END mlnode.tuning {name}\n"
