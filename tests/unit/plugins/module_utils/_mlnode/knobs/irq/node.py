# SPDX-FileCopyrightText: mlnode.tuning contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine with NICs on two NUMA nodes, whose interrupts and queues take what the real ones do.

CPUs 0-3 and their second threads 8-11 are on node 0, 4-7 and 12-15 on node 1. eth2 (mlx5_0, four queues) is
on node 0, eth3 (mlx5_1, six queues) on node 1, eth4 is virtio on a bus of which the firmware says no node.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ansible_collections.mlnode.tuning.tests.fixtures import build
from ansible_collections.mlnode.tuning.tests.fixtures.hardware import (
    NO_NODE,
    Cpus,
    Function,
    Nic,
    Node,
    Rdma,
    Root,
    Vectors,
)
from ansible_collections.mlnode.tuning.tests.fixtures.hardware import Machine as Hardware
from ansible_collections.mlnode.tuning.tests.fixtures.parts import ETHERNET, LO, mac, mlx5, virtio
from ansible_collections.mlnode.tuning.tests.unit import door
from ansible_collections.mlnode.tuning.tests.unit.machine import Machine
from mlnode.engine import engine
from mlnode.engine.engine import Outcome, Plan, Request
from mlnode.engine.kind import Context, Facts, Row
from mlnode.host.system import Finished
from mlnode.knobs.irq.kind import kind as irq
from mlnode.model.errors import HostError
from mlnode.model.setting import BOTH_LAYERS, Layer, Reading

ETH2, ETH3, ETH4 = "0000:41:00.0", "0000:81:00.0", "0000:00:03.0"
#: Two strategies, RPS, XPS and RFS, with an irqbalance that agrees
FULL: dict[str, Any] = {
    "rules": [
        {"name": "rails", "nics": {"rails": True}, "strategy": "spread", "rps": "auto", "xps": "auto"},
        {
            "name": "rest",
            "nics": {"drivers": ["virtio_net"]},
            "strategy": "list",
            "cpus": "0-1",
            "rps": "0-3",
            "rfs_entries": 1024,
        },
    ],
    "irqbalance": "agree",
}

FLOWS = "/proc/sys/net/core/rps_sock_flow_entries"

CPUS = Cpus(sockets=2, cores=4, threads=2, nodes=2, info={"vendor_id": "GenuineIntel"}, smt="on")


def card(name: str, address: str, number: int, queues: int) -> Function:
    rdma = Rdma(f"mlx5_{number}", "Ethernet", "100 Gb/sec (4X EDR)", f"0200:00ff:fe00:000{number}", name)
    return mlx5(address, "15b3:1017", rdma, Nic(name, mac(number), speed=100000), queues=queues)


def igb(name: str, address: str, *names: str) -> Function:
    """A NIC of another driver, with interrupts of any name."""
    vectors = Vectors(tuple((text,) for text in names))
    return Function(address, "8086:1521", ETHERNET, "igb", vectors=vectors, nics=(Nic(name, mac(9)),))


HARDWARE = Hardware(
    name="two-nodes",
    arch="x86_64",
    release="6.12.0-test",
    cmdline="root=/dev/vda1 ro",
    cpus=CPUS,
    nodes=(Node(1 << 20), Node(1 << 20)),
    distances=((10, 21), (21, 10)),
    roots=(
        Root(
            "pci0000:00",
            NO_NODE,
            (
                virtio(
                    ETH4,
                    "1af4:1000",
                    ETHERNET,
                    "virtio0",
                    ("virtio_net", 1),
                    ("config", "input.0", "output.0"),
                    Nic("eth4", mac(4)),
                ),
            ),
        ),
        Root("pci0000:40", 0, (card("eth2", ETH2, 0, 4),)),
        Root("pci0000:80", 1, (card("eth3", ETH3, 1, 6),)),
    ),
    default="eth4",
    dmi={"sys_vendor": "Maker"},
    virtual=(LO,),
    extra={FLOWS: "0\n", "/proc/sys/kernel/random/boot_id": "one\n"},
)

#: The first interrupts are those of eth4, eth2 and eth3 in this order, each with one that is no queue's
IRQS = {"eth4": (25, 26), "eth2": (28, 29, 30, 31), "eth3": (33, 34, 35, 36, 37, 38)}


def with_cpus(**changes: Any) -> Hardware:
    return replace(HARDWARE, cpus=replace(CPUS, **changes))


class IrqNode(Machine):
    """refused: errno of writes by path; told: what systemctl was asked. Interrupts follow a write at once."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.told: list[tuple[str, ...]] = []
        self.stays: set[int] = set()

    @classmethod
    def made(cls, root: str, hardware: Hardware = HARDWARE) -> IrqNode:
        build.build(hardware, root)
        return cls(root)

    def _accepted(self, path: str, value: str, old: str) -> str:
        if path.startswith("/proc/irq/"):
            number = int(path.split("/")[3])
            if number not in self.stays:
                self._store(f"/proc/irq/{number}/effective_affinity_list", value.split("-")[0])
            return value
        if path.endswith(("rps_cpus", "xps_cpus")):
            if "," not in value and len(value) > 8:
                raise HostError(f"write {value!r} to", path, errno.EOVERFLOW)
            return value.rjust(len(old), "0")  # the kernel prints every bit it has
        return super()._accepted(path, value, old)

    def run(self, command: Sequence[str], seconds: float = 60) -> Finished:
        if command[0] == "systemctl" and command[-1] in ("irqbalance.service", "daemon-reload"):
            self.told.append(tuple(command[1:]))
            return Finished(0, "", "")
        return super().run(command, seconds)

    def affinity(self, nic: str) -> list[str]:
        return [self.now(f"/proc/irq/{number}/smp_affinity_list") for number in IRQS[nic]]

    def place(self, number: int, cpus: str) -> None:
        """As another program, or the kernel, would have put it."""
        self.put(f"/proc/irq/{number}/smp_affinity_list", f"{cpus}\n")
        self.put(f"/proc/irq/{number}/effective_affinity_list", f"{cpus}\n")


def request(
    *rules: Mapping[str, Any], name: str = "default", layers: tuple[Layer, ...] = BOTH_LAYERS, **more: Any
) -> Request:
    return door.request(name, "irq", {"rules": list(rules), **more}, layers)


def plan(host: Machine, *rules: Mapping[str, Any], **more: Any) -> Plan:
    return engine.evaluate(host, request(*rules, **more))


def apply(host: Machine, *rules: Mapping[str, Any], **more: Any) -> Outcome:
    return door.apply(host, request(*rules, **more))


def rows(host: Machine, *rules: Mapping[str, Any], **more: Any) -> dict[str, Row]:
    return {row.setting.key: row for row in plan(host, *rules, **more).rows}


def row(host: Machine, *rules: Mapping[str, Any], **more: Any) -> Row:
    (found,) = rows(host, *rules, **more).values()
    return found


def reading(host: Machine, rule: Mapping[str, Any], allow: tuple[str, ...] = (), **how: Any) -> Reading:
    """One rule's one reading, without the engine around it."""
    settings = door.parse("irq", {"rules": [rule]})
    (found,) = irq.read(settings, Context(host, Facts(host), allow=allow, **how))
    return found


def wants(found: Reading) -> dict[int, str]:
    return {part.number: part.want for part in found.parts}
